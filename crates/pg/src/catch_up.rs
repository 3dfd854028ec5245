//! Making this copy equal to another one.
//!
//! Where the logs overlap, the objects that either of them touched since they parted are fetched
//! whole; where they do not, all objects are compared by version. While that goes on, the copy is
//! marked as incomplete on disk, with the names of the objects in doubt, so that an interruption
//! at any point leaves it known what cannot be trusted. That mark is durable before the first object
//! changes, and the last object before the mark goes: a store may refuse any one transaction.

use crate::info::{self, Completeness};
use crate::message::{Body, Cursor, Listing, Push};
use crate::{LogEntry, Pg, PgInfo, PgLog, Tag};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use store::Change;
use types::{EVersion, HObject, OsdId};

/// Objects that are fetched at the same time.
const PULLS_MAX: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It is being stored that the copy is incomplete.
    Marking,
    Fetching,
    /// All is fetched and being stored.
    Storing,
}

#[derive(Debug)]
pub(crate) struct CatchUp {
    source: OsdId,
    stage: Stage,
    /// What this copy will be.
    info: PgInfo,
    log: PgLog,
    /// Objects to fetch, and those that are being fetched.
    needed: BTreeSet<HObject>,
    pulling: BTreeSet<HObject>,
    /// The comparison of all objects, if the logs do not tell.
    comparison: Option<Comparison>,
}

#[derive(Debug, Default)]
struct Comparison {
    /// The source's page that is being compared.
    page: Option<Listing>,
    own: BTreeMap<HObject, EVersion>,
}

fn is_ascending(tail: EVersion, entries: &[LogEntry], head: EVersion) -> bool {
    let above_tail = entries.first().is_none_or(|first| first.version > tail);
    let sorted = entries.windows(2).all(|pair| pair[0].version < pair[1].version);
    let last = entries.last().map_or(tail, |last| last.version);
    above_tail && sorted && last == head
}

impl Pg {
    pub(crate) fn begin_catch_up(&mut self, source: OsdId, info: PgInfo, entries: Vec<LogEntry>) {
        if !info.is_complete() || !is_ascending(info.log_tail, &entries, info.last_update) {
            tracing::error!(pg = %self.id, %source, "the log to follow contradicts its info");
            return;
        }
        let log = PgLog::new(info.log_tail, entries);
        let common = match self.info.completeness {
            Completeness::Backfilling => None,
            _ => self.log.common_with(&log),
        };
        let mut needed = self.missing.clone();
        if let Some(common) = common {
            let touched = log.above(common).chain(self.log.above(common));
            let changed = touched.filter(|entry| entry.changes_object());
            needed.extend(changed.map(|entry| entry.object.clone()));
        }
        let comparison = common.is_none().then(Comparison::default);
        self.mark_incomplete(&needed, comparison.is_some());
        let (stage, pulling) = (Stage::Marking, BTreeSet::new());
        self.catch_up = Some(CatchUp { source, stage, info, log, needed, pulling, comparison });
        self.go_on_catching_up();
    }

    /// Enters the next stage if nothing is on its way to the store.
    pub(crate) fn go_on_catching_up(&mut self) {
        let Some(catch_up) = &mut self.catch_up else { return };
        if self.commits_pending > 0 {
            return;
        }
        match catch_up.stage {
            Stage::Fetching => {}
            Stage::Storing => self.finish_catch_up(),
            Stage::Marking => {
                catch_up.stage = Stage::Fetching;
                match catch_up.comparison {
                    None => self.pull(),
                    Some(_) => self.list_from(HObject::hash_start(self.id.pool, 0)),
                }
            }
        }
    }

    fn list_from(&mut self, start: HObject) {
        if let Some(catch_up) = &self.catch_up {
            self.send(catch_up.source, &Body::List(start));
        }
    }

    fn mark_incomplete(&mut self, needed: &BTreeSet<HObject>, all: bool) {
        if needed.is_empty() && !all {
            return;
        }
        self.info.completeness = match all {
            true => Completeness::Backfilling,
            false => Completeness::Recovering,
        };
        self.missing.extend(needed.iter().cloned());
        let mut pairs: BTreeMap<Bytes, Bytes> =
            needed.iter().map(|object| (info::missing_key(object), Bytes::new())).collect();
        pairs.insert(info::INFO_KEY, codec::encode_to_bytes(&self.info));
        let mut transaction = self.transaction(1);
        self.set_meta(&mut transaction, pairs);
        self.commit(Tag::Progress, transaction);
    }

    /// Fetches what is needed, a few objects at a time; ends when nothing is left.
    fn pull(&mut self) {
        let Some(catch_up) = &mut self.catch_up else { return };
        let source = catch_up.source;
        let mut pulls = Vec::new();
        while catch_up.pulling.len() < PULLS_MAX {
            let Some(object) = catch_up.needed.pop_first() else { break };
            catch_up.pulling.insert(object.clone());
            pulls.push(Body::Pull(object, Cursor::default()));
        }
        let idle = catch_up.pulling.is_empty();
        pulls.iter().for_each(|pull| self.send(source, pull));
        if idle {
            self.next_page();
        }
    }

    pub(crate) fn pushed(&mut self, from: OsdId, mut push: Push) {
        let Some(catch_up) = &mut self.catch_up else { return };
        if catch_up.source != from || !catch_up.pulling.contains(&push.object) {
            return;
        }
        let next = push.next.take();
        if next.is_none() {
            catch_up.pulling.remove(&push.object);
        }
        let object = push.object.clone();
        self.store_piece(push);
        match next {
            Some(cursor) => self.send(from, &Body::Pull(object, cursor)),
            None => self.pull(),
        }
    }

    fn store_piece(&mut self, push: Push) {
        let mut transaction = self.transaction(6);
        let object = push.object;
        let mut change = |change| transaction.push(self.collection, change);
        if push.cursor.is_start() {
            change(Change::Remove { object: object.clone() });
        }
        if push.cursor.is_start() && push.attrs.is_none() {
            self.commit(Tag::Progress, transaction);
            return;
        }
        if let Some(attrs) = push.attrs {
            change(Change::Touch { object: object.clone() });
            change(Change::SetAttrs { object: object.clone(), attrs });
            // Holes at the end belong to the object.
            change(Change::Truncate { object: object.clone(), size: push.size });
        }
        if !push.data.is_empty() {
            let offset = push.cursor.data_offset;
            change(Change::Write { object: object.clone(), offset, data: push.data });
        }
        if !push.omap_header.is_empty() {
            change(Change::OmapSetHeader { object: object.clone(), header: push.omap_header });
        }
        if !push.omap.is_empty() {
            change(Change::OmapSet { object, pairs: push.omap });
        }
        self.commit(Tag::Progress, transaction);
    }

    /// Goes on with the comparison, or ends.
    fn next_page(&mut self) {
        let Some(catch_up) = &mut self.catch_up else { return };
        let next = match &mut catch_up.comparison {
            None => None,
            Some(comparison) => match comparison.page.take() {
                Some(page) => page.next,
                None => return,
            },
        };
        match next {
            Some(next) => self.list_from(next),
            None => {
                catch_up.stage = Stage::Storing;
                self.go_on_catching_up();
            }
        }
    }

    pub(crate) fn told_listing(&mut self, from: OsdId, listing: Listing) {
        let Some(catch_up) = &mut self.catch_up else { return };
        let Some(comparison) = &mut catch_up.comparison else { return };
        if catch_up.source != from || comparison.page.is_some() {
            return;
        }
        let start = listing.from.clone();
        comparison.page = Some(listing);
        comparison.own.clear();
        match self.created {
            true => self.scan(None, start),
            false => self.scanned_own(Vec::new(), None),
        }
    }

    /// A page of our own objects, to be compared with the source's page.
    pub(crate) fn scanned_own(&mut self, objects: Vec<(HObject, EVersion)>, next: Option<HObject>) {
        let Some(catch_up) = &mut self.catch_up else { return };
        let Some(comparison) = &mut catch_up.comparison else { return };
        let Some(page) = &comparison.page else { return };
        comparison.own.extend(objects);
        let end = page.next.clone();
        match next {
            Some(next) if end.as_ref().is_none_or(|end| next < *end) => self.scan(None, next),
            _ => self.compare(end),
        }
    }

    fn compare(&mut self, end: Option<HObject>) {
        let Some(catch_up) = &mut self.catch_up else { return };
        let comparison = catch_up.comparison.as_mut().expect("it is what led here");
        let page = comparison.page.as_ref().expect("it is what was compared with");
        let mut own = std::mem::take(&mut comparison.own);
        if let Some(end) = &end {
            own.split_off(end);
        }
        for (object, version) in &page.objects {
            if own.remove(object) != Some(*version) {
                catch_up.needed.insert(object.clone());
            }
        }
        // What is left, the source does not have.
        let mut transaction = self.transaction(own.len());
        for object in own.into_keys() {
            transaction.push(self.collection, Change::Remove { object });
        }
        if !transaction.is_empty() {
            self.commit(Tag::Progress, transaction);
        }
        self.pull();
    }

    fn finish_catch_up(&mut self) {
        let Some(CatchUp { info, log, .. }) = self.catch_up.take() else { return };
        self.info = info;
        self.log = log;
        self.missing.clear();
        let mut pairs: BTreeMap<Bytes, Bytes> = self
            .log
            .entries()
            .map(|entry| (info::log_key(entry.version), codec::encode_to_bytes(entry)))
            .collect();
        pairs.insert(info::INFO_KEY, codec::encode_to_bytes(&self.info));
        let mut transaction = self.transaction(3);
        self.remove_meta(&mut transaction, info::log_keys());
        self.remove_meta(&mut transaction, info::missing_keys());
        self.set_meta(&mut transaction, pairs);
        self.commit(Tag::CaughtUp(self.interval), transaction);
    }

    /// Objects that are still to be fetched, as far as is known.
    pub fn objects_missing(&self) -> usize {
        let known = self.catch_up.as_ref().map(|c| c.needed.len() + c.pulling.len());
        known.unwrap_or_default()
    }
}
