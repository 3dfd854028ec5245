//! Snapshots: their numbers, and what is kept for them.

use crate::facts::{Name, Place, Shown};
use crate::finding::{Finding, Problem, located};
use crate::fix::Fix;
use crate::paths::homes;
use crate::state::State;
use namespace::{EntryKey, Ino, RowKey, SNAPSHOTS_OBJECT, SnapNumbers};
use std::collections::{BTreeMap, BTreeSet};
use types::SnapId;

/// Checks all of it.
pub(crate) fn check(state: &mut State) {
    numbers(state);
    owners(state);
    entries(state);
    inodes(state);
}

/// The greatest number that was given out is known, and no snapshot that exists is to be removed.
fn numbers(state: &mut State) {
    let facts = &state.facts;
    let known = facts.numbers.clone().unwrap_or_default();
    let mut right = SnapNumbers { last: known.last.max(facts.greatest_snap), ..known.clone() };
    right.removed.retain(|snap| !facts.snaps.contains_key(snap));
    if right == known {
        return;
    }
    let text = match right.last > known.last {
        true => {
            format!("snapshot {} is used, and {} is the last number", right.last.0, known.last.0)
        }
        false => "a snapshot that exists is listed as removed".to_owned(),
    };
    let finding = Finding::new(Problem::SnapshotNumbers, SNAPSHOTS_OBJECT, text);
    state.report.add(finding.at(RowKey::Snapshots.key()).mended_by("the numbers are set"));
    state.fixes.push(Fix::Numbers(right));
}

fn owners(state: &mut State) {
    for (snap, owners) in state.facts.snaps.iter().filter(|(_, owners)| owners.len() > 1) {
        for ino in owners {
            let key = &state.facts.inodes[ino].row_keys(*ino)[0];
            let text = format!("{} directories have snapshot {}", owners.len(), snap.0);
            let finding = located(Problem::DuplicateSnapshot, key, state.rank, text);
            state.report.add(finding.of(*ino));
        }
    }
}

/// Old entries do not overlap, and stand for an inode in each snapshot that shows them.
fn entries(state: &mut State) {
    let (live, mut realms) = (live_entries(state), Realms::new(state));
    let mut before: Option<(Ino, EntryKey, SnapId)> = None;
    let mut fixes = Vec::new();
    let mut findings = Vec::new();
    for (place, old) in &state.facts.old_entries {
        let (directory, entry, last) = place;
        let key = RowKey::OldEntry(*directory, entry.clone(), *last);
        let same = before.as_ref().filter(|(at, name, _)| (at, name) == (directory, entry));
        let overlap = same.map_or(SnapId(0), |(_, _, last)| *last);
        if let Some(fix) = range(&key, Shown { last: *last, after: old.after }, overlap) {
            findings.push(range_finding(&key, state.rank, &fix));
            fixes.push(fix);
        }
        let lacks = |snap: &SnapId| !shows(state, old.ino, *snap);
        let shown = state.facts.shown(old.after.max(overlap), *last).filter(lacks);
        let lacking = shown.collect::<Vec<_>>();
        if let Some(snap) = lacking.into_iter().find(|snap| realms.show(*directory, *snap)) {
            let text = format!("snapshot {} shows the name, and not its inode", snap.0);
            let finding = located(Problem::SnapshotInode, &key, state.rank, text);
            findings.push(finding.of(old.ino));
        }
        if let Some(after) = live.get(&(*directory, entry.clone()))
            && after < last
        {
            let key = RowKey::Entry(*directory, entry.clone());
            let fix = Fix::After { key, after: *last };
            findings.push(range_finding(
                &RowKey::Entry(*directory, entry.clone()),
                state.rank,
                &fix,
            ));
            fixes.push(fix);
        }
        before = Some(place.clone());
    }
    findings.into_iter().for_each(|finding| state.report.add(finding));
    state.fixes.extend(fixes);
}

/// Snapshots by the directories that they show now.
struct Realms<'a> {
    state: &'a State,
    above: BTreeMap<Ino, (Ino, Name)>,
    known: BTreeMap<Ino, BTreeSet<SnapId>>,
}

impl<'a> Realms<'a> {
    fn new(state: &'a State) -> Self {
        let is_needed = !state.facts.old_entries.is_empty();
        let above = if is_needed { homes(state) } else { BTreeMap::new() };
        Realms { state, above, known: BTreeMap::new() }
    }

    /// Whether a snapshot is one of a directory, or of those above, since it is there. Of a directory that is
    /// gone nothing is known.
    fn show(&mut self, directory: Ino, snap: SnapId) -> bool {
        let (above, realms) = (&self.above, &self.state.facts.realms);
        let known = self.known.entry(directory).or_insert_with(|| {
            let (mut found, mut since) = (BTreeSet::new(), SnapId(0));
            let (mut at, mut passed) = (Some(directory), BTreeSet::new());
            while let Some(ino) = at.filter(|ino| passed.insert(*ino)) {
                if let Some(realm) = realms.get(&ino) {
                    found.extend(realm.snaps.iter().filter(|snap| **snap >= since));
                    since = since.max(realm.parent_since);
                }
                at = above.get(&ino).map(|(directory, _)| *directory);
            }
            found
        });
        known.contains(&snap)
    }
}

/// The snapshot behind which the tree's meaning of a name is shown, of names that had another one.
fn live_entries(state: &State) -> BTreeMap<(Ino, EntryKey), SnapId> {
    if state.facts.old_entries.is_empty() {
        return BTreeMap::new();
    }
    let names = state.facts.inodes.values().flat_map(|inode| inode.names());
    names.map(|name| ((name.directory, name.key), name.after)).collect()
}

/// Whether a snapshot shows an inode.
fn shows(state: &State, ino: Ino, snap: SnapId) -> bool {
    let old = state.facts.old_inodes.get(&ino).into_iter().flatten();
    let live = state.facts.inodes.get(&ino).and_then(|inode| inode.best());
    old.into_iter().any(|shown| shown.after < snap && snap <= shown.last)
        || live.is_some_and(|image| image.after < snap)
}

/// Old versions of an inode do not overlap each other and the inode.
fn inodes(state: &mut State) {
    let mut found = Vec::new();
    for (ino, versions) in &state.facts.old_inodes {
        let mut versions = versions.clone();
        versions.sort_unstable();
        let mut overlap = SnapId(0);
        for shown in versions {
            let key = RowKey::OldInode(*ino, shown.last);
            found.extend(range(&key, shown, overlap).map(|fix| (key, *ino, fix)));
            overlap = shown.last;
        }
        let inode = state.facts.inodes.get(ino);
        for image in inode.into_iter().flat_map(|inode| &inode.images) {
            if image.after < overlap && image.place != Place::Orphan {
                let key = image.place.row_key(*ino);
                let fix = Fix::InodeAfter { key: key.clone(), after: overlap };
                found.push((key, *ino, fix));
            }
        }
    }
    for (key, ino, fix) in found {
        state.report.add(range_finding(&key, state.rank, &fix).of(ino));
        state.fixes.push(fix);
    }
}

/// The change of a version that overlaps the one before, or that no snapshot can show.
fn range(key: &RowKey, shown: Shown, before: SnapId) -> Option<Fix> {
    if shown.after >= shown.last {
        return Some(Fix::Remove(key.clone()));
    }
    let (key, after) = (key.clone(), before);
    (shown.after < before).then(|| match key {
        RowKey::OldInode(..) => Fix::InodeAfter { key, after },
        _ => Fix::After { key, after },
    })
}

fn range_finding(key: &RowKey, rank: u32, fix: &Fix) -> Finding {
    let (text, repair) = match fix {
        Fix::Remove(_) => ("no snapshot can show this version", "the row is removed"),
        _ => (
            "a snapshot shows this version and the one before",
            "snapshots show the one before, as servers read it",
        ),
    };
    located(Problem::SnapshotRange, key, rank, text).mended_by(repair)
}
