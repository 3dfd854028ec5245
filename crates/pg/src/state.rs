//! The copy of a group on this OSD: its state, and the dispatch of messages and completions.

use crate::core::{Core, Output, Tag};
use crate::message::{Body, Header, Push};
use crate::role::Role;
use crate::scrub::Order;
use crate::serving;
use crate::transfers::{Ended, Receiver};
use crate::{Osds, Sizes};
use std::sync::Arc;
use store::{Outcome, StoreError};
use types::{Epoch, HObject, OsdId, PgId};

/// The state of a copy. The primary's states follow [`State::GetInfo`] in the order of peering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Reads its info and log from the store.
    Loading,
    /// Not a member, or no longer one.
    Stray,
    /// A replica that waits for its primary to activate it.
    Replica,
    /// A replica that takes part in writes.
    ReplicaActive,
    /// The primary collects the infos of the prior set.
    GetInfo,
    /// The primary fetches the authoritative log.
    GetLog,
    /// The primary asks members for their missing sets.
    GetMissing,
    /// The primary has asked the monitor for another acting set.
    WaitActingChange,
    /// The primary waits for a map that has its `up_thru` in this interval.
    WaitUpThru,
    /// The primary waits until all members have stored that they follow its log.
    Activating,
    /// All members are activated, but a read lease of an earlier primary may still hold.
    WaitReadable,
    /// The primary serves requests.
    Active,
    /// All members are activated, but they are fewer than `min_size`: recovers, serves no requests.
    Inactive,
    /// OSDs that may have accepted writes without the present members are down.
    Down,
    /// No reachable copy is both complete and new enough.
    Incomplete,
    /// The store refused a transaction; the completions of all others are awaited.
    Refused,
    /// The store of a member refused a transaction, or a write was lost: waits for another interval.
    Stalled,
    /// Stopped until the store has split or merged it.
    Reshaping,
    /// The store failed: this copy serves nothing; the other members still have theirs.
    Failed,
}

/// The part of a map that a group depends on.
#[derive(Debug, Clone)]
pub struct MapChange {
    pub epoch: Epoch,
    pub osds: Arc<Osds>,
    /// Whether the map shows this OSD up, in its present incarnation.
    pub is_up: bool,
    /// Whether maps before this one were not available.
    pub is_gap: bool,
    /// Whether the group is certain to be created with this map.
    pub is_new: bool,
}

/// The copy of one group on this OSD. An engine: call `handle_*` and others, then drain
/// [`Pg::poll_output`].
#[derive(Debug)]
pub struct Pg {
    pub(crate) core: Core,
    pub(crate) role: Role,
}

impl Pg {
    /// A group of which this OSD has no copy.
    pub fn new(id: PgId, whoami: OsdId) -> Self {
        Pg { core: Core::new(id, whoami), role: Role::default() }
    }

    /// Replaces the default bounds. Call before anything else.
    pub fn with_sizes(mut self, sizes: Sizes) -> Self {
        self.core.own.sizes = sizes;
        self
    }

    /// The next effect to carry out. Drain after every other call.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.core.outputs.pop_front()
    }

    /// Frees the memory of drained outputs. After a map every group has outputs, and with very many groups
    /// that is much memory; in service few groups have outputs, and reuse it.
    pub fn release_outputs(&mut self) {
        self.core.outputs.shrink_to_fit();
    }

    /// Handles a message of another OSD. The caller holds it until this OSD has the map of its epoch.
    pub fn handle_message(&mut self, from: OsdId, header: &Header, body: Body) {
        match &mut self.role {
            Role::Failed { .. } => return,
            Role::SplitMerge(stopped) => return stopped.hold(from, header, body),
            Role::Loading(loading) | Role::Refused(loading) => {
                if body == Body::Query {
                    loading.asked_by = Some((from, *header));
                }
                return;
            }
            Role::Follower(_) | Role::Primary(_) => {}
        }
        match body {
            Body::Query => self.queried(from, header),
            // Maps are applied one by one, so a sender at this epoch has seen the present interval begin.
            _ if header.epoch < self.core.placement.interval => {}
            Body::Info(notice) => {
                self.with_primary(|primary, core| primary.handle_info(core, from, notice))
            }
            Body::Log(part) => {
                self.with_primary(|primary, core| primary.handle_log(core, from, &part))
            }
            Body::Activated => {
                self.with_primary(|primary, core| primary.handle_activated(core, from))
            }
            Body::Replicated(version) => {
                self.with(|service| serving::handle_replicated(service, from, version))
            }
            Body::Push(push) => self.handle_push(from, *push),
            Body::Pushed(object, next, has_room) => {
                self.with(|service| service.handle_pushed(from, &object, next, has_room))
            }
            Body::Listing(listing) => self.with(|service| service.handle_listing(from, listing)),
            Body::Backfilled(through) => {
                self.with(|service| service.handle_backfilled(from, through))
            }
            Body::Reserved(granted) => self.with(|service| service.handle_reserved(from, granted)),
            Body::Room(has_room) => {
                self.with_primary(|primary, core| primary.handle_room(core, from, has_room))
            }
            Body::Stalled => self.told_stalled(from),
            Body::Unreadable(object) => {
                self.with(|service| service.handle_unreadable(from, &object))
            }
            _ if self.core.placement.members.primary != Some(from) => {}
            Body::LogRequest => self.asked_for_log(from),
            Body::Activate(activation) => self.told_to_activate(*activation),
            Body::History(history) => self.told_history(&history),
            Body::Replicate(write) => self.told_to_replicate(*write),
            Body::Pull(object, cursor) => self.core.push_piece(from, object, cursor),
            Body::List(start) => self.core.handle_list(from, start),
            Body::Damaged(object, version) => self.told_damaged(&object, version),
            Body::Backfill(through, removed) => self.told_to_backfill(through, removed),
            Body::Reserve => self.asked_to_reserve(from),
            Body::Release => self.told_to_release(),
            Body::Remove => self.told_to_remove(),
        }
    }

    /// Handles the outcome of an [`Output::Storage`], by its tag.
    pub fn handle_completion(&mut self, tag: Tag, outcome: Result<Outcome, StoreError>) {
        if tag.is_commit() {
            self.core.line.commits_pending -= 1;
        }
        let is_removed = matches!((tag, &outcome), (Tag::Removed, Ok(_)));
        match (tag, outcome) {
            (Tag::Received(job), Err(StoreError::NoSpace { .. } | StoreError::TooLarge { .. })) => {
                let ended = self.core.piece_refused(job, self.receiver());
                self.transfer_ended(ended);
            }
            (Tag::Reshaped, Err(StoreError::NoSpace { .. })) => self.shape_refused(),
            (Tag::Reshaped, Err(error)) => self.fail(&error),
            (tag, Err(error)) if tag.is_commit() => match error {
                // No space, or lost content: the store itself still works.
                StoreError::NoSpace { .. }
                | StoreError::TooLarge { .. }
                | StoreError::Corrupt { .. }
                | StoreError::Behind(_) => self.refused(tag, error),
                _ => self.fail(&error),
            },
            (tag, outcome) => self.dispatch_completion(tag, outcome),
        }
        if self.core.line.commits_pending == 0 {
            self.drained();
        }
        // `Removed` is always the final output. The group may have been recreated meanwhile.
        if is_removed && self.state() == State::Stray && !self.core.copy.created {
            self.core.outputs.push_back(Output::Removed);
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
            Tag::Backfilled(interval) => self.stored_backfill(interval),
            Tag::Received(_) | Tag::Source(_) | Tag::ScanPage(_) | Tag::ScanObject(..) => {
                let ended = self.advance_transfer(tag, outcome);
                self.transfer_ended(ended);
            }
        }
    }

    /// Continues a transfer after its request to the store.
    fn advance_transfer(
        &mut self,
        tag: Tag,
        outcome: Result<Outcome, StoreError>,
    ) -> Option<Ended> {
        match tag {
            Tag::Received(job) => self.core.stored_piece(job, self.receiver()),
            Tag::Source(job) => {
                let known = match &self.role {
                    Role::Primary(primary) => Some(&primary.known),
                    _ => None,
                };
                let is_owed = |osd, object: &HObject| {
                    known.is_some_and(|known| known.is_missing_on(osd, object))
                };
                self.core.source_read(job, outcome, is_owed)
            }
            Tag::ScanPage(job) => self.core.scan_page(job, outcome),
            Tag::ScanObject(job, index) => self.core.scan_object(job, index, outcome),
            _ => unreachable!("{tag:?} is no transfer"),
        }
    }

    /// Goes on with what a transfer was for.
    fn transfer_ended(&mut self, ended: Option<Ended>) {
        match ended {
            None => {}
            Some(Ended::Fetched { object, was_missing }) => {
                self.with(|service| service.fetched(&object, was_missing))
            }
            Some(Ended::NotFetched { object, from }) => {
                self.with(|service| service.not_fetched(&object, from, false))
            }
            Some(Ended::Read { to, push }) => {
                self.with(|service| service.note_sent(to, &push.object, push.next.as_ref()));
                self.core.send(to, &Body::Push(push));
            }
            Some(Ended::Unreadable { object, to, version }) => match self.is_primary() {
                true => self.with(|service| serving::source_failed(service, object, version)),
                false => self.core.send(to, &Body::Unreadable(object)),
            },
            Some(Ended::Listed { objects, next }) => {
                self.with(|service| service.scanned_own(objects, next))
            }
            Some(Ended::NotListed { to: Some(primary) }) => self.cannot_list(primary),
            Some(Ended::NotListed { to: None }) => self.with(|service| service.stop_comparing()),
        }
    }

    /// The role in which this copy receives objects.
    fn receiver(&self) -> Receiver {
        match self.state() {
            State::ReplicaActive => Receiver::Replica,
            _ => Receiver::Primary,
        }
    }

    /// Takes a piece: as primary, of an object that it pulls; as replica, of one that it misses.
    fn handle_push(&mut self, from: OsdId, push: Push) {
        let is_expected = match self.state() {
            State::Active | State::Inactive => self.view().pulled_from(&push.object) == Some(from),
            State::ReplicaActive => self.core.placement.members.primary == Some(from),
            _ => false,
        };
        if !is_expected {
            return;
        }
        if self.is_primary() && push.cursor.is_start() && !self.core.is_what_is_needed(&push) {
            let (pg, object) = (self.core.own.id, push.object);
            tracing::error!(%pg, %from, %object, "it has another version");
            return self.with(|service| service.not_fetched(&object, from, true));
        }
        self.core.receive(from, push, self.receiver());
    }

    /// The store failed: the outcome of every pending transaction is unknown here.
    pub(crate) fn fail(&mut self, error: &StoreError) {
        if self.state() != State::Failed {
            tracing::error!(pg = %self.core.own.id, osd = %self.core.own.whoami, %error, "the copy is out of service");
            self.interrupt_writes(false);
            self.end_backfill();
            let was_reshaping = self.is_reshaping();
            self.role = Role::Failed { asked_by: self.role.take_query() };
            if was_reshaping {
                self.core.outputs.push_back(Output::ReshapeFailed);
            }
        }
    }

    /// Takes all writes in flight from the primary. Their outcome is unknown.
    pub(crate) fn take_writes(&mut self) -> Vec<u64> {
        let Role::Primary(primary) = &mut self.role else { return Vec::new() };
        let Some(serving) = primary.stage.serving_mut() else { return Vec::new() };
        serving.in_flight.drain(..).map(|write| write.ticket).collect()
    }

    /// Ends all writes in flight, with an unknown outcome.
    pub(crate) fn interrupt_writes(&mut self, members_stay: bool) {
        let tickets = self.take_writes();
        self.core.outputs.push_back(Output::Interrupted { tickets, members_stay });
    }

    /// Begins or ends premerge. Meanwhile the group takes no writes, and nothing of it is repaired: a repair
    /// would change the version that was reported, or make a copy incomplete.
    pub fn rest(&mut self, rests: bool) {
        self.core.is_premerge = rests;
    }

    /// The scrub order that is not carried out yet.
    pub fn scrub_order(&self) -> Option<Order> {
        self.core.copy.scrub_order
    }

    /// Sets the scrub order that this copy tells to later primaries. The OSD stores it.
    pub fn set_scrub_order(&mut self, order: Option<Order>) {
        self.core.copy.scrub_order = order;
    }

    /// Panics if the state contradicts itself.
    pub fn check_invariants(&self) {
        assert_eq!(
            self.core.copy.log.tail(),
            self.core.copy.info.log_tail,
            "the info knows the log's tail"
        );
        assert!(self.core.copy.committed <= self.core.copy.log.head() || !self.is_active());
        if self.is_active() {
            assert!(self.is_primary() && self.core.copy.info.is_complete());
            assert_eq!(self.core.copy.log.head(), self.core.copy.info.last_update);
        }
        // While the copy is loaded, its info is there before its missing set.
        let is_read = self.state() != State::Loading;
        if is_read && self.core.copy.missing.is_empty() && self.core.copy.info.is_complete() {
            assert_eq!(
                self.core.copy.info.last_complete,
                self.core.copy.info.last_update,
                "{:?}",
                self.state()
            );
        }
        if let Some(serving) = self.serving() {
            assert!(serving.in_flight.iter().is_sorted_by_key(|write| write.version));
        }
    }
}
