//! Deletion of a directory with all that is in it.

use crate::tree::{Tree, is_directory};
use bytes::Bytes;
use types::Errno;

/// Requests that are under way at once.
const WINDOW: usize = 32;

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    [path, b"/", name].concat()
}

/// Deletes an object, and what is below it. It can be repeated.
///
/// # Errors
///
/// ENOENT if there is none; ECANCELED if the procedure is to end.
pub(crate) async fn delete(tree: &Tree, path: &str) -> Result<(), Errno> {
    let stat = tree.stat(path).await?;
    if !is_directory(&stat) {
        return tree.unlink(path).await;
    }
    // Directories whose content is deleted first; the deepest is the last.
    let mut stack: Vec<Vec<u8>> = vec![path.as_bytes().to_vec()];
    while let Some(directory) = stack.last().cloned() {
        if tree.steps().is_cancelled() {
            return Err(Errno::CANCELED);
        }
        let (entries, _) = match tree.page(&directory, b"").await {
            Err(Errno::NOENT) => (Vec::new(), None),
            page => page?,
        };
        let (directories, others): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|(_, stat)| is_directory(stat));
        let names: Vec<Bytes> = others.into_iter().map(|(name, _)| name).collect();
        unlink_all(tree, &directory, &names).await?;
        let below = directories.into_iter().map(|(name, _)| joined(&directory, &name));
        let below: Vec<Vec<u8>> = below.collect();
        if below.is_empty() && names.is_empty() {
            remove_empty(tree, &directory).await?;
            stack.pop();
        }
        stack.extend(below);
    }
    Ok(())
}

async fn unlink_all(tree: &Tree, directory: &[u8], names: &[Bytes]) -> Result<(), Errno> {
    for window in names.chunks(WINDOW) {
        let tickets: Vec<_> =
            window.iter().map(|name| tree.begin_unlink(joined(directory, name))).collect();
        for ticket in tickets {
            match tree.steps().finish(ticket).await {
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(())
}

/// Removes a directory without entries; snapshots of it go first.
async fn remove_empty(tree: &Tree, directory: &[u8]) -> Result<(), Errno> {
    match tree.rmdir(directory).await {
        Err(Errno::NOTEMPTY) => {}
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno),
    }
    for name in tree.snapshot_names(directory).await? {
        match tree.remove_snapshot_of(directory, &name).await {
            // Those of directories above are not its own.
            Ok(()) | Err(Errno::NOENT | Errno::INVAL) => {}
            Err(errno) => return Err(errno),
        }
    }
    match tree.rmdir(directory).await {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}
