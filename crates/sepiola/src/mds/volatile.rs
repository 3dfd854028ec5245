//! The warning of a server that stores nothing.

/// The loss that comes with the end of a server that stores nothing.
pub const WARNING: &str = "the metadata server keeps all names and attributes of files in memory only, as --volatile \
    says: when it stops or fails, the whole file system is empty, and the data of its files is lost";
