//! Names of objects of the metadata pool, and the tables that they are parts of.

use namespace::{Ino, RowKey, SNAPSHOTS_OBJECT, directory_object, links_object};
use types::SnapId;

/// The object to which a repair moves rows that do not decode.
pub const DAMAGED_OBJECT: &str = "damaged";

/// Inodes whose rows share an object, as a power of two.
pub(crate) const INODES_SHIFT: u32 = 16;

/// The table of which an object is a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// The description of the file system.
    Super,
    /// The head of the rank.
    Head,
    /// A segment of the rank's journal.
    Journal,
    /// Entries of a directory.
    Directory(Ino),
    /// Inodes with several names, of this part of the numbers.
    Links(u64),
    /// The root.
    Roots,
    /// Inodes without a name.
    Orphans,
    /// Sessions of clients.
    Sessions,
    /// Purges.
    Tasks,
    /// Numbers of snapshots.
    Snapshots,
    /// Inodes as snapshots show them, of this part of the numbers.
    Past(u64),
    /// Rows that a repair has put aside.
    Damaged,
    /// Anything else.
    Unknown,
}

impl Table {
    /// Whether the table is pairs of an object's omap.
    pub fn has_rows(self) -> bool {
        !matches!(self, Table::Super | Table::Head | Table::Journal | Table::Damaged)
            && self != Table::Unknown
    }
}

/// The table of an object of a rank.
pub fn table_of(name: &[u8], rank: u32) -> Table {
    let Ok(name) = std::str::from_utf8(name) else { return Table::Unknown };
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let is = |known: String| known == name;
    if let Some(ino) = name.strip_prefix("dir.").and_then(|rest| number(rest.split('.').next()?))
        && is(directory_object(Ino(ino)))
    {
        return Table::Directory(Ino(ino));
    }
    if let Some(part) = name.strip_prefix("links.").and_then(number)
        && part <= u64::MAX >> INODES_SHIFT
        && is(links_object(Ino(part << INODES_SHIFT)))
    {
        return Table::Links(part);
    }
    if let Some(part) = name.strip_prefix("past.").and_then(number)
        && part <= u64::MAX >> INODES_SHIFT
        && is(RowKey::OldInode(Ino(part << INODES_SHIFT), SnapId(0)).object(rank))
    {
        return Table::Past(part);
    }
    let journal = format!("journal.{rank}.");
    match name {
        "super" => Table::Super,
        SNAPSHOTS_OBJECT => Table::Snapshots,
        DAMAGED_OBJECT => Table::Damaged,
        name if name.starts_with(&journal) => Table::Journal,
        _ if is(format!("rank.{rank}")) => Table::Head,
        _ if is(RowKey::Root(Ino::ROOT).object(rank)) => Table::Roots,
        _ if is(RowKey::Orphan(Ino::ROOT).object(rank)) => Table::Orphans,
        _ if is(format!("sessions.{rank}")) => Table::Sessions,
        _ if is(format!("tasks.{rank}")) => Table::Tasks,
        _ => Table::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_told_by_their_names_and_no_others_are_taken_for_them() {
        let known = [
            ("super", Table::Super),
            ("rank.0", Table::Head),
            ("journal.0.3.17", Table::Journal),
            ("dir.10000000001.0.0", Table::Directory(Ino(0x100_0000_0001))),
            ("links.1000001", Table::Links(0x100_0001)),
            ("roots.0", Table::Roots),
            ("orphans.0", Table::Orphans),
            ("sessions.0", Table::Sessions),
            ("tasks.0", Table::Tasks),
            ("snaps", Table::Snapshots),
            ("past.0", Table::Past(0)),
            ("damaged", Table::Damaged),
        ];
        for (name, table) in known {
            assert_eq!(table_of(name.as_bytes(), 0), table, "{name}");
        }
        let others = ["rank.1", "dir.01.0.0", "dir.1.1.1", "links.ffffffffffffffff", "past.x", ""];
        for name in others {
            assert_eq!(table_of(name.as_bytes(), 0), Table::Unknown, "{name}");
        }
        assert_eq!(table_of(b"\xff", 0), Table::Unknown);
    }
}
