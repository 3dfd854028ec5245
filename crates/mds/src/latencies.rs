//! How long clients wait for replies: from the arrival of a request until its first reply is sent.

use engine::{Duration, Time};
use fscaps::RequestId;
use std::collections::BTreeMap;

/// Bound of the requests whose arrival is remembered; those beyond are not measured.
const ARRIVED_MAX: usize = 100_000;

/// Requests without a reply, and the sums of those with one.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    arrived: BTreeMap<RequestId, Time>,
    /// Time of all requests that were answered.
    pub total: Duration,
    /// Number of them.
    pub replies: u64,
}

impl Latencies {
    /// A request arrives, perhaps again.
    pub fn arrived(&mut self, now: Time, id: RequestId) {
        if self.arrived.len() < ARRIVED_MAX {
            self.arrived.entry(id).or_insert(now);
        }
    }

    /// A reply is sent. A second one, which says that the change is durable, is not counted.
    pub fn replied(&mut self, now: Time, id: RequestId) {
        if let Some(arrived) = self.arrived.remove(&id) {
            self.total += now.since(arrived);
            self.replies += 1;
        }
    }

    /// The session of a client has ended.
    pub fn forget(&mut self, client: u64) {
        let all = |tid| RequestId { client, tid };
        let ids = self.arrived.range(all(0)..=all(u64::MAX)).map(|(id, _)| *id);
        for id in ids.collect::<Vec<_>>() {
            self.arrived.remove(&id);
        }
    }

    /// Requests without a reply.
    pub fn in_flight(&self) -> usize {
        self.arrived.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_measured_once_and_from_its_first_arrival() {
        let at = |seconds: u64| Time::ZERO + Duration::from_secs(seconds);
        let id = |client, tid| RequestId { client, tid };
        let mut latencies = Latencies::default();
        latencies.arrived(at(1), id(4, 1));
        latencies.arrived(at(2), id(4, 1));
        latencies.arrived(at(2), id(4, 2));
        latencies.arrived(at(2), id(5, 1));
        latencies.replied(at(4), id(4, 1));
        latencies.replied(at(9), id(4, 1));
        assert_eq!((latencies.total, latencies.replies), (Duration::from_secs(3), 1));
        latencies.forget(4);
        assert_eq!(latencies.in_flight(), 1);
    }
}
