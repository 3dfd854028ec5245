//! Read requests: answered from memory if possible, otherwise repeated once the missing pages are
//! there.

use super::answer::Reader;
use super::effects::Interrupt;
use super::failure::{MountedFault, PairFault};
use super::io::READ_ATTEMPTS_MAX;
use super::read::{DataFlaw, Plan, ReadJob};
use super::volume::Volume;
use super::waits::Waiter;
use crate::device::Extent;
use crate::object::HeldFields;
use bytes::Bytes;
use engine::RequestToken;
use std::collections::VecDeque;
use stdx::Slab;
use store::{DeviceFault, Outcome, ReadData, RequestKind, StoreError};
use types::HObject;

#[derive(Debug)]
struct Query {
    token: RequestToken,
    /// `None` while the query is executed.
    kind: Option<RequestKind>,
    read: Option<ReadJob>,
    /// Changes whose data is being read.
    held: Option<HeldFields>,
    doubt: Doubt,
}

/// State of a query whose data had a wrong checksum. The data may have been overwritten during the
/// read, and its blocks discarded or reused; then the metadata differs by now. If it is the same,
/// the read is repeated with the blocks pinned.
#[derive(Debug, Default)]
struct Doubt {
    /// Place and expected checksum of the block.
    suspect: Option<(u64, u32)>,
    /// Number of failed reads.
    failures: u32,
    pinned: Vec<Extent>,
}

impl Doubt {
    /// Set if the data is damaged, and was not just overwritten during the read.
    fn is_certain(&mut self, flaw: &DataFlaw) -> bool {
        if self.suspect != Some(flaw.place) {
            (self.suspect, self.failures) = (Some(flaw.place), 0);
        }
        self.failures += 1;
        flaw.is_unreadable || self.failures >= READ_ATTEMPTS_MAX
    }
}

/// Data of a query that is complete.
pub(crate) struct Verified {
    key: u64,
    outcome: Result<ReadData, DataFlaw>,
    /// Set if blocks may have become free.
    pub has_released: bool,
}

enum Answer {
    Outcome(Outcome),
    Reads(ReadJob),
    HeldReads(HeldFields, ReadJob),
}

#[derive(Default)]
pub(crate) struct Queries {
    queries: Slab<Query>,
    /// Queries that continue in later turns.
    unfinished: VecDeque<u64>,
}

impl Queries {
    /// Set if no query waits or is being executed.
    pub fn is_empty(&self) -> bool {
        self.queries.is_empty()
    }

    /// Set if the next turn continues without waiting for an event.
    pub fn has_more(&self) -> bool {
        !self.unfinished.is_empty()
    }

    /// Begins a query; its completion goes to `volume`.
    pub fn submit(&mut self, token: RequestToken, kind: RequestKind, volume: &mut Volume) {
        let doubt = Doubt::default();
        let key =
            self.queries.insert(Query { token, kind: Some(kind), read: None, held: None, doubt });
        self.run(key, volume);
    }

    /// Executes a query, from its beginning.
    pub fn run(&mut self, key: u64, volume: &mut Volume) {
        let Some(query) = self.queries.get_mut(key) else { return };
        if volume.meta.is_applying() {
            return self.unfinished.push_back(key);
        }
        let kind = query.kind.take().expect("it is not being executed");
        volume.meta.begin();
        let outcome = execute(&kind, volume);
        volume.meta.end(&outcome);
        // The request is kept for another attempt, and to name the damaged object.
        query.kind = Some(kind);
        match outcome {
            Ok(Answer::Outcome(outcome)) => self.finish(key, Ok(outcome), volume),
            Ok(Answer::Reads(job)) => query.begin_reads(key, job, volume),
            Ok(Answer::HeldReads(fields, job)) => {
                query.held = Some(fields);
                query.begin_reads(key, job, volume);
            }
            Err(Interrupt::Pages(pages)) => volume.read_pages(Waiter::Query(key), pages),
            Err(Interrupt::Turn) => self.unfinished.push_back(key),
            Err(Interrupt::Refused(error)) => self.finish(key, Err(error), volume),
            Err(other) => unreachable!("reading does not end in {other:?}"),
        }
    }

    /// Continues queries that earlier turns have not finished.
    pub fn work_on(&mut self, volume: &mut Volume) {
        for _ in 0..self.unfinished.len() {
            if !volume.turn.has_walks_left(&volume.meta) {
                break;
            }
            let query = self.unfinished.pop_front().expect("as many were there");
            self.run(query, volume);
        }
    }

    /// Fails all queries.
    pub fn fail(&mut self, error: &StoreError, volume: &mut Volume) {
        let keys: Vec<u64> = self.queries.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.finish(key, Err(error.clone()), volume));
    }

    fn finish(&mut self, key: u64, outcome: Result<Outcome, StoreError>, volume: &mut Volume) {
        if let Some(query) = self.queries.remove(key) {
            volume.complete(query.token, outcome);
        }
    }

    /// Handles a part of the data of a read. Returns its data if that was the last one;
    /// [`Queries::end_read`] must follow.
    pub fn data_read(
        &mut self,
        key: u64,
        part: usize,
        result: Result<Bytes, StoreError>,
        volume: &mut Volume,
    ) -> Option<Verified> {
        let query = self.queries.get_mut(key)?;
        let job = query.read.as_mut().expect("it has reads on their way");
        if !job.supply(part, result.ok()) {
            return None;
        }
        let job = query.read.take().expect("taken from above");
        let outcome = job.finish(|block, crc, data| volume.contents.keep(block, crc, data));
        // Blocks that were freed meanwhile can be allocated now.
        let pinned = std::mem::take(&mut query.doubt.pinned);
        let has_released = !pinned.is_empty();
        pinned.into_iter().for_each(|extent| volume.unpin(extent));
        Some(Verified { key, outcome, has_released })
    }

    /// Answers a query whose data is complete, or reads it again.
    pub fn end_read(&mut self, verified: Verified, volume: &mut Volume) {
        let Verified { key, outcome, .. } = verified;
        let Some(query) = self.queries.get_mut(key) else { return };
        match outcome {
            Ok(data) => {
                let outcome = match query.held.take() {
                    Some(fields) => with_data(fields, &data),
                    None => Ok(Outcome::Read(data)),
                };
                self.finish(key, outcome, volume);
            }
            Err(flaw) if !query.doubt.is_certain(&flaw) => self.run(key, volume),
            Err(DataFlaw { offset, length, .. }) => {
                let (object, offset) = query.origin(offset);
                tracing::error!(%object, offset, length, "media fault: the data does not have its checksum");
                self.finish(key, Err(StoreError::Corrupt { object, offset, length }), volume);
            }
        }
    }

    /// Panics if parts of the state contradict each other.
    pub fn check_invariants(&self) {
        for (key, query) in self.queries.iter() {
            assert!(query.kind.is_some(), "query {key} is being executed");
            let reads = query.read.is_some();
            assert!(reads || query.doubt.pinned.is_empty(), "query {key} pins without a read");
        }
    }
}

impl Query {
    /// Object to which a byte of the data belongs, and the byte's offset in it.
    fn origin(&self, offset: u64) -> (HObject, u64) {
        match (&self.kind, &self.held) {
            (Some(RequestKind::Read { object, .. }), _) => (object.clone(), offset),
            (_, Some(fields)) => {
                let origin = fields.origin(offset).expect("all data belongs to writes");
                (origin.0.clone(), origin.1)
            }
            _ => unreachable!("only reads have data"),
        }
    }

    fn begin_reads(&mut self, key: u64, job: ReadJob, volume: &mut Volume) {
        for (part, (block, blocks)) in job.device_reads() {
            volume.devices.read_data(key, part, block, blocks);
        }
        if self.doubt.suspect.is_some() {
            let places = job.device_reads().map(|(_, (block, blocks))| (block, blocks.into()));
            let extents = places.map(|(block, blocks)| Extent::new(block, blocks));
            // Damaged metadata may name blocks that are not in use.
            let pinned = extents.filter(|extent| volume.space.pin(*extent).is_ok());
            self.doubt.pinned = pinned.collect();
        }
        self.read = Some(job);
    }
}

fn execute(kind: &RequestKind, volume: &mut Volume) -> Result<Answer, Interrupt> {
    let mut reader = Reader { meta: &mut volume.meta, contents: &mut volume.contents };
    match kind {
        RequestKind::Usage => Ok(Answer::Outcome(Outcome::Usage(volume.usage()))),
        RequestKind::Read { collection, object, offset, length } => {
            Ok(match reader.plan_read(*collection, object, *offset, *length)? {
                Plan::Done(data) => Answer::Outcome(Outcome::Read(data)),
                Plan::Reads(job) => Answer::Reads(job),
            })
        }
        RequestKind::ReadHeld { collection, held } => {
            Ok(match reader.plan_held(*collection, *held)? {
                None => Answer::Outcome(Outcome::HeldRead(None)),
                Some((fields, Plan::Done(data))) => Answer::Outcome(with_data(fields, &data)?),
                Some((fields, Plan::Reads(job))) => Answer::HeldReads(fields, job),
            })
        }
        kind => reader.answer(kind).map(Answer::Outcome),
    }
}

fn with_data(fields: HeldFields, read: &ReadData) -> Result<Outcome, StoreError> {
    let changes = fields.with_data(&read.data).map_err(|error| {
        let fault = PairFault::Encoding { what: "held changes", error };
        StoreError::Device(DeviceFault::new(MountedFault::Metadata(fault)))
    })?;
    Ok(Outcome::HeldRead(Some(changes)))
}
