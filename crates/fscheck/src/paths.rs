//! Paths: each directory is below the root, entries lie in directories, and findings have their paths.

use crate::facts::{Facts, InodeFacts, Name};
use crate::finding::{Finding, Problem, located};
use crate::object::{Table, table_of};
use crate::settlement::{Home, Settlement};
use crate::state::State;
use namespace::{Ino, directory_object};
use std::collections::{BTreeMap, BTreeSet};

/// Names of a path that are shown; further ones are left out.
const DEPTH_MAX: usize = 256;

/// Checks what lies where no directory is, and directories that contain themselves.
pub(crate) fn check(state: &mut State) {
    entries_of_others(state);
    let above = homes(state);
    let mut rooted = BTreeSet::from([Ino::ROOT]);
    for start in above.keys() {
        let (mut path, mut at) = (BTreeSet::new(), *start);
        while !rooted.contains(&at) {
            if !path.insert(at) {
                at = break_circle(state, &above, at);
                break;
            }
            match above.get(&at) {
                Some((parent, _)) => at = *parent,
                // It is found, without a name, or its directory is made anew.
                None => break,
            }
        }
        rooted.extend(path);
        rooted.insert(at);
    }
}

/// Entries of something that is no directory.
fn entries_of_others(state: &mut State) {
    let facts = &state.facts;
    let is_other = |ino: &Ino| {
        let inode = facts.inodes.get(ino);
        inode.is_some_and(|inode| !inode.images.is_empty() && !inode.is_directory())
    };
    let others: BTreeSet<Ino> = facts.entries.keys().copied().filter(is_other).collect();
    if others.is_empty() {
        return;
    }
    for (ino, inode) in &facts.inodes {
        let is_lost = |name: &Name| others.contains(&name.directory);
        if inode.names().iter().any(is_lost) {
            let settlement =
                state.settled.entry(*ino).or_insert_with(|| Settlement::of(*ino, inode));
            settlement.without(*ino, inode, is_lost);
        }
    }
    for ino in others {
        let count = state.facts.entries[&ino];
        let text = format!("it is no directory, and has {count} entries");
        let finding = Finding::new(Problem::NotDirectory, directory_object(ino), text).of(ino);
        state
            .report
            .add(finding.mended_by("inodes that have no other name get one in 'lost+found'"));
    }
}

/// The directory and name of each directory, as a repair leaves them.
pub(crate) fn homes(state: &State) -> BTreeMap<Ino, (Ino, Name)> {
    let directories = state.facts.inodes.iter().filter(|(_, inode)| inode.is_directory());
    let home = |(ino, inode): (&Ino, &InodeFacts)| {
        let names = match state.settled.get(ino) {
            Some(settlement) if settlement.home == Home::Root => return None,
            Some(settlement) => settlement.names.clone(),
            None => inode.names(),
        };
        names.into_iter().next().map(|name| (*ino, (name.directory, name)))
    };
    directories.filter_map(home).collect()
}

/// Directories contain each other: the one with the least number is found.
fn break_circle(state: &mut State, above: &BTreeMap<Ino, (Ino, Name)>, start: Ino) -> Ino {
    let next = |at: &Ino| Some(above[at].0).filter(|next| *next != start);
    let circle: Vec<Ino> = std::iter::successors(Some(start), next).collect();
    let least = *circle.iter().min().expect("a circle has members");
    let inode = state.facts.inodes[&least].clone();
    let settlement = state.settled.entry(least).or_insert_with(|| Settlement::of(least, &inode));
    settlement.without(least, &inode, |_| true);
    let key = &above[&least].1.row_key();
    let text = format!("a cycle of {} directories, not reachable from the root", circle.len());
    let finding = located(Problem::Unreachable, key, state.rank, text).of(least);
    state.report.add(finding.mended_by("the directory moves to 'lost+found'"));
    least
}

/// Gives findings their paths.
pub(crate) fn name(state: &mut State) {
    if state.report.findings.is_empty() {
        return;
    }
    let above = homes(state);
    let path = |ino: Ino| {
        let mut names = Vec::new();
        let mut at = ino;
        while at != Ino::ROOT && names.len() < DEPTH_MAX {
            let (parent, name) = above.get(&at)?;
            names.push(String::from_utf8_lossy(&name.key.name).into_owned());
            at = *parent;
        }
        names.push(String::new());
        names.reverse();
        Some(if ino == Ino::ROOT { "/".to_owned() } else { names.join("/") })
    };
    for finding in &mut state.report.findings {
        let own =
            finding.ino.and_then(|ino| path(ino).or_else(|| file_path(&state.facts, ino, &path)));
        finding.path = own.or_else(|| entry_path(finding, &path));
    }
}

fn join(directory: &str, name: &[u8]) -> String {
    format!("{}/{}", directory.trim_end_matches('/'), String::from_utf8_lossy(name))
}

/// The path of the first name of an inode that is no directory.
fn file_path(facts: &Facts, ino: Ino, path: &impl Fn(Ino) -> Option<String>) -> Option<String> {
    let name = facts.inodes.get(&ino)?.names().into_iter().next()?;
    Some(join(&path(name.directory)?, &name.key.name))
}

/// The path of a row that is an entry.
fn entry_path(finding: &Finding, path: &impl Fn(Ino) -> Option<String>) -> Option<String> {
    let Table::Directory(directory) = table_of(finding.object.as_bytes(), 0) else {
        return None;
    };
    let (entry, _) = namespace::decode_entry_key(&finding.key).ok()?;
    Some(join(&path(directory)?, &entry.name))
}
