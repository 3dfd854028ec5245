//! Names of the journal's objects.

/// The object that describes the file system.
pub const SUPER: &str = "super";

/// The object with the head of a rank.
pub fn head_name(rank: u32) -> String {
    format!("rank.{rank}")
}

/// The object of a segment.
pub fn segment_name(rank: u32, generation: u32, segment: u64) -> String {
    format!("journal.{rank}.{generation}.{segment}")
}
