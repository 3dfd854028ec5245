//! Snapshots of directories that users of the file system take, look at, and remove.

use crate::files::{all_directories, all_files, below, draw_directory};
use fsclient::Call;
use std::collections::VecDeque;
use stdx::Prng;

/// Names of snapshots of one directory.
const NAMES: u64 = 2;
/// Files that were opened last.
const FILES_KNOWN: usize = 4;
/// The part of a path that leads to snapshots of a directory.
pub const PART: &str = ".snap";

/// The path of a snapshot.
pub fn path(directory: &str, name: &str) -> String {
    below(&below(directory, PART), name)
}

/// Directory and name of a snapshot, and the path in it, of a path into `.snap`; of that directory itself
/// only the first.
pub fn split(path: &str) -> Option<(&str, Option<(&str, &str)>)> {
    let (directory, rest) = match path.strip_prefix(PART) {
        Some(rest) => ("", rest),
        None => path.split_once("/.snap")?,
    };
    let rest = rest.trim_start_matches('/');
    let inside = (!rest.is_empty()).then(|| rest.split_once('/').unwrap_or((rest, "")));
    Some((directory, inside))
}

/// Files that a snapshot of a directory may show, by their paths in it.
pub fn files_within(directory: &str) -> Vec<String> {
    all_files().filter_map(|file| within(directory, &file)).collect()
}

/// Directories that a snapshot of a directory may show, itself included.
pub fn directories_within(directory: &str) -> Vec<String> {
    let all = all_directories();
    all.filter_map(
        |one| if one == directory { Some(String::new()) } else { within(directory, &one) },
    )
    .collect()
}

fn within(directory: &str, path: &str) -> Option<String> {
    match directory {
        "" => (!path.is_empty()).then(|| path.to_owned()),
        _ => Some(path.strip_prefix(directory)?.strip_prefix('/')?.to_owned()),
    }
}

/// Snapshots that certainly existed, and files that were opened last: most calls are about these.
#[derive(Debug, Default)]
pub struct Known {
    snapshots: Vec<(String, String)>,
    files: VecDeque<String>,
}

impl Known {
    /// A call has succeeded.
    pub fn note(&mut self, call: &Call) {
        match call {
            Call::TakeSnapshot { directory, name } => {
                self.snapshots.push((directory.clone(), name.clone()));
            }
            Call::RemoveSnapshot { directory, name } => self.forget(directory, name),
            Call::RenameSnapshot { directory, from, to } => {
                self.forget(directory, from);
                self.snapshots.push((directory.clone(), to.clone()));
            }
            Call::Create(path) | Call::Open(path) => {
                self.files.push_front(path.clone());
                self.files.truncate(FILES_KNOWN);
            }
            _ => {}
        }
    }

    fn forget(&mut self, directory: &str, name: &str) {
        self.snapshots.retain(|(of, known)| of != directory || known != name);
    }

    /// A call about snapshots.
    pub fn draw(&self, p: &mut Prng) -> Call {
        let (directory, number) = (draw_directory(p), p.below(NAMES));
        let name = format!("s{number}");
        match p.below(20) {
            0..5 => return Call::TakeSnapshot { directory, name },
            5 => return Call::List(below(&directory, PART)),
            _ => {}
        }
        let is_known = !self.snapshots.is_empty() && p.chance(5, 6);
        let (directory, name) =
            if is_known { p.choose(&self.snapshots).clone() } else { (directory, name) };
        match p.below(14) {
            0..2 => Call::RemoveSnapshot { directory, name },
            2 => Call::RenameSnapshot { directory, from: name, to: format!("s{}", p.below(NAMES)) },
            3..5 => {
                let inside = p.choose(&directories_within(&directory)).clone();
                let path = below(&path(&directory, &name), &inside);
                Call::List(path.trim_end_matches('/').to_owned())
            }
            5 => Call::Stat(self.draw_inside(p, &directory, &name)),
            _ => Call::ReadSnapshot(self.draw_inside(p, &directory, &name)),
        }
    }

    /// Some file in a snapshot.
    fn draw_inside(&self, p: &mut Prng, directory: &str, name: &str) -> String {
        let known: Vec<String> =
            self.files.iter().filter_map(|file| within(directory, file)).collect();
        let files = match known.is_empty() || p.chance(1, 4) {
            true => files_within(directory),
            false => known,
        };
        let file = p.choose(&files).clone();
        below(&path(directory, name), &file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_into_snapshots_have_three_parts() {
        assert_eq!(split("a/f0"), None);
        assert_eq!(split(".snap"), Some(("", None)));
        assert_eq!(split("a/.snap/s1"), Some(("a", Some(("s1", "")))));
        assert_eq!(split(".snap/s1/a/f0"), Some(("", Some(("s1", "a/f0")))));
        assert_eq!(files_within("a"), ["f0", "f1", "f2"]);
        assert_eq!(directories_within(""), ["", "a", "b"]);
    }
}
