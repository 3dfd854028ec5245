//! The groups that this OSD hosts, with the components that serve their requests and keep their copies.
//!
//! An event that concerns several of these components is passed from one to the next here. The files are
//! layers:
//!
//! * `outputs`: the effects of a group's outputs on the other components. It performs no work, but pushes it.
//! * `work`: the queue of work, performed until it is empty.
//! * all others: inputs and timers. Each ends with the work that it made possible.

pub(crate) mod inputs;
mod outputs;
pub(crate) mod placement;
pub(crate) mod recovering;
pub(crate) mod scrubbing;
pub(crate) mod sessions;
mod stored_map;
pub(crate) mod timers;
pub(crate) mod trimming;
pub(crate) mod usage;
mod work;

use crate::commands::lost::LostCommands;
use crate::cx::Cx;
use crate::env::Stage;
use crate::groups::Groups;
use crate::inbox::waiting_for_map::WaitingForMap;
use crate::leases::Leases;
use crate::limits;
use crate::operations::Operations;
use crate::operations::keys::ObjectKey;
use crate::operations::request::Origin;
use crate::operations::service::Service;
use crate::recovery::Recovery;
use crate::scrub::Scrubs;
use crate::shared::Shared;
use crate::trim::Trims;
use crate::watches::Watches;
use engine::{ConnId, Time};
use std::collections::BTreeMap;
use types::PgShard;

/// The groups, and the components that serve them.
#[derive(Debug, Default)]
pub(crate) struct HostedGroups {
    groups: Groups,
    operations: Operations,
    watches: Watches,
    leases: Leases,
    recovery: Recovery,
    scrub: Scrubs,
    trim: Trims,
    /// Requests and messages of groups that were sent by a newer map.
    waiting_for_map: WaitingForMap,
    /// Commands that gave up objects, whose removal is not durable yet.
    lost: LostCommands,
}

impl HostedGroups {
    /// The table of groups.
    pub fn groups(&self) -> &Groups {
        &self.groups
    }

    /// Requests and objects of all groups.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Recovery and backfill of all groups.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Scrubs of all groups.
    pub fn scrub(&self) -> &Scrubs {
        &self.scrub
    }

    /// Requests and messages of groups that were sent by a newer map.
    pub fn waiting_for_map(&mut self) -> &mut WaitingForMap {
        &mut self.waiting_for_map
    }

    /// Whether the map of some inputs has come that waited for it.
    pub fn has_ready(&self) -> bool {
        self.waiting_for_map.is_ready()
    }

    /// Describes a session with more messages from ahead of the map than it may have; `largest_held` is the
    /// length of the largest message of a group that is held.
    pub fn excess(&self, shared: &Shared, largest_held: usize) -> Option<String> {
        self.waiting_for_map.excess(&shared.env.config.sizes.budgets, largest_held)
    }

    /// When a timer of one of the components is due.
    pub fn due(&self) -> Option<Time> {
        let due = [
            self.groups.retry_due(),
            self.watches.due(),
            self.recovery.scheduler.due(),
            self.leases.due(),
            self.scrub.due(),
            self.trim.due(),
            self.operations.copies_due(),
            self.groups.next_wait(),
        ];
        due.into_iter().flatten().min()
    }

    /// Forgets the durations of states so far.
    pub fn reset_state_times(&mut self) {
        self.groups.reset_state_times();
    }

    /// Evicts all idle objects.
    pub fn drop_caches(&mut self) {
        self.groups.drop_caches(&mut self.operations);
    }

    /// The parts that serve the requests of a group.
    fn service<'a>(&'a mut self, shared: &'a mut Shared, pg: PgShard) -> Option<Service<'a>> {
        let objects_share = limits::objects_cached_max(self.groups.len());
        let group = self.groups.get_mut(pg)?.served();
        Some(Service {
            cx: Cx {
                env: &shared.env,
                map: shared.maps.map(),
                clients: &mut shared.clients,
                out: &mut shared.outbox,
                work: &mut shared.work,
            },
            ops: &mut self.operations,
            group,
            maps: &shared.maps,
            peers: &mut shared.peers,
            watches: &mut self.watches,
            leases: &mut self.leases,
            usage: &shared.usage,
            objects_share,
        })
    }

    /// Calls into the operations on a group, if this OSD has it.
    fn serve(&mut self, shared: &mut Shared, pg: PgShard, call: impl FnOnce(&mut Service<'_>)) {
        if let Some(mut service) = self.service(shared, pg) {
            call(&mut service);
        }
    }

    /// The same for the group that a request is in.
    fn serve_of(&mut self, shared: &mut Shared, key: u64, call: impl FnOnce(&mut Service<'_>)) {
        if let Some(request) = self.operations.get(key) {
            self.serve(shared, request.pg, call);
        }
    }

    /// The same for the group of an object in memory.
    fn serve_at(
        &mut self,
        shared: &mut Shared,
        object: ObjectKey,
        call: impl FnOnce(&mut Service<'_>),
    ) {
        if let Some(context) = self.operations.context(object) {
            self.serve(shared, context.pg, call);
        }
    }

    /// Panics unless recovery, scrubs and trimming know what their groups do.
    fn check_background(&self) {
        let groups = || self.groups.iter();
        let recovery = groups().map(|(_, group)| (&group.pg, &group.recovery));
        self.recovery.check_invariants(recovery, |pg| self.groups.get(pg).is_some());
        self.scrub.check_invariants(self.groups.scrubs());
        let mut trimming: BTreeMap<PgShard, usize> = BTreeMap::new();
        for (_, request) in self.operations.checked() {
            if let Origin::SnapTrim { .. } = request.origin {
                *trimming.entry(request.pg).or_default() += 1;
            }
        }
        for (pg, group) in groups() {
            let requests = trimming.get(&pg).copied().unwrap_or(0);
            self.trim.check_invariants(pg, &group.trim, requests);
        }
    }

    /// Panics if the state contradicts itself. Call it between inputs.
    /// `held` are session and length of each message of a group that waits for the groups.
    pub fn check_invariants(&self, shared: &Shared, held: impl Iterator<Item = (ConnId, usize)>) {
        self.waiting_for_map.check_invariants(held);
        self.check_background();
        self.groups.check_invariants();
        let groups = || self.groups.iter().map(|(_, group)| group);
        self.operations.check_invariants(groups().map(|group| &group.queues));
        self.operations.check_memory(&shared.env.config.sizes.budgets);
        let is_due = groups().any(|group| group.pg.is_store_due());
        assert!(shared.maps.is_telling() || !is_due, "intervals are stored");
        let waiting =
            self.groups.iter().filter(|(_, group)| !group.queues.waiting_for_readable.is_empty());
        self.leases.check_invariants(waiting.map(|(pg, _)| pg));
        if shared.env.stage != Stage::Failed {
            let watches = self.groups.iter().map(|(pg, group)| (pg, &group.watches));
            self.watches.check_invariants(watches, |conn, watch| {
                shared.clients.get(conn).is_some_and(|session| session.has_watch(watch))
            });
        }
    }
}

#[cfg(test)]
impl HostedGroups {
    pub fn trim(&self) -> &Trims {
        &self.trim
    }

    /// Number of inputs that wait for a map.
    pub fn waiting_len(&self) -> usize {
        self.waiting_for_map.len()
    }

    /// Evicts all objects of a group, as happens to idle ones.
    pub fn forget_objects(&mut self, shared: &mut Shared, pg: PgShard) {
        let group = self.groups.get_mut(pg).expect("there is one");
        self.watches.discard(crate::cx::cx!(shared), &mut group.watched());
        self.operations.evict_all(&mut group.queues, &group.watches);
        assert_eq!(self.operations.objects_len(), 0, "all are idle");
    }

    /// Whether this OSD, as the primary of a group, may answer a read at a time.
    pub fn may_read(&mut self, shared: &Shared, pg: PgShard, at: Time) -> bool {
        let group = self.groups.get_mut(pg).expect("it has the group");
        self.leases.may_read(at, &group.pg, shared.env.whoami(), &mut group.lease)
    }
}
