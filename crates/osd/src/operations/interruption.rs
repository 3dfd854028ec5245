//! The end of an interval, and the beginning of the next one, as the requests of a group see it.

use crate::operations::queue;
use crate::operations::request::Origin;
use crate::operations::service::Service;
use crate::work::Work;
use maps::stable_mod;
use types::Epoch;

/// Starts the first of the requests that wait for a group, if it is still active; so many may be started.
pub(crate) fn wake(s: &mut Service<'_>, left: usize) {
    if left == 0 || !s.group.pg.is_active() || s.group.check_premerge() {
        return;
    }
    let Some(key) = s.group.queues.waiting.pop_front() else { return };
    queue::start(s, key);
    s.cx.work.push(Work::Wake(s.group.id, left - 1));
}

/// An interval has ended or was aborted. Every request restarts when the group is active again:
/// here if this OSD is still the primary, otherwise at the new primary, to which its client
/// resends it. `tickets` are the writes in flight.
pub(crate) fn interrupted(s: &mut Service<'_>, tickets: &[u64]) {
    let mut keys: Vec<u64> = tickets.to_vec();
    keys.extend(s.group.queues.interrupt(&mut s.ops.contexts));
    s.group.lease.forget();
    s.group.premerge.resume(s.group.pg);
    keys.extend(s.ops.requests.begun_of_group(s.group.id));
    keys.sort_unstable();
    keys.dedup();
    requeue(s, keys);
}

fn requeue(s: &mut Service<'_>, keys: Vec<u64>) {
    let mut requests: Vec<(u64, u64)> = Vec::new();
    let (pg, stays) = (s.group.id.pg, s.group.pg.is_primary());
    let pg_num = s.cx.map.pool(pg.pool).map_or(0, |pool| pool.pg_num);
    for key in keys {
        s.ops.start_over(key);
        let Some(request) = s.ops.requests.get(key) else { continue };
        // After a split, the object may belong to another group.
        let hash = request.object().hash;
        let is_here =
            request.op_flags.is_pg_op || pg_num > 0 && stable_mod(hash, pg_num) == pg.seed;
        match stays && is_here && request.origin.is_repeated() {
            true => requests.push((request.tid, key)),
            false => dismiss(s, key),
        }
    }
    // The tids of a client ascend in order of submission. All have begun before those that wait, as for
    // the end of `premerge`.
    requests.sort_unstable();
    requests.into_iter().rev().for_each(|(_, key)| s.group.queues.waiting.push_front(key));
}

/// Drops a request that another OSD will answer, and shares the map with its client, which may
/// have no other request in flight from whose reply it would learn of that map.
fn dismiss(s: &mut Service<'_>, key: u64) {
    let origin = s.ops.requests.get(key).map(|request| request.origin);
    s.ops.forget(&mut s.cx, key);
    if let Some(Origin::Client { conn }) = origin {
        s.maps.share(s.cx.clients, s.cx.out, conn, Epoch(0));
    }
}

/// Drops the requests that wait for a group whose pool is gone.
pub(crate) fn drop_waiting(s: &mut Service<'_>) {
    for key in std::mem::take(&mut s.group.queues.waiting) {
        s.ops.forget(&mut s.cx, key);
    }
}
