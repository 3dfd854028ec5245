//! The consent that a server needs as long as it has no journal.

use anyhow::{Result, bail};

/// The loss that comes with the end of a server.
pub const WARNING: &str = "the metadata server keeps all names and attributes of files in memory only: when it \
    stops or fails, the whole file system is empty, and the data of its files is lost";

/// Refuses to run a server unless its user has said that it may lose everything.
pub fn check(is_volatile: bool) -> Result<()> {
    if !is_volatile {
        bail!("{WARNING}; to try it all the same, say --volatile");
    }
    Ok(())
}
