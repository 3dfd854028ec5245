//! Numbers of inodes: none that is used is given out again; purges are of inodes that are gone.

use crate::finding::{Finding, Problem};
use crate::fix::Fix;
use crate::state::State;
use namespace::Ino;
use std::collections::BTreeMap;

/// Checks all of it.
pub(crate) fn check(state: &mut State) {
    used(state);
    delegated(state);
    purges(state);
}

/// The first number that no rank takes by its own number.
const CHUNKS_END: u64 = 0x200 << 40;

fn used(state: &mut State) {
    let facts = &state.facts;
    let live = facts.inodes.keys().chain(facts.old_inodes.keys()).chain(&facts.purges);
    let live = live.chain(facts.entries.keys()).map(|ino| ino.0);
    let delegated = facts.delegated.iter().map(|(first, count, _)| first + count - 1);
    let greatest = live.chain(delegated).filter(|number| *number < CHUNKS_END).max();
    let Some(greatest) = greatest.filter(|greatest| *greatest >= state.numbers) else { return };
    if greatest < Ino::FIRST.0 {
        return;
    }
    let text = format!("number {greatest:#x} is used, and {:#x} is given out next", state.numbers);
    let finding = Finding::new(Problem::Numbers, format!("rank.{}", state.rank), text);
    state.report.add(finding.of(Ino(greatest)).mended_by("the next number is set behind it"));
    state.fixes.push(Fix::UsedBelow(greatest + 1));
}

/// Delegated numbers belong to one client, and no inode has them.
fn delegated(state: &mut State) {
    let mut wrong: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut ranges = state.facts.delegated.clone();
    ranges.sort_unstable();
    let mut end = 0;
    for (first, count, client) in ranges {
        let behind = first.saturating_add(count);
        let shared = first..end.min(behind).max(first);
        let used = state.facts.inodes.range(Ino(first)..Ino(behind)).map(|(ino, _)| ino.0);
        let numbers: Vec<u64> = shared.chain(used).collect();
        if !numbers.is_empty() {
            wrong.entry(client).or_default().extend(numbers);
        }
        end = end.max(behind);
    }
    for (client, numbers) in wrong {
        let text = format!(
            "{} numbers are delegated to client {client} and used, or another one's, as {:#x}",
            numbers.len(),
            numbers[0]
        );
        let finding = Finding::new(Problem::Delegated, format!("sessions.{}", state.rank), text);
        let finding = finding.at(namespace::ino_key(Ino(client)));
        state.report.add(finding.mended_by("the client loses them"));
        state.fixes.push(Fix::TakeNumbers { client, numbers });
    }
}

fn purges(state: &mut State) {
    let facts = &state.facts;
    let exists = |ino: &&Ino| facts.inodes.get(ino).is_some_and(|inode| !inode.images.is_empty());
    let wrong: Vec<Ino> = facts.purges.iter().filter(exists).copied().collect();
    for ino in wrong {
        let object = format!("tasks.{}", state.rank);
        let key = namespace::ino_key(ino);
        let text = "data of an inode that exists is to be removed";
        let finding = Finding::new(Problem::Purge, &object, text).at(key.clone()).of(ino);
        state.report.add(finding.mended_by("the data stays"));
        state.fixes.push(Fix::RemoveRow { object, key });
    }
}
