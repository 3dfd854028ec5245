//! Paths to inodes.

use crate::{Ino, Kind, Tree};
use bytes::Bytes;
use types::Errno;

/// Longest name of an entry in bytes. A longer one is ENAMETOOLONG.
pub const NAME_MAX_BYTES: usize = 255;

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The directory and the name of the last part; `None` if the path is an inode alone.
    pub entry: Option<(Ino, Bytes)>,
    /// The inode; `None` if the last name stands for nothing.
    pub target: Option<Ino>,
}

impl Place {
    /// The inode, or ENOENT.
    pub fn existing(&self) -> Result<Ino, Errno> {
        self.target.ok_or(Errno::NOENT)
    }
}

/// Checks a name that an operation would look up or create.
///
/// # Errors
///
/// EINVAL for one that no entry can have, ENAMETOOLONG.
pub fn check_name(name: &[u8]) -> Result<(), Errno> {
    let is_special = name.is_empty() || name == b"." || name == b"..";
    if is_special || name.contains(&b'/') || name.contains(&0) {
        return Err(Errno::INVAL);
    }
    if name.len() > NAME_MAX_BYTES {
        return Err(Errno::NAMETOOLONG);
    }
    Ok(())
}

impl Tree {
    /// Follows names from an inode. Symbolic links are not followed: clients do that.
    ///
    /// # Errors
    ///
    /// ESTALE if the first inode does not exist, ENOTDIR if a part is no directory, ENOENT if one but the
    /// last does not exist.
    pub fn walk<'a>(
        &self,
        from: Ino,
        names: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Place, Errno> {
        if self.get(from).is_none() {
            return Err(Errno::STALE);
        }
        let mut place = Place { entry: None, target: Some(from) };
        for name in names {
            let directory = place.existing()?;
            let name = Bytes::copy_from_slice(name);
            self.check_directory(directory)?;
            check_name(&name)?;
            let target = self.entry(directory, &name).map(|entry| entry.ino);
            place = Place { entry: Some((directory, name)), target };
        }
        Ok(place)
    }

    /// ENOTDIR, unless it is a directory.
    pub(crate) fn check_directory(&self, ino: Ino) -> Result<(), Errno> {
        let inode = self.get(ino).ok_or(Errno::STALE)?;
        if inode.kind() == Kind::Directory { Ok(()) } else { Err(Errno::NOTDIR) }
    }

    /// The path of an inode from the root, for messages to administrators.
    pub fn path(&self, ino: Ino) -> String {
        let mut names = Vec::new();
        let mut next = self.home(ino);
        while let Some((directory, name)) = next {
            names.push(String::from_utf8_lossy(name).into_owned());
            next = self.home(*directory);
        }
        names.iter().rev().fold(String::new(), |path, name| path + "/" + name)
    }
}
