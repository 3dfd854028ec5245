//! Paths: each directory is below the root, entries lie in directories, and findings have their paths.

use crate::check::Check;
use crate::facts::{Facts, InodeFacts, Name};
use crate::finding::{Finding, Problem};
use crate::settle::{Home, Settlement};
use namespace::{Ino, directory_object};
use std::collections::{BTreeMap, BTreeSet};

/// Names of a path that are shown; further ones are left out.
const DEPTH_MAX: usize = 256;

/// Checks what lies where no directory is, and directories that contain themselves.
pub(crate) fn check(check: &mut Check) {
    entries_of_others(check);
    let above = homes(check);
    let mut rooted = BTreeSet::from([Ino::ROOT]);
    for start in above.keys() {
        let (mut path, mut at) = (BTreeSet::new(), *start);
        while !rooted.contains(&at) {
            if !path.insert(at) {
                at = break_circle(check, &above, at);
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
fn entries_of_others(check: &mut Check) {
    let facts = &check.facts;
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
                check.settled.entry(*ino).or_insert_with(|| Settlement::of(*ino, inode));
            settlement.without(*ino, inode, is_lost);
        }
    }
    for ino in others {
        let count = check.facts.entries[&ino];
        let text = format!("it is no directory, and has {count} entries");
        let finding = Finding::new(Problem::NotDirectory, directory_object(ino), text).of(ino);
        check
            .report
            .add(finding.mended_by("inodes that have no other name get one in 'lost+found'"));
    }
}

/// The directory and name of each directory, as a repair leaves them.
pub(crate) fn homes(check: &Check) -> BTreeMap<Ino, (Ino, Name)> {
    let directories = check.facts.inodes.iter().filter(|(_, inode)| inode.is_directory());
    let home = |(ino, inode): (&Ino, &InodeFacts)| {
        let names = match check.settled.get(ino) {
            Some(settlement) if settlement.home == Home::Root => return None,
            Some(settlement) => settlement.names.clone(),
            None => inode.names(),
        };
        names.into_iter().next().map(|name| (*ino, (name.directory, name)))
    };
    directories.filter_map(home).collect()
}

/// Directories contain each other: the one with the least number is found.
fn break_circle(check: &mut Check, above: &BTreeMap<Ino, (Ino, Name)>, start: Ino) -> Ino {
    let next = |at: &Ino| Some(above[at].0).filter(|next| *next != start);
    let circle: Vec<Ino> = std::iter::successors(Some(start), next).collect();
    let least = *circle.iter().min().expect("a circle has members");
    let inode = check.facts.inodes[&least].clone();
    let settlement = check.settled.entry(least).or_insert_with(|| Settlement::of(least, &inode));
    settlement.without(least, &inode, |_| true);
    let key = &above[&least].1.row_key();
    let text =
        format!("{} directories contain each other, and are not below the root", circle.len());
    let finding = crate::settle::located(Problem::Unreachable, key, check.rank, text).of(least);
    check.report.add(finding.mended_by("the directory moves to 'lost+found'"));
    least
}

/// Gives findings their paths.
pub(crate) fn name(check: &mut Check) {
    let above = homes(check);
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
    for finding in &mut check.report.findings {
        let own =
            finding.ino.and_then(|ino| path(ino).or_else(|| file_path(&check.facts, ino, &path)));
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
    let crate::Table::Directory(directory) = crate::table_of(finding.object.as_bytes(), 0) else {
        return None;
    };
    let (entry, _) = namespace::decode_entry_key(&finding.key).ok()?;
    Some(join(&path(directory)?, &entry.name))
}
