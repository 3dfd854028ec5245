//! What follows from time alone: rotation of secrets, expiry, flags of full pools.

use super::Monitor;
use super::job::{GLOBAL_IDS_PER_RESERVATION, Job};
use crate::change::Change;
use crate::keys;
use engine::Time;
use maps::{OsdState, PoolFlags};
use std::collections::BTreeSet;
use types::{EntityAddr, OsdId, PoolId};

impl Monitor {
    /// Once per tick: finds out whether anything is due, and queues it.
    pub(super) fn keep_house(&mut self, now: Time) {
        self.expire_handshakes(now);
        if !matches!(self.phase, super::Phase::Serving) {
            return;
        }
        let is_queued = |monitor: &Monitor, wanted: fn(&Job) -> bool| {
            monitor.jobs.iter().any(wanted)
                || monitor.in_flight.as_ref().is_some_and(|in_flight| wanted(&in_flight.job))
        };
        let left = self.global_ids.end - self.global_ids.start;
        if left < GLOBAL_IDS_PER_RESERVATION / 2
            && !is_queued(self, |job| matches!(job, Job::ReserveGlobalIds | Job::Start))
        {
            self.enqueue(Job::ReserveGlobalIds);
        }
        let rotation = self.state.secrets.next_rotation();
        if rotation.is_none_or(|due| due <= now.wall())
            && !is_queued(self, |job| matches!(job, Job::RotateSecrets | Job::Start))
        {
            self.enqueue(Job::RotateSecrets);
        }
        let mut draft = Change::new(now.wall());
        self.plan_housekeeping(now, &mut draft);
        if !draft.is_empty() && !is_queued(self, |job| matches!(job, Job::Housekeeping)) {
            self.enqueue(Job::Housekeeping);
        }
    }

    pub(super) fn plan_housekeeping(&self, now: Time, change: &mut Change) {
        self.plan_liveness(now, change);
        self.plan_fullness(change);
        self.plan_quotas(change);
        self.plan_blocklist(now, change);
        self.plan_mutes(now, change);
        self.plan_history(change);
    }

    /// OSDs whose disks fill up are marked so, and pools that one full OSD serves take no more
    /// writes: no group may lose a copy for lack of space.
    fn plan_fullness(&self, change: &mut Change) {
        let marks = OsdState::FULL | OsdState::BACKFILLFULL | OsdState::NEARFULL;
        let map = &self.state.osdmap;
        let mut full = BTreeSet::new();
        for (osd, known) in map.existing_osds() {
            let mark = self.fullness(osd);
            if mark == OsdState::FULL {
                full.insert(osd);
            }
            let flips = OsdState((known.state.0 & marks.0) ^ mark.0);
            if !flips.is_empty() && known.is_up() {
                let states = &mut change.osdmap(&self.state).new_state;
                let state = states.entry(osd).or_default();
                *state = *state | flips;
            }
        }
        for (id, pool) in &map.pools {
            // The flag of a pool over its quota is set and cleared with that.
            if pool.flags.contains(PoolFlags::FULL_QUOTA) {
                continue;
            }
            let was_full = pool.flags.contains(PoolFlags::FULL);
            if full.is_empty() && !was_full {
                continue;
            }
            let shares = crate::dump::usage::rule_shares(map, pool);
            let is_full = shares.keys().any(|osd| full.contains(osd));
            if is_full != was_full
                && let Some(pool) = change.pool(&self.state, *id)
            {
                pool.flags.set(PoolFlags::FULL, is_full);
            }
        }
    }

    /// The mark that an OSD's usage earns it, if any.
    fn fullness(&self, osd: OsdId) -> OsdState {
        let map = &self.state.osdmap;
        let Some(usage) = self.stats.osd(osd).map(|report| &report.usage) else {
            return map.osd(osd).map_or(OsdState::default(), |known| {
                OsdState(
                    known.state.0
                        & (OsdState::FULL | OsdState::BACKFILLFULL | OsdState::NEARFULL).0,
                )
            });
        };
        let used = 1.0 - usage.bytes_available as f64 / usage.bytes_total.max(1) as f64;
        let reached = |ratio: f32| usage.bytes_total > 0 && used >= f64::from(ratio);
        match () {
            () if reached(map.full_ratio) => OsdState::FULL,
            () if reached(map.backfillfull_ratio) => OsdState::BACKFILLFULL,
            () if reached(map.nearfull_ratio) => OsdState::NEARFULL,
            () => OsdState::default(),
        }
    }

    /// A pool over its quota takes no more writes, until it is below again.
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
                (is_over != pool.flags.contains(PoolFlags::FULL_QUOTA)).then_some((*id, is_over))
            })
            .collect();
        for (id, is_over) in changed {
            if let Some(pool) = change.pool(&self.state, id) {
                pool.flags.set(quota_flags, is_over);
            }
        }
    }

    fn plan_blocklist(&self, now: Time, change: &mut Change) {
        let map = &self.state.osdmap;
        let expired = |list: &maps::Blocklist| -> Vec<EntityAddr> {
            list.iter().filter(|(_, until)| **until < now.wall()).map(|(addr, _)| *addr).collect()
        };
        let (addresses, ranges) = (expired(&map.blocklist), expired(&map.range_blocklist));
        if !addresses.is_empty() || !ranges.is_empty() {
            let incremental = change.osdmap(&self.state);
            incremental.old_blocklist = addresses;
            incremental.old_range_blocklist = ranges;
        }
    }

    fn plan_mutes(&self, now: Time, change: &mut Change) {
        let second = u64::from(now.wall().seconds);
        let is_over = |expires_at: u64| expires_at != 0 && expires_at <= second;
        if self.state.mutes.iter().any(|mute| is_over(mute.expires_at)) {
            let kept: Vec<_> =
                self.state.mutes.iter().filter(|mute| !is_over(mute.expires_at)).collect();
            change.put(keys::HEALTH_MUTES, serde_json::to_vec(&kept).unwrap_or_default());
        }
    }
}
