//! Outputs of groups, and the ends of their requests: what they mean for the other components.

use super::{HostedGroups, stored_map};
use crate::cx::cx;
use crate::groups::split_merge;
use crate::operations::{healing, interruption, loads, outcomes, shards};
use crate::report::repairs::FoundBy;
use crate::shared::Shared;
use crate::tokens::Token;
use crate::work::Work;
use store::RequestKind;
use types::{OsdId, PgShard};

impl HostedGroups {
    pub(super) fn perform_output(
        &mut self,
        shared: &mut Shared,
        pg: PgShard,
        serial: u64,
        output: pg::Output,
    ) {
        let now = shared.env.now;
        match output {
            pg::Output::Send { to, message } => shared.peers.send(cx!(shared), to, message),
            pg::Output::Storage { tag, kind } => {
                let bytes = match &kind {
                    RequestKind::Commit(transaction) | RequestKind::Append(transaction) => {
                        transaction.bytes_added()
                    }
                    _ => 0,
                };
                shared.usage.begin_commit(bytes);
                shared.outbox.ask(Token::Group { pg, serial, tag, bytes }, kind);
            }
            pg::Output::Committed { ticket } => self.committed(shared, pg, ticket),
            pg::Output::Refused { ticket, error } => {
                if let Some(request) = self.operations.get_mut(ticket) {
                    request.note_refusal(&error);
                }
            }
            pg::Output::Interrupted { tickets, members_stay } => {
                self.interrupted(shared, pg, &tickets, members_stay);
            }
            pg::Output::Activated => self.activated(shared, pg),
            pg::Output::Clean => shared.report.schedule.request_soon(now),
            pg::Output::Recovered { object } => {
                self.count_recovered(shared, pg);
                self.serve(shared, pg, |s| healing::recovered(s, &object));
            }
            pg::Output::Read { ticket, outcome } => {
                self.serve(shared, pg, |s| loads::data_read(s, ticket, outcome));
            }
            pg::Output::Settled => {
                self.serve(shared, pg, shards::settled);
                if let Some(group) = self.groups.get_mut(pg) {
                    group.scrubbed().settled(&mut shared.outbox);
                }
            }
            pg::Output::WantsMap => self.groups.note_asking(pg),
            pg::Output::WaitUntil(until) => self.groups.wait_until(until, pg),
            pg::Output::WantsInterval => self.groups.retry_later(now),
            pg::Output::Reserve(primary) => self.reserve(shared, pg, primary),
            pg::Output::Release => self.release(shared, pg),
            pg::Output::Removed => self.forget_group(shared, pg),
            pg::Output::Quiesced => {
                if let Some(id) = split_merge::note_quiet(&mut self.groups, pg) {
                    shared.work.push(Work::Group(id));
                }
            }
            pg::Output::SplitMerged => self.split_merge_ended(shared, pg, true),
            pg::Output::SplitMergeFailed => self.split_merge_ended(shared, pg, false),
        }
    }

    /// A write is durable on all members.
    fn committed(&mut self, shared: &mut Shared, pg: PgShard, ticket: u64) {
        if self.operations.get(ticket).is_none() {
            return;
        }
        let mut service = self.service(shared, pg).expect("it has just committed");
        outcomes::committed(&mut service, ticket);
        if service.group.premerge.is_premerge() {
            shared.request_report();
        }
    }

    fn count_recovered(&mut self, shared: &mut Shared, pg: PgShard) {
        shared.report.count_recovered();
        if let Some(group) = self.groups.get_mut(pg) {
            group.counters.recovered += 1;
        }
    }

    /// The group has become active: starts the requests that waited.
    pub(super) fn activated(&mut self, shared: &mut Shared, pg: PgShard) {
        shared.request_report();
        shared.report.count_activation();
        self.scrub.hurry(shared.env.now);
        if let Some(group) = self.groups.get_mut(pg) {
            self.scrub.keep_order(cx!(shared), &mut shared.peers, &mut group.scrubbed());
        }
        self.note_trim(shared, pg);
        self.end_blocklisted_watches(shared, pg);
        let Some(group) = self.groups.get(pg) else { return };
        shared.work.push(Work::Wake(pg, group.queues.waiting.len()));
    }

    /// An interval has ended or was aborted. `tickets` are the writes in flight.
    fn interrupted(
        &mut self,
        shared: &mut Shared,
        pg: PgShard,
        tickets: &[u64],
        members_stay: bool,
    ) {
        shared.request_report();
        let Some(group) = self.groups.get_mut(pg) else { return };
        group.trim.begin_anew();
        group.scrub.forget_reads();
        let stays = group.pg.is_primary();
        match members_stay {
            true => {}
            false if stays => self.watches.discard_notifications(cx!(shared), &mut group.watched()),
            false => self.watches.discard(cx!(shared), &mut group.watched()),
        }
        self.serve(shared, pg, |s| interruption::interrupted(s, tickets));
    }

    /// Drops all requests of a group whose pool is gone.
    pub(super) fn drop_requests(&mut self, shared: &mut Shared, pg: PgShard) {
        self.interrupted(shared, pg, &[], false);
        let Some(group) = self.groups.get_mut(pg) else { return };
        self.watches.discard(cx!(shared), &mut group.watched());
        self.serve(shared, pg, interruption::drop_waiting);
    }

    /// Forgets a group whose collection is removed.
    pub(super) fn forget_group(&mut self, shared: &mut Shared, pg: PgShard) {
        self.drop_requests(shared, pg);
        self.release(shared, pg);
        if let Some(group) = self.groups.remove(pg) {
            self.recovery.scheduler.forget(pg, &group.recovery);
        }
    }

    /// The store has split or merged a group, or has failed to.
    fn split_merge_ended(&mut self, shared: &mut Shared, pg: PgShard, is_done: bool) {
        let then = split_merge::ended(&mut self.groups, &self.leases, shared.env.now, pg, is_done);
        for pg in then.forgotten {
            self.forget_group(shared, pg);
        }
        for pg in then.changed {
            shared.work.push(Work::Group(pg));
        }
        if then.is_last {
            shared.work.push(Work::StoreMap);
        }
    }

    /// Stores the map behind all that groups stored because of it, and asks for those that were ignored
    /// meanwhile.
    pub(super) fn store_map_after_split(&mut self, shared: &mut Shared) {
        stored_map::store(self, shared);
        if split_merge::take_missed_maps(&mut self.groups) {
            shared.monitor.ask_for_maps(cx!(shared));
        }
    }

    /// Requests a reservation for a group: a local one, or one for a remote `primary`. The group is
    /// informed by [`pg::Pg::reserved`]. A disk that is too full refuses to be a target.
    fn reserve(&mut self, shared: &mut Shared, pg: PgShard, primary: Option<OsdId>) {
        if primary.is_some() && shared.usage.is_backfill_full() {
            let group = self.groups.get_mut(pg).expect("it has just asked");
            return group.pg.reserved(primary, false);
        }
        self.recovery.reservations.ask(pg, primary);
        shared.work.push(Work::GrantBackfill);
    }

    /// Releases all reservations of a group, and its requests for any.
    fn release(&mut self, shared: &mut Shared, pg: PgShard) {
        self.recovery.reservations.release(pg);
        shared.work.push(Work::GrantBackfill);
    }

    /// Grants one reservation, if one is free; the next one follows when this group has got it.
    pub(super) fn grant_reservation(&mut self, shared: &mut Shared) {
        let places = shared.env.options.max_backfills;
        let Some((pg, primary)) = self.recovery.reservations.grant(places) else { return };
        if let Some(group) = self.groups.get_mut(pg) {
            group.pg.reserved(primary, true);
            shared.work.push(Work::Group(pg));
        }
        shared.work.push(Work::GrantBackfill);
    }

    /// A group's own copy of an object was found damaged, and is replaced.
    pub(super) fn note_repair(&mut self, shared: &mut Shared, pg: PgShard) {
        let Some(group) = self.groups.get_mut(pg) else { return };
        group.scrub.count_repair();
        let own = [shared.env.whoami()];
        shared.report.note_repair(shared.maps.map(), pg.pg, FoundBy::Read, &own);
    }

    /// Queues a group that may have snapshots to trim.
    pub(super) fn note_trim(&mut self, shared: &Shared, pg: PgShard) {
        if let Some(group) = self.groups.get_mut(pg) {
            self.trim.note(shared.env.now, &mut group.trimmed());
        }
    }

    /// Notes that one object of a step of trimming is done or has failed.
    pub(super) fn trim_ended(&mut self, shared: &mut Shared, pg: PgShard, succeeded: bool) {
        let group = self.groups.get_mut(pg);
        if let Some(has_failed) = group.and_then(|group| group.trim.ended(succeeded)) {
            self.end_trim_step(shared, pg, has_failed);
        }
    }

    pub(super) fn end_trim_step(&mut self, shared: &mut Shared, pg: PgShard, has_failed: bool) {
        let has_clients = self.operations.has_clients();
        let Some(group) = self.groups.get_mut(pg) else { return };
        if self.trim.end_step(&shared.env, &mut group.trimmed(), has_failed, has_clients) {
            shared.request_report();
        }
    }

    /// One object of a command that gave it up is gone on all members, or could not be removed.
    pub(super) fn lost_ended(&mut self, shared: &mut Shared, command: u64, result: i32) {
        if let Some((requester, answer)) = self.lost.ended(command, result) {
            requester.tell(&shared.clients, &mut shared.outbox, answer);
        }
    }

    /// Ends the watches of blocklisted clients on objects of a group, if it is active.
    pub(super) fn end_blocklisted_watches(&self, shared: &mut Shared, pg: PgShard) {
        let Some(group) = self.groups.get(pg).filter(|group| group.pg.is_active()) else { return };
        for (object, key) in group.watches.blocklisted(shared.maps.map()) {
            shared.work.push(Work::Unwatch(Box::new((pg, object, key))));
        }
    }

    /// Requests leases from all members of groups whose primary this OSD is.
    pub(super) fn ask_for_leases(&mut self, shared: &mut Shared) {
        let members = self.groups.followers(shared.env.whoami());
        self.leases.ask(cx!(shared), &mut shared.peers, members);
    }
}
