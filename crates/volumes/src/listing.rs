//! Snapshots of a directory itself, without those of directories above.

use crate::failure::{During, Failure};
use crate::tree::Tree;
use types::Errno;
use wire::InodeStat;

/// Snapshots of directories above appear as `_NAME_INODE`.
fn is_inherited(name: &str) -> bool {
    let inode = name.rsplit('_').next().unwrap_or_default();
    name.starts_with('_') && !inode.is_empty() && inode.bytes().all(|byte| byte.is_ascii_digit())
}

/// Snapshots of a directory itself.
async fn own(tree: &Tree, directory: &str) -> Result<Vec<(String, InodeStat)>, Failure> {
    let mut all = match tree.snapshots(directory).await {
        Err(Errno::NOENT) => Vec::new(),
        listed => listed.during(|| format!("listing snapshots of /{directory}"))?,
    };
    all.retain(|(name, _)| !is_inherited(name));
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(all)
}

/// Names of the snapshots of a directory itself.
pub(crate) async fn own_names(tree: &Tree, directory: &str) -> Result<Vec<String>, Failure> {
    Ok(own(tree, directory).await?.into_iter().map(|(name, _)| name).collect())
}

/// A snapshot of a directory that must be there.
pub(crate) async fn existing(
    tree: &Tree,
    directory: &str,
    name: &str,
) -> Result<InodeStat, Failure> {
    let all = own(tree, directory).await?;
    let found = all.into_iter().find(|(known, _)| known == name);
    let missing = || Failure::missing(format!("snapshot '{name}' does not exist"));
    found.map(|(_, stat)| stat).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_of_directories_above_are_told_by_their_names() {
        for name in ["_daily_1099511627776", "__x_1_5"] {
            assert!(is_inherited(name), "{name}");
        }
        for name in ["daily", "_daily", "daily_5", "_x_"] {
            assert!(!is_inherited(name), "{name}");
        }
    }
}
