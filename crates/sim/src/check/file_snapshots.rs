//! Contents of files in snapshots: a snapshot shows of a file, whenever it is read, what was there at one
//! moment. The moment is not before the snapshot was asked for, and before the first write of a client that
//! knew of it.
//!
//! Clients learn of a snapshot later than the one that has asked for it, as in Ceph. Where several write
//! meanwhile, data and size may be of two moments.

use crate::file_history::Entry;
use crate::model::ActorId;
use bytes::Bytes;
use engine::Time;
use fsclient::{Answer, Call};
use std::collections::{BTreeMap, BTreeSet};
use types::Errno;
use wire::InodeStat;

/// A file as a snapshot shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    /// The snapshot.
    pub snap: u64,
    /// The content.
    pub data: Bytes,
    /// The moment is in this range.
    pub from: Time,
    /// See `from`.
    pub until: Time,
    /// Clients that may have written before they knew of the snapshot wrote until then at the latest.
    pub late: Time,
}

/// A file as each snapshot shows it that was looked into.
///
/// # Errors
///
/// A snapshot shows it in two ways, or was never asked for.
pub(super) fn shown(entries: &[Entry], ino: u64) -> Result<Vec<Shown>, String> {
    let mut found: BTreeMap<u64, Vec<(&Entry, Time, &InodeStat, Option<&Bytes>)>> = BTreeMap::new();
    for entry in entries {
        let Some((at, Ok(answer))) = &entry.completed else { continue };
        let (stat, data) = match (&entry.call, answer) {
            (Call::Stat(_), Answer::Inode(stat)) => (stat, None),
            (Call::ReadSnapshot(_), Answer::File(stat, data)) => (stat, Some(data)),
            _ => continue,
        };
        if stat.ino == ino && is_of_snapshot(stat) {
            found.entry(stat.snap).or_default().push((entry, *at, stat, data));
        }
    }
    let mut all = Vec::new();
    for (snap, looks) in found {
        let (_, first, stat, _) = looks[0];
        let other = looks.iter().find(|look| key(look.2) != key(stat));
        if let Some((entry, ..)) = other {
            return Err(format!(
                "snapshot {snap} shows file {ino:x} as {:?} and, by {:?}, as {:?}",
                key(stat),
                entry.call,
                other.map(|look| key(look.2)),
            ));
        }
        let mut contents = looks.iter().filter_map(|look| look.3);
        let Some(data) = contents.next() else { continue };
        if let Some(other) = contents.find(|other| *other != data) {
            return Err(format!(
                "snapshot {snap} shows two contents of file {ino:x}: {data:?} and {other:?}"
            ));
        }
        let first = looks.iter().map(|look| look.1).min().unwrap_or(first);
        all.push(bounds(
            entries,
            ino,
            Shown { snap, data: data.clone(), from: first, until: first, late: first },
        )?);
    }
    Ok(all)
}

pub(super) fn is_of_snapshot(stat: &InodeStat) -> bool {
    ![0, types::SnapId::HEAD.0].contains(&stat.snap)
}

/// Attributes that never change.
fn key(stat: &InodeStat) -> (u64, types::UTime, u32) {
    (stat.size, stat.mtime, stat.mode)
}

/// The calls that have, or may have, taken a snapshot: when the first was made, and the answered one.
fn taken(entries: &[Entry], snap: u64) -> Result<(Time, Option<&Entry>), String> {
    let takes = entries.iter().filter(|entry| matches!(entry.call, Call::TakeSnapshot { .. }));
    let mut unknown = None;
    for entry in takes {
        match entry.completed.as_ref().map(|(_, outcome)| outcome) {
            Some(Ok(Answer::Inode(stat))) if stat.snap == snap => {
                return Ok((entry.invoked, Some(entry)));
            }
            // The answer to one that was sent again does not say which it was.
            None | Some(Err(Errno::IO) | Ok(Answer::Done)) => {
                unknown = unknown.or(Some(entry.invoked));
            }
            _ => {}
        }
    }
    let at = unknown.ok_or_else(|| format!("no call has taken snapshot {snap}"))?;
    Ok((at, None))
}

/// Bounds of the moment, which is before the first look.
fn bounds(entries: &[Entry], ino: u64, shown: Shown) -> Result<Shown, String> {
    let (from, call) = taken(entries, shown.snap)?;
    let first = shown.until;
    let writers: BTreeSet<ActorId> = writes(entries, ino).map(|entry| entry.actor).collect();
    let (mut until, mut late) = (first, from);
    for writer in writers {
        // All know of it at the first look: they give back what they may have changed.
        let known = call.and_then(|call| known(entries, call, writer)).unwrap_or(first).min(first);
        let own = writes(entries, ino).filter(|entry| entry.actor == writer);
        let next = own.map(|entry| entry.invoked).filter(|at| *at >= known).min();
        until = next.map_or(until, |next| until.min(Time(next.0.saturating_sub(1))));
        late = late.max(known);
    }
    Ok(Shown { from, until: until.max(from), late, ..shown })
}

/// When a life certainly knew of a snapshot: it had the answer itself, or one to a request that it made after
/// that.
fn known(entries: &[Entry], call: &Entry, actor: ActorId) -> Option<Time> {
    let answered = call.succeeded()?;
    if call.actor == actor {
        return Some(answered);
    }
    let asked = entries.iter().filter(|entry| {
        entry.actor == actor && entry.invoked >= answered && is_request(&entry.call)
    });
    let ended = asked.filter_map(|entry| match &entry.completed {
        Some((at, outcome)) if *outcome != Err(Errno::IO) => Some(*at),
        _ => None,
    });
    ended.min()
}

/// Whether the server answers it.
fn is_request(call: &Call) -> bool {
    !matches!(
        call,
        Call::Write { .. } | Call::Read { .. } | Call::Fsync(_) | Call::Close(_) | Call::Sync
    )
}

pub(super) fn writes(entries: &[Entry], ino: u64) -> impl Iterator<Item = &Entry> {
    entries
        .iter()
        .filter(move |entry| matches!(entry.call, Call::Write { ino: of, .. } if of == ino))
}

/// Whether several lives may have written before all knew of the snapshot.
pub(super) fn is_contended(entries: &[Entry], ino: u64, shown: &Shown) -> bool {
    let is_near = |entry: &&Entry| {
        let ended = entry.completed.as_ref().map(|(at, _)| *at);
        entry.invoked <= shown.late.max(shown.until) && ended.is_none_or(|at| at >= shown.from)
    };
    let writers: BTreeSet<ActorId> =
        writes(entries, ino).filter(is_near).map(|entry| entry.actor).collect();
    writers.len() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(actor: ActorId, call: Call, times: (u64, u64), answer: Answer) -> Entry {
        let completed = Some((Time(times.1), Ok(answer)));
        Entry { actor, call, invoked: Time(times.0), completed, durable: None }
    }

    fn stat(ino: u64, snap: u64) -> Box<InodeStat> {
        Box::new(InodeStat { ino, snap, ..InodeStat::default() })
    }

    fn taken(times: (u64, u64)) -> Entry {
        let [directory, name] = ["", "s0"].map(str::to_owned);
        entry(1, Call::TakeSnapshot { directory, name }, times, Answer::Inode(stat(1, 5)))
    }

    fn write(actor: ActorId, times: (u64, u64)) -> Entry {
        let call = Call::Write { ino: 7, offset: 0, data: Bytes::from_static(b"xx") };
        entry(actor, call, times, Answer::Done)
    }

    fn look(data: &'static [u8], times: (u64, u64)) -> Entry {
        let call = Call::ReadSnapshot(".snap/s0/f0".to_owned());
        let answer = Answer::File(stat(7, 5), Bytes::from_static(data));
        entry(1, call, times, answer)
    }

    #[test]
    fn a_snapshot_shows_one_content() {
        let same = [taken((3, 4)), look(b"x", (5, 6)), look(b"x", (7, 8))];
        assert_eq!(shown(&same, 7).map(|all| all.len()), Ok(1));
        let other = [taken((3, 4)), look(b"x", (5, 6)), look(b"y", (7, 8))];
        assert!(shown(&other, 7).is_err());
        assert!(shown(&[look(b"x", (5, 6))], 7).is_err(), "it was never taken");
    }

    #[test]
    fn the_moment_is_before_writes_of_those_that_know() {
        let until = |writes: &[Entry]| {
            let history = [&[taken((3, 4)), look(b"x", (30, 31))], writes].concat();
            shown(&history, 7).unwrap()[0].until
        };
        assert_eq!(until(&[]), Time(31));
        assert_eq!(until(&[write(1, (10, 11))]), Time(9));
        assert_eq!(until(&[write(2, (10, 11))]), Time(31), "it may not know");
        let asked = entry(2, Call::Stat("x".into()), (5, 8), Answer::Inode(stat(7, 0)));
        assert_eq!(until(&[asked, write(2, (10, 11))]), Time(9));
    }
}
