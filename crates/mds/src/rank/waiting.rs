//! Requests of clients that wait: for other clients, for maps, for the cut of a file, or for earlier requests
//! of their own client.
//!
//! Guarantees:
//! * Of requests that wait, the asynchronous ones of a client go on in their order, and none is refused.
//! * What waits for one client is bounded in bytes, whatever other clients do.

use engine::Time;
use fscaps::RequestId;
use namespace::Ino;
use std::collections::{BTreeMap, BTreeSet};
use wire::ClientRequest;

/// Bytes of the requests of one client that wait, with what they take in memory. A further request is refused
/// with EAGAIN, and a further asynchronous one, which must not be refused, ends the session.
pub(super) const BYTES_MAX: usize = if cfg!(test) { 4 << 20 } else { 64 << 20 };
/// Requests of one client that wait for its asynchronous ones. Further ones are refused with EAGAIN.
const BEHIND_MAX: usize = 1024;
/// Bytes of a request besides its names and data.
const REQUEST_BYTES: usize = 1024;

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: ClientRequest,
    /// When it came.
    pub(super) since: Time,
    /// The inode that it has created already, if it is only answered again.
    pub(super) created: Option<Ino>,
    /// Its number as a task of the server, for which its own client also has to give back what it has.
    pub(super) task: u64,
    /// Of an asynchronous request: the inodes that it concerns.
    pub(super) concerned: Vec<Ino>,
    /// Of an asynchronous unlink: the inode that the name led to when it came.
    pub(super) meant: Option<Ino>,
}

impl Waiting {
    fn bytes(&self) -> usize {
        let ClientRequest { path, path2, data, releases, .. } = &self.request;
        let names: usize = releases.iter().map(|release| release.name.len() + 64).sum();
        REQUEST_BYTES + path.path.len() + path2.path.len() + data.len() + names
    }
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests {
    all: BTreeMap<RequestId, Waiting>,
    /// Bytes by client.
    bytes: BTreeMap<u64, usize>,
    /// How many asynchronous requests concern an inode, by client.
    concerned: BTreeMap<(u64, Ino), usize>,
    /// Requests that wait for asynchronous ones of their client.
    behind: BTreeSet<RequestId>,
    /// Asynchronous ones that wait until their client has fewer in progress.
    held: BTreeSet<RequestId>,
}

/// All requests of a client.
fn of(client: u64) -> std::ops::RangeInclusive<RequestId> {
    RequestId { client, tid: 0 }..=RequestId { client, tid: u64::MAX }
}

impl WaitingRequests {
    /// A request waits.
    pub(super) fn insert(&mut self, id: RequestId, waiting: Waiting) {
        *self.bytes.entry(id.client).or_default() += waiting.bytes();
        for ino in &waiting.concerned {
            *self.concerned.entry((id.client, *ino)).or_default() += 1;
        }
        assert!(self.all.insert(id, waiting).is_none(), "a request waits once");
    }

    /// It waits for asynchronous ones of its client; the request is given back if too many do.
    pub(super) fn insert_behind(&mut self, id: RequestId, waiting: Waiting) -> Option<Waiting> {
        if self.behind.range(of(id.client)).count() >= BEHIND_MAX {
            return Some(waiting);
        }
        self.behind.insert(id);
        self.insert(id, waiting);
        None
    }

    /// It waits until its client has fewer requests in progress.
    pub(super) fn insert_held(&mut self, id: RequestId, waiting: Waiting) {
        self.held.insert(id);
        self.insert(id, waiting);
    }

    /// It waits no more.
    pub(super) fn remove(&mut self, id: RequestId) -> Option<Waiting> {
        let waiting = self.all.remove(&id)?;
        self.behind.remove(&id);
        self.held.remove(&id);
        subtract(&mut self.bytes, id.client, waiting.bytes());
        for ino in &waiting.concerned {
            subtract(&mut self.concerned, (id.client, *ino), 1);
        }
        Some(waiting)
    }

    /// The session of a client has ended.
    pub(super) fn remove_client(&mut self, client: u64) {
        let all: Vec<RequestId> = self.of(client).map(|(id, _)| *id).collect();
        all.into_iter().for_each(|id| drop(self.remove(id)));
    }

    pub(super) fn has(&self, id: RequestId) -> bool {
        self.all.contains_key(&id)
    }

    /// Whether one more request of a client may wait.
    pub(super) fn has_room(&self, client: u64) -> bool {
        self.bytes.get(&client).is_none_or(|bytes| *bytes < BYTES_MAX)
    }

    /// Whether any asynchronous request of a client waits.
    pub(super) fn has_asynchronous(&self, client: u64) -> bool {
        self.concerned.range((client, Ino(0))..=(client, Ino(u64::MAX))).next().is_some()
    }

    /// Whether an asynchronous request of a client waits that concerns an inode.
    pub(super) fn concerns(&self, client: u64, ino: Ino) -> bool {
        self.concerned.contains_key(&(client, ino))
    }

    /// Requests of a client that wait for its asynchronous ones.
    pub(super) fn behind(&self, client: u64) -> impl Iterator<Item = (RequestId, &Waiting)> {
        self.behind.range(of(client)).map(|id| (*id, &self.all[id]))
    }

    /// A request does not wait for asynchronous ones any more, but for its turn.
    pub(super) fn let_go(&mut self, id: RequestId) {
        self.behind.remove(&id);
        self.held.remove(&id);
    }

    /// The first asynchronous request of a client that waits until fewer are in progress.
    pub(super) fn first_held(&self, client: u64) -> Option<RequestId> {
        self.held.range(of(client)).next().copied()
    }

    /// Requests of a client.
    pub(super) fn of(&self, client: u64) -> impl Iterator<Item = (&RequestId, &Waiting)> {
        self.all.range(of(client))
    }

    /// All requests.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&RequestId, &Waiting)> + Clone {
        self.all.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Panics if the parts contradict each other.
    pub(super) fn check_invariants(&self) {
        let bytes: usize = self.all.values().map(Waiting::bytes).sum();
        assert_eq!(bytes, self.bytes.values().sum::<usize>(), "bytes are those of requests");
        let concerned: usize = self.all.values().map(|waiting| waiting.concerned.len()).sum();
        assert_eq!(concerned, self.concerned.values().sum::<usize>(), "inodes are counted");
        let both = self.behind.iter().chain(&self.held);
        assert!(both.into_iter().all(|id| self.has(*id)), "requests that wait are known");
    }
}

fn subtract<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K, count: usize) {
    let left = counts.get_mut(&key).expect("what was added is subtracted");
    *left -= count;
    if *left == 0 {
        counts.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn waiting(data: usize, concerned: &[u64]) -> Waiting {
        let data = Bytes::from(vec![0; data]);
        Waiting {
            request: ClientRequest { data, ..ClientRequest::default() },
            since: Time::ZERO,
            created: None,
            task: 0,
            concerned: concerned.iter().map(|ino| Ino(*ino)).collect(),
            meant: None,
        }
    }

    #[test]
    fn a_client_has_so_much_room_and_takes_none_of_others() {
        let (mut all, mut tid) = (WaitingRequests::default(), 0);
        while all.has_room(1) {
            tid += 1;
            all.insert(RequestId { client: 1, tid }, waiting(1 << 20, &[]));
        }
        assert_eq!(tid, 4);
        all.insert(RequestId { client: 2, tid }, waiting(1 << 20, &[]));
        all.check_invariants();
        assert!(all.has_room(2));
        all.remove(RequestId { client: 1, tid });
        assert!(all.has_room(1));
        all.remove_client(1);
        all.remove_client(2);
        assert_eq!((all.len(), all.bytes.len()), (0, 0));
    }

    #[test]
    fn inodes_are_concerned_until_the_last_request_about_them_has_gone() {
        let mut all = WaitingRequests::default();
        for tid in [1, 2] {
            all.insert(RequestId { client: 1, tid }, waiting(0, &[7, 7 + tid]));
        }
        assert!(all.concerns(1, Ino(7)) && !all.concerns(2, Ino(7)));
        all.remove(RequestId { client: 1, tid: 1 });
        assert!(all.concerns(1, Ino(7)) && !all.concerns(1, Ino(8)) && all.concerns(1, Ino(9)));
        all.remove(RequestId { client: 1, tid: 2 });
        assert!(!all.has_asynchronous(1));
        all.check_invariants();
    }
}
