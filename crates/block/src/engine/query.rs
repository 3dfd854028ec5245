//! Read requests: answered from memory if possible, otherwise repeated once the missing pages are
//! there.

use super::data::blocks_of;
use super::effects::Interrupt;
use super::io::READ_ATTEMPTS_MAX;
use super::mounted::{Mounted, Use};
use super::read::{DataFlaw, Plan, ReadJob};
use super::waits::Waiter;
use crate::device::{Device, Extent};
use crate::keys;
use crate::object::Onode;
use crate::slices::Slices;
use bytes::Bytes;
use engine::RequestToken;
use std::collections::BTreeMap;
use std::ops::Bound;
use store::{
    Collection, Completion, ObjectMeta, OmapPage, Outcome, ReadData, RequestKind, StoreError, Usage,
};
use types::HObject;

#[derive(Debug)]
pub(crate) struct Query {
    token: RequestToken,
    /// `None` while the query is executed.
    kind: Option<RequestKind>,
    read: Option<ReadJob>,
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

enum Answer {
    Outcome(Outcome),
    Reads(ReadJob),
}

impl Mounted {
    pub fn submit_query(&mut self, token: RequestToken, kind: RequestKind) {
        let key = self.queries.insert(Query {
            token,
            kind: Some(kind),
            read: None,
            doubt: Doubt::default(),
        });
        self.run_query(key);
    }

    pub fn run_query(&mut self, key: u64) {
        let Some(query) = self.queries.get_mut(key) else { return };
        if self.meta.is_applying() {
            return self.turn.queries.push_back(key);
        }
        let kind = query.kind.take().expect("it is not being executed");
        self.meta.begin();
        let outcome = self.execute_query(&kind);
        self.meta.end(&outcome);
        // The request is kept for another attempt, and to name the damaged object.
        if let Some(query) = self.queries.get_mut(key) {
            query.kind = Some(kind);
        }
        match outcome {
            Ok(Answer::Outcome(outcome)) => self.finish_query(key, Ok(outcome)),
            Ok(Answer::Reads(job)) => self.begin_reads(key, job),
            Err(Interrupt::Pages(pages)) => self.read_pages(Waiter::Query(key), pages),
            Err(Interrupt::Turn) => self.turn.queries.push_back(key),
            Err(Interrupt::Refused(error)) => self.finish_query(key, Err(error)),
            Err(other) => unreachable!("reading does not end in {other:?}"),
        }
    }

    fn execute_query(&mut self, kind: &RequestKind) -> Result<Answer, Interrupt> {
        let RequestKind::Read { collection, object, offset, length } = kind else {
            return self.answer(kind).map(Answer::Outcome);
        };
        Ok(match self.plan_read(*collection, object, *offset, *length)? {
            Plan::Done(data) => Answer::Outcome(Outcome::Read(data)),
            Plan::Reads(job) => Answer::Reads(job),
        })
    }

    pub fn fail_queries(&mut self, error: &StoreError) {
        let keys: Vec<u64> = self.queries.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.finish_query(key, Err(error.clone())));
    }

    fn finish_query(&mut self, key: u64, outcome: Result<Outcome, StoreError>) {
        if let Some(query) = self.queries.remove(key) {
            self.completions.push_back(Completion { token: query.token, outcome });
        }
    }

    fn begin_reads(&mut self, key: u64, job: ReadJob) {
        for (part, (block, blocks)) in job.device_reads() {
            self.io.read(Use::Data { query: key, part }, Device::Main, block, blocks);
        }
        let query = self.queries.get_mut(key).expect("the caller found it");
        if query.doubt.suspect.is_some() {
            let places = job.device_reads().map(|(_, (block, blocks))| (block, blocks.into()));
            let extents = places.map(|(block, blocks)| Extent::new(block, blocks));
            // Damaged metadata may name blocks that are not in use.
            query.doubt.pinned = extents.filter(|extent| self.space.pin(*extent).is_ok()).collect();
        }
        query.read = Some(job);
    }

    /// Ends a read: blocks that were freed meanwhile can be allocated now.
    fn unpin_read(&mut self, key: u64) {
        let Some(query) = self.queries.get_mut(key) else { return };
        let pinned = std::mem::take(&mut query.doubt.pinned);
        if pinned.is_empty() {
            return;
        }
        for extent in pinned {
            let free = self.space.unpin(extent).expect("pinned when the read began");
            self.discard(free);
        }
        self.resume_if_space();
    }

    /// Handles a part of the data of a read.
    pub fn data_read(&mut self, key: u64, part: usize, result: Result<Bytes, StoreError>) {
        let Some(query) = self.queries.get_mut(key) else { return };
        let job = query.read.as_mut().expect("it has reads on their way");
        if !job.supply(part, result.ok()) {
            return;
        }
        let job = query.read.take().expect("taken from above");
        let block_cache = &mut self.block_cache;
        let outcome = job.finish(|block, crc, data| block_cache.insert(block, crc, data));
        self.unpin_read(key);
        let Some(query) = self.queries.get_mut(key) else { return };
        match outcome {
            Ok(data) => self.finish_query(key, Ok(Outcome::Read(data))),
            Err(flaw) if !query.doubt.is_certain(&flaw) => self.run_query(key),
            Err(DataFlaw { offset, length, .. }) => {
                let Some(RequestKind::Read { object, .. }) = &query.kind else {
                    unreachable!("only reads have data")
                };
                let object = object.clone();
                tracing::error!(%object, offset, length, "media fault: the data does not have its checksum");
                self.finish_query(key, Err(StoreError::Corrupt { object, offset, length }));
            }
        }
    }

    fn slices(&mut self, at: Collection) -> Result<Slices, Interrupt> {
        let slices = self.meta.collection(at)?;
        slices.ok_or(Interrupt::Refused(StoreError::NoCollection(at)))
    }

    fn find(&mut self, at: Collection, object: &HObject) -> Result<Option<Onode>, Interrupt> {
        let id = self.slices(at)?.id_of(object);
        let Some(value) = self.meta.get(&keys::object_point(id, object))? else { return Ok(None) };
        Onode::decode(&value).map(Some).map_err(Interrupt::decoding("onode"))
    }

    pub(super) fn existing(
        &mut self,
        at: Collection,
        object: &HObject,
    ) -> Result<Onode, Interrupt> {
        let absent = || StoreError::NoObject { collection: at, object: object.clone() };
        self.find(at, object)?.ok_or_else(|| absent().into())
    }

    fn answer(&mut self, kind: &RequestKind) -> Result<Outcome, Interrupt> {
        match kind {
            RequestKind::Commit(_) | RequestKind::Append(_) | RequestKind::Resume(_) => {
                unreachable!("commits are queued")
            }
            RequestKind::Read { .. } => unreachable!("reads are planned"),
            RequestKind::Meta { collection, object } => {
                Ok(Outcome::Meta(self.object_meta(*collection, object)?))
            }
            RequestKind::OmapHeader { collection, object } => {
                let onode = self.existing(*collection, object)?;
                let header = match onode.has_omap {
                    true => self.meta.get(&keys::omap_header(onode.id).into())?,
                    false => None,
                };
                Ok(Outcome::OmapHeader(header.unwrap_or_default()))
            }
            RequestKind::OmapGet { collection, object, keys } => {
                self.omap_get(*collection, object, keys).map(Outcome::OmapPairs)
            }
            RequestKind::OmapList { collection, object, after, prefix, entries_max, bytes_max } => {
                let onode = self.existing(*collection, object)?;
                let page =
                    self.omap_page(onode.id, after.as_ref(), prefix, *entries_max, *bytes_max)?;
                Ok(Outcome::OmapPage(page))
            }
            RequestKind::List { collection, from, entries_max } => {
                self.list(*collection, from, *entries_max)
            }
            RequestKind::Collections => self.collections().map(Outcome::Collections),
            RequestKind::Usage => Ok(Outcome::Usage(self.usage())),
        }
    }

    fn object_meta(
        &mut self,
        at: Collection,
        object: &HObject,
    ) -> Result<Option<ObjectMeta>, Interrupt> {
        let Some(onode) = self.find(at, object)? else { return Ok(None) };
        let has_omap = onode.has_omap
            && (self.meta.get(&keys::omap_header(onode.id).into())?.is_some()
                || self.meta.has_any(&keys::omap_range(onode.id))?);
        Ok(Some(ObjectMeta { size: onode.size, attrs: onode.attrs, has_omap }))
    }

    fn omap_get(
        &mut self,
        at: Collection,
        object: &HObject,
        wanted: &[Bytes],
    ) -> Result<BTreeMap<Bytes, Bytes>, Interrupt> {
        let onode = self.existing(at, object)?;
        let mut pairs = BTreeMap::new();
        for key in wanted {
            if let Some(value) = self.meta.get(&keys::omap_point(onode.id, key))? {
                pairs.insert(key.clone(), value);
            }
        }
        Ok(pairs)
    }

    fn omap_page(
        &mut self,
        id: u64,
        after: Option<&Bytes>,
        prefix: &Bytes,
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<OmapPage, Interrupt> {
        let first = keys::omap(id, after.filter(|after| *after >= prefix).unwrap_or(prefix));
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(&first[..]),
            _ => Bound::Included(&first[..]),
        };
        let end = keys::omap_prefix_end(id, prefix);
        if entries_max == 0 {
            let more = !self.meta.search(from, &end, 1, usize::MAX)?.pairs.is_empty();
            return Ok(OmapPage { pairs: BTreeMap::new(), more });
        }
        // The caller's limit counts its own keys, without the prefix.
        let longer = keys::OMAP_PREFIX_LEN.saturating_mul(entries_max.min(bytes_max));
        let page = self.meta.search(from, &end, entries_max, bytes_max.saturating_add(longer))?;
        let within = |key: Bytes| key.slice(keys::OMAP_PREFIX_LEN..);
        let mut pairs = BTreeMap::new();
        let (mut bytes, mut more) = (0, page.more);
        for (key, value) in page.pairs {
            let key = within(key);
            bytes += key.len() + value.len();
            if bytes > bytes_max && !pairs.is_empty() {
                more = true;
                break;
            }
            pairs.insert(key, value);
        }
        Ok(OmapPage { pairs, more })
    }

    fn list(
        &mut self,
        at: Collection,
        from: &HObject,
        entries_max: usize,
    ) -> Result<Outcome, Interrupt> {
        let slices = self.slices(at)?;
        let mut names = self.meta.objects(&slices, from, entries_max.saturating_add(1))?;
        let next = (names.len() > entries_max).then(|| names.pop()).flatten();
        Ok(Outcome::List(names, next))
    }

    fn collections(&mut self) -> Result<Vec<Collection>, Interrupt> {
        let range = keys::collections_range();
        let from = Bound::Included(&range.start[..]);
        let page = self.meta.search(from, &range.end, usize::MAX, usize::MAX)?;
        let read = |key: &[u8]| keys::read_collection(key);
        let found = page.pairs.iter().map(|(key, _)| read(key));
        found.collect::<Result<_, _>>().map_err(Interrupt::decoding("collection key"))
    }

    pub fn usage(&self) -> Usage {
        let unit = crate::device::BLOCK as u64;
        let total = self.space.total();
        let bytes_available = self.available_blocks() * unit;
        let idle = self.idle_pages();
        Usage {
            bytes_total: total * unit,
            bytes_available,
            bytes_used: (total - self.space.free()).saturating_sub(idle) * unit,
            bytes_omap: self.superblock.counters.omap_bytes,
            bytes_meta: self.pages.used_pages() * unit,
            objects: self.counters.objects,
        }
    }

    /// Plans from which places the data of a read comes.
    fn plan_read(
        &mut self,
        at: Collection,
        object: &HObject,
        offset: u64,
        length: u64,
    ) -> Result<Plan, Interrupt> {
        let onode = self.existing(at, object)?;
        let end = offset.saturating_add(length).min(onode.size);
        if offset >= end {
            return Ok(Plan::Done(ReadData::default()));
        }
        let blocks = blocks_of(offset, end - offset);
        let segments = self.segments_of(&onode, blocks)?;
        Ok(ReadJob::plan(&segments, offset, end - offset, |mapped| {
            let deferred = self.deferred.get(mapped.physical).cloned();
            deferred
                .or_else(|| self.inflight.get(mapped.physical))
                .or_else(|| self.block_cache.get(mapped.physical, mapped.crc))
        }))
    }
}
