//! Evictions: a client's address is put on the blocklist, and then its session ends.
//!
//! The rank names the client; the owner of the store sees to the blocklist and says when that is done.

use super::{Rank, asynchronous, client_sessions, reconnect};
use engine::Time;
use fscaps::EvictReason;
use types::{EntityAddrVec, Epoch};

/// A client must be evicted. A rank that is not stored cannot: then others wait for the client.
pub(super) fn begin(rank: &mut Rank, client: u64, reason: EvictReason) {
    if rank.log.is_stored() {
        tracing::warn!(client, ?reason, "a client is evicted");
        rank.evicting.insert(client);
    } else {
        tracing::warn!(client, ?reason, "a client should be evicted; until it is, others may wait");
    }
}

/// An administrator wants clients to be evicted; false if nothing is stored, so that none can be.
pub(crate) fn order(rank: &mut Rank, clients: &[u64]) -> bool {
    let can = rank.log.is_stored();
    if can {
        tracing::warn!(?clients, "an administrator has clients evicted");
        let known = clients.iter().filter(|client| rank.sessions.get(**client).is_some());
        rank.evicting.extend(known);
    }
    can
}

/// Whether a client is to be evicted and was not yet.
pub(crate) fn is_pending(rank: &Rank, client: u64) -> bool {
    rank.evicting.contains(&client)
}

/// The next client that must be evicted, with its addresses: one that has not come back after a take-over,
/// that is silent or withholds a capability, or of which messages are lost.
pub(crate) fn next(rank: &Rank, now: Time) -> Option<(u64, EntityAddrVec)> {
    let client = reconnect::overdue(rank, now).or_else(|| rank.evicting.first().copied())?;
    let session = rank.sessions.get(client).expect("a closed session is not evicted");
    Some((client, session.image().addrs.clone()))
}

/// A client can reach no data any more by the OSD map of this epoch: its session ends. Those that get its
/// capabilities wait for the map, so that no OSD that they ask takes a late write of it.
pub(crate) fn evicted(rank: &mut Rank, client: u64, addrs: &EntityAddrVec, epoch: Epoch) {
    tracing::warn!(client, %epoch, "a client was evicted");
    rank.barrier = rank.barrier.max(epoch);
    rank.log.set_author(None);
    // The session may have ended meanwhile, and another one with the same number may have begun.
    let session = rank.sessions.get(client);
    if session.is_none_or(|session| session.image().addrs != *addrs) {
        return;
    }
    // It may have written up to the ends of its ranges.
    rank.sessions.counted.evictions += 1;
    rank.caps.leave_ranges(client);
    // A successor that finds the session finds its numbers unused, too: they are purged behind its end.
    let numbers = asynchronous::unused_numbers(rank, client);
    client_sessions::close(rank, client, 0);
    asynchronous::abandon_numbers(rank, numbers);
    if rank.awaited.is_none() {
        rank.settle();
    }
}
