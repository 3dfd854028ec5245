//! Writes of a member's shard on their way to its store.
//!
//! A parity gets deltas, and adds them to its old rows: those in memory that are not settled, or those of its
//! store. Reads for several writes overlap; the writes are stored in the order of versions.

use super::layers::Found;
use super::state::{Delta, Holding, Read, ShardWrite, Unconverted, Waiting};
use super::store::{Stored, begin, store, supersede};
use crate::PgInfo;
use crate::core::{Core, settling};
use crate::message::{NoRows, ShardRows};
use crate::rows::{self, Reader};
use bytes::{Bytes, BytesMut};
use store::{Change, HELD_UNIT, StoreError};
use types::{EVersion, HObject};

/// The position of this copy's rows in its layers, which have no others.
const OWN: usize = 0;

/// Takes the next write. It is stored when its deltas are converted, and all writes before it are stored.
pub(crate) fn hold(core: &mut Core, write: ShardWrite) {
    let head = core.copy.log.head();
    assert!(write.version() > core.holding.newest().unwrap_or(head), "writes come in order");
    core.holding.base.get_or_insert(head);
    let delta =
        |index: &usize| Delta { index: *index, base: None, rows: Vec::new(), is_reading: false };
    let deltas = write.deltas.iter().map(delta).collect();
    core.holding.queue.push_back(Waiting { write, is_converted: false, deltas });
    advance(core);
}

/// Goes on with what waits: more is settled, or an old row was read.
pub(crate) fn advance(core: &mut Core) {
    if core.holding.queue.is_empty() {
        return;
    }
    let settled = settling::settled(core);
    core.holding.layers.forget(settled);
    // Places of the writes that wait.
    let mut before: Vec<usize> = Vec::new();
    for at in 0..core.holding.queue.len() {
        let queue = &core.holding.queue;
        let object = |place: usize| queue[place].write.object();
        let is_behind = || before.iter().any(|place| object(*place).is_of_family(object(at)));
        if !queue[at].is_converted && (is_behind() || !convert(core, at)) {
            before.push(at);
        }
    }
    while core.holding.queue.front().is_some_and(|front| front.is_converted) {
        let write = core.holding.queue.pop_front().expect("there is a front").write;
        put(core, write);
    }
}

/// Converts the deltas of a write before which all writes of its objects are converted; whether that is done.
fn convert(core: &mut Core, at: usize) -> bool {
    let mut left = std::mem::take(&mut core.holding.queue[at].deltas);
    left.retain_mut(|delta| !begin_delta(core, at, delta));
    let waiting = &mut core.holding.queue[at];
    waiting.deltas = left;
    waiting.is_converted = waiting.deltas.is_empty();
    if waiting.is_converted && is_parity(core) {
        let Holding { queue, layers, .. } = &mut core.holding;
        let version = queue[at].write.version();
        queue[at].write.changes.iter().for_each(|change| layers.note(version, OWN, change));
    }
    core.holding.queue[at].is_converted
}

/// Converts a delta if its old rows are in memory, or reads them; whether it is converted.
fn begin_delta(core: &mut Core, at: usize, delta: &mut Delta) -> bool {
    if delta.is_reading {
        return false;
    }
    let write = &core.holding.queue[at].write;
    let Change::Write { object, offset, data } = &write.changes[delta.index] else {
        panic!("deltas are writes")
    };
    let (first, rows) = (offset / HELD_UNIT, data.len() as u64 / HELD_UNIT);
    let base = base_of(&write.changes[..delta.index], object);
    let find = |row| match base {
        Some(base) => core.holding.layers.find(base, OWN, row),
        None => Found::Row(Bytes::new()),
    };
    let found: Vec<Found> = (first..first + rows).map(find).collect();
    delta.base = base.cloned();
    let is_behind = |row: &Found| match row {
        Found::Row(_) => false,
        Found::Stored => core.holding.base > Some(settling::settled(core)),
        Found::Behind(_) => true,
    };
    if found.iter().any(is_behind) {
        let committed = core.copy.committed;
        settling::settle(core, committed);
        return false;
    }
    delta.rows = found
        .into_iter()
        .map(|row| match row {
            Found::Row(row) => Some(row),
            _ => None,
        })
        .collect();
    if delta.rows.iter().all(Option::is_some) {
        add(core, at, delta, &Bytes::new());
        return true;
    }
    delta.is_reading = true;
    let version = core.holding.queue[at].write.version();
    let object = delta.base.clone().expect("an object has the rows");
    let least = least_version(core, at, &object);
    let ranges = vec![(first * HELD_UNIT, rows * HELD_UNIT)];
    let number = rows::read_own(core, Reader::Delta, object.clone(), ranges, EVersion::ZERO);
    core.holding.reads.insert(number, Read { version, object, index: delta.index, least });
    false
}

/// The object whose rows an object has after these changes of a write; `None` if it has none.
fn base_of<'a>(changes: &'a [Change], object: &'a HObject) -> Option<&'a HObject> {
    let mut base = object;
    for change in changes.iter().rev() {
        match change {
            Change::Clone { object, target } if target == base => base = object,
            Change::Remove { object } if object == base => return None,
            _ => {}
        }
    }
    Some(base)
}

/// The version that the store must have of an object whose old rows a write needs, or a later one: a delta
/// that is added to stale rows would spoil the parity, and nothing would show it.
fn least_version(core: &Core, at: usize, object: &HObject) -> EVersion {
    let queued = core.holding.queue.range(..=at).flat_map(|waiting| &waiting.write.entries);
    let mut changes = queued.filter(|entry| entry.changes_object() && entry.object == *object);
    core.copy.least_version(object, changes.next(), settling::settled(core))
}

/// Takes old rows of our parity.
pub(crate) fn old_rows_read(
    core: &mut Core,
    number: u64,
    outcome: Result<ShardRows, NoRows>,
) -> Result<(), Box<Unconverted>> {
    let Some(Read { version, object, index, least }) = core.holding.reads.remove(&number) else {
        return Ok(());
    };
    let rows = match outcome {
        Ok(read) if read.version >= least => read.data.into_iter().next().unwrap_or_default(),
        // Rows that the shard does not have are zeros.
        Err(NoRows::Absent) if least == EVersion::ZERO => Bytes::new(),
        outcome => {
            let found = outcome.map(|read| read.version);
            tracing::error!(pg = %core.own.id, %object, ?least, ?found, "a shard does not have an old row");
            return Err(Box::new(refusal(core, version, object)));
        }
    };
    take_rows(core, (version, index), &rows);
    Ok(())
}

/// Adds the stored rows to the delta of a write, and goes on.
fn take_rows(core: &mut Core, (version, index): (EVersion, usize), stored: &Bytes) {
    let at = core.holding.queue.iter().position(|waiting| waiting.write.version() == version);
    let at = at.expect("its write waits");
    let waiting = &mut core.holding.queue[at];
    let delta = waiting.deltas.iter().position(|delta| delta.index == index);
    let delta = waiting.deltas.remove(delta.expect("it is read once"));
    add(core, at, &delta, stored);
    advance(core);
}

/// Adds the old rows to a delta: those in memory, or those of the store.
fn add(core: &mut Core, at: usize, delta: &Delta, stored: &Bytes) {
    let Change::Write { data, .. } = &mut core.holding.queue[at].write.changes[delta.index] else {
        panic!("deltas are writes")
    };
    // The message has the only reference, unless it goes to several places.
    let own = std::mem::take(data).try_into_mut();
    let mut sum = own.unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    let unit = HELD_UNIT as usize;
    for (number, (target, row)) in sum.chunks_mut(unit).zip(&delta.rows).enumerate() {
        let start = stored.len().min(number * unit);
        let end = stored.len().min(start + unit);
        let old = row.as_deref().unwrap_or(&stored[start..end]);
        erasure::xor(&mut target[..old.len()], old);
    }
    *data = sum.freeze();
}

fn refusal(core: &mut Core, version: EVersion, object: HObject) -> Unconverted {
    let mut waiting = core.holding.queue.iter().take_while(|one| one.write.version() <= version);
    // The writes before it that wait never reach our log: what they wrote is in no history.
    let prior_version = match waiting.find_map(|one| one.write.prior_version(&object)) {
        // A clone to which the write rolls back.
        None | Some(EVersion::ZERO) => core.copy.logged_version(&object),
        Some(version) => version,
    };
    let error = StoreError::Corrupt { object: object.clone(), offset: 0, length: 0 };
    Unconverted { version, object, prior_version, error }
}

fn is_parity(core: &Core) -> bool {
    let position = core.own.whoami.shard.position();
    let geometry = core.placement.geometry();
    geometry.is_some_and(|geometry| position >= Some(geometry.data()))
}

/// Stores a write whose changes are whole rows.
fn put(core: &mut Core, write: ShardWrite) {
    let begun = begin(core, write.committed);
    let version = write.version();
    supersede(core, &write.entries);
    let own = &core.copy.info;
    // This copy's tail may be above the primary's, or below it.
    let log_tail = core.copy.log.tail().max(write.trim);
    let last_complete = if core.copy.missing.is_empty() { version } else { own.last_complete };
    core.copy.info = PgInfo {
        log_tail,
        last_complete,
        last_backfill: own.last_backfill.clone(),
        last_epoch_started: own.last_epoch_started.max(write.info.last_epoch_started),
        shard: own.shard,
        ..write.info
    };
    let info = core.info_pair().1;
    let versions = write.entries.iter().map(|entry| entry.version);
    let entries = versions.zip(write.encoded).collect();
    write.entries.into_iter().for_each(|entry| core.copy.log.push(entry));
    store(core, begun, Stored { entries, info, trim: write.trim, changes: write.changes });
}
