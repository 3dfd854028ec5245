//! The parts of a copy that do not depend on its role in the group.

pub(crate) mod persist;
mod queue;
mod settles;
pub(crate) mod settling;
pub(crate) mod steps;

pub(crate) use self::queue::{IntervalStored, StoreQueue};
pub(crate) use self::settles::Mark;
use self::settles::Settling;
use crate::backend::Backend;
use crate::backend::erasure::geometry::Geometry;
use crate::holding::Holding;
use crate::intervals::{Interval, PastIntervals};
use crate::leases::ReadLeases;
use crate::merge::Side;
use crate::message::{Body, Header};
use crate::rows::{ReadError, RowReads};
use crate::scrub::Order;
use crate::transfers::Transfers;
use crate::{
    EntryKind, Layout, LogEntry, MapChange, Member, Members, Missing, Osds, PgInfo, PgLog, Sizes,
};
use bytes::Bytes;
use engine::{Message, Time};
use erasure::Code;
use std::collections::VecDeque;
use std::sync::Arc;
use store::{Collection, RequestKind, StoreError};
use types::{EVersion, Epoch, HObject, OsdId, PgId, PgShard};

/// Identifies a request to the store in its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// A page of the group's meta object.
    Load,
    /// The store accepts transactions again after a refused one ([`RequestKind::Resume`]).
    Resumed,
    /// A write with its log entry: its version and interval.
    Write(EVersion, Epoch),
    /// A change of this copy's own state whose completion triggers nothing.
    Progress,
    /// The info and log of an activation, in an interval.
    Activated(Epoch),
    /// A piece of an object from another OSD, by job.
    Received(u64),
    /// The `last_backfill` of a backfill target, in an interval.
    Backfilled(Epoch),
    /// The removal of the collection.
    Removed,
    /// A step of splitting or merging the copy.
    SplitMerged,
    /// A page of the clone index of a copy that is split, or that is merged into this one.
    Index,
    /// A read for another member, by job.
    Source(u64),
    /// A read of rows of our own shard, by number, and the part of it.
    Rows(u64, usize),
    /// The names of a listing, by job.
    ScanPage(u64),
    /// The version of one object of a listing, by job and index.
    ScanObject(u64, usize),
}

impl Tag {
    /// Whether the request is a transaction, whose completion is counted.
    pub fn is_commit(self) -> bool {
        use Tag::*;
        match self {
            Write(..) | Progress | Activated(_) | Received(_) | Backfilled(_) => true,
            Removed | SplitMerged => true,
            Load | Resumed | Index | Source(_) | ScanPage(_) | ScanObject(..) => false,
            Rows(..) => false,
        }
    }
}

/// Effects for the OSD to carry out, in order.
#[derive(Debug)]
pub enum Output {
    /// Send a message to another OSD.
    Send {
        /// The receiver.
        to: OsdId,
        /// The encoded message.
        message: Message,
    },
    /// Submit a request to the store; its outcome goes to [`crate::Pg::handle_completion`] with the tag.
    Storage {
        /// Returns with the outcome.
        tag: Tag,
        /// The request.
        kind: RequestKind,
    },
    /// The write with this ticket is durable on all participants.
    Committed {
        /// See [`crate::Write::ticket`].
        ticket: u64,
    },
    /// Our own store refused the write with this ticket. Other members may have stored it, so the log of
    /// the next interval decides whether it happened.
    Refused {
        /// See [`crate::Write::ticket`].
        ticket: u64,
        /// The reason.
        error: StoreError,
    },
    /// The interval ends: nothing is served, and the outcome of these writes is unknown. Their requests
    /// must be tried again when the group is active.
    Interrupted {
        /// See [`crate::Write::ticket`]; oldest first.
        tickets: Vec<u64>,
        /// The members stay the same, so clients will not resend.
        members_stay: bool,
    },
    /// Requests are served from now on.
    Activated,
    /// The group is clean: all copies are complete and on their up set.
    Clean,
    /// The object is recovered, lost, or may be tried again: requests that wait for it can continue.
    Recovered {
        /// The object.
        object: HObject,
    },
    /// The store shows more committed changes than before: see [`crate::Pg::shows_committed`].
    Settled,
    /// The end of a read ([`crate::Pg::read_shards`]). A read that the end of an interval drops has none.
    Read {
        /// See [`crate::Read::ticket`].
        ticket: u64,
        /// The data, which ends where the object does.
        outcome: Result<Bytes, ReadError>,
    },
    /// Ask the monitor for [`crate::Pg::wanted_acting`] and [`crate::Pg::wanted_up_thru`].
    WantsMap,
    /// The group needs a newer map although no OSD went up or down. See [`crate::Pg::wants_interval`].
    WantsInterval,
    /// Call [`crate::Pg::time_passed`] at this time.
    WaitUntil(Time),
    /// Request a local reservation for backfill, as primary (`None`) or as target of this primary;
    /// answer with [`crate::Pg::reserved`].
    Reserve(Option<OsdId>),
    /// Cancel or give back the reservation.
    Release,
    /// The copy is removed from the store; forget this group.
    Removed,
    /// All transactions are completed: [`crate::Pg::divide`] or [`crate::Pg::merge_from`] can be called.
    Quiesced,
    /// The store has split or merged the copy: call [`crate::Pg::finish_split_merge`] on it and its parts.
    SplitMerged,
    /// The store failed, and never will split or merge the copy.
    SplitMergeFailed,
}

/// The state of a copy besides its role.
#[derive(Debug)]
pub(crate) struct Core {
    /// Identity and names; never changes after the copy is made.
    pub own: Own,
    /// Info, log and missing set.
    pub copy: LocalCopy,
    /// Map, interval and members.
    pub placement: Placement,
    /// Read leases granted by this OSD, and those of prior intervals.
    pub leases: ReadLeases,
    /// Transactions in flight.
    pub store_queue: StoreQueue,
    /// Held changes on their way into their objects.
    pub settling: Settling,
    /// Writes of a member's shard on their way to its store.
    pub holding: Holding,
    /// Whether disks are nearly full, and aborted intervals.
    pub space: Space,
    /// Objects being sent and received.
    pub transfers: Transfers,
    /// Rows of shards that are being read.
    pub rows: RowReads,
    /// Set in premerge: no writes and no repairs, so that the versions of all members stay the same.
    pub is_premerge: bool,
    /// Effects for the host, oldest first.
    pub outputs: VecDeque<Output>,
}

/// The identity of a copy, and its names in the store. Never changes.
#[derive(Debug)]
pub(crate) struct Own {
    /// The group.
    pub id: PgId,
    /// This OSD, and its shard of the group.
    pub whoami: Member,
    /// The collection with the objects.
    pub collection: Collection,
    /// The object with log, info and missing set, in the same collection.
    pub meta: HObject,
    /// Bounds of the log.
    pub sizes: Sizes,
}

/// The stored state of the copy besides its objects, and how far all members have it.
#[derive(Debug, Default)]
pub(crate) struct LocalCopy {
    /// Set if the collection exists, or its creation was submitted.
    pub created: bool,
    /// As it is stored, or in a transaction in flight.
    pub info: PgInfo,
    /// As it is stored, or in a transaction in flight.
    pub log: PgLog,
    /// Objects that the log knows and the store does not have.
    pub missing: Missing,
    /// Intervals since the group was last clean.
    pub past: PastIntervals,
    /// Set if `past` has all of them.
    pub knows_past: bool,
    /// An administrator's scrub order that is not carried out yet. Members tell it to a new primary.
    pub scrub_order: Option<Order>,
    /// All writes up to here are durable on all members. Not stored.
    pub committed: EVersion,
}

/// The group's place in the newest map.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    /// The newest map that was applied.
    pub epoch: Epoch,
    /// The first epoch of the present interval; zero before the first map.
    pub interval: Epoch,
    /// The members in the present interval.
    pub members: Members,
    /// The kind of the group.
    pub backend: Backend,
    /// The code of a group with shards; `None` if there is none for its layout.
    pub code: Option<Arc<Code>>,
    /// The OSDs of the newest map; `None` before the first map.
    pub osds: Option<Arc<Osds>>,
    /// Whether this OSD is up in its present incarnation.
    pub is_up: bool,
    /// The first absence ([`Core::absence`]) that began while the copy was not loaded.
    pub absent_in: Option<Epoch>,
}

/// Disk space and refusals in the present interval.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// Set while our own disk is nearly full.
    pub is_short: bool,
    /// The interval in which a member's store refused a transaction: that interval is aborted.
    pub stalled_in: Option<Epoch>,
}

impl Core {
    /// A group of which this OSD has no copy.
    pub fn new(id: PgId, whoami: Member) -> Self {
        Core {
            own: Own::new(id, whoami),
            copy: LocalCopy { info: PgInfo::of_new_copy(whoami.shard), ..LocalCopy::default() },
            placement: Placement::default(),
            leases: ReadLeases::default(),
            store_queue: StoreQueue::default(),
            settling: Settling::default(),
            holding: Holding::default(),
            space: Space::default(),
            transfers: Transfers::default(),
            rows: RowReads::default(),
            is_premerge: false,
            outputs: VecDeque::new(),
        }
    }

    /// Whether the map makes this copy the primary: of several shards of an OSD, the first that acts.
    pub fn is_primary(&self) -> bool {
        let (members, whoami) = (&self.placement.members, self.own.whoami);
        members.primary == Some(whoami.osd) && members.primary_member() == Some(whoami)
    }

    /// This copy as one side of a merge.
    pub fn side(&self) -> Side<'_> {
        let LocalCopy { info, log, missing, .. } = &self.copy;
        Side { log, missing, last_backfill: &info.last_backfill, settled: info.settled() }
    }

    /// The header of a message that is sent to a member now.
    pub fn header(&self, to: Member) -> Header {
        Header {
            pg: self.own.id,
            epoch: self.placement.epoch,
            interval: self.placement.interval,
            to: to.shard,
            from: self.own.whoami.shard,
        }
    }

    /// Queues a message to a member, with the present epoch and interval.
    pub fn send(&mut self, to: Member, body: &Body) {
        let message = body.encode(&self.header(to));
        self.outputs.push_back(Output::Send { to: to.osd, message });
    }

    /// Queues a request to the store. The outcome returns with the tag.
    pub fn ask_store(&mut self, tag: Tag, kind: RequestKind) {
        self.outputs.push_back(Output::Storage { tag, kind });
    }

    /// Adds the present interval to the past ones, although the next one has the same members; whether it
    /// did. A shard alone does not know which writes of it were committed, as a replica does: if the next one
    /// is never activated, and members leave, the others must know that this one was.
    pub fn note_forced_end(&mut self, epoch: Epoch, osds: Option<&Osds>) -> bool {
        let has_shards = matches!(self.placement.backend, Backend::Erasure(_));
        if has_shards {
            self.end_interval(epoch, None, osds);
        }
        has_shards
    }

    /// The first epoch of an absence that a map with other members tells of. The OSD gets the map late: if
    /// the copy acts in it, its beginning was not stored then. In a gap before its present life, it may have
    /// acted.
    pub fn absence(&self, change: &MapChange, gap_from: Option<Epoch>) -> Option<Epoch> {
        let own = self.own.whoami;
        let lives_since = change.osds.status(own.osd).up_from;
        let was_away = |first: &Epoch| !change.is_up || lives_since > *first;
        let acts_late = !change.is_up && self.placement.members.is_acting(own);
        gap_from.filter(was_away).or(acts_late.then_some(change.epoch))
    }

    /// Notes the beginning of an absence, unless an earlier one has not ended.
    pub fn note_absence(&mut self, first: Epoch) {
        let started = self.copy.info.last_epoch_started;
        let shard = self.copy.info.shard.as_mut();
        if let Some(shard) = shard.filter(|shard| shard.absent_since <= started) {
            shard.absent_since = first;
        }
    }

    /// A transaction has completed.
    pub fn note_completed(&mut self, is_stored: bool) -> bool {
        let has_settled = self.settling.note_completed();
        if let IntervalStored::OnWay(number) = self.store_queue.interval
            && is_stored
            && self.settling.has_completed(number)
        {
            self.store_queue.interval = IntervalStored::Durable;
        }
        has_settled
    }

    /// Adds the present interval, and the gap after it, to the past intervals.
    pub fn end_interval(&mut self, epoch: Epoch, gap_from: Option<Epoch>, osds: Option<&Osds>) {
        if self.placement.interval == Epoch(0) {
            return;
        }
        assert!(epoch >= self.placement.interval, "intervals follow each other");
        let last = Epoch(epoch.0 - 1);
        // After a gap, the last map of the interval is not known either.
        let seen = osds.filter(|_| gap_from.is_none());
        let end = gap_from.map_or(last, |first| Epoch(first.0.saturating_sub(1)));
        let interval = Interval::of(
            &self.placement.members,
            self.placement.interval,
            end.max(self.placement.interval),
            seen,
            self.placement.can_serve(),
        );
        match self.placement.members.layout {
            Layout::Replicated => self.copy.past.push(interval),
            Layout::Erasure(_) => self.copy.past.push_of_shards(interval),
        }
        if let Some(first) = gap_from {
            self.copy.past.push(Interval::gap(first, last));
        }
        self.copy.past.trim(self.copy.info.history.last_epoch_clean);
    }
}

impl Own {
    fn new(id: PgId, whoami: Member) -> Self {
        let shard = PgShard { pg: id, shard: whoami.shard };
        let (collection, meta) = (Collection(shard), crate::meta_object(id));
        Own { id, whoami, collection, meta, sizes: Sizes::default() }
    }
}

impl LocalCopy {
    /// The stored state alone tells that trimmed entries are committed, and changes that a shard has settled.
    pub fn begin_committed(&mut self) {
        let settled = self.info.shard.map_or(EVersion::ZERO, |shard| shard.settled);
        self.committed = self.info.log_tail.max(settled);
    }

    /// The version of an object according to the log; zero if the log does not have it.
    pub fn logged_version(&self, object: &HObject) -> EVersion {
        let mut entries = self.log.entries().rev();
        let last = entries.find(|entry| entry.changes_object() && entry.object == *object);
        last.map_or(EVersion::ZERO, |entry| entry.version)
    }

    /// The version that a store must show of an object, or a later one, once changes up to `through` are
    /// settled. `later` is a change of the object; without one, the log is searched. Zero if the log does not
    /// tell, or the object may be absent.
    pub fn least_version(
        &self,
        object: &HObject,
        later: Option<&LogEntry>,
        through: EVersion,
    ) -> EVersion {
        let Some(later) = later else {
            let mut settled = self.log.entries().rev().skip_while(|entry| entry.version > through);
            let last = settled.find(|entry| entry.changes_object() && entry.object == *object);
            let last = last.filter(|entry| entry.kind != EntryKind::Delete);
            return last.map_or(EVersion::ZERO, |entry| entry.version);
        };
        let (mut at, mut prior) = (later.version, later.prior_version);
        while prior > through && prior < at {
            at = prior;
            prior = self.log.entry(prior).map_or(EVersion::ZERO, |entry| entry.prior_version);
        }
        if prior <= through { prior } else { EVersion::ZERO }
    }

    /// Whether the newest change of the object in the log is its removal.
    pub fn is_removed(&self, object: &HObject) -> bool {
        let mut entries = self.log.entries().rev();
        let last = entries.find(|entry| entry.changes_object() && entry.object == *object);
        last.is_some_and(|entry| entry.kind == EntryKind::Delete)
    }

    /// Whether the log proves that no write of the object came after this version.
    pub fn is_unchanged_since(&self, object: &HObject, version: EVersion) -> bool {
        version >= self.log.tail() && !self.is_written_above(object, version)
    }

    /// Whether the log has a change of the object above this version.
    pub fn is_written_above(&self, object: &HObject, version: EVersion) -> bool {
        let mut entries = self.log.above(version);
        entries.any(|entry| entry.changes_object() && entry.object == *object)
    }

    /// Whether a write of the object is not durable on all participants, or one that may copy its shards:
    /// members hold the copying of shards, which must stay as they are until then.
    pub fn has_write_in_flight(&self, object: &HObject) -> bool {
        let mut uncertain = self.log.above(self.committed);
        let uses = |entry: &LogEntry| entry.object == *object || entry.may_copy(object);
        uncertain.any(|entry| entry.changes_object() && uses(entry))
    }
}

impl Placement {
    /// Takes the members of a new interval. A group whose layout this build does not know is never served.
    pub fn set_members(&mut self, members: Members) {
        self.backend = Backend::of(members.layout).unwrap_or_default();
        match members.layout {
            Layout::Replicated => self.code = None,
            Layout::Erasure(layout)
                if self.code.is_none() || members.layout != self.members.layout =>
            {
                self.code = layout.new_code().map(Arc::new);
            }
            Layout::Erasure(_) => {}
        }
        self.members = members;
    }

    /// Whether this build can serve groups of this layout.
    pub fn is_layout_known(&self) -> bool {
        match self.members.layout {
            Layout::Replicated => true,
            layout @ Layout::Erasure(_) => Backend::of(layout).is_some() && self.code.is_some(),
        }
    }

    /// The places of an object's bytes in its shards; `None` in a replicated group.
    pub fn geometry(&self) -> Option<Geometry> {
        match &self.members.layout {
            Layout::Replicated => None,
            Layout::Erasure(layout) => Geometry::new(layout),
        }
    }

    /// Whether the acting members are enough to serve requests.
    pub fn can_serve(&self) -> bool {
        self.backend.can_serve(&self.members)
    }

    /// Whether the newest map shows the OSD up; false before the first map.
    pub fn is_osd_up(&self, osd: OsdId) -> bool {
        self.osds.as_ref().is_some_and(|osds| osds.is_up(osd))
    }
}
