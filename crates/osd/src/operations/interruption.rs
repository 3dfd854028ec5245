//! The end of an interval, and the beginning of the next one, as the requests of a group see it.

use crate::Osd;
use crate::cx::cx;
use crate::operations::request::Origin;
use crate::work::Work;
use engine::Time;
use maps::stable_mod;
use types::{Epoch, PgId};

impl Osd {
    /// The group has become active: starts the requests that waited.
    pub(crate) fn activated(&mut self, now: Time, pg: PgId) {
        self.report.schedule.request(now);
        self.scrub.hurry(now);
        self.keep_order(pg);
        self.note_trim(now, pg);
        self.end_blocklisted_watches_of(pg);
        let Some(group) = self.groups.by_id.get(&pg) else { return };
        self.work.push(Work::Wake(pg, group.queues.waiting.len()));
    }

    /// Starts the first of the requests that wait for a group, if it is still active; so many may be started.
    pub(crate) fn wake(&mut self, now: Time, pg: PgId, left: usize) {
        let Some(group) = self.groups.by_id.get_mut(&pg).filter(|_| left > 0) else { return };
        if !group.pg.is_active() || group.must_rest() {
            return;
        }
        let Some(key) = group.queues.waiting.pop_front() else { return };
        self.start(now, pg, key);
        self.work.push(Work::Wake(pg, left - 1));
    }

    /// An interval has ended or was aborted. Every request restarts when the group is active again:
    /// here if this OSD is still the primary, otherwise at the new primary, to which its client
    /// resends it.
    pub(crate) fn interrupted(&mut self, now: Time, pg: PgId, tickets: &[u64], members_stay: bool) {
        self.report.schedule.request(now);
        if !members_stay {
            match self.groups.by_id.get(&pg).is_some_and(|group| group.pg.is_primary()) {
                true => self.discard_notifications(pg),
                false => self.discard_watches(pg),
            }
        }
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        let mut keys: Vec<u64> = tickets.to_vec();
        keys.extend(group.queues.interrupt(&mut self.operations.contexts));
        group.lease.forget();
        group.resume();
        group.trim.begin_anew();
        let stays = group.pg.is_primary();
        keys.extend(self.operations.requests.begun_of_group(pg));
        keys.sort_unstable();
        keys.dedup();
        self.requeue(pg, keys, stays);
    }

    fn requeue(&mut self, pg: PgId, keys: Vec<u64>, stays: bool) {
        let mut requests: Vec<(u64, u64)> = Vec::new();
        let pg_num = self.maps.map().pool(pg.pool).map_or(0, |pool| pool.pg_num);
        for key in keys {
            self.operations.start_over(key);
            let Some(request) = self.operations.requests.get(key) else { continue };
            // After a split, the object may belong to another group.
            let hash = request.object().hash;
            let is_here =
                request.nature.is_pg_op || pg_num > 0 && stable_mod(hash, pg_num) == pg.seed;
            match stays && is_here && request.origin.is_repeated() {
                true => requests.push((request.tid, key)),
                false => self.dismiss(key),
            }
        }
        // The tids of a client ascend in order of submission.
        requests.sort_unstable();
        let group = self.groups.by_id.get_mut(&pg).expect("the caller has it");
        group.queues.waiting.extend(requests.into_iter().map(|(_, key)| key));
    }

    /// Drops a request that another OSD will answer, and shares the map with its client, which may
    /// have no other request in flight from whose reply it would learn of that map.
    fn dismiss(&mut self, key: u64) {
        let origin = self.operations.requests.get(key).map(|request| request.origin);
        self.operations.forget(cx!(self), key);
        if let Some(Origin::Client { conn }) = origin {
            self.share_map(conn, Epoch(0));
        }
    }

    /// Drops all requests of a group whose pool is gone.
    pub(crate) fn drop_requests(&mut self, now: Time, pg: PgId) {
        self.interrupted(now, pg, &[], false);
        self.discard_watches(pg);
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        for key in std::mem::take(&mut group.queues.waiting) {
            self.operations.forget(cx!(self), key);
        }
    }
}
