//! Routes the requests of many engines to one [`Client`], and the responses back.

use crate::{
    Client, ClusterRequest, ClusterRequestId, ClusterResponse, CommandTarget, OpId, OperationReply,
    Reply, RequestSource,
};
use engine::Time;
use std::collections::BTreeMap;
use stdx::FastMap;
use wire::watch::NotifyRequest;

/// Time that watchers have to answer a notification (librbd's `NOTIFY_TIMEOUT`).
const NOTIFY_TIMEOUT_SECONDS: u32 = 10;

/// Requests in flight by operation; `K` names sources. The host drops responses to sources that no longer
/// exist.
#[derive(Debug)]
pub struct RequestRouter<K> {
    in_flight: FastMap<OpId, (K, ClusterRequestId)>,
    waits: BTreeMap<(Time, u64), (K, ClusterRequestId)>,
    waits_made: u64,
}

impl<K> Default for RequestRouter<K> {
    fn default() -> Self {
        RequestRouter { in_flight: FastMap::default(), waits: BTreeMap::new(), waits_made: 0 }
    }
}

impl<K: Copy> RequestRouter<K> {
    /// Submits all pending requests of a source; true if there were any.
    pub fn send(
        &mut self,
        client: &mut Client,
        now: Time,
        key: K,
        source: &mut (impl RequestSource + ?Sized),
    ) -> bool {
        let mut any = false;
        while let Some((id, request)) = source.poll_request() {
            self.perform(client, now, (key, id), request);
            any = true;
        }
        any
    }

    fn perform(
        &mut self,
        client: &mut Client,
        now: Time,
        from: (K, ClusterRequestId),
        request: ClusterRequest,
    ) {
        let operation = match request {
            ClusterRequest::Operate(operation) => client.submit(now, operation),
            ClusterRequest::Watch(place) => client.watch(now, place, None),
            ClusterRequest::Unwatch(watch) => client.unwatch(now, watch),
            ClusterRequest::Notify { place, payload } => {
                let timeout_seconds = NOTIFY_TIMEOUT_SECONDS;
                client.notify(now, place, &NotifyRequest { timeout_seconds, payload })
            }
            ClusterRequest::Acknowledge { watch, notify_id, reply } => {
                return client.acknowledge(now, watch, notify_id, reply);
            }
            ClusterRequest::Identify => client.identify(),
            ClusterRequest::NewestMap => client.fetch_map(),
            ClusterRequest::Pool(request) => client.pool_op(now, request),
            ClusterRequest::Command(command) => {
                client.command(now, CommandTarget::Monitor, command, bytes::Bytes::new())
            }
            ClusterRequest::Wait(duration) => {
                self.waits_made += 1;
                self.waits.insert((now + duration, self.waits_made), from);
                return;
            }
        };
        let former = self.in_flight.insert(operation, from);
        assert!(former.is_none(), "{operation:?} was used before");
    }

    /// Removes an operation that completed; returns the source and the id of its request.
    pub fn take(&mut self, operation: OpId) -> Option<(K, ClusterRequestId)> {
        self.in_flight.remove(&operation)
    }

    /// The next wait that has elapsed, with its response.
    pub fn poll_due(&mut self, now: Time) -> Option<(K, ClusterRequestId, ClusterResponse)> {
        let (at, _) = *self.waits.first_key_value()?.0;
        if at > now {
            return None;
        }
        let (_, (key, id)) = self.waits.pop_first()?;
        Some((key, id, Ok(Reply::Operation(OperationReply::default()))))
    }

    /// Time at which the next wait elapses.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.waits.first_key_value().map(|((at, _), _)| *at)
    }
}
