//! The copy of a group on this OSD: its state, and the dispatch of what arrives.

use crate::backfill::Backfill;
use crate::intervals::PastIntervals;
use crate::leases::Readers;
use crate::message::{Body, Header};
use crate::peers::Peer;
use crate::receive::Receiving;
use crate::recovery::Recovery;
use crate::replicate::InFlight;
use crate::reshape::{Held, Reshaping};
use crate::scrub::Order;
use crate::source::Sources;
use crate::stall::Room;
use crate::{Members, Missing, Osds, PgInfo, PgLog, Sizes};
use engine::{Message, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use store::{Collection, Outcome, RequestKind, StoreError};
use types::{EVersion, Epoch, HObject, OsdId, PgId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Reads its log from the store.
    Loading,
    /// Not a member (any more).
    Stray,
    /// A member that waits for its primary.
    Replica,
    ReplicaActive,
    /// The primary asks who has what.
    GetInfo,
    /// The primary fetches the log of the best copy.
    GetLog,
    /// The primary asks what members lack.
    GetMissing,
    /// The primary has asked the monitor to let others serve, who can.
    WaitActingChange,
    /// The primary makes sure that the map says that it lives in this interval.
    WaitUpThru,
    /// The primary waits until all have stored that they follow its log.
    Activating,
    /// All have; but an earlier primary may still answer reads.
    WaitReadable,
    Active,
    /// All follow the primary, but they are fewer than the pool demands.
    Inactive,
    /// OSDs that may have gone on alone are down.
    Down,
    /// No copy within reach is filled in and new enough.
    Incomplete,
    /// The store refused a write; its answers to what else was submitted are awaited.
    Refused,
    /// A member's store refused something: waits for another interval.
    Stalled,
    /// Stands still until the store has divided it.
    Reshaping,
    /// The store failed: nothing is served, the other members still have their copies.
    Failed,
}

/// Names a request to the store, for its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    Load,
    Resumed,
    /// A write with its log entry, in an interval.
    Write(EVersion, Epoch),
    /// Something about this copy; only durability in order matters.
    Progress,
    Activated(Epoch),
    /// A piece of an object from another OSD.
    Received(u64),
    /// A step of being filled in, in an interval.
    Backfilled(Epoch),
    Removed,
    /// A step of dividing or merging the copy.
    Reshaped,
    /// A page of the index of clones, of a copy that is divided, or merged into this one.
    Index,
    /// A read for another member.
    Source(u64),
    /// The page of names, or one object's version, of a listing.
    ScanPage(u64),
    ScanObject(u64, usize),
}

impl Tag {
    pub fn is_commit(self) -> bool {
        use Tag::*;
        match self {
            Write(..) | Progress | Activated(_) | Received(_) | Backfilled(_) => true,
            Removed | Reshaped => true,
            Load | Resumed | Index | Source(_) | ScanPage(_) | ScanObject(..) => false,
        }
    }
}

/// What the OSD is to do.
#[derive(Debug)]
pub enum Output {
    Send {
        to: OsdId,
        message: Message,
    },
    Storage {
        tag: Tag,
        kind: RequestKind,
    },
    /// The write with this ticket is durable on all acting members.
    Committed {
        ticket: u64,
    },
    /// Our own store refused the write with this ticket. It may have happened nevertheless: the log of
    /// the next interval tells.
    Refused {
        ticket: u64,
        error: StoreError,
    },
    /// The members may have changed: nothing is served, and of these writes it is not known whether they
    /// will have happened. Their requests are to be tried again when the group is active.
    Interrupted {
        tickets: Vec<u64>,
        /// Nobody but us notices, for the members stay the same: clients go on as before.
        members_stay: bool,
    },
    /// Requests are served (again).
    Activated,
    /// Nothing is missing any more, and all are where they belong.
    Clean,
    /// An object that requests may wait for is where it belongs.
    Recovered {
        object: HObject,
    },
    /// The monitor is to be asked for what [`Pg::wanted_acting`] and [`Pg::wanted_up_thru`] say.
    WantsMap,
    /// It takes a newer map to go on, although no OSD came or went. See [`Pg::wants_interval`].
    WantsInterval,
    /// [`Pg::time_passed`] is to be called at this time.
    WaitUntil(Time),
    /// Whether this group may be filled in, as primary or (with the primary's name) as target, is to
    /// be decided; or that is over.
    Reserve(Option<OsdId>),
    Release,
    /// The copy is gone; forget this group.
    Removed,
    /// The store has confirmed everything: [`Pg::divide`] can be called.
    Quiet,
    /// The copy is divided: it and its parts are to [`Pg::take_shape`].
    Reshaped,
    /// It never will be.
    ReshapeFailed,
}

/// A map, as far as a group depends on it.
#[derive(Debug, Clone)]
pub struct MapChange {
    pub epoch: Epoch,
    pub osds: Arc<Osds>,
    /// Whether the map shows this OSD up, as it runs now.
    pub is_up: bool,
    /// Whether maps before it were not to be had.
    pub is_gap: bool,
    /// Whether it is certain that the group begins to exist with this map.
    pub is_new: bool,
}

#[derive(Debug)]
pub struct Pg {
    pub(crate) id: PgId,
    pub(crate) whoami: OsdId,
    pub(crate) collection: Collection,
    pub(crate) meta: HObject,
    pub(crate) state: State,
    pub(crate) sizes: Sizes,
    /// Whether the collection exists, or its creation was submitted.
    pub(crate) created: bool,
    pub(crate) info: PgInfo,
    pub(crate) log: PgLog,
    /// Objects that the log knows and the store does not have; stored.
    pub(crate) missing: Missing,
    /// Intervals since the group was last clean; stored.
    pub(crate) past: PastIntervals,
    /// Whether those are all.
    pub(crate) knows_past: bool,

    pub(crate) epoch: Epoch,
    pub(crate) interval: Epoch,
    pub(crate) members: Members,
    /// Of the last map, if it was seen.
    pub(crate) osds: Option<Arc<Osds>>,
    pub(crate) is_up: bool,

    /// What time it is, and until when a promise to the present primary holds that was made here.
    pub(crate) now: Time,
    pub(crate) promised: Time,
    pub(crate) readers: Readers,

    /// Writes that are not durable everywhere, oldest first.
    pub(crate) in_flight: VecDeque<InFlight>,
    /// Everything up to here is durable on all members.
    pub(crate) committed: EVersion,
    /// Transactions that the store has not confirmed, with the one that is due.
    pub(crate) commits_pending: usize,
    /// Whether the interval is to be stored ([`Pg::store_interval`]).
    pub(crate) is_store_due: bool,

    /// What other OSDs said they have, in this interval.
    pub(crate) peers: BTreeMap<OsdId, Peer>,
    /// Who takes part in writes: acting members, and those that are being filled in.
    pub(crate) participants: Vec<OsdId>,
    /// Whom the present state waits for.
    pub(crate) waiting: BTreeSet<OsdId>,
    /// Whom it cannot go on without.
    pub(crate) blocked_by: BTreeSet<OsdId>,
    /// Who was asked what it has.
    pub(crate) asked: BTreeSet<OsdId>,
    /// The holder of the best copy.
    pub(crate) authority: Option<OsdId>,
    /// Who should be acting instead; nobody in particular if empty: those who are up.
    pub(crate) wanted: Option<Vec<OsdId>>,
    /// A primary that wants to know what we have, while transactions are on their way.
    pub(crate) asked_by: Option<OsdId>,
    pub(crate) is_clean: bool,
    pub(crate) recovery: Recovery,
    pub(crate) backfill: Backfill,
    pub(crate) receiving: Receiving,
    pub(crate) sources: Sources,
    pub(crate) room: Room,
    /// Whether it is at rest, so that what all members have of it can be named and merged.
    pub(crate) is_resting: bool,
    /// What an administrator wants compared, and was not yet. Members tell a new primary.
    pub(crate) scrub_order: Option<Order>,
    pub(crate) reshaping: Option<Reshaping>,
    pub(crate) held: Held,
    pub(crate) outputs: VecDeque<Output>,
}

impl Pg {
    /// A group of which nothing is known here.
    pub fn new(id: PgId, whoami: OsdId) -> Self {
        Pg {
            id,
            whoami,
            collection: Collection(id),
            meta: crate::meta_object(id),
            state: State::Stray,
            sizes: Sizes::default(),
            created: false,
            info: PgInfo::default(),
            log: PgLog::default(),
            missing: Missing::default(),
            past: PastIntervals::default(),
            knows_past: false,
            epoch: Epoch(0),
            interval: Epoch(0),
            members: Members::default(),
            osds: None,
            is_up: false,
            now: Time::ZERO,
            promised: Time::ZERO,
            readers: Readers::default(),
            in_flight: VecDeque::new(),
            committed: EVersion::ZERO,
            commits_pending: 0,
            is_store_due: false,
            peers: BTreeMap::new(),
            participants: Vec::new(),
            waiting: BTreeSet::new(),
            blocked_by: BTreeSet::new(),
            asked: BTreeSet::new(),
            authority: None,
            wanted: None,
            asked_by: None,
            is_clean: false,
            recovery: Recovery::default(),
            backfill: Backfill::default(),
            receiving: Receiving::default(),
            sources: Sources::default(),
            room: Room::default(),
            is_resting: false,
            scrub_order: None,
            reshaping: None,
            held: Held::default(),
            outputs: VecDeque::new(),
        }
    }

    pub fn with_sizes(self, sizes: Sizes) -> Self {
        Pg { sizes, ..self }
    }

    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Frees the memory of outputs that were taken. Of very many groups all have some after a map, and few
    /// in service, where the memory is used again.
    pub fn release_outputs(&mut self) {
        self.outputs.shrink_to_fit();
    }

    /// A message of another OSD whose epoch is not beyond ours.
    pub fn handle_message(&mut self, from: OsdId, header: &Header, body: Body) {
        match self.state {
            State::Failed => return,
            State::Reshaping => return self.held.push(from, header, body),
            State::Loading | State::Refused => {
                if body == Body::Query {
                    self.room.asked_meanwhile = Some((from, *header));
                }
                return;
            }
            _ => {}
        }
        match body {
            Body::Query => self.queried(from, header),
            // Maps are walked one by one: who has seen this interval begin means this interval.
            _ if header.epoch < self.interval => {}
            Body::Info(notice) => self.told_info(from, notice),
            Body::Log(part) => self.told_log(from, *part),
            Body::Activated => self.told_activated(from),
            Body::Replicated(version) => self.told_replicated(from, version),
            Body::Push(push) => self.pushed(from, *push),
            Body::Pushed(object, next, has_room) => self.told_pushed(from, &object, next, has_room),
            Body::Listing(listing) => self.told_listing(from, listing),
            Body::Backfilled(through) => self.told_backfilled(from, through),
            Body::Reserved(granted) => self.told_reserved(from, granted),
            Body::Room(has_room) => self.told_room(from, has_room),
            Body::Stalled => self.told_stalled(from),
            Body::Unreadable(object) => self.told_unreadable(from, &object),
            _ if self.members.primary != Some(from) => {}
            Body::LogRequest => self.asked_for_log(from),
            Body::Activate(activation) => self.told_to_activate(*activation),
            Body::History(history) => self.told_history(&history),
            Body::Replicate(write) => self.told_to_replicate(*write),
            Body::Pull(object, cursor) => self.pulled(from, object, cursor),
            Body::List(start) => self.asked_to_list(from, start),
            Body::Damaged(object, version) => self.told_damaged(&object, version),
            Body::Backfill(through, removed) => self.told_to_backfill(through, removed),
            Body::Reserve => self.asked_to_reserve(from),
            Body::Release => self.told_to_release(),
            Body::Remove => self.told_to_remove(),
        }
    }

    pub fn handle_completion(&mut self, tag: Tag, outcome: Result<Outcome, StoreError>) {
        if tag.is_commit() {
            self.commits_pending -= 1;
        }
        let is_removed = matches!((tag, &outcome), (Tag::Removed, Ok(_)));
        match (tag, outcome) {
            (Tag::Received(job), Err(StoreError::NoSpace { .. } | StoreError::TooLarge { .. })) => {
                self.piece_refused(job)
            }
            (Tag::Reshaped, Err(StoreError::NoSpace { .. })) => self.shape_refused(),
            (Tag::Reshaped, Err(error)) => self.fail(&error),
            (tag, Err(error)) if tag.is_commit() => match error {
                // What it asks for, or needs of what the medium lost, is not to be had.
                StoreError::NoSpace { .. }
                | StoreError::TooLarge { .. }
                | StoreError::Corrupt { .. }
                | StoreError::Behind(_) => self.refused(tag, error),
                _ => self.fail(&error),
            },
            (tag, outcome) => self.dispatch_completion(tag, outcome),
        }
        if self.commits_pending == 0 {
            self.drained();
        }
        // Whoever takes this looks at no output behind it. The group may have come back meanwhile.
        if is_removed && self.state == State::Stray && !self.created {
            self.outputs.push_back(Output::Removed);
        }
    }

    fn dispatch_completion(&mut self, tag: Tag, outcome: Result<Outcome, StoreError>) {
        match tag {
            Tag::Load => self.loaded(outcome),
            Tag::Write(version, interval) => self.stored_write(version, interval),
            Tag::Resumed | Tag::Progress | Tag::Removed => {}
            Tag::Activated(interval) => self.stored_activated(interval),
            Tag::Reshaped => self.take_step(),
            Tag::Index => self.index_read(outcome),
            Tag::Received(job) => self.stored_piece(job),
            Tag::Backfilled(interval) => self.stored_backfill(interval),
            Tag::Source(job) => self.source_read(job, outcome),
            Tag::ScanPage(job) => self.scan_page(job, outcome),
            Tag::ScanObject(job, index) => self.scan_object(job, index, outcome),
        }
    }

    /// The store could not do what it must: whatever was submitted since is uncertain here.
    pub(crate) fn fail(&mut self, error: &StoreError) {
        if self.state != State::Failed {
            tracing::error!(pg = %self.id, osd = %self.whoami, %error, "the copy is out of service");
            self.state = State::Failed;
            self.interrupt_writes(false);
            self.end_backfill();
            if self.reshaping.is_some() {
                self.outputs.push_back(Output::ReshapeFailed);
            }
        }
    }

    pub(crate) fn interrupt_writes(&mut self, members_stay: bool) {
        let tickets = self.in_flight.drain(..).map(|write| write.ticket).collect();
        self.outputs.push_back(Output::Interrupted { tickets, members_stay });
    }

    /// A group that is going to be merged takes no more writes, or does again. Until then nothing of it is repaired,
    /// either: that would give it another version than it has told, or make a copy incomplete.
    pub fn rest(&mut self, rests: bool) {
        self.is_resting = rests;
    }

    pub fn scrub_order(&self) -> Option<Order> {
        self.scrub_order
    }

    /// The order to scrub that is to be told to other primaries. Storing it is the OSD's affair.
    pub fn set_scrub_order(&mut self, order: Option<Order>) {
        self.scrub_order = order;
    }

    pub(crate) fn header(&self) -> Header {
        Header { pg: self.id, epoch: self.epoch, interval: self.interval }
    }

    pub(crate) fn send(&mut self, to: OsdId, body: &Body) {
        let message = body.encode(&self.header());
        self.outputs.push_back(Output::Send { to, message });
    }

    pub(crate) fn ask_store(&mut self, tag: Tag, kind: RequestKind) {
        self.outputs.push_back(Output::Storage { tag, kind });
    }

    /// Checks what must always hold.
    pub fn check_invariants(&self) {
        assert_eq!(self.log.tail(), self.info.log_tail, "the info knows the log's tail");
        assert!(self.committed <= self.log.head() || !self.is_active());
        if self.is_active() {
            assert!(self.is_primary() && self.info.is_complete());
            assert_eq!(self.log.head(), self.info.last_update);
        }
        // While the copy is read, its info is there before what it lacks.
        let is_read = self.state != State::Loading;
        if is_read && self.missing.is_empty() && self.info.is_complete() {
            assert_eq!(self.info.last_complete, self.info.last_update, "{:?}", self.state);
        }
        assert!(self.in_flight.iter().is_sorted_by_key(|write| write.version));
    }
}
