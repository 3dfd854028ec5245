//! The state of a primary's writes in a group with shards: those that are not sent, and what it remembers
//! of those that are.

use crate::Member;
use crate::backend::erasure::plan::{Plan, RowRead, ShardOp};
use crate::holding::Layers;
use crate::rows::OwnRead;
use bytes::Bytes;
use engine::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{EVersion, HObject};

/// The writes of a primary that are not sent, and what it remembers of those that are. Empty in a replicated
/// group.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    pub(super) queue: VecDeque<Queued>,
    /// Rows of writes that are not settled.
    pub(super) overlay: Layers,
    /// Changes up to here are older than the interval, and not in the overlay.
    pub(super) base: EVersion,
    /// All participants were told that writes up to here are committed.
    pub(super) told: EVersion,
    pub(super) timer: Timer,
    /// A write whose old rows cannot be read, and their object: the interval is to be aborted.
    pub(super) unreadable: Option<(EVersion, HObject)>,
    /// The newest write of an object that a member misses; zero once it is committed. Until then the
    /// object may be missing again, and shards of former members may be needed.
    pub(super) superseding: EVersion,
}

/// When members are told of commits although nothing is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Timer {
    #[default]
    Off,
    /// The time is asked for.
    Asked,
    At(Time),
}

/// A write that is not sent.
#[derive(Debug)]
pub(super) struct Queued {
    /// The encoded entries of other objects, and then that of the write.
    pub entries: Vec<(EVersion, Bytes)>,
    /// The object and its clones.
    pub family: HObject,
    /// Its changes, or the plan of them.
    pub content: Content,
    /// Participants that get the entries only.
    pub skipping: BTreeSet<Member>,
    /// Changes of the group's totals: objects, clones, bytes.
    pub totals: (i64, i64, i64),
}

/// The changes of the shards.
#[derive(Debug)]
pub(super) enum Content {
    Planned(Box<Planned>),
    /// By position.
    Whole(Vec<Vec<ShardOp>>),
}

/// Changes that depend on old rows.
#[derive(Debug)]
pub(super) struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Old rows that it needs, as far as they are here.
    pub old: BTreeMap<RowRead, Bytes>,
    /// Set while rows are read.
    pub is_reading: bool,
    /// The read of our own shard, if that is the one.
    pub own_read: Option<OwnRead>,
    /// Set if that has failed: a job finds out why, and reads other shards.
    pub needs_job: bool,
    /// Set if a row must be decoded.
    pub must_decode: bool,
}

impl Planned {
    /// A plan without any rows.
    pub fn new(plan: Plan) -> Self {
        let (is_reading, own_read, needs_job, must_decode) = (false, None, false, false);
        Planned { plan, old: BTreeMap::new(), is_reading, own_read, needs_job, must_decode }
    }
}

impl Queued {
    /// The version of the write.
    pub fn version(&self) -> EVersion {
        self.entries.last().expect("a write has an entry").0
    }
}

impl Pipeline {
    /// Whether all writes are sent.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Forgets everything: the interval ends.
    pub fn clear(&mut self) {
        *self = Pipeline::default();
    }

    /// A write whose old rows cannot be read, and their object.
    pub fn unreadable(&self) -> Option<&(EVersion, HObject)> {
        self.unreadable.as_ref()
    }

    /// Adds a write behind all others.
    pub(super) fn push(&mut self, write: Queued) {
        assert!(self.queue.back().is_none_or(|before| before.version() < write.version()));
        self.queue.push_back(write);
    }

    /// The plan of a write, unless its changes are known.
    pub(super) fn planned_mut(&mut self, version: EVersion) -> Option<&mut Planned> {
        let write = self.queue.iter_mut().find(|write| write.version() == version)?;
        match &mut write.content {
            Content::Planned(planned) => Some(planned),
            Content::Whole(_) => None,
        }
    }
}
