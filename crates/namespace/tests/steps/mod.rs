//! Random operations on paths.

use bytes::Bytes;
use namespace::{Ino, Kind, NewInode, Operation, PageStart, Tree};
use proptest::prelude::*;
use std::collections::BTreeMap;
use types::Errno;

/// An operation on paths.
#[derive(Debug, Clone)]
pub enum Step {
    Create(String, bool),
    Remove(String, bool),
    Link(String, String),
    Rename(String, String),
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec("[a-c]", 1..4)
        .prop_map(|names| names.iter().fold(String::new(), |path, name| path + "/" + name))
}

/// A random operation on few paths.
pub fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (path(), any::<bool>()).prop_map(|(path, kind)| Step::Create(path, kind)),
        2 => (path(), any::<bool>()).prop_map(|(path, kind)| Step::Remove(path, kind)),
        1 => (path(), path()).prop_map(|(old, new)| Step::Link(old, new)),
        2 => (path(), path()).prop_map(|(old, new)| Step::Rename(old, new)),
    ]
}

/// Directory and name of a path.
fn place(tree: &Tree, path: &str) -> Result<(Ino, Bytes), Errno> {
    let names = path.split('/').skip(1).map(str::as_bytes);
    Ok(tree.walk(Ino::ROOT, names)?.entry.expect("a path has a name"))
}

/// The operation on a tree.
pub fn operation(tree: &Tree, step: &Step, ino: Ino) -> Result<Operation, Errno> {
    Ok(match step {
        Step::Create(path, is_directory) => {
            let (directory, name) = place(tree, path)?;
            let mode = if *is_directory { Kind::DIRECTORY_MODE } else { Kind::FILE_MODE };
            let new = Box::new(NewInode { ino, mode, ..NewInode::default() });
            Operation::Create { directory, name, new }
        }
        Step::Remove(path, is_directory) => {
            let (directory, name) = place(tree, path)?;
            match is_directory {
                true => Operation::RemoveDirectory { directory, name },
                false => Operation::Unlink { directory, name },
            }
        }
        Step::Link(old, new) => {
            let names = old.split('/').skip(1).map(str::as_bytes);
            let source = tree.walk(Ino::ROOT, names)?;
            let (directory, name) = place(tree, new)?;
            Operation::Link { ino: source.existing()?, directory, name }
        }
        Step::Rename(old, new) => {
            Operation::Rename { from: place(tree, old)?, to: place(tree, new)? }
        }
    })
}

/// All paths of a tree.
pub fn paths(tree: &Tree) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::from([(String::new(), 1)]);
    let mut open = vec![(String::new(), Ino::ROOT)];
    while let Some((path, directory)) = open.pop() {
        let page = tree.page(directory, &PageStart::Begin, usize::MAX).expect("it exists");
        for (name, entry) in page.entries {
            let path = format!("{path}/{}", std::str::from_utf8(&name).expect("names are letters"));
            if tree.get(entry.ino).expect("an entry has an inode").is_directory() {
                open.push((path.clone(), entry.ino));
            }
            found.insert(path, entry.ino.0);
        }
    }
    found
}
