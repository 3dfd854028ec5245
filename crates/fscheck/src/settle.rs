//! Inodes and their names: each inode is stored once, with as many links as it has names.

use crate::facts::{InodeFacts, Name, Place};
use crate::finding::{Finding, Problem, located};
use crate::settlement::{Home, Settlement};
use crate::state::State;
use namespace::{Ino, Kind, RowKey};
use std::collections::BTreeSet;

/// Checks all inodes.
pub(crate) fn check(state: &mut State) {
    let with_entries = state.facts.entries.keys().copied();
    let all: BTreeSet<Ino> =
        state.facts.inodes.keys().copied().chain(with_entries).chain([Ino::ROOT]).collect();
    for ino in all {
        let inode = state.facts.inodes.get(&ino).cloned().unwrap_or_default();
        check_names(state, ino, &inode);
        let has_entries = state.facts.entries.contains_key(&ino);
        let findings = contradictions(ino, &inode, has_entries, state.rank);
        let lacks_directory = inode.images.is_empty() && (has_entries || ino == Ino::ROOT);
        if !findings.is_empty() {
            let settlement = match lacks_directory {
                true => Settlement::made_anew(ino),
                false => settled(ino, &inode, has_entries),
            };
            state.settled.insert(ino, settlement);
        }
        findings.into_iter().for_each(|finding| state.report.add(finding));
    }
}

/// The state after a repair. A directory with entries and without a name was not removed.
fn settled(ino: Ino, inode: &InodeFacts, has_entries: bool) -> Settlement {
    let settlement = Settlement::of(ino, inode);
    match settlement.home == Home::Orphan && has_entries && inode.is_directory() {
        true => Settlement { home: Home::Entry, is_found: true, ..settlement },
        false => settlement,
    }
}

fn check_names(state: &mut State, ino: Ino, inode: &InodeFacts) {
    for name in inode.names() {
        let text = &name.key.name;
        if namespace::check_name(text).is_err() {
            let what = format!("no client can use the name {:?}", String::from_utf8_lossy(text));
            let finding = located(Problem::BadName, &name.row_key(), state.rank, what);
            state.report.add(finding.of(ino));
        }
    }
    if inode.best().is_some_and(|image| !image.has_layout) {
        let key = &inode.row_keys(ino)[0];
        let what = "the file has no layout, so its data cannot be found";
        state.report.add(located(Problem::BadLayout, key, state.rank, what).of(ino));
    }
}

fn contradictions(ino: Ino, inode: &InodeFacts, has_entries: bool, rank: u32) -> Vec<Finding> {
    let at = |problem, key: &RowKey, text: String, repair| {
        located(problem, key, rank, text).of(ino).mended_by(repair)
    };
    let keys = inode.row_keys(ino);
    if ino == Ino::ROOT {
        let root = inode.images.iter().any(|image| image.place == Place::Root);
        let is_sound = root
            && keys.len() == 1
            && inode.images[0].kind == Kind::Directory
            && inode.images[0].nlink == 1;
        let repair = "the root is stored in its row alone, and made anew if it is nowhere";
        let text = if root { "the root contradicts itself" } else { "the root has no row" };
        let finding = at(Problem::NoRoot, &RowKey::Root(ino), text.to_owned(), repair);
        return if is_sound { Vec::new() } else { vec![finding] };
    }
    let [image] = &inode.images[..] else {
        return several_or_none(ino, inode, has_entries, rank);
    };
    let names = inode.remotes.len();
    let key = &keys[0];
    let is_directory = image.kind == Kind::Directory;
    let nlink = image.nlink;
    match &image.place {
        Place::Entry(_) if names == 0 && nlink == 1 => Vec::new(),
        Place::Link if names > 0 && nlink as usize == names && !is_directory => Vec::new(),
        Place::Orphan if names == 0 && nlink == 0 && !has_entries => Vec::new(),
        Place::Orphan if names == 0 => {
            let text =
                format!("it is in the table of unlinked inodes, and has {nlink} links, or entries");
            vec![at(Problem::WrongOrphan, key, text, "it gets a name in 'lost+found'")]
        }
        Place::Orphan => {
            let text = format!("it is in the table of unlinked inodes, and has {names} names");
            vec![at(Problem::WrongOrphan, key, text, "it is stored with its names")]
        }
        Place::Link if names == 0 => {
            let text = format!("it has {nlink} links, and no name");
            vec![at(Problem::NoName, key, text, "it gets a name in 'lost+found'")]
        }
        Place::Root => {
            let text = "it is stored as a root, and is another inode".to_owned();
            vec![at(
                Problem::Misplaced,
                key,
                text,
                "it is stored with its names, or moved to lost+found",
            )]
        }
        Place::Entry(_) | Place::Link => {
            let names = names + usize::from(image.place != Place::Link);
            let text = format!("it has {names} names, and its number of links is {nlink}");
            let repair = "the number is set, and the inode stored where that many names demand it";
            vec![at(Problem::WrongLinks, key, text, repair)]
        }
    }
}

fn several_or_none(ino: Ino, inode: &InodeFacts, has_entries: bool, rank: u32) -> Vec<Finding> {
    let at = |problem, key: &RowKey, text: String, repair| {
        located(problem, key, rank, text).of(ino).mended_by(repair)
    };
    if let [_, others @ ..] = &inode.row_keys(ino)[..inode.images.len()] {
        let repair = match inode.is_directory() {
            true => "the newest one stays, the other name goes",
            false => "the newest one stays, with all names as links of it",
        };
        let finding = |key| {
            let text = format!("it is stored {} times", inode.images.len());
            at(Problem::Duplicate, key, text, repair)
        };
        return others.iter().map(finding).collect();
    }
    let dangling = |name: &Name| {
        let text = "dangling entry: its inode does not exist".to_owned();
        let repair = "the entry is removed; objects of its data stay in the data pool";
        at(Problem::NoInode, &name.row_key(), text, repair)
    };
    let mut found: Vec<Finding> = inode.remotes.iter().map(dangling).collect();
    if has_entries {
        let text = "entries of a directory whose inode does not exist".to_owned();
        let finding = Finding::new(Problem::NoInode, namespace::directory_object(ino), text);
        let repair = "the directory is made anew in 'lost+found', with its entries";
        found.push(finding.of(ino).mended_by(repair));
    }
    found
}
