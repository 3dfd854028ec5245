//! The context of an object with requests: its state in memory, its queue, and the rules by which a
//! request may run on it.

use crate::execute::ObjectState;
use crate::operations::keys::ObjectKey;
use crate::operations::request::Request;
use crate::operations::snapshots::PoolSnapshots;
use crate::watches::GroupWatches;
use pg::Pg;
use std::collections::VecDeque;
use stdx::Slab;
use types::{EVersion, HObject, PgShard, SnapId};

/// The contexts of all groups.
#[derive(Debug, Default)]
pub(crate) struct Contexts(Slab<ObjectContext>);

impl Contexts {
    pub fn get(&self, object: ObjectKey) -> Option<&ObjectContext> {
        self.0.get(object.0)
    }

    pub fn get_mut(&mut self, object: ObjectKey) -> Option<&mut ObjectContext> {
        self.0.get_mut(object.0)
    }

    /// Adds the context of an object that has none.
    pub fn insert(&mut self, context: ObjectContext) -> ObjectKey {
        ObjectKey(self.0.insert(context))
    }

    pub fn remove(&mut self, object: ObjectKey) -> Option<ObjectContext> {
        self.0.remove(object.0)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// An object with requests in progress or recent ones.
#[derive(Debug, Default)]
pub(crate) struct ObjectContext {
    pub pg: PgShard,
    pub name: HObject,
    /// The state that the writes in flight will leave; `None` until loaded.
    pub state: Option<ObjectState>,
    pub is_loading: bool,
    /// On a replica: the version of the group's log up to which `state` is current.
    pub valid_through: EVersion,
    /// Reads that have begun and are not answered, in order of arrival. No write begins meanwhile.
    pub readers: Vec<u64>,
    /// A write is loading; no other request begins meanwhile.
    pub has_writer: bool,
    /// That write, if it is a copy; and whether it is complete except for readers of this object.
    pub copier: Option<u64>,
    pub is_parked: bool,
    pub writes_in_flight: usize,
    /// The object existed when this context was created, and was removed since.
    pub is_removed: bool,
    /// Requests in order of arrival.
    pub queue: VecDeque<u64>,
    /// The clone that was read last, with its state.
    pub clone: Option<(SnapId, Box<ObjectState>)>,
}

/// Whether a request may run on an object that is being recovered or cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    Runs,
    /// Waits until the object is recovered.
    Waits,
    /// Fails, because the object is lost.
    Fails,
}

/// Outcome of an attempt to run a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is done with its object, or its write is in flight.
    Ran,
    /// It waits for loads, for memory, for a lease, or for its turn to be answered.
    Begun,
    /// It must wait until the writes in flight are durable, or until a clone is recovered.
    Blocked,
}

impl ObjectContext {
    /// The context of an object that is not loaded.
    pub fn new(pg: PgShard, name: HObject) -> Self {
        ObjectContext { pg, name, ..ObjectContext::default() }
    }

    /// Whether nothing is left of the object after the request, as far as is known.
    pub fn vanishes(&self, request: &Request, snapshots: &PoolSnapshots) -> bool {
        let has_snaps = || match &self.state {
            None => false,
            Some(state) => state.snaps.is_some() || snapshots.has_any(request),
        };
        request.only_deletes() && !has_snaps()
    }

    /// Whether a request depends on no state of the object, as far as is known. Writing new data keeps
    /// xattrs, omap and watches, so there must be none, or the request must remove the object first.
    fn is_replaced_by(&self, request: &Request) -> bool {
        let is_bare = |state: &ObjectState| {
            !state.is_guess
                && state.xattrs.is_empty()
                && !state.info.has_omap
                && state.info.watchers.is_empty()
        };
        request.replaces_object()
            && (request.removes_first() || self.state.as_ref().is_none_or(is_bare))
    }

    /// Whether no request needs the context.
    pub fn is_idle(&self) -> bool {
        !self.is_loading
            && self.readers.is_empty()
            && !self.has_writer
            && self.writes_in_flight == 0
            && self.queue.is_empty()
    }

    /// Whether the context may be evicted from memory.
    pub fn may_go(&self, watches: &GroupWatches) -> bool {
        self.is_idle() && !watches.contains(&self.name)
    }

    /// Whether a request may run, as far as recovery of its object is concerned.
    pub fn availability(
        &self,
        pg: &Pg,
        snapshots: &PoolSnapshots,
        request: &Request,
    ) -> Availability {
        let object = &self.name;
        if pg.is_whole()
            || !pg.is_primary()
            || !pg.is_blocked(object, request.may_write(), self.vanishes(request, snapshots))
        {
            return Availability::Runs;
        }
        match pg.is_lost(object) {
            false => Availability::Waits,
            true if self.is_replaced_by(request) || request.asks_of_clones() => Availability::Runs,
            true => Availability::Fails,
        }
    }

    /// Forgets the state of an object that may have been read wrong, unless requests rely on it.
    pub fn forget_state(&mut self) {
        if self.writes_in_flight == 0 && !self.has_writer && self.readers.is_empty() {
            self.state = None;
            self.clone = None;
        }
    }
}
