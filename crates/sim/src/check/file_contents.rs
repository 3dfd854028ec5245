//! The contents of files: there is an order of all reads and writes of a file that explains every read. What
//! a client had not synced when it died, or lost its session, may be lost; what was synced may not.

use super::file_snapshots::{self, Shown};
use super::order_search::{Step, Verdict, search};
use crate::file_history::Entry;
use crate::model::ActorId;
use bytes::Bytes;
use engine::Time;
use fsclient::{Answer, Call, Outcome};
use std::collections::BTreeSet;
use types::Errno;

/// Access to a file from the place of its content.
#[derive(Debug, Clone)]
enum Access {
    Write(Bytes),
    /// A write without its size: only bytes within the size that the file has are seen. That of a client is
    /// told to others behind the data, or lost with it.
    Within(Bytes),
    /// The whole file is read.
    Read(Bytes),
    /// A snapshot shows it, perhaps with a size of another moment.
    Part(Bytes),
}

/// Checks all files; returns the number of those that the search could not decide.
///
/// # Errors
///
/// The history of a file, if there is no order.
pub fn check(entries: &[Entry], losses: &[(ActorId, Time)]) -> Result<usize, String> {
    let files: BTreeSet<u64> = entries.iter().filter_map(|entry| ino_of(&entry.call)).collect();
    let mut undecided = 0;
    for ino in files {
        let of_file: Vec<&Entry> =
            entries.iter().filter(|entry| concerns(&entry.call, ino)).collect();
        let mut steps = steps(&of_file, losses);
        let is_lasting = |step: &Step<Access>| !matches!(step.what, Access::Read(_));
        let writes: Vec<Step<Access>> = steps.iter().filter(|it| is_lasting(it)).cloned().collect();
        for shown in file_snapshots::shown(entries, ino)? {
            let step = snapshot_step(entries, ino, &shown)?;
            if loses_writes(&of_file, losses) {
                // It may show a write that was lost where it was not synced.
                undecided += decide(ino, &[&writes[..], &[step]].concat())?;
            } else {
                steps.push(step);
            }
        }
        undecided += decide(ino, &steps)?;
    }
    Ok(undecided)
}

/// Searches an order; returns 1 if the search could not decide.
fn decide(ino: u64, steps: &[Step<Access>]) -> Result<usize, String> {
    match search(steps, Bytes::new(), apply) {
        Verdict::Ordered => Ok(0),
        Verdict::Undecided => Ok(1),
        Verdict::Violated(order, stuck) => Err(explain(ino, steps, &order, &stuck)),
    }
}

/// A look at a file in a snapshot. Only of one writer at a time the size is of the same moment as the data.
fn snapshot_step(entries: &[Entry], ino: u64, shown: &Shown) -> Result<Step<Access>, String> {
    let data = shown.data.clone();
    let what = match file_snapshots::is_contended(entries, ino, shown) {
        true => Access::Part(data),
        false => Access::Read(data),
    };
    let lengths = file_snapshots::writes(entries, ino).filter_map(|entry| match &entry.call {
        Call::Write { data, .. } => Some(data.len()),
        _ => None,
    });
    let length = shown.data.len();
    if length != 0 && !lengths.into_iter().any(|written| written == length) {
        return Err(format!("snapshot {} shows {length} bytes of file {ino:x}", shown.snap));
    }
    let (invoked, returned) = (shown.from, Some(shown.until));
    Ok(Step { what, invoked, returned, until: None, is_read: true })
}

/// Whether a life has lost writes that it had not synced.
fn loses_writes(of_file: &[&Entry], losses: &[(ActorId, Time)]) -> bool {
    let is_lost = |entry: &&&Entry| {
        let loss = loss_after(losses, entry.actor, entry.invoked);
        let written = entry.succeeded().unwrap_or(entry.invoked);
        loss.is_some_and(|loss| !is_synced(of_file, entry.actor, (written, loss)))
    };
    of_file.iter().filter(|entry| matches!(entry.call, Call::Write { .. })).any(|it| is_lost(&it))
}

fn apply(now: &Bytes, access: &Access) -> Option<Bytes> {
    let over = |data: &[u8]| {
        let rest = now.get(data.len()..).unwrap_or_default();
        Bytes::from([data, rest].concat())
    };
    match access {
        Access::Write(data) => Some(over(data)),
        Access::Within(data) => Some(over(&data[..data.len().min(now.len())])),
        Access::Read(data) => (data == now).then(|| now.clone()),
        Access::Part(data) => {
            let known = data.len().min(now.len());
            let is_padded = data[known..].iter().all(|byte| *byte == 0);
            (data[..known] == now[..known] && is_padded).then(|| now.clone())
        }
    }
}

fn ino_of(call: &Call) -> Option<u64> {
    match call {
        Call::Write { ino, .. } | Call::Read { ino, .. } | Call::Fsync(ino) => Some(*ino),
        _ => None,
    }
}

fn concerns(call: &Call, ino: u64) -> bool {
    matches!(call, Call::Sync) || ino_of(call) == Some(ino)
}

/// When all that a life had not synced was lost, at or after some time.
fn loss_after(losses: &[(ActorId, Time)], actor: ActorId, at: Time) -> Option<Time> {
    let of_actor = losses.iter().filter(|(other, loss)| *other == actor && *loss >= at);
    of_actor.map(|(_, loss)| *loss).min()
}

fn steps(entries: &[&Entry], losses: &[(ActorId, Time)]) -> Vec<Step<Access>> {
    entries.iter().flat_map(|entry| steps_of(entry, entries, losses)).collect()
}

fn steps_of(entry: &Entry, all: &[&Entry], losses: &[(ActorId, Time)]) -> Vec<Step<Access>> {
    let answer = entry.completed.as_ref();
    let loss = loss_after(losses, entry.actor, entry.invoked);
    let invoked = entry.invoked;
    let step = |what, returned, is_read| Step { what, invoked, returned, until: None, is_read };
    match &entry.call {
        Call::Write { .. } if answer.is_some_and(|(_, outcome)| is_refusal(outcome)) => Vec::new(),
        Call::Write { data, .. } => {
            let is_kept =
                |at: &Time| loss.is_none_or(|loss| is_synced(all, entry.actor, (*at, loss)));
            let kept = entry.succeeded().filter(is_kept);
            let mut steps = vec![step(Access::Write(data.clone()), kept, false)];
            let within = step(Access::Within(data.clone()), None, false);
            steps.push(Step { until: kept, ..within });
            steps
        }
        Call::Read { .. } => {
            let Some((at, Ok(Answer::Data(data)))) = answer else { return Vec::new() };
            // A client sees its own writes, which may be lost with it.
            if loss.is_some_and(|loss| sees_unsynced(all, entry, loss)) {
                return Vec::new();
            }
            vec![step(Access::Read(data.clone()), Some(*at), true)]
        }
        _ => Vec::new(),
    }
}

/// Whether the client has not written anything.
fn is_refusal(outcome: &Outcome) -> bool {
    [Err(Errno::BADF), Err(Errno::DQUOT)].contains(outcome)
}

/// Whether a life has synced a file after a time and before another one.
fn is_synced(all: &[&Entry], actor: ActorId, (from, to): (Time, Time)) -> bool {
    all.iter().any(|entry| {
        entry.actor == actor
            && matches!(entry.call, Call::Fsync(_) | Call::Sync)
            && entry.invoked >= from
            && entry.succeeded().is_some_and(|at| at <= to)
    })
}

/// Whether a read may have seen a write of the same life that was never synced.
fn sees_unsynced(all: &[&Entry], read: &Entry, loss: Time) -> bool {
    all.iter().any(|entry| {
        let written = entry.completed.as_ref().map_or(entry.invoked, |(at, _)| *at);
        entry.actor == read.actor
            && matches!(entry.call, Call::Write { .. })
            && read.completed.as_ref().is_some_and(|(at, _)| entry.invoked <= *at)
            && entry.invoked <= loss
            && !is_synced(all, entry.actor, (written, loss))
    })
}

fn explain(ino: u64, steps: &[Step<Access>], order: &[usize], stuck: &[usize]) -> String {
    let line = |index: &usize| {
        let Step { what, invoked, returned, .. } = &steps[*index];
        let (verb, data) = match what {
            Access::Write(data) => ("writes", data),
            Access::Within(data) => ("writes within the size", data),
            Access::Read(data) => ("reads", data),
            Access::Part(data) => ("reads with a size of another moment", data),
        };
        let number = data.get(..8).and_then(|bytes| bytes.try_into().ok());
        let number = number.map_or(0, u64::from_le_bytes);
        format!("{verb} {number} of {} bytes at {invoked:?} until {returned:?}\n", data.len())
    };
    let before: String = order.iter().rev().take(12).rev().map(line).collect();
    let stuck: String = stuck.iter().map(line).collect();
    format!("no order explains file {ino:x}; after\n{before}none of these can follow:\n{stuck}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(actor: ActorId, call: Call, times: (u64, u64), outcome: Outcome) -> Entry {
        let completed = Some((Time(times.1), outcome));
        Entry { actor, call, invoked: Time(times.0), completed, durable: None }
    }

    fn write(actor: ActorId, byte: u8, times: (u64, u64)) -> Entry {
        let data = vec![byte; 64].into();
        entry(actor, Call::Write { ino: 7, offset: 0, data }, times, Ok(Answer::Done))
    }

    fn read(actor: ActorId, byte: Option<u8>, times: (u64, u64)) -> Entry {
        let data = byte.map_or(Bytes::new(), |byte| vec![byte; 64].into());
        let call = Call::Read { ino: 7, offset: 0, length: 100 };
        entry(actor, call, times, Ok(Answer::Data(data)))
    }

    #[test]
    fn what_was_synced_survives_and_the_rest_may_be_lost() {
        let first = write(1, 1, (1, 2));
        let synced = entry(1, Call::Fsync(7), (3, 4), Ok(Answer::Done));
        let lost = read(2, None, (20, 21));
        let died = [(1, Time(10))];
        assert!(check(&[first.clone(), lost.clone()], &[]).is_err(), "nobody died");
        assert_eq!(check(&[first.clone(), lost.clone()], &died), Ok(0));
        assert!(check(&[first.clone(), synced.clone(), lost], &died).is_err(), "it was synced");
        assert_eq!(check(&[first, synced, read(2, Some(1), (20, 21))], &died), Ok(0));
    }

    #[test]
    fn a_shorter_write_leaves_the_rest_and_a_lost_one_may_be_cut() {
        let with = |length, byte| vec![byte; length];
        let write = |actor, length, byte, times| {
            let data = with(length, byte).into();
            entry(actor, Call::Write { ino: 7, offset: 0, data }, times, Ok(Answer::Done))
        };
        let read = |data: Vec<u8>| {
            let call = Call::Read { ino: 7, offset: 0, length: 100 };
            entry(3, call, (20, 21), Ok(Answer::Data(data.into())))
        };
        let both = [write(1, 4, 1, (1, 2)), write(2, 2, 2, (3, 4)), read(vec![2, 2, 1, 1])];
        assert_eq!(check(&both, &[]), Ok(0));
        let longer = [write(1, 2, 1, (1, 2)), write(2, 4, 2, (3, 4)), read(vec![2, 2])];
        assert!(check(&longer, &[]).is_err());
        assert_eq!(check(&longer, &[(2, Time(10))]), Ok(0));
    }

    #[test]
    fn data_may_be_seen_before_the_size_while_a_write_lasts_and_not_later() {
        let write = |length, byte, times| {
            let data = vec![byte; length].into();
            entry(1, Call::Write { ino: 7, offset: 0, data }, times, Ok(Answer::Done))
        };
        let read = |times| {
            let call = Call::Read { ino: 7, offset: 0, length: 100 };
            entry(2, call, times, Ok(Answer::Data(vec![2; 2].into())))
        };
        let writes = [write(2, 1, (1, 2)), write(4, 2, (3, 6))];
        assert_eq!(check(&[&writes[..], &[read((4, 5))]].concat(), &[]), Ok(0));
        assert!(check(&[&writes[..], &[read((7, 8))]].concat(), &[]).is_err());
    }
}
