//! The copy of a group on this OSD: its state, and the dispatch of messages and completions.

use crate::core::{Core, Output, Tag, settling};
use crate::follower::{Follower, send_log};
use crate::holding;
use crate::invariants;
use crate::loading;
use crate::message::{Body, Header, Push, Replicate};
use crate::primary::Primary;
use crate::role::{Loading, Role};
use crate::rows::{self, OwnRows, Read, Reader};
use crate::scrub::{Finding, Order};
use crate::serving::{self, Service, UnfoundCount, Write};
use crate::transfers::{self, Ended, Receiver};
use crate::{Member, Sizes, State};
use engine::Time;
use store::{Outcome, StoreError};
use types::{EVersion, Epoch, HObject, OsdId, PgShard, UTime};

/// The copy of one group on this OSD. An engine: call `handle_*` and others, then drain
/// [`Pg::poll_output`].
#[derive(Debug)]
pub struct Pg {
    pub(crate) core: Core,
    pub(crate) role: Role,
}

impl Pg {
    /// A group of which this OSD has no copy.
    pub fn new(id: PgShard, whoami: OsdId) -> Self {
        let whoami = Member { osd: whoami, shard: id.shard };
        Pg { core: Core::new(id.pg, whoami), role: Role::default() }
    }

    /// The copy in an existing collection. Ready when [`Pg::is_loaded`]; maps may be passed before.
    pub fn load(id: PgShard, whoami: OsdId) -> Self {
        let mut pg = Pg::new(id, whoami);
        pg.core.copy.created = true;
        pg.role = Role::Loading(Loading::default());
        loading::load_page(&mut pg.core, None);
        pg
    }

    /// Replaces the default bounds. Call before anything else.
    pub fn with_sizes(mut self, sizes: Sizes) -> Self {
        self.core.own.sizes = sizes;
        self
    }

    /// The next effect to carry out. Drain after every other call.
    pub fn poll_output(&mut self) -> Option<Output> {
        while let Some(done) = self.core.rows.take_done() {
            self.with(|service| serving::rows_read(service, done));
        }
        self.core.outputs.pop_front()
    }

    /// Frees the memory of drained outputs. After a map every group has outputs, and with very many groups
    /// that is much memory; in service few groups have outputs, and reuse it.
    pub fn release_outputs(&mut self) {
        self.core.outputs.shrink_to_fit();
    }

    /// Handles a message of another OSD. The caller holds it until this OSD has the map of its epoch. A
    /// message for another shard, or from a member that such a group cannot have, is dropped.
    pub fn handle_message(&mut self, from: OsdId, header: &Header, body: Body) {
        let is_of_kind = header.to.position().is_some() == header.from.position().is_some();
        if header.to == self.core.own.whoami.shard && is_of_kind {
            self.dispatch(Member { osd: from, shard: header.from }, header, body);
        }
    }

    /// Keeps a message for later, or drops it, if the copy has no role; returns it otherwise.
    fn defer(&mut self, from: Member, header: &Header, body: Body) -> Option<Body> {
        match &mut self.role {
            Role::Follower(_) | Role::Primary(_) => return Some(body),
            Role::Failed { .. } => {}
            Role::SplitMerge(stopped) => stopped.hold(from, header, body),
            Role::Loading(loading) | Role::Refused(loading) => {
                if body == Body::Query {
                    loading.asked_by = Some((from, *header));
                }
            }
        }
        None
    }

    /// Handles a message of another member.
    pub(crate) fn dispatch(&mut self, from: Member, header: &Header, body: Body) {
        let Some(body) = self.defer(from, header, body) else { return };
        match body {
            Body::Query => self.handle_query(from, header),
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
                self.with(|service| serving::handle_replicated(service, from, version));
                self.replace_suspects();
            }
            Body::Push(push) => self.handle_push(from, *push),
            Body::Pushed(object, next, has_space) => {
                self.with(|service| service.handle_pushed(from, &object, next, has_space))
            }
            Body::Listing(listing) => self.with(|service| service.handle_listing(from, listing)),
            Body::Backfilled(through) => {
                self.with(|service| service.handle_backfilled(from, through))
            }
            Body::Reserved(granted) => self.with(|service| service.handle_reserved(from, granted)),
            Body::HasSpace(has_space) => {
                self.with_primary(|primary, core| primary.handle_has_space(core, from, has_space))
            }
            Body::Stalled(refused) => self.handle_stalled(from, refused),
            Body::Unreadable(object) => {
                self.with(|service| service.handle_unreadable(from, &object))
            }
            Body::ReadRows(_) | Body::Rows(_) | Body::PushRows(_) => self.handle_shard(from, body),
            _ if self.core.placement.members.primary_member() != Some(from) => {}
            Body::LogRequest => send_log(&mut self.core, from),
            Body::Activate(activation) => {
                self.with_follower(|follower, core| follower.handle_activate(core, *activation))
            }
            Body::History(history) => {
                self.with_follower(|follower, core| follower.handle_history(core, &history))
            }
            Body::Replicate(write) => self.handle_replicate(*write),
            Body::Settle(committed) => self.handle_settle(committed),
            Body::Pull(object, cursor) => {
                transfers::push_piece(&mut self.core, from, object, cursor)
            }
            Body::List(start) => {
                let committed = self.may_settle_through();
                transfers::handle_list(&mut self.core, from, start, committed)
            }
            Body::Damaged(object, version) => {
                self.with_follower(|follower, core| follower.handle_damaged(core, &object, version))
            }
            Body::Backfill(through, removed, missed) => self.with_follower(|follower, core| {
                follower.handle_backfill(core, through, removed, missed)
            }),
            Body::Reserve => {
                self.with_follower(|follower, core| follower.handle_reserve(core, from))
            }
            Body::Release => self.with_follower(|follower, core| follower.handle_release(core)),
            Body::Remove => self.handle_remove(),
        }
    }

    /// Handles the outcome of an [`Output::Storage`], by its tag.
    pub fn handle_completion(&mut self, tag: Tag, outcome: Result<Outcome, StoreError>) {
        if tag.is_commit() {
            assert!(self.core.store_queue.commits_pending > 0, "each transaction completes once");
            self.core.store_queue.commits_pending -= 1;
        }
        let has_settled = tag.is_commit() && self.core.note_completed(outcome.is_ok());
        if has_settled && outcome.is_ok() {
            self.core.settling.note_settled();
        }
        let is_removed = matches!((tag, &outcome), (Tag::Removed, Ok(_)));
        match (tag, outcome) {
            (Tag::Received(job), Err(StoreError::NoSpace { .. } | StoreError::TooLarge { .. })) => {
                let receiver = self.receiver();
                let ended = transfers::piece_refused(&mut self.core, job, receiver);
                self.transfer_ended(ended);
            }
            (Tag::SplitMerged, Err(StoreError::NoSpace { .. })) => {
                self.with_stopped(|stopped, core| stopped.step_refused(core));
            }
            (Tag::SplitMerged, Err(error)) => self.fail(&error),
            (tag, Err(error)) if tag.is_commit() => match error {
                // No space, or lost content: the store itself still works.
                StoreError::NoSpace { .. }
                | StoreError::TooLarge { .. }
                | StoreError::Corrupt { .. }
                | StoreError::Behind(_) => self.refused(tag, error, has_settled),
                _ => self.fail(&error),
            },
            (tag, outcome) => self.dispatch_completion(tag, outcome),
        }
        if has_settled {
            self.settled();
        }
        if self.core.store_queue.commits_pending == 0 {
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
            Tag::SplitMerged => self.with_stopped(|stopped, core| stopped.take_step(core)),
            Tag::Index => self.index_read(outcome),
            Tag::Backfilled(interval) => self.stored_backfill(interval),
            Tag::Rows(number, part) => {
                if let Some(ended) = rows::handle_local(&mut self.core, (number, part), outcome) {
                    self.own_rows_read(ended);
                }
            }
            Tag::Received(_) | Tag::Source(_) | Tag::ScanPage(_) | Tag::ScanObject(..) => {
                let ended = self.advance_transfer(tag, outcome);
                self.transfer_ended(ended);
            }
        }
    }

    /// Reads of the store see more changes than before.
    fn settled(&mut self) {
        holding::advance(&mut self.core);
        rows::settled(&mut self.core);
        transfers::settled(&mut self.core);
        self.with(serving::advance::settled);
        if self.is_serving() {
            self.core.outputs.push_back(Output::Settled);
        }
    }

    /// Passes on rows of our own shard.
    fn own_rows_read(&mut self, ended: OwnRows) {
        let OwnRows { reader, number, outcome } = ended;
        if reader == Reader::Transfer {
            let ended = transfers::base_read(&mut self.core, number, outcome);
            return self.transfer_ended(ended);
        }
        if let Reader::Write(version) = reader {
            return self.with(|s| serving::advance::own_rows_read(s, version, outcome));
        }
        if let Err(refusal) = holding::old_rows_read(&mut self.core, number, outcome) {
            self.refuse_write(*refusal);
        }
    }

    /// The primary says that changes up to this version are committed, while nothing else is to be sent.
    fn handle_settle(&mut self, committed: EVersion) {
        self.with_follower(|follower, core| follower.handle_settle(core, committed));
    }

    /// Continues a transfer after its request to the store.
    fn advance_transfer(
        &mut self,
        tag: Tag,
        outcome: Result<Outcome, StoreError>,
    ) -> Option<Ended> {
        match tag {
            Tag::Received(job) => {
                let receiver = self.receiver();
                transfers::stored_piece(&mut self.core, job, receiver)
            }
            Tag::Source(job) => {
                let known = match &self.role {
                    Role::Primary(primary) => Some(&primary.known),
                    _ => None,
                };
                let is_owed = |osd, object: &HObject| {
                    known.is_some_and(|known| known.is_missing_on(osd, object))
                };
                transfers::source_read(&mut self.core, job, outcome, is_owed)
            }
            Tag::ScanPage(job) => transfers::scan_page(&mut self.core, job, outcome),
            Tag::ScanObject(job, index) => {
                transfers::scan_object(&mut self.core, job, index, outcome)
            }
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
            Some(Ended::Rebuilt { object, next, has_space }) => {
                let whoami = self.core.own.whoami;
                self.with(|service| service.handle_pushed(whoami, &object, next, has_space))
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
            Some(Ended::NotListed { to: Some(primary) }) => {
                self.with_follower(|follower, core| follower.cannot_list(core, primary))
            }
            Some(Ended::NotListed { to: None }) => self.with(|service| service.stop_comparing()),
        }
    }

    /// A write was stored: shards that could not be read may be replaced now.
    fn replace_suspects(&mut self) {
        self.with(|service| {
            if service.serving.recovery.has_suspects() {
                serving::replace_suspects(service);
            }
        });
    }

    /// The role in which this copy receives objects.
    fn receiver(&self) -> Receiver {
        match self.state() {
            State::ReplicaActive => Receiver::Replica,
            _ => Receiver::Primary,
        }
    }

    /// Takes a piece: as primary, of an object that it pulls; as replica, of one that it misses.
    fn handle_push(&mut self, from: Member, push: Push) {
        let is_expected = match self.state() {
            State::Active | State::Inactive => self.view().pulled_from(&push.object) == Some(from),
            State::ReplicaActive => self.core.placement.members.primary_member() == Some(from),
            _ => false,
        };
        if !is_expected {
            return;
        }
        if self.is_primary()
            && push.cursor.is_start()
            && !transfers::is_what_is_needed(&self.core, &push)
        {
            let (pg, object) = (self.core.own.id, push.object);
            tracing::error!(%pg, %from, %object, "it has another version");
            return self.with(|service| service.not_fetched(&object, from, true));
        }
        let receiver = self.receiver();
        transfers::receive(&mut self.core, from, push, receiver);
    }

    /// The version up to which this replica may settle changes that its reads need; zero if it may settle
    /// none: the log of a stray may have left the group's, and a group that does not serve settles nothing.
    fn may_settle_through(&self) -> EVersion {
        let is_led = self.state() == State::ReplicaActive && self.core.placement.can_serve();
        let keeps_shards = self.core.copy.info.shard.is_some();
        if is_led && keeps_shards { self.core.copy.committed } else { EVersion::ZERO }
    }

    /// Handles a message about rows of shards.
    fn handle_shard(&mut self, from: Member, body: Body) {
        let is_led = self.core.placement.members.primary_member() == Some(from);
        match body {
            Body::Rows(rows) => rows::handle_rows(&mut self.core, from, *rows),
            Body::ReadRows(mut asked) if is_led => {
                // The log of another copy may have left the group's: it settles no more than it was told.
                if self.state() != State::ReplicaActive {
                    asked.committed = asked.committed.min(self.core.copy.info.settled());
                }
                rows::handle_read_rows(&mut self.core, from, *asked);
            }
            Body::PushRows(push) if is_led && self.state() == State::ReplicaActive => {
                let committed = self.may_settle_through();
                transfers::receive_rows(&mut self.core, from, *push, committed);
            }
            _ => {}
        }
    }

    /// Appends a write of the primary.
    fn handle_replicate(&mut self, write: Replicate) {
        if let Role::Follower(follower) = &mut self.role
            && let Err(what) = follower.handle_replicate(&mut self.core, write)
        {
            self.refuse_gap(what);
        }
    }

    /// The primary does not need this stray copy.
    fn handle_remove(&mut self) {
        if self.state() == State::Stray {
            self.remove();
        }
    }

    /// A write is durable here: the primary counts it, a replica confirms it.
    fn stored_write(&mut self, version: EVersion, interval: Epoch) {
        if interval != self.core.placement.interval {
            return;
        }
        let whoami = self.core.own.whoami;
        match &mut self.role {
            Role::Primary(_) => {
                self.with(|service| serving::handle_replicated(service, whoami, version));
                self.replace_suspects();
            }
            Role::Follower(follower) => follower.stored_write(&mut self.core, version),
            _ => {}
        }
    }

    /// Our own activation is durable.
    fn stored_activated(&mut self, interval: Epoch) {
        if interval != self.core.placement.interval {
            return;
        }
        let whoami = self.core.own.whoami;
        match &mut self.role {
            Role::Primary(primary) => primary.handle_activated(&mut self.core, whoami),
            Role::Follower(follower) => follower.stored_activated(&mut self.core),
            _ => {}
        }
    }

    /// The progress of backfill is durable in this copy, as its target.
    fn stored_backfill(&mut self, interval: Epoch) {
        if interval == self.core.placement.interval {
            self.with_follower(|follower, core| follower.stored_backfill(core));
        }
    }

    /// A page of the clone index is read, for a split or merge.
    fn index_read(&mut self, outcome: Result<Outcome, StoreError>) {
        if let Role::SplitMerge(stopped) = &mut self.role
            && let Err(error) = stopped.index_read(&mut self.core, outcome)
        {
            self.fail(&error);
        }
    }

    /// The primary of an activated group; `None` in all other states.
    pub(crate) fn service(&mut self) -> Option<Service<'_>> {
        match &mut self.role {
            Role::Primary(primary) => primary.service(&mut self.core),
            _ => None,
        }
    }

    /// The same, while requests are served.
    fn active(&mut self) -> Option<Service<'_>> {
        self.service().filter(Service::is_active)
    }

    /// Passes the primary of an activated group what has happened. All others ignore it.
    pub(crate) fn with(&mut self, handle: impl FnOnce(&mut Service<'_>)) {
        if let Some(mut service) = self.service() {
            handle(&mut service);
            if service.serving.pipeline.unreadable().is_some() {
                self.give_up_write();
            }
        }
    }

    /// Passes a primary what has happened. All others ignore it.
    pub(crate) fn with_primary(&mut self, handle: impl FnOnce(&mut Primary, &mut Core)) {
        if let Role::Primary(primary) = &mut self.role {
            handle(primary, &mut self.core);
        }
    }

    /// Passes a follower what has happened. All others ignore it.
    fn with_follower(&mut self, handle: impl FnOnce(&mut Follower, &mut Core)) {
        if let Role::Follower(follower) = &mut self.role {
            handle(follower, &mut self.core);
        }
    }

    /// The time of [`Output::WaitUntil`] has come. Harmless at any other time.
    pub fn time_passed(&mut self) {
        self.with_primary(|primary, core| primary.time_passed(core));
        self.with(serving::advance::time_passed);
    }

    /// Sets the present time, and until when the read lease holds that this OSD granted to the present
    /// primary, or, if this OSD is the primary, until when its replicas may answer reads. Call before
    /// anything that may end an interval or make the group active.
    pub fn set_time(&mut self, now: Time, granted_until: Time) {
        self.core.leases.now = now;
        self.core.leases.granted_until = granted_until;
    }

    /// The version that the next write will get.
    pub fn next_version(&self) -> EVersion {
        serving::next_version(&self.core)
    }

    /// Orders a write after all others, stores and replicates it, and returns its version. Panics unless
    /// the group is active.
    pub fn submit(&mut self, write: Write) -> EVersion {
        let mut service = self.active().expect("writes come to active groups");
        let version = serving::submit(&mut service, write);
        if service.serving.pipeline.unreadable().is_some() {
            self.give_up_write();
        }
        version
    }

    /// Whether reads of the store see all committed changes of an object. If not, they see more after the
    /// next [`Output::Settled`]. Always true in a replicated group. Call on a copy that serves.
    pub fn shows_committed(&mut self, object: &HObject) -> bool {
        let committed = self.core.copy.committed;
        self.core.copy.info.shard.is_none()
            || settling::has_settled(&mut self.core, object, committed)
    }

    /// Begins to settle all that is committed, here and, on the primary, on all members. Returns the version
    /// up to which reads should see changes: see [`Pg::shows`].
    pub fn settle_committed(&mut self) -> EVersion {
        let committed = self.core.copy.committed;
        if self.core.copy.info.shard.is_none() {
            return EVersion::ZERO;
        }
        match self.state() {
            State::Active => self.with(serving::advance::tell),
            State::ReplicaActive => settling::settle(&mut self.core, committed),
            _ => {}
        }
        committed
    }

    /// Whether reads of the store see all changes up to a version. If not, they see more after the next
    /// [`Output::Settled`].
    pub fn shows(&self, through: EVersion) -> bool {
        through == EVersion::ZERO || settling::settled(&self.core) >= through
    }

    /// Reads data of an object in a group whose members keep shards; the result is an [`Output::Read`].
    /// Panics unless the group is active.
    pub fn read_shards(&mut self, read: Read) {
        serving::read_shards(&mut self.active().expect("reads come to active groups"), read);
    }

    /// A client waits for this object: starts its recovery if that is possible now.
    pub fn want_object(&mut self, object: &HObject) {
        self.with(|service| service.want_object(object));
    }

    /// Starts the recovery of one more object, oldest version first; false if none could be started among a
    /// bounded number. There may be others as long as [`Pg::wants_recovery`].
    pub fn recover_next(&mut self) -> bool {
        self.service().is_some_and(|mut service| service.recover_next())
    }

    /// Tries again what found no space or no reservation.
    pub fn retry_recovery(&mut self) {
        self.with(|service| service.retry_recovery());
    }

    /// Our own copy of the object, of this version, cannot be read. Returns whether requests for it should
    /// wait because another copy may turn up.
    pub fn cannot_read(&mut self, object: &HObject, version: EVersion) -> bool {
        self.active().is_some_and(|mut service| service.cannot_read(object, version))
    }

    /// Has all copies that could not be read read once more.
    pub fn retry_unreadable(&mut self) {
        self.with(|service| service.retry_unreadable());
    }

    /// Makes the bad copies of an object equal to the authoritative one; whether that was begun.
    pub fn repair(&mut self, now: UTime, finding: &Finding) -> bool {
        self.active().is_some_and(|mut service| serving::repair(&mut service, now, finding))
    }

    /// Marks these members' copies of an object as missing; they are recovered from others, in this
    /// version. False if that is not possible now, or one of them is no member. An OSD may have another
    /// shard, which is good.
    pub fn mark_corrupt(&mut self, object: &HObject, version: EVersion, bad: &[Member]) -> bool {
        let members = &self.core.placement.members;
        let is_member = |member: &Member| members.has_member(*member);
        bad.iter().all(is_member)
            && self.active().is_some_and(|mut service| {
                serving::mark_corrupt(&mut service, object, version, bad)
            })
    }

    /// Removes an object that should not exist, by a write on all members; whether that was begun.
    pub fn remove_superfluous(&mut self, now: UTime, object: &HObject) -> bool {
        self.active()
            .is_some_and(|mut service| serving::remove_superfluous(&mut service, now, object))
    }

    /// Counts unfound objects, by examining at most `looks` missing ones. Exact if there are no more;
    /// otherwise the result of the last round, or of this one if that is higher already.
    pub fn count_unfound(&mut self, looks: usize) -> u64 {
        let mut count = match &mut self.role {
            Role::Primary(primary) => std::mem::take(&mut primary.known.unfound),
            _ => UnfoundCount::default(),
        };
        let known = self.view().count_unfound(&mut count, looks);
        if let Role::Primary(primary) = &mut self.role {
            primary.known.unfound = count;
        }
        known
    }

    /// The OSD's decision on a reservation that [`Output::Reserve`] requested; `primary` as there.
    pub fn reserved(&mut self, primary: Option<OsdId>, granted: bool) {
        let is_taken = match (primary, &mut self.role) {
            (Some(primary), Role::Follower(follower)) => {
                follower.reserved(&mut self.core, primary, granted)
            }
            (None, _) => self.service().is_some_and(|mut service| service.reserved(granted)),
            _ => false,
        };
        if !is_taken {
            // The reservation is not needed any more.
            self.core.outputs.push_back(Output::Release);
        }
    }

    /// Sets whether this OSD's disk has space, as opposed to being nearly full.
    pub fn set_has_space(&mut self, has_space: bool) {
        if self.core.space.is_short == has_space {
            self.core.space.is_short = !has_space;
            self.with_follower(|follower, core| follower.announce_has_space(core));
        }
    }

    /// Begins or ends premerge. Meanwhile the group takes no writes, and nothing of it is repaired: a repair
    /// would change the version that was reported, or make a copy incomplete.
    pub fn set_premerge(&mut self, is_premerge: bool) {
        self.core.is_premerge = is_premerge;
    }

    /// Sets the scrub order that this copy tells to later primaries. The OSD stores it.
    pub fn set_scrub_order(&mut self, order: Option<Order>) {
        self.core.copy.scrub_order = order;
    }

    /// Panics if the state contradicts itself.
    pub fn check_invariants(&self) {
        invariants::check(&self.core, &self.role);
    }
}
