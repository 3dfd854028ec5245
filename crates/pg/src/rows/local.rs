//! Reads of rows and versions in our own store: for jobs and other parts of this copy, and for primaries.

use super::ranges::RowSet;
use super::state::{Local, OwnRows, Reader};
use crate::Member;
use crate::core::{Core, settling};
use crate::message::{Body, NoRows, ReadRows, Rows, ShardRows};
use crate::{ObjectInfo, Tag};
use bytes::Bytes;
use store::{ObjectMeta, Outcome, RequestKind, StoreError};
use types::{EVersion, HObject};

/// Reads that are begun again before the object counts as unreadable: this may be one of the last shards.
const REREADS_MAX: u32 = 3;

/// The place of the metadata among the requests of a read; ranges follow.
const META: usize = 0;

/// A primary asks for rows of our shard. `committed` is zero if this copy may not settle anything.
pub(crate) fn handle_read_rows(core: &mut Core, from: Member, asked: ReadRows) {
    let ReadRows { request, committed, object, with_attrs, ranges } = asked;
    if !core.copy.created {
        return answer(core, from, request, Err(NoRows::Absent));
    }
    let number = core.rows.number();
    let local = Local::new(Reader::Primary(from, request), object, with_attrs, ranges);
    read_settled(core, (number, local), committed);
}

/// Reads rows of our own shard for a request of a job.
pub(super) fn read_for_job(
    core: &mut Core,
    number: u64,
    object: HObject,
    with_attrs: bool,
    rows: &RowSet,
    committed: EVersion,
) {
    let local = Local::new(Reader::Job, object, with_attrs, rows.byte_ranges());
    read_settled(core, (number, local), committed);
}

/// Reads ranges of our own shard as the store shows them once changes up to `committed` are settled, for
/// another part of this copy; zero stands for what it shows now. Its end has the number that is returned.
pub(crate) fn read_own(
    core: &mut Core,
    reader: Reader,
    object: HObject,
    ranges: Vec<(u64, u64)>,
    committed: EVersion,
) -> u64 {
    let number = core.rows.number();
    let with_attrs = reader == Reader::Transfer;
    read_settled(core, (number, Local::new(reader, object, with_attrs, ranges)), committed);
    number
}

/// Our store shows more than before: goes on with the reads that wait.
pub(crate) fn settled(core: &mut Core) {
    for (number, local, committed) in std::mem::take(&mut core.rows.unsettled) {
        read_settled(core, (number, local), committed);
    }
}

/// Reads once the store shows all changes of the object up to this version; zero stands for what it shows
/// now.
fn read_settled(core: &mut Core, (number, mut local): (u64, Local), committed: EVersion) {
    if committed > EVersion::ZERO && !settling::has_settled(core, &local.object, committed) {
        return core.rows.unsettled.push((number, local, committed));
    }
    // Settling removes items of objects that the changes replace.
    if let Reader::Primary(from, request) = local.reader
        && core.copy.missing.stored(&local.object).is_some()
    {
        return answer(core, from, request, Err(NoRows::Absent));
    }
    ask_all(core, number, &mut local);
    let before = core.rows.local.insert(number, local);
    assert!(before.is_none(), "a number belongs to one read");
}

impl Local {
    fn new(reader: Reader, object: HObject, with_attrs: bool, ranges: Vec<(u64, u64)>) -> Self {
        let data = vec![None; ranges.len()];
        let (meta, failures, is_replaced) = (None, 0, false);
        Local { reader, object, ranges, with_attrs, meta, data, failures, is_replaced }
    }

    /// Whether all parts are read.
    fn is_here(&self) -> bool {
        self.meta.is_some() && self.data.iter().all(Option::is_some)
    }

    /// Whether no part ends before its range or the shard.
    fn is_whole(&self) -> bool {
        let size = self.meta.as_ref().map_or(0, |(_, size, _)| *size);
        let is_whole = |((offset, length), data): (&(u64, u64), &Option<Bytes>)| {
            let read = data.as_ref().map_or(0, Bytes::len) as u64;
            read >= size.saturating_sub(*offset).min(*length)
        };
        self.ranges.iter().zip(&self.data).all(is_whole)
    }

    /// Between its first and its last piece, a pushed shard has holes under the version that it will have.
    fn look_whether_replaced(&mut self, core: &Core) {
        let is_whole_needed =
            matches!(self.reader, Reader::Primary(..) | Reader::Job | Reader::Write(_));
        self.is_replaced |= is_whole_needed && core.copy.missing.stored(&self.object).is_some();
    }

    fn begin_again(&mut self) {
        self.failures += 1;
        self.meta = None;
        self.data.iter_mut().for_each(|data| *data = None);
    }

    /// The rows of a read of which all parts are here.
    fn rows(&mut self) -> Result<ShardRows, NoRows> {
        if self.is_replaced {
            return Err(NoRows::Absent);
        }
        if !self.is_whole() {
            return Err(NoRows::Unreadable);
        }
        let (version, _, attrs) = self.meta.take().expect("it was read");
        let data = self.data.drain(..).flatten().collect();
        Ok(ShardRows { version, attrs: self.with_attrs.then_some(attrs), data })
    }
}

/// Reads all parts.
fn ask_all(core: &mut Core, number: u64, local: &mut Local) {
    local.look_whether_replaced(core);
    (META..=local.ranges.len()).for_each(|index| ask(core, number, local, index));
}

fn ask(core: &mut Core, number: u64, local: &Local, index: usize) {
    let (collection, object) = (core.own.collection, local.object.clone());
    let kind = match index.checked_sub(META + 1) {
        None => RequestKind::Meta { collection, object },
        Some(range) => {
            let (offset, length) = local.ranges[range];
            RequestKind::Read { collection, object, offset, length }
        }
    };
    core.ask_store(Tag::Rows(number, index), kind);
}

/// Takes the outcome of a request of a read. Answers the primary, or returns the end of another read.
pub(super) fn advance(
    core: &mut Core,
    number: u64,
    index: usize,
    outcome: Result<Outcome, StoreError>,
) -> Option<OwnRows> {
    let mut local = core.rows.local.remove(&number)?;
    local.look_whether_replaced(core);
    if outcome.as_ref().is_err_and(StoreError::may_heal) && local.failures < REREADS_MAX {
        local.failures += 1;
        ask(core, number, &local, index);
        core.rows.local.insert(number, local);
        return None;
    }
    let taken = match outcome {
        Ok(Outcome::Meta(Some(meta))) => take_meta(&mut local, meta),
        Ok(Outcome::Read(read)) => {
            local.data[index - META - 1] = Some(read.data);
            Ok(())
        }
        Ok(Outcome::Meta(None))
        | Err(StoreError::NoObject { .. } | StoreError::NoCollection(_)) => Err(NoRows::Absent),
        other => {
            let (pg, object) = (core.own.id, &local.object);
            tracing::error!(%pg, %object, ?other, "rows of an object cannot be read");
            Err(NoRows::Unreadable)
        }
    };
    if taken.is_ok() && !local.is_here() {
        core.rows.local.insert(number, local);
        return None;
    }
    if taken.is_ok() && !local.is_whole() && local.failures < REREADS_MAX {
        // The shard may have grown between the parts of the read.
        local.begin_again();
        ask_all(core, number, &mut local);
        core.rows.local.insert(number, local);
        return None;
    }
    let outcome = taken.and_then(|()| local.rows());
    match local.reader {
        Reader::Primary(to, request) => answer(core, to, request, outcome),
        reader => return Some(OwnRows { reader, number, outcome }),
    }
    None
}

fn answer(core: &mut Core, to: Member, request: u64, outcome: Result<ShardRows, NoRows>) {
    core.send(to, &Body::Rows(Box::new(Rows { request, outcome })));
}

fn take_meta(local: &mut Local, meta: ObjectMeta) -> Result<(), NoRows> {
    let version = ObjectInfo::version_in(&meta.attrs).ok_or(NoRows::Unreadable)?;
    local.meta = Some((version, meta.size, meta.attrs));
    Ok(())
}
