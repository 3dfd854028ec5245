//! The copy of a group on this OSD: its state, and the dispatch of what arrives.

use crate::catch_up::CatchUp;
use crate::message::{Body, Header};
use crate::replicate::InFlight;
use crate::source::Sources;
use crate::stall::Room;
use crate::{PgInfo, PgLog, info};
use bytes::Bytes;
use engine::Message;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::{Change, Collection, Outcome, RequestKind, StoreError, Transaction};
use types::{EVersion, Epoch, HObject, OsdId, PgId};

/// Who holds a group, and how many of them it needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Members {
    pub up: Vec<OsdId>,
    pub acting: Vec<OsdId>,
    pub primary: Option<OsdId>,
    /// For each acting member since when it is up: one that restarted is another one.
    pub up_from: Vec<Epoch>,
    pub size: usize,
    pub min_size: usize,
}

/// The OSDs around a group that are not its acting members, but may have been.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Others {
    /// All OSDs that are up, and since when: one that restarted is another one.
    pub up: Vec<(OsdId, Epoch)>,
    /// OSDs that are down, may come back and were up when the group existed already; since when.
    pub down: Vec<(OsdId, Epoch)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Reads its log from the store.
    Loading,
    /// Not a member (any more).
    Stray,
    /// A member that waits for its primary.
    Replica,
    /// A member whose copy is being made equal to the primary's.
    CatchingUp,
    ReplicaActive,
    /// The primary asks who has what.
    GetInfo,
    /// The primary fetches the log of the best copy.
    GetLog,
    /// The primary makes its own copy equal to that.
    Recovering,
    /// The primary waits until the members have made theirs equal.
    Equalizing,
    /// The primary waits until all have stored that they are equal.
    Activating,
    Active,
    /// The primary has fewer members than the pool demands.
    Inactive,
    /// No copy within reach is whole and new enough.
    Incomplete,
    /// The store had no room for a write; its answers to what else was submitted are awaited.
    Refused,
    /// A member's store had no room: waits for another interval.
    Stalled,
    /// The store failed: nothing is served, the other members still have their copies.
    Failed,
}

/// Names a request to the store, for its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    Load,
    /// A write with its log entry, in an interval.
    Write(EVersion, Epoch),
    /// Progress of catching up; only durability in order matters.
    Progress,
    CaughtUp(Epoch),
    Activated(Epoch),
    Removed,
    /// A read for another member.
    Source(u64),
    /// The page of names, or one object's version, of a listing.
    ScanPage(u64),
    ScanObject(u64, usize),
}

impl Tag {
    fn is_commit(self) -> bool {
        use Tag::*;
        matches!(self, Write(..) | Progress | CaughtUp(_) | Activated(_) | Removed)
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
    /// The members changed: nothing is served, and of these writes it is not known whether they
    /// will have happened. Their requests are to be tried again when the group is active.
    Interrupted {
        tickets: Vec<u64>,
    },
    /// Requests are served (again).
    Activated,
    /// It takes a newer map to go on, although no OSD came or went. See [`Pg::wants_interval`].
    WantsInterval,
    /// The copy is gone; forget this group.
    Removed,
}

#[derive(Debug)]
pub struct Pg {
    pub(crate) id: PgId,
    pub(crate) whoami: OsdId,
    pub(crate) collection: Collection,
    pub(crate) meta: HObject,
    pub(crate) state: State,
    /// Whether the collection exists, or its creation was submitted.
    pub(crate) created: bool,
    pub(crate) info: PgInfo,
    pub(crate) log: PgLog,
    /// Objects that an interrupted recovery may have left in any state; stored.
    pub(crate) missing: BTreeSet<HObject>,

    pub(crate) epoch: Epoch,
    pub(crate) interval: Epoch,
    pub(crate) members: Members,
    pub(crate) others: Others,

    /// Writes that are not durable everywhere, oldest first.
    pub(crate) in_flight: VecDeque<InFlight>,
    /// Everything up to here is durable on all members.
    pub(crate) committed: EVersion,
    /// Transactions that the store has not confirmed.
    pub(crate) commits_pending: usize,

    /// What other OSDs said they have, in this interval.
    pub(crate) peers: BTreeMap<OsdId, Option<PgInfo>>,
    /// Whom the present state waits for.
    pub(crate) waiting: BTreeSet<OsdId>,
    /// The holder of the best copy.
    pub(crate) authority: Option<OsdId>,
    /// A primary that asked what we have, while transactions were on their way.
    pub(crate) asked_by: Option<OsdId>,
    pub(crate) catch_up: Option<CatchUp>,
    pub(crate) sources: Sources,
    pub(crate) room: Room,
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
            created: false,
            info: PgInfo::default(),
            log: PgLog::default(),
            missing: BTreeSet::new(),
            epoch: Epoch(0),
            interval: Epoch(0),
            members: Members::default(),
            others: Others::default(),
            in_flight: VecDeque::new(),
            committed: EVersion::ZERO,
            commits_pending: 0,
            peers: BTreeMap::new(),
            waiting: BTreeSet::new(),
            authority: None,
            asked_by: None,
            catch_up: None,
            sources: Sources::default(),
            room: Room::default(),
            outputs: VecDeque::new(),
        }
    }

    pub fn id(&self) -> PgId {
        self.id
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn info(&self) -> &PgInfo {
        &self.info
    }

    pub fn log(&self) -> &PgLog {
        &self.log
    }

    pub fn members(&self) -> &Members {
        &self.members
    }

    pub fn interval(&self) -> Epoch {
        self.interval
    }

    /// The newest version that is durable on all members, as far as is known here.
    pub fn committed(&self) -> EVersion {
        self.committed
    }

    pub fn is_primary(&self) -> bool {
        self.members.primary == Some(self.whoami)
    }

    pub fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// What other OSDs said they have, in this interval.
    pub fn peers(&self) -> impl Iterator<Item = (OsdId, Option<&PgInfo>)> {
        self.peers.iter().map(|(osd, info)| (*osd, info.as_ref()))
    }

    /// The OSDs whose answers the present state waits for.
    pub fn waiting_for(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.waiting.iter().copied()
    }

    /// Whether this copy exists, and is neither needed nor asked for.
    pub fn is_stray(&self) -> bool {
        self.state == State::Stray
    }

    /// Whether all copies that the pool wants are there and equal.
    pub fn is_clean(&self) -> bool {
        self.is_active() && self.members.acting.len() >= self.members.size
    }

    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The map has a new epoch, with these members of the group.
    pub fn handle_map(&mut self, epoch: Epoch, members: Members, others: Others) {
        assert!(epoch >= self.epoch, "epoch {epoch} follows {}", self.epoch);
        let before = self.epoch;
        let changed = members != self.members || before == Epoch(0);
        let others_changed = others != self.others;
        let came_up = others.up.iter().filter(|up| !self.others.up.contains(up));
        let came_up: Vec<OsdId> = came_up.map(|(osd, _)| *osd).collect();
        if matches!(self.state, State::Active | State::ReplicaActive) {
            let known = std::mem::replace(&mut self.info.active_through, self.epoch);
            // What went down now cannot have been active without this copy: that must not be
            // forgotten, or a restart would wait for it.
            let excludes = |at: Epoch| at > known.next() && at <= self.epoch.next();
            if !changed && others.down.iter().any(|(_, at)| excludes(*at)) {
                self.store_info();
            }
        }
        self.epoch = epoch;
        self.others = others;
        if changed || self.wants_interval() && epoch > self.interval {
            self.interval = match members.primary == Some(self.whoami) {
                true => epoch,
                // If maps were skipped, the primary will tell in which of them it began.
                false => self.interval_floor(before, &members),
            };
            self.members = members;
            if !matches!(self.state, State::Loading | State::Refused | State::Failed) {
                self.start_interval();
            }
        } else if others_changed {
            self.others_changed(&came_up);
        }
    }

    /// The earliest interval in which this OSD, as it runs now, can take part, if nothing is known
    /// of the epochs after `before`. That it starts begins no interval of which it is no member.
    fn interval_floor(&self, before: Epoch, members: &Members) -> Epoch {
        let own = members.acting.iter().position(|osd| *osd == self.whoami);
        match own {
            Some(own) => members.up_from[own].max(before.next()),
            None if self.members.acting.is_empty() => {
                members.up_from.iter().copied().max().unwrap_or_default()
            }
            None => before.next(),
        }
    }

    /// A message of another OSD whose epoch is not beyond ours.
    pub fn handle_message(&mut self, from: OsdId, header: &Header, body: Body) {
        match self.state {
            State::Failed => return,
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
            _ if header.interval != self.interval => {}
            Body::Info(info) => self.told_info(from, info),
            Body::Log(info, entries) => self.told_log(from, info, entries),
            Body::CaughtUp => self.told_caught_up(from),
            Body::Activated => self.told_activated(from),
            Body::Replicated(version) => self.told_replicated(from, version),
            Body::Pull(object, cursor) => self.pulled(from, object, cursor),
            Body::List(start) => self.asked_to_list(from, start),
            Body::Push(push) => self.pushed(from, *push),
            Body::Listing(listing) => self.told_listing(from, listing),
            Body::Room(has_room) => self.told_room(from, has_room),
            Body::Stalled => self.told_stalled(from),
            _ if self.members.primary != Some(from) => {}
            Body::LogRequest => self.asked_for_log(from),
            Body::CatchUp(info, entries) => self.told_to_catch_up(from, info, entries),
            Body::Activate(info) => self.told_to_activate(info),
            Body::Replicate(write) => self.told_to_replicate(*write),
            Body::Remove => self.told_to_remove(),
        }
    }

    pub fn handle_completion(&mut self, tag: Tag, outcome: Result<Outcome, StoreError>) {
        if tag.is_commit() {
            self.commits_pending -= 1;
        }
        let is_removed = matches!((tag, &outcome), (Tag::Removed, Ok(_)));
        match (tag, outcome) {
            (tag, Err(error)) if tag.is_commit() => match error {
                // Others may fail because one was refused.
                _ if self.state == State::Refused => {}
                StoreError::NoSpace { .. } => self.refused(&error),
                _ => self.fail(&error),
            },
            (tag, outcome) => self.dispatch_completion(tag, outcome),
        }
        if self.commits_pending == 0 {
            self.drained();
        }
        // Whoever takes this looks at no output behind it. The group may have come back meanwhile.
        if is_removed && self.state == State::Stray {
            self.outputs.push_back(Output::Removed);
        }
    }

    fn dispatch_completion(&mut self, tag: Tag, outcome: Result<Outcome, StoreError>) {
        match tag {
            Tag::Load => self.loaded(outcome),
            Tag::Write(version, interval) => self.stored_write(version, interval),
            Tag::Progress | Tag::Removed => {}
            Tag::CaughtUp(interval) => self.stored_caught_up(interval),
            Tag::Activated(interval) => self.stored_activated(interval),
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
            self.interrupt_writes();
        }
    }

    pub(crate) fn interrupt_writes(&mut self) {
        let tickets = self.in_flight.drain(..).map(|write| write.ticket).collect();
        self.outputs.push_back(Output::Interrupted { tickets });
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

    pub(crate) fn commit(&mut self, tag: Tag, transaction: Transaction) {
        self.commits_pending += 1;
        self.ask_store(tag, RequestKind::Commit(transaction));
    }

    /// A transaction that begins with the collection's creation if there is none yet.
    pub(crate) fn transaction(&mut self, capacity: usize) -> Transaction {
        let mut transaction = Transaction { changes: Vec::with_capacity(capacity + 1) };
        if !self.created {
            self.created = true;
            transaction.push(self.collection, Change::CreateCollection);
        }
        transaction
    }

    /// Stores pairs beside the log.
    pub(crate) fn set_meta(&self, transaction: &mut Transaction, pairs: BTreeMap<Bytes, Bytes>) {
        let object = self.meta.clone();
        transaction.push(self.collection, Change::OmapSet { object, pairs });
    }

    pub(crate) fn remove_meta(&self, transaction: &mut Transaction, keys: (Bytes, Bytes)) {
        let (first, last) = keys;
        let object = self.meta.clone();
        transaction.push(self.collection, Change::OmapRemoveRange { object, first, last });
    }

    fn store_info(&mut self) {
        let mut transaction = self.transaction(1);
        self.set_info(&mut transaction);
        self.commit(Tag::Progress, transaction);
    }

    pub(crate) fn set_info(&self, transaction: &mut Transaction) {
        let pairs = BTreeMap::from([(info::INFO_KEY, codec::encode_to_bytes(&self.info))]);
        self.set_meta(transaction, pairs);
    }

    /// Checks what must always hold.
    pub fn check_invariants(&self) {
        assert_eq!(self.log.tail(), self.info.log_tail, "the info knows the log's tail");
        assert!(self.committed <= self.log.head() || !self.is_active());
        if self.is_active() {
            assert!(self.is_primary() && self.info.is_complete());
            assert_eq!(self.log.head(), self.info.last_update);
        }
        assert!(self.in_flight.iter().is_sorted_by_key(|write| write.version));
    }
}
