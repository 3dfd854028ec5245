//! Performance of the work that inputs and timers make possible.

use super::HostedGroups;
use crate::cx::cx;
use crate::groups::Polled;
use crate::operations::{admission, copying, interruption, listing, own, queue, resume};
use crate::shared::Shared;
use crate::work::Work;
use types::{Epoch, Errno, PgShard};

impl HostedGroups {
    /// Performs work until none is left. Inputs and timers call it between their parts; work never does.
    pub fn settle(&mut self, shared: &mut Shared) {
        shared.work.begin();
        while let Some(work) = shared.work.pop() {
            self.perform(shared, work);
        }
        shared.work.end();
        for answered in self.operations.take_answered() {
            shared.report.note_answered(shared.env.now, answered, &shared.env.options);
        }
    }

    /// Performs the outputs of a group, and all that they make possible.
    pub(super) fn settle_group(&mut self, shared: &mut Shared, pg: PgShard) {
        shared.work.push(Work::Group(pg));
        self.settle(shared);
    }

    /// The same for all groups after a map; frees the memory that the outputs used.
    pub(super) fn settle_and_release(&mut self, shared: &mut Shared, pg: PgShard) {
        self.settle_group(shared, pg);
        if let Some(group) = self.groups.get_mut(pg) {
            group.pg.release_outputs();
        }
    }

    fn perform(&mut self, shared: &mut Shared, work: Work) {
        match work {
            Work::Group(pg) => self.drain_group(shared, pg),
            Work::Object(object) => self.serve_at(shared, object, |s| queue::advance(s, object)),
            Work::Continue(key) => self.serve_of(shared, key, |s| resume::resume(s, key)),
            Work::Readers(object, origin) => {
                self.serve_at(shared, object, |s| resume::resume_readers(s, object, origin));
            }
            Work::Admit(key) => self.admit(shared, key),
            Work::Piece(copy, reply) => {
                let (cx, peers) = (cx!(shared), &mut shared.peers);
                copying::replied(&mut self.operations, cx, peers, copy, &reply);
            }
            Work::Trimmed(pg, succeeded) => self.trim_ended(shared, pg, succeeded),
            Work::GivenUp(command, result) => self.lost_ended(shared, command, result),
            Work::Unwatch(watch) => {
                let (pg, object, key) = *watch;
                let removal = own::unwatching(pg, object, key, shared.epoch());
                let key = self.operations.insert(removal);
                self.admit(shared, key);
            }
            Work::Wake(pg, left) => self.serve(shared, pg, |s| interruption::wake(s, left)),
            Work::Repaired(pg) => self.note_repair(shared, pg),
            Work::AskForLeases => self.ask_for_leases(shared),
            Work::GrantBackfill => self.grant_reservation(shared),
            Work::StoreMap => self.store_map_after_split(shared),
        }
    }

    /// Performs the outputs of a group until it has none, or until one of them makes other work possible:
    /// that precedes the rest.
    fn drain_group(&mut self, shared: &mut Shared, pg: PgShard) {
        loop {
            match self.groups.poll(shared.env.now, pg) {
                Polled::Gone => return,
                Polled::Drained(group) => {
                    return self.recovery.scheduler.update(&group.pg, &mut group.recovery);
                }
                Polled::Output(serial, output) => self.perform_output(shared, pg, serial, output),
            }
            if shared.work.has_children() {
                return shared.work.push(Work::Group(pg));
            }
        }
    }

    /// Checks a request and passes it to its group.
    pub(super) fn admit(&mut self, shared: &mut Shared, key: u64) {
        let Some(request) = self.operations.get(key) else { return };
        let epoch = request.message.map_epoch;
        if !admission::may_anything(shared.maps.map(), &shared.clients, request) {
            return self.operations.reply_error(cx!(shared), key, Errno::PERM);
        }
        if let Some(awaited) = awaited(shared, epoch) {
            return self.waiting_for_map.push_request(awaited, key);
        }
        let (groups, facts) = (&self.groups, (shared.maps.map(), shared.env.whoami()));
        let found = admission::route(&mut self.operations, facts, key, |pg, is_replicated| {
            groups
                .serving(pg, is_replicated)
                .map(|group| (&group.pg, group.primary_since.unwrap_or_default()))
        });
        match found {
            Some(pg) => self.serve(shared, pg, |s| admission::enter(s, key)),
            // The client learns from a newer map where to send it, or that there is no such pool.
            None => self.operations.forget(cx!(shared), key),
        }
    }

    /// Continues the requests for which there is memory now.
    pub(super) fn grant_memory(&mut self, shared: &mut Shared) {
        while let Some(key) = self.operations.grant_memory(&shared.env.config.sizes.budgets) {
            match self.operations.get(key).is_some_and(|request| request.op_flags.is_pg_op) {
                true => self.serve_of(shared, key, |s| listing::list(s, key)),
                false => shared.work.push(Work::Continue(key)),
            }
            self.settle(shared);
        }
    }
}

/// The epoch to wait for, if an input of this epoch cannot be handled yet.
pub(super) fn awaited(shared: &Shared, epoch: Epoch) -> Option<Epoch> {
    let is_early = epoch > shared.epoch() || !shared.is_up();
    is_early.then(|| epoch.max(shared.epoch().next()))
}
