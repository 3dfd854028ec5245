//! Periodic work: rotation of secrets, expiry, quotas.

use super::Monitor;
use super::run::GLOBAL_IDS_PER_RESERVATION;
use crate::change::Change;
use crate::job::Job;
use crate::keys;
use crate::numbers;
use crate::state::Mute;
use engine::Time;
use maps::PoolFlags;
use types::PoolId;

impl Monitor {
    /// Runs the periodic work of a tick, and queues the operations that are due.
    pub(super) fn keep_house(&mut self, now: Time) {
        self.expire_handshakes(now);
        if !matches!(self.phase, super::Phase::Serving) {
            return;
        }
        self.relieve_waiting(now);
        self.give_up_waiting(now);
        let is_queued =
            |monitor: &Monitor, wanted: fn(&Job) -> bool| monitor.pipeline.contains(wanted);
        let left = self.global_ids.end - self.global_ids.start;
        if left < GLOBAL_IDS_PER_RESERVATION / 2
            && !is_queued(self, |job| matches!(job, Job::ReserveGlobalIds | Job::Start))
        {
            self.enqueue(Job::ReserveGlobalIds);
        }
        if self.pipeline.needs_probe() {
            self.enqueue(Job::Probe);
        }
        if self.leads() {
            self.liveness.look(now, &self.state.osdmap);
            self.overview.osds.silent = self.silent_osds(now);
        }
        if !self.owns_timers(now) {
            return;
        }
        let rotation = self.state.secrets.next_rotation();
        if rotation.is_none_or(|due| due <= now.wall())
            && !is_queued(self, |job| matches!(job, Job::RotateSecrets | Job::Start))
        {
            self.enqueue(Job::RotateSecrets);
        }
        self.overview.osds.kept_down = self.flapping.held(&self.state, &self.overview.running, now);
        self.overview.osds.progress.observe(now, &self.state.osdmap, &self.stats);
        self.expire_services(now);
        self.check_clocks(now);
        if self.pipeline.went_back() {
            // The OSD map cannot be changed any more.
            return self.watch_health(now);
        }
        self.balance_if_due(now);
        self.watch_health(now);
        let mut draft = Change::new(now.wall());
        self.plan_housekeeping(now, &mut draft);
        if !draft.is_empty() && !is_queued(self, |job| matches!(job, Job::Housekeeping)) {
            self.enqueue(Job::Housekeeping);
        }
    }

    /// Collects the periodic changes of the leader.
    pub(super) fn plan_housekeeping(&mut self, now: Time, change: &mut Change) {
        self.plan_manager(change);
        self.plan_liveness(now, change);
        self.plan_fullness(change);
        self.plan_quotas(change);
        self.plan_blocklist(now, change);
        self.plan_mutes(now, change);
        self.plan_history(change);
        numbers::plan_steps(&self.state, &self.overview.running, &self.stats, change);
        self.plan_purge(change);
        numbers::plan_targets(&self.state, &self.overview.running, &self.stats, change);
    }

    /// Sets the flags of pools over their quotas, and clears them when usage is below again.
    fn plan_quotas(&self, change: &mut Change) {
        let quota_flags = PoolFlags::FULL_QUOTA | PoolFlags::FULL;
        let map = &self.state.osdmap;
        let changed: Vec<(PoolId, bool)> = map
            .pools
            .iter()
            .filter(|(_, pool)| {
                pool.quota_max_bytes > 0
                    || pool.quota_max_objects > 0
                    || pool.flags.contains(PoolFlags::FULL_QUOTA)
            })
            .filter_map(|(id, pool)| {
                let totals = self.stats.pool_totals(*id);
                let over = |limit: u64, used: u64| limit > 0 && used >= limit;
                let is_over = over(pool.quota_max_bytes, totals.bytes)
                    || over(pool.quota_max_objects, totals.objects);
                let was_over = pool.flags.contains(PoolFlags::FULL_QUOTA);
                // Partial reports are lower bounds: enough to set the flag, but not to clear it.
                let has_quota = pool.quota_max_bytes > 0 || pool.quota_max_objects > 0;
                let is_certain = is_over || !has_quota || self.stats.knows_pool(map, *id);
                (is_over != was_over && is_certain).then_some((*id, is_over))
            })
            .collect();
        for (id, is_over) in changed {
            if let Some(pool) = change.pool(&self.state, id) {
                pool.flags.set(quota_flags, is_over);
            }
        }
    }

    fn plan_mutes(&self, now: Time, change: &mut Change) {
        let second = u64::from(now.wall().seconds);
        let has_expired = |expires_at: u64| expires_at != 0 && expires_at <= second;
        let is_over =
            |mute: &&Mute| has_expired(mute.expires_at) || self.health_seen.has_ended(mute);
        if self.state.mutes.iter().any(|mute| is_over(&mute)) {
            let kept: Vec<_> = self.state.mutes.iter().filter(|mute| !is_over(mute)).collect();
            change.put(keys::HEALTH_MUTES, serde_json::to_vec(&kept).unwrap_or_default());
        }
    }
}
