//! Queries of the state of placement groups.

use super::{Body, World};
use crate::check::{memory, replicas};
use crate::network::NodeId;
use osd::Osd;
use pg::{Pg, State};
use std::collections::BTreeSet;
use std::fmt::Write;
use types::PgId;

impl World {
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
        if self.osds().any(|osd| osd.hosted.daemon.as_ref().is_some_and(differs)) {
            return false;
        }
        self.unclean().is_empty()
    }

    pub fn unclean(&self) -> Vec<PgId> {
        let groups = self.osds().flat_map(|osd| osd.hosted.daemon.iter().flat_map(Osd::groups));
        let clean: BTreeSet<PgId> = groups.filter(|pg| pg.is_clean()).map(Pg::id).collect();
        let mut all = self.newest_map().map(replicas::all_groups).unwrap_or_default();
        all.retain(|pg| !clean.contains(pg));
        all
    }

    /// Views of the groups that are not clean, by OSD.
    pub fn groups(&self) -> String {
        let mut text = String::new();
        for osd in self.osds() {
            let epoch = osd.hosted.daemon.as_ref().map(|osd| osd.map().epoch).unwrap_or_default();
            writeln!(text, "osd.{} at epoch {epoch}", osd.config.id).expect("strings grow");
            let all = osd.hosted.daemon.iter().flat_map(|daemon| daemon.groups());
            for pg in all.filter(|pg| !pg.is_clean()) {
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

    /// Panics if an OSD exceeds its memory budget.
    pub(super) fn check_memory(&self, node: NodeId) {
        if let Body::Osd(osd) = &self.nodes[node].body
            && let Some(daemon) = &osd.hosted.daemon
            && let Err(what) = memory::check(daemon, self.scenario.is_wired)
        {
            panic!("{what}");
        }
    }

    /// Panics if a scrub finds an error that no device fault explains.
    pub(super) fn check_findings(&self, node: NodeId) {
        if let Body::Osd(osd) = &self.nodes[node].body
            && let Some(daemon) = &osd.hosted.daemon
            && !(self.has_omitted || self.scenario.may_lose_data())
        {
            let (found, osd) = (daemon.scrub_findings(), osd.config.id);
            assert!(found == 0, "a scrub of osd.{osd} finds damage, and nothing was damaged");
        }
    }
}
