//! The highest request number of each client. Clients number their requests in ascending order, so a new
//! request is told from a resent one without a search of the log.

use stdx::FastMap;
use types::{EVersion, ParticipantName, RequestId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    tid_max: u64,
    /// The version of its newest request.
    at: EVersion,
}

/// By client and incarnation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Clients(FastMap<(ParticipantName, i32), Seen>);

impl Clients {
    /// Records a request that was executed at version `at`.
    pub fn note(&mut self, request: &RequestId, at: EVersion) {
        let fresh = Seen { tid_max: 0, at };
        let seen = self.0.entry((request.name, request.incarnation)).or_insert(fresh);
        *seen = Seen { tid_max: seen.tid_max.max(request.tid), at };
    }

    /// Whether the request may be among those that were noted.
    pub fn may_know(&self, request: &RequestId) -> bool {
        let seen = self.0.get(&(request.name, request.incarnation));
        seen.is_some_and(|seen| request.tid <= seen.tid_max)
    }

    /// Forgets clients whose newest request is at or below this version.
    pub fn forget(&mut self, through: EVersion) {
        self.0.retain(|_, seen| seen.at > through);
    }

    /// Clients that are remembered.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}
