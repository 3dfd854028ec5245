//! Queries of the state of the cluster and its clients.

use super::World;
use crate::check::coexistence::Holders;
use crate::groups::all_groups;
use crate::history::Entry;
use crate::process::{ClientProcess, OsdProcess};
use osd::Osd;
use pg::{Pg, State};
use std::collections::BTreeSet;
use std::fmt::Write;
use types::{OsdId, PgId};

impl World {
    /// Capabilities of all clients of the file system but those that are shut out.
    pub fn held_caps(&self) -> Holders {
        let mut held = Holders::new();
        for node in &self.cast.file_clients {
            if self.checks.is_shut_out(&self.nodes.presences()[*node].addrs) {
                continue;
            }
            let client = self.nodes.process(*node).as_file_client();
            let Some(client) = client.and_then(|client| client.daemon()) else { continue };
            for cap in client.held_caps() {
                held.entry(cap.ino).or_default().push((client.global_id(), cap.bits));
            }
        }
        held
    }

    /// True if all groups are clean in the newest map.
    pub fn is_clean(&self) -> bool {
        let Some(map) = self.newest_map() else { return false };
        // The monitor does not reach this state while anything is unclean.
        if map
            .pools
            .values()
            .any(|pool| (pool.pg_num, pool.pgp_num) != (pool.pg_num_target, pool.pgp_num_target))
        {
            return false;
        }
        // Monitors may be behind OSDs if they have lost the control store.
        let differs = |osd: &Osd| osd.map().epoch != map.epoch;
        if self.osds().any(|osd| osd.daemon().is_some_and(differs)) {
            return false;
        }
        self.unclean().is_empty()
    }

    /// Groups of the newest map that are not clean.
    pub fn unclean(&self) -> Vec<PgId> {
        let groups = self.osds().flat_map(OsdProcess::groups);
        let clean: BTreeSet<PgId> = groups.filter(|pg| pg.is_clean()).map(Pg::id).collect();
        let mut all = self.newest_map().map(all_groups).unwrap_or_default();
        all.retain(|pg| !clean.contains(pg));
        all
    }

    /// Views of the groups that are not clean, by OSD.
    pub fn groups(&self) -> String {
        let mut text = String::new();
        for osd in self.osds() {
            let epoch = osd.daemon().map(|osd| osd.map().epoch).unwrap_or_default();
            writeln!(text, "osd.{} at epoch {epoch}", osd.id()).expect("strings grow");
            for pg in osd.groups().filter(|pg| !pg.is_clean()) {
                if pg.state() == State::ReplicaActive {
                    let (id, info) = (pg.id(), pg.info());
                    writeln!(text, "  {id} is a replica: {info:?}").expect("strings grow");
                    continue;
                }
                let (id, state, members) = (pg.id(), pg.state(), pg.members());
                let (info, interval) = (pg.info(), pg.interval());
                let waiting: Vec<String> = pg.waiting_for().map(|osd| osd.to_string()).collect();
                let waiting = waiting.join(" ");
                let (filling, wanted) = (pg.backfill_state(), pg.wanted_acting());
                let (missing, recovering) = (pg.objects_missing(), pg.recovering());
                writeln!(
                    text,
                    "  {id} {state:?} since {interval} for {waiting}, {missing} missing, {recovering} in \
                     work, filling in {filling:?}, wants {wanted:?}: {members:?} {info:?}"
                )
                .expect("strings grow");
                for object in pg.unfound() {
                    let (item, holders) = (pg.unfound_item(object), pg.may_have_unfound());
                    writeln!(text, "    {object} is unfound: {item:?} {holders:?}")
                        .expect("strings grow");
                }
            }
        }
        text
    }

    /// True if the device of that OSD may have lost data.
    pub fn is_rotten(&self, osd: OsdId) -> bool {
        [self.scenario.disks.rotten, self.scenario.disks.rotting].contains(&Some(osd))
    }

    /// The OSD that was removed while faults happened, if any.
    pub fn removed(&self) -> Option<OsdId> {
        let node = self.cast.removed.filter(|node| self.is_removed(*node));
        node.and(self.scenario.cluster.removed)
    }

    /// Number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.clients().map(ClientProcess::in_flight).sum()
    }

    /// Requests of running clients without a response.
    pub fn unanswered(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.records.history.entries().iter();
        let open = entries.filter(|entry| entry.completed.is_none());
        open.filter(|entry| self.clients().any(|client| client.actor() == entry.actor))
    }

    /// Requests of clients that are not in the history and have no response.
    pub fn waiting_for(&self) -> Vec<String> {
        self.clients().flat_map(ClientProcess::waits_for).collect()
    }

    /// True while a command has no response, so that it may be executed at any time.
    pub fn has_commands(&self) -> bool {
        self.clients().any(ClientProcess::has_commands)
    }
}
