//! A copy that is stopped, and the transactions that split or merge it one after the other.

use super::index::Index;
use crate::Member;
use crate::core::steps::STEP_BYTES_MAX;
use crate::core::{Core, Output, Tag};
use crate::message::{Body, Header};
use crate::snaps::INDEX_PREFIX;
use crate::{Missing, PgInfo, PgLog};
use bytes::Bytes;
use std::collections::VecDeque;
use store::{Change, OmapPage, Outcome, RequestKind, StoreError, Transaction};

const PAGE_ENTRIES_MAX: usize = 512;
/// Messages that are kept while the copy is stopped. Further ones are dropped; primaries ask again.
const HELD_MAX: usize = 256;

/// A copy that is stopped until the store has split or merged it.
#[derive(Debug, Default)]
pub(crate) struct SplitMerge {
    /// `None` in a new part, which waits for the copy that is split.
    pub(super) progress: Option<Progress>,
    /// A query that arrived before the copy was stopped, while it was loaded.
    pub asked_by: Option<(Member, Header)>,
    held: Held,
}

/// The progress of a split or merge.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Set once [`Output::Quiesced`] was given.
    is_announced: bool,
    /// Set while a refused step waits for a retry.
    is_refused: bool,
    /// Set once the store had no space.
    lacks_space: bool,
    /// The state of this group afterwards.
    own: Option<Part>,
    /// Transactions that are still to be submitted, in order.
    steps: VecDeque<Transaction>,
    /// Set while pairs of the clone index are still to be copied, which happens before the last step.
    pub index: Option<Index>,
}

/// The state of one part, or of the merged copy.
#[derive(Debug)]
pub(crate) struct Part {
    /// Totals and versions of the part.
    pub info: PgInfo,
    /// Entries of the part's objects.
    pub log: PgLog,
    /// Missing objects of the part.
    pub missing: Missing,
}

/// Queries and infos that arrived while the copy was stopped.
#[derive(Debug, Default)]
struct Held(Vec<(Member, Header, Body)>);

impl Held {
    /// Keeps a query or an info; drops all else.
    fn push(&mut self, from: Member, header: &Header, body: Body) {
        if matches!(body, Body::Query | Body::Info(_)) && self.0.len() < HELD_MAX {
            self.0.push((from, *header, body));
        }
        assert!(self.0.len() <= HELD_MAX, "few messages are kept");
    }
}

impl SplitMerge {
    /// The map splits or merges the group.
    pub fn begin(&mut self) {
        self.progress = Some(Progress::default());
    }

    /// Whether the map has split or merged the copy itself. Otherwise it is a new part, which waits.
    pub fn is_begun(&self) -> bool {
        self.progress.is_some()
    }

    /// Whether the disk had no space for a step.
    pub fn lacks_space(&self) -> bool {
        self.progress.as_ref().is_some_and(|progress| progress.lacks_space)
    }

    /// Keeps a message until the copy takes part again, or drops it.
    pub fn hold(&mut self, from: Member, header: &Header, body: Body) {
        self.held.push(from, header, body);
    }

    /// Number of messages that are kept.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.held.0.len()
    }

    /// The end: the state of this group afterwards, and the messages that were kept.
    pub fn end(self) -> (Option<Part>, Vec<(Member, Header, Body)>) {
        (self.progress.and_then(|progress| progress.own), self.held.0)
    }

    /// All transactions are completed: reports that once.
    pub fn handle_quiesced(&mut self, core: &mut Core) {
        if let Some(progress) = &mut self.progress
            && !std::mem::replace(&mut progress.is_announced, true)
        {
            core.outputs.push_back(Output::Quiesced);
        }
    }

    pub(super) fn take_steps(&mut self, core: &mut Core, own: Part, steps: VecDeque<Transaction>) {
        if let Some(progress) = &mut self.progress {
            assert!(!steps.is_empty(), "the last step changes the collections");
            (progress.own, progress.steps) = (Some(own), steps);
        }
        self.take_step(core);
    }

    /// Submits the next step, or reports that the last one is durable.
    pub fn take_step(&mut self, core: &mut Core) {
        if self.progress.as_ref().is_some_and(|progress| progress.steps.len() == 1)
            && self.reads_index(core)
        {
            return;
        }
        let next = self.progress.as_mut().and_then(|progress| progress.steps.pop_front());
        match next {
            Some(transaction) => core.commit(Tag::SplitMerged, transaction),
            None => core.outputs.push_back(Output::SplitMerged),
        }
    }

    /// Requests the next page; false if there is none.
    fn reads_index(&self, core: &mut Core) -> bool {
        let index = self.progress.as_ref().and_then(|progress| progress.index.as_ref());
        let next = index.and_then(|index| index.next((core.own.collection, &core.own.meta)));
        let Some((collection, object, after)) = next else { return false };
        let kind = RequestKind::OmapList {
            collection,
            object,
            after,
            prefix: Bytes::from_static(&[INDEX_PREFIX]),
            entries_max: PAGE_ENTRIES_MAX,
            bytes_max: STEP_BYTES_MAX,
        };
        core.ask_store(Tag::Index, kind);
        true
    }

    /// Takes a page. Its pairs are stored next, for the parts or in this copy's index.
    pub fn index_read(
        &mut self,
        core: &mut Core,
        outcome: Result<Outcome, StoreError>,
    ) -> Result<(), StoreError> {
        let page = match outcome {
            Ok(Outcome::OmapPage(page)) => page,
            // Nothing was ever written.
            Err(StoreError::NoObject { .. }) => OmapPage::default(),
            Ok(other) => unreachable!("an omap page was answered by {other:?}"),
            Err(error) => return Err(error),
        };
        let Some(progress) = &mut self.progress else { return Ok(()) };
        let mut step = Transaction::new();
        match &mut progress.index {
            None => return Ok(()),
            Some(Index::Gathered(gathering)) => {
                if !gathering.advance(&page) {
                    progress.index = None;
                }
                if !page.pairs.is_empty() {
                    let (object, pairs) = (core.own.meta.clone(), page.pairs);
                    step.push(core.own.collection, Change::OmapSet { object, pairs });
                }
            }
            Some(Index::Dealt(dealing)) => {
                for (object, pairs) in dealing.deal(&page) {
                    step.push(core.own.collection, Change::OmapSet { object, pairs });
                }
                if !page.more {
                    let ranges = dealing.ranges();
                    progress.index = None;
                    let last = progress.steps.back_mut().expect("the last step waits");
                    for (first, end) in ranges {
                        let object = core.own.meta.clone();
                        let change = Change::OmapRemoveRange { object, first, last: end };
                        last.push(core.own.collection, change);
                    }
                }
            }
        }
        if !step.is_empty() {
            progress.steps.push_front(step);
        }
        self.take_step(core);
        Ok(())
    }

    /// The disk has no space for a step: the caller is to retry.
    pub fn step_refused(&mut self, core: &mut Core) {
        tracing::error!(pg = %core.own.id, osd = %core.own.whoami, "no room to divide the group");
        if let Some(progress) = &mut self.progress {
            (progress.is_refused, progress.lacks_space) = (true, true);
            progress.steps.clear();
        }
        core.outputs.push_back(Output::WantsInterval);
    }

    /// Tries a refused split or merge again; [`Output::Quiesced`] follows.
    pub fn retry(&mut self, core: &mut Core) {
        if let Some(progress) = &mut self.progress
            && std::mem::take(&mut progress.is_refused)
        {
            core.outputs.push_back(Output::Quiesced);
        }
    }
}
