//! Calls of one component after another, where an event concerns several.

use crate::cx::cx;
use crate::env::Stage;
use crate::groups::placement::{members, statuses};
use crate::groups::split_merge;
use crate::groups::wants::Wants;
use crate::maps::current::Applied;
use crate::maps::telling::{Job, Task, Telling, Then};
use crate::operations::request::Request;
use crate::operations::snapshots::PoolSnapshots;
use crate::operations::{copying, own, queue};
use crate::osd::Osd;
use crate::report::Subject;
use crate::report::repairs::FoundBy;
use crate::scrub::orders::order_of;
use crate::scrub::{Found, schedule};
use crate::trim::{LOOKED_AT_MAX, Listed};
use crate::work::Work;
use engine::{ConnId, Duration, Output, Time};
use maps::OsdMap;
use pg::scrub::{Level, Order, Stamps};
use pg::split::parts_of;
use pg::{MapChange, Members};
use std::collections::BTreeSet;
use std::sync::Arc;
use store::{Outcome, StoreError};
use types::{Epoch, Errno, OsdId, PgId};
use wire::internal::ScrubOrder;
use wire::{OsdFailure, OsdMapMessage};

impl Osd {
    /// Pings the partners of this OSD, if due.
    pub(super) fn heartbeat_if_due(&mut self) {
        // Groups know their members only when they have handled the map.
        let members = (!self.maps.is_telling()).then(|| self.groups.members());
        self.heartbeats.tick(cx!(self), &self.monitor, members);
    }

    /// The connection to an OSD was refused: its process does not run, so it is reported
    /// immediately. A lossless session keeps trying, in case the monitor does not agree.
    pub(super) fn refused(&mut self, conn: ConnId) {
        // The address that was tried: the OSD may have another one by now.
        let tried = self.heartbeats.address_of(conn).or_else(|| self.peers.address_of(conn));
        let Some((osd, addrs)) = tried else { return };
        let dead = OsdFailure::FAILED | OsdFailure::IMMEDIATE | OsdFailure::DEAD;
        self.monitor.report_failure(cx!(self), osd, addrs, dead, Duration::ZERO);
    }

    /// Repeats all reports to a monitor that may have none of them.
    pub(super) fn report_again(&mut self, now: Time) {
        if self.env.stage == Stage::Booting {
            self.monitor.boot(cx!(self), &self.authentication);
        }
        self.peers.report_all_broken(cx!(self), &self.monitor);
        self.groups.ask_again();
        self.heartbeats.repeat_reports(cx!(self), &self.monitor);
        self.monitor.leave(cx!(self));
        self.report.schedule.request(now);
    }

    /// Retries requests of groups that were not fulfilled in time.
    pub(super) fn retry_if_due(&mut self, now: Time) {
        if !self.groups.begin_retry(now) {
            return;
        }
        for pg in self.groups.ids() {
            if self.groups.retry(now, pg) {
                self.settle_group(pg);
            }
        }
        self.ask_monitor(now);
    }

    /// Sends the requests of groups to the monitor.
    pub(super) fn ask_monitor(&mut self, now: Time) {
        if let Some(Wants { up_thru, acting }) = self.groups.take_wants(now, self.epoch()) {
            self.monitor.ask_for_intervals(cx!(self), up_thru, acting);
        }
    }

    /// Applies the next map of a message; false if there is none, or maps must be ignored.
    pub(super) fn apply_next(&mut self, message: &OsdMapMessage) -> bool {
        let first = message.full.keys().chain(message.incrementals.keys()).min().copied();
        let Some(first) = first.filter(|_| self.env.stage != Stage::Failed) else { return false };
        if split_merge::hold_maps(&mut self.groups) {
            return false;
        }
        let applied = self.maps.apply_next(message, first);
        if applied == Applied::Failed {
            self.monitor.ask_for_full_map(cx!(self));
        }
        applied == Applied::Newer
    }

    /// Compares the state of this OSD in the map with its real one.
    pub(super) fn check_own_state(&mut self) {
        let own = self.maps.map().osd(self.env.config.id).filter(|osd| osd.is_up());
        let is_up = own.is_some_and(|osd| osd.client_addrs == self.env.config.addrs);
        match (self.env.stage, is_up) {
            (Stage::Booting, true) => {
                self.env.stage = Stage::Up;
                self.peers.forget_broken();
                self.heartbeat_if_due();
                self.monitor.booted();
                tracing::info!(osd = %self.env.config.id, epoch = %self.epoch(), "up");
            }
            (Stage::Up, false) => {
                tracing::warn!(osd = %self.env.config.id, "marked down although alive; booting again");
                self.leave_peers();
                self.env.stage = Stage::Booting;
                self.monitor.boot(cx!(self), &self.authentication);
            }
            _ => {}
        }
    }

    /// A session has ended that may have led to another OSD.
    pub(super) fn peer_closed(&mut self, conn: ConnId) {
        self.forget_waiting(conn);
        if let Some(osd) = self.peers.closed(cx!(self), &self.monitor, conn) {
            self.operations.interrupt_copies(osd, self.env.now);
        }
    }

    /// Ends sessions to OSDs that are down or have another address now.
    pub(super) fn peers_changed(&mut self) {
        for osd in self.peers.gone(self.maps.map()) {
            if let Some(conn) = self.peers.unlink(osd) {
                self.close_peer(conn);
            }
        }
        self.peers.forget_mended(self.maps.map());
    }

    /// Ends all sessions before this OSD boots again.
    pub(super) fn leave_peers(&mut self) {
        self.peers.leave().for_each(|conn| self.close_peer(conn));
    }

    fn close_peer(&mut self, conn: ConnId) {
        self.forget_waiting(conn);
        self.outbox.push(Output::Close { conn });
        self.peers.forget_offered(conn);
        self.forget_session(self.env.now, conn);
    }

    /// Describes a bound that is exceeded by more than the one message that reached it. Only for
    /// hosts that read nothing from a paused session.
    pub fn excess(&self) -> Option<String> {
        let budgets = &self.env.config.sizes.budgets;
        let sizes = self.operations.sizes_of_bounded();
        let sizes: Vec<usize> = sizes.chain(self.inbox.charged()).collect();
        self.clients.excess(&sizes, budgets).or_else(|| self.inbox.excess(budgets))
    }

    /// Begins a report, if one is due.
    pub(super) fn report_if_due(&mut self) {
        self.report.begin_if_due(&self.env, &mut self.usage, &mut self.outbox);
    }

    /// Sends a report with the usage of the store.
    pub(super) fn usage_known(&mut self, now: Time, outcome: Result<Outcome, StoreError>) {
        self.report.schedule.end_query();
        if let Ok(Outcome::Usage(usage)) = outcome {
            self.usage.take_usage(usage);
        }
        // Repeated, in case the monitor has not got it.
        self.monitor.leave(cx!(self));
        if self.env.stage != Stage::Failed {
            self.check_room(now);
            self.retry_recovery();
        }
        let subject = Subject {
            groups: &mut self.groups,
            operations: &self.operations,
            leases: &self.leases,
            heartbeats: &self.heartbeats,
            usage: &mut self.usage,
        };
        self.report.send(cx!(self), &self.monitor, subject);
    }

    /// Tells the groups when the disk becomes full, and when it no longer is.
    pub(super) fn check_room(&mut self, now: Time) {
        if self.usage.is_outdated() {
            self.report.schedule.request(now);
        }
        let Some(is_full) = self.usage.take_change() else { return };
        tracing::warn!(osd = %self.env.config.id, is_full, "the disk crosses the limit of fullness");
        for pg in self.groups.ids() {
            self.groups.get_mut(pg).expect("it was just there").pg.set_has_space(!is_full);
            self.settle_group(pg);
        }
    }

    /// Groups whose primary this OSD is, each with its scrub stamps, if they are known, and whether
    /// a scrub, a repair or a check of repaired objects is pending.
    pub fn scrubs(&self) -> impl Iterator<Item = (PgId, Option<Stamps>, bool)> + '_ {
        let primaries = self.groups.scrubs().filter(|(pg, _)| pg.is_primary());
        primaries
            .map(|(pg, scrub)| (pg.id(), scrub.stamps(), scrub.is_busy() || scrub.is_ordered(pg)))
    }

    /// Number of inconsistent objects that scrubs of this OSD as primary found since it started.
    pub fn scrub_findings(&self) -> u64 {
        self.scrub.findings()
    }

    /// Begins scrubs that are due, as far as `osd_max_scrubs` allows.
    pub(super) fn scrub_if_due(&mut self, now: Time) {
        if !self.scrub.begin_look(&self.env) {
            return;
        }
        for pg in self.scrub.take_own() {
            if let Some(group) = self.groups.get_mut(pg) {
                self.scrub.keep_or_abort(cx!(self), &mut self.peers, &mut group.scrubbed());
            }
        }
        for (_, group) in self.groups.iter_mut() {
            group.scrubbed().load_stamps(&self.env, &mut self.outbox);
        }
        while self.scrub.has_place(&self.env) {
            let next = schedule::next(&self.env, self.maps.map(), self.groups.scrubs());
            let Some((pg, level, order)) = next else { break };
            self.begin_scrub(pg, level, order);
        }
        self.scrub.end_look(now, self.groups.scrubs());
    }

    /// Begins a scrub of a group whose primary this OSD is.
    pub(crate) fn begin_scrub(&mut self, pg: PgId, level: Level, order: Option<Order>) {
        let Some(group) = self.groups.get_mut(pg) else { return };
        let reports = &mut self.report.schedule;
        self.scrub.begin(&self.env, reports, &mut group.scrubbed(), level, order);
        self.pump_scrub(pg);
    }

    /// Performs the outputs of a round.
    pub(super) fn pump_scrub(&mut self, pg: PgId) {
        while let Some(group) = self.groups.get_mut(pg) {
            let (cx, peers, reports) = (cx!(self), &mut self.peers, &mut self.report.schedule);
            match self.scrub.advance(cx, peers, reports, &mut group.scrubbed()) {
                None => return,
                Some(Found::LargeOmap(object, size)) => {
                    self.report.note_large_omap(pg, &object, size);
                    continue;
                }
                Some(Found::Inconsistent) => {}
                Some(Found::Repaired(object, bad)) => {
                    let context = group.queues.find(&object);
                    let context = context.and_then(|key| self.operations.context_mut(key));
                    if let Some(context) = context {
                        // It is loaded again when it is needed and has been recovered.
                        context.forget_state();
                    }
                    self.report.note_repair(self.maps.map(), pg, FoundBy::Scrub, &bad);
                }
            }
            self.settle_group(pg);
        }
    }

    /// Takes an order for the named groups whose primary this OSD is, or for all if none is named.
    pub(crate) fn handle_scrub_order(&mut self, now: Time, asked: &ScrubOrder) {
        let order = order_of(now, asked);
        let pgs = if asked.pgs.is_empty() { self.groups.ids() } else { asked.pgs.clone() };
        for pg in pgs {
            let Some(group) = self.groups.get_mut(pg) else { continue };
            self.scrub.order(cx!(self), &mut self.peers, &mut group.scrubbed(), order);
            // A group with unfound objects is not clean, so it is not scrubbed; but copies that could not
            // be read may be readable now.
            if order.repair && group.pg.is_primary() {
                group.pg.retry_unreadable();
                self.settle_group(pg);
            }
        }
    }

    /// Has the members of a group keep its scrub order.
    pub(super) fn keep_order(&mut self, pg: PgId) {
        if let Some(group) = self.groups.get_mut(pg) {
            self.scrub.keep_order(cx!(self), &mut self.peers, &mut group.scrubbed());
        }
    }

    /// Queues a group that may have snapshots to trim.
    pub(super) fn note_trim(&mut self, now: Time, pg: PgId) {
        if let Some(group) = self.groups.get_mut(pg) {
            self.trim.note(now, &mut group.trimmed());
        }
    }

    /// Begins steps of trimming in groups that are due.
    pub(super) fn trim_if_due(&mut self, now: Time) {
        let groups = &self.groups;
        let is_busy = |pg| groups.get(pg).is_some_and(|group| group.trim.is_busy());
        if !self.trim.begin_look(now, self.maps.map(), is_busy) {
            return;
        }
        for _ in 0..LOOKED_AT_MAX {
            let Some(pg) = self.trim.next() else { break };
            if let Some(group) = self.groups.get_mut(pg) {
                self.trim.begin_step(now, &mut self.outbox, &mut group.trimmed());
            }
        }
        self.trim.end_look(now);
    }

    /// Handles a page of the index of clones: starts a request for each clone, or ends the step.
    pub(super) fn trim_listed(
        &mut self,
        pg: PgId,
        generation: u64,
        outcome: Result<Outcome, StoreError>,
    ) {
        let epoch = self.epoch();
        let Some(group) = self.groups.get_mut(pg) else { return };
        if group.queues.generation != generation {
            return;
        }
        match group.trim.listed(pg, outcome) {
            Listed::Nothing => {}
            Listed::Ended { has_failed } => self.end_trim_step(pg, has_failed),
            Listed::Clones(clones) => {
                for (snap, clone) in clones {
                    let request = own::trimming(pg, snap, &clone, epoch);
                    let request = self.operations.insert(request);
                    self.serve(pg, |s| queue::start(s, request));
                }
            }
        }
    }

    /// Notes that one object of a step is done or has failed.
    pub(super) fn trim_ended(&mut self, pg: PgId, succeeded: bool) {
        let group = self.groups.get_mut(pg);
        if let Some(has_failed) = group.and_then(|group| group.trim.ended(succeeded)) {
            self.end_trim_step(pg, has_failed);
        }
    }

    fn end_trim_step(&mut self, pg: PgId, has_failed: bool) {
        let has_clients = self.operations.has_clients();
        let Some(group) = self.groups.get_mut(pg) else { return };
        if self.trim.end_step(&self.env, &mut group.trimmed(), has_failed, has_clients) {
            self.report.schedule.request(self.env.now);
        }
    }

    /// Starts recovery of as many objects as the limit allows.
    pub(super) fn schedule_recovery(&mut self, now: Time) {
        if !self.recovery.scheduler.begin_turn(now) {
            return;
        }
        let mut fruitless = 0;
        while let Some(pg) = self.recovery.scheduler.take_next(&self.env, self.operations.len()) {
            let group = self.groups.get_mut(pg).expect("only groups that exist are queued");
            let started = group.pg.recover_next();
            self.settle_group(pg);
            if !self.recovery.scheduler.note_start(&self.env, started, &mut fruitless) {
                return;
            }
        }
    }

    /// Retries recovery that lacked space or a reservation.
    pub(super) fn retry_recovery(&mut self) {
        for pg in self.groups.waiting_for_retry() {
            self.groups.get_mut(pg).expect("it was just there").pg.retry_recovery();
            self.settle_group(pg);
        }
    }

    /// Requests a reservation for a group: a local one, or one for a remote `primary`. The group is
    /// informed by [`pg::Pg::reserved`]. A disk that is too full refuses to be a target.
    pub(super) fn reserve(&mut self, pg: PgId, primary: Option<OsdId>) {
        if primary.is_some() && self.usage.is_backfill_full() {
            let group = self.groups.get_mut(pg).expect("it has just asked");
            return group.pg.reserved(primary, false);
        }
        self.recovery.reservations.ask(pg, primary);
        self.work.push(Work::GrantBackfill);
    }

    /// Releases all reservations of a group, and its requests for any.
    pub(super) fn release(&mut self, pg: PgId) {
        self.recovery.reservations.release(pg);
        self.work.push(Work::GrantBackfill);
    }

    /// Grants one reservation, if one is free; the next one follows when this group has got it.
    pub(super) fn grant_reservation(&mut self) {
        let places = self.env.options.max_backfills;
        let Some((pg, primary)) = self.recovery.reservations.grant(places) else { return };
        if let Some(group) = self.groups.get_mut(pg) {
            group.pg.reserved(primary, true);
            self.work.push(Work::Group(pg));
        }
        self.work.push(Work::GrantBackfill);
    }

    /// One turn's share of the remaining work; true if groups have still not handled the map.
    pub(super) fn place_turn(&mut self, now: Time) -> bool {
        if self.maps.is_telling() {
            self.go_on_placing(now);
            self.go_on_with_maps(now);
        } else if self.inbox.has_ready() {
            self.take_ready(now);
        } else if self.maps.distribution.has_waiting() {
            self.go_on_with_maps(now);
        } else {
            self.take_held(now);
        }
        self.maps.is_telling()
    }

    /// Applies the maps one by one, so that no change of members is missed.
    pub(super) fn handle_maps(&mut self, now: Time, maps: OsdMapMessage) {
        self.maps.distribution.push_maps(maps, 0);
        self.go_on_with_maps(now);
    }

    /// Begins to distribute the next map, or to store the intervals that earlier ones began, unless
    /// a job is running.
    pub(super) fn go_on_with_maps(&mut self, now: Time) {
        while !self.maps.distribution.has_job() && !self.inbox.has_ready() {
            if self.maps.distribution.is_told() && !self.next_map_joins() {
                self.maps.distribution.begin_storing();
                self.go_on_placing(now);
                continue;
            }
            let Some((maps, bytes)) = self.maps.distribution.pop_maps() else { return };
            if self.apply_next(&maps) {
                self.maps.distribution.put_back(maps, bytes);
                self.map_changed(now);
            }
        }
    }

    /// Whether groups handle the next map before they store the intervals of earlier ones. A group
    /// splits or merges only after it has stored all earlier intervals.
    fn next_map_joins(&self) -> bool {
        let next = self.epoch().next();
        self.maps.distribution.joins(next) && split_merge::is_idle(&self.groups)
    }

    /// Performs one turn's share of the job.
    pub(super) fn go_on_placing(&mut self, now: Time) {
        let Some(mut job) = self.maps.distribution.take_job() else { return };
        let some: Vec<PgId> = job.rest.by_ref().take(self.env.config.sizes.groups_placed).collect();
        match &job.task {
            Task::Tell(telling) => self.tell_some(&some, telling),
            Task::Store => self.store_some(&some),
        }
        match (job.rest.as_slice().is_empty(), &job.task) {
            (false, _) => self.maps.distribution.begin(job),
            (true, Task::Tell(_)) => self.all_handled_map(now, job.then),
            (true, Task::Store) => self.placed_all(now, job.then),
        }
    }

    fn store_some(&mut self, some: &[PgId]) {
        for pg in some {
            if let Some(group) = self.groups.get_mut(*pg) {
                group.pg.store_interval();
                self.settle_and_release(*pg);
            }
        }
    }

    /// Performs the outputs of a group, as for all groups after a map, and frees the memory that they used.
    pub(super) fn settle_and_release(&mut self, pg: PgId) {
        self.settle_group(pg);
        if let Some(group) = self.groups.get_mut(pg) {
            group.pg.release_outputs();
        }
    }

    /// Starts the distribution of the map that was just applied.
    fn map_changed(&mut self, now: Time) {
        self.check_own_state();
        for pg in self.groups.deleted(self.maps.map()) {
            self.drop_requests(now, pg);
            self.groups.get_mut(pg).expect("its key was just read").pg.remove();
            self.settle_group(pg);
        }
        self.begin_placing(now, Then::Map);
    }

    /// All groups have handled the new map and stored their intervals.
    fn all_stored_intervals(&mut self, now: Time) {
        if split_merge::is_idle(&self.groups) {
            self.maps.store(&mut self.outbox);
        }
        self.heartbeats.choose_anew();
        copying::end_vain(&mut self.operations, cx!(self));
        self.settle();
        copying::resend(&mut self.operations, cx!(self), &mut self.peers);
        self.settle();
        let map = self.maps.map();
        if !map.blocklist.is_empty() || !map.range_blocklist.is_empty() {
            self.groups.ids().into_iter().for_each(|pg| self.end_blocklisted_watches_of(pg));
            self.settle();
        }
        self.deliver_waiting(now);
    }

    /// Starts telling groups their members. This includes times in which this OSD is not up,
    /// because the groups must know these intervals later. With many groups, the rest follows in
    /// the next turns, and inputs are held meanwhile (`Osd::hold`).
    pub(super) fn begin_placing(&mut self, now: Time, then: Then) {
        if self.env.stage == Stage::Loading {
            return self.placed_all(now, then);
        }
        let others = self.groups.iter().map(|(pg, _)| pg);
        let all = self.maps.groups_to_tell(self.env.config.id, others);
        let (map, is_gap) = (self.maps.map(), self.maps.is_gap());
        let rest = Vec::from_iter(all).into_iter();
        let task = Task::Tell(Telling { osds: Arc::new(statuses(map)), is_gap });
        self.maps.distribution.begin(Job { rest, task, then });
        self.go_on_placing(now);
    }

    /// Lets some groups handle the map, and performs their outputs.
    fn tell_some(&mut self, some: &[PgId], telling: &Telling) {
        let map = self.maps.take_map();
        for pg in some {
            self.tell_map(*pg, &map, telling);
        }
        self.maps.return_map(map);
        // Their outputs are not collected for all groups at once, which would need much memory.
        some.iter().for_each(|pg| self.settle_and_release(*pg));
    }

    fn tell_map(&mut self, pg: PgId, map: &OsdMap, telling: &Telling) {
        let is_up = self.is_up();
        // Erasure-coded pools are not supported yet.
        let pool = map.pool(pg.pool).filter(|pool| pool.is_replicated());
        if pool.is_none_or(|pool| pg.seed >= pool.pg_num) {
            return;
        }
        let members = self.members(map, pg);
        let is_member = is_up && members.is_member(self.env.config.id);
        let known = self.groups.get(pg).map(|group| &group.pg);
        if !is_member && known.is_none() {
            return;
        }
        let before = known.filter(|known| known.interval() > Epoch(0));
        let before = before.map(|known| known.members().hash_bits);
        let is_new = !telling.is_gap && self.maps.is_new(pg.pool);
        let (epoch, osds, is_gap) = (map.epoch, telling.osds.clone(), telling.is_gap);
        let change = MapChange { epoch, osds, is_up, is_gap, is_new };
        self.place_group(pg, &change, members);
        let now = self.groups.get(pg).map(|group| group.pg.members().hash_bits);
        match before.zip(now) {
            Some((before, now)) if now > before => self.place_parts(pg, before, map, &change),
            Some((before, now)) if now < before => {
                split_merge::begin_merge(&mut self.groups, pg, map, &change);
            }
            _ => {}
        }
    }

    /// The up and acting set of a group under the map of the last update of the candidates.
    fn members(&self, map: &OsdMap, pg: PgId) -> Members {
        let Some(pool) = map.pool(pg.pool) else { return Members::default() };
        members(map, pg, pool, self.maps.mapping(map, pg))
    }

    /// Tells a group its members under a new map; creates the group if there is none.
    fn place_group(&mut self, pg: PgId, change: &MapChange, members: Members) {
        let has_room = !self.usage.is_disk_full();
        if self.groups.place(&self.env, &self.leases, has_room, pg, change, members) {
            self.maps.distribution.must_store(pg);
        }
    }

    /// Creates the parts of a group that is split, under the same map. `bits` is the number of hash bits that
    /// selected its objects before.
    fn place_parts(&mut self, pg: PgId, bits: u8, map: &OsdMap, change: &MapChange) {
        let is_absent = self.groups.get(pg).expect("it was just placed").pg.is_absent();
        let pg_num = map.pool(pg.pool).map_or(0, |pool| pool.pg_num);
        let mut parts = BTreeSet::new();
        for part in parts_of(pg, bits, pg_num) {
            let members = self.members(map, part);
            let is_wanted = !is_absent || change.is_up && members.is_member(self.env.config.id);
            if !is_wanted {
                continue;
            }
            if split_merge::has_part(&self.groups, part) {
                tracing::error!(%pg, %part, osd = %self.env.config.id, "the part is there already");
                continue;
            }
            self.forget_group(self.env.now, part);
            split_merge::add_part(&mut self.groups, pg, part);
            self.place_group(part, change, members);
            parts.insert(part);
        }
        split_merge::begin_split(&mut self.groups, pg, parts);
    }

    /// The store has split or merged a group, or has failed to.
    pub(super) fn split_merge_ended(&mut self, now: Time, pg: PgId, is_done: bool) {
        let then = split_merge::ended(&mut self.groups, &self.leases, now, pg, is_done);
        for pg in then.forgotten {
            self.forget_group(now, pg);
        }
        for pg in then.changed {
            self.work.push(Work::Group(pg));
        }
        if then.is_last {
            self.work.push(Work::StoreMap);
        }
    }

    /// Stores the map behind all that groups stored because of it, and asks for those that were ignored
    /// meanwhile.
    pub(super) fn store_map_after_split(&mut self) {
        self.maps.store(&mut self.outbox);
        if split_merge::take_missed_maps(&mut self.groups) {
            self.monitor.ask_for_maps(cx!(self));
        }
    }

    /// Work that must wait until all groups have handled the map.
    fn all_handled_map(&mut self, now: Time, then: Then) {
        self.maps.note_placed();
        for pg in self.groups.announce_merges(self.maps.map()) {
            self.activated(now, pg);
            self.settle();
        }
        // The monitor waits for the state of the groups.
        if self.maps.map().pools.values().any(|pool| pool.pg_num_target != pool.pg_num) {
            self.report.schedule.request(now);
        }
        self.take_pool_snapshots(now);
        self.groups.ids().into_iter().for_each(|pg| self.settle_group(pg));
        self.peers_changed();
        self.maps.distribution.note_told(then);
    }

    /// Work that must wait until groups have stored the intervals that it began.
    fn placed_all(&mut self, now: Time, then: Then) {
        match then {
            Then::Map => self.all_stored_intervals(now),
            Then::Boot => self.go_to_monitor(now),
        }
    }

    /// Updates the groups' snapshots from a new map.
    fn take_pool_snapshots(&mut self, now: Time) {
        self.maps.note_removed_snaps();
        let removed = self.maps.removed_snaps();
        let known = PoolSnapshots::of_pools(self.maps.map(), |pool| removed.of(pool));
        let trimmed = self.groups.take_snapshots(&known);
        trimmed.into_iter().for_each(|pg| self.note_trim(now, pg));
    }

    /// Requests leases from all members of groups whose primary this OSD is.
    pub(super) fn ask_for_leases(&mut self) {
        let members = self.groups.followers(self.env.whoami());
        self.leases.ask(cx!(self), &mut self.peers, members);
    }

    /// Renews the leases if there were reads or some wait, and ends waits that are over.
    pub(super) fn renew_leases_if_due(&mut self, now: Time) {
        let groups = &self.groups;
        let waits =
            |pg| groups.get(pg).is_some_and(|group| !group.queues.waiting_for_readable.is_empty());
        if self.leases.begin_renewal(now, waits) {
            self.ask_for_leases();
        }
    }

    /// Lets the reads go on that waited for a lease, in all groups where it is held now.
    pub(super) fn resume_reads(&mut self) {
        let (now, own) = (self.env.now, self.env.whoami());
        for pg in self.leases.waiting() {
            let mut keys = Vec::new();
            if let Some(group) = self.groups.get_mut(pg) {
                if !self.leases.may_read(now, &group.pg, own, &mut group.lease) {
                    continue;
                }
                keys = std::mem::take(&mut group.queues.waiting_for_readable);
            }
            self.leases.end_wait(pg);
            for key in keys {
                // If it restarted meanwhile, it is in the queue of its object.
                let waits = |request: &Request| request.pg == pg && request.waits_outside();
                if self.operations.get(key).is_some_and(waits) {
                    self.work.push(Work::Continue(key));
                    self.settle();
                }
            }
        }
    }

    /// Wakes groups that waited for the end of leases of prior intervals.
    pub(super) fn end_waits(&mut self, now: Time) {
        while let Some(pg) = self.groups.end_wait(&self.leases, now) {
            self.settle_group(pg);
        }
    }

    /// Ends notifications and watches whose time is up.
    pub(super) fn end_late_watches(&mut self, now: Time) {
        if !self.watches.begin_tick(now) {
            return;
        }
        for (notify_id, pg) in self.watches.late(now) {
            if let Some(group) = self.groups.get_mut(pg) {
                let result = Errno::TIMEDOUT.negative();
                self.watches.complete(cx!(self), &mut group.watched(), notify_id, result);
            }
        }
        self.groups.expire_watches(now, &mut self.work);
    }

    /// Ends the watches of blocklisted clients on objects of a group, if it is active.
    pub(super) fn end_blocklisted_watches_of(&mut self, pg: PgId) {
        let Some(group) = self.groups.get(pg).filter(|group| group.pg.is_active()) else { return };
        for (object, key) in group.watches.blocklisted(self.maps.map()) {
            self.work.push(Work::Unwatch(Box::new((pg, object, key))));
        }
    }

    /// Forgets a session that has ended: its watches, notifications and waiting requests.
    pub(super) fn forget_session(&mut self, now: Time, conn: ConnId) {
        self.forget_waiting(conn);
        let Some(session) = self.clients.remove(conn) else { return };
        for (pg, object, key) in session.into_watches() {
            if let Some(group) = self.groups.get_mut(pg) {
                group.watches.disconnect(now, conn, &object, &key);
            }
        }
        self.watches.forget_notifier(conn);
        self.operations.forget_unstarted(cx!(self), conn);
        copying::end_vain(&mut self.operations, cx!(self));
        self.settle();
    }
}
