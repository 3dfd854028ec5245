//! Carries what many engines ask to one client, and the answers back.

use crate::steps::{Answer, Ask, AskId};
use engine::Time;
use rados::{Client, CommandTarget, OpId, OperationReply, Reply};
use std::collections::BTreeMap;
use stdx::FastMap;
use wire::watch::NotifyRequest;

/// How long others may take to answer a notification (librbd's `NOTIFY_TIMEOUT`).
const NOTIFY_TIMEOUT_SECONDS: u32 = 10;

/// An engine that asks things of the cluster.
pub trait Asker {
    /// The next question, with a number that its answer bears.
    fn poll_ask(&mut self) -> Option<(AskId, Ask)>;
    fn handle_answer(&mut self, id: AskId, answer: Answer);
}

/// Who waits for which answer; `K` names askers. Answers for askers that are gone are the host's to
/// drop.
#[derive(Debug)]
pub struct Errands<K> {
    under_way: FastMap<OpId, (K, AskId)>,
    waits: BTreeMap<(Time, u64), (K, AskId)>,
    waits_made: u64,
}

impl<K> Default for Errands<K> {
    fn default() -> Self {
        Errands { under_way: FastMap::default(), waits: BTreeMap::new(), waits_made: 0 }
    }
}

impl<K: Copy> Errands<K> {
    /// Takes all that an asker has to ask. Whether there was anything.
    pub fn send(
        &mut self,
        client: &mut Client,
        now: Time,
        key: K,
        asker: &mut (impl Asker + ?Sized),
    ) -> bool {
        let mut any = false;
        while let Some((id, ask)) = asker.poll_ask() {
            self.perform(client, now, (key, id), ask);
            any = true;
        }
        any
    }

    fn perform(&mut self, client: &mut Client, now: Time, from: (K, AskId), ask: Ask) {
        let operation = match ask {
            Ask::Operate(operation) => client.submit(now, operation),
            Ask::Watch(place) => client.watch(now, place, None),
            Ask::Unwatch(watch) => client.unwatch(now, watch),
            Ask::Notify { place, payload } => {
                let timeout_seconds = NOTIFY_TIMEOUT_SECONDS;
                client.notify(now, place, &NotifyRequest { timeout_seconds, payload })
            }
            Ask::Acknowledge { watch, notify_id, reply } => {
                return client.acknowledge(now, watch, notify_id, reply);
            }
            Ask::Identify => client.identify(),
            Ask::NewestMap => client.fetch_map(),
            Ask::Pool(request) => client.pool_op(now, request),
            Ask::Command(command) => {
                client.command(now, CommandTarget::Monitor, command, bytes::Bytes::new())
            }
            Ask::Wait(duration) => {
                self.waits_made += 1;
                self.waits.insert((now + duration, self.waits_made), from);
                return;
            }
        };
        self.under_way.insert(operation, from);
    }

    /// Whose question an answer of the client is for.
    pub fn take(&mut self, operation: OpId) -> Option<(K, AskId)> {
        self.under_way.remove(&operation)
    }

    /// Somebody who has waited long enough, and the answer for him.
    pub fn poll_due(&mut self, now: Time) -> Option<(K, AskId, Answer)> {
        let (at, _) = *self.waits.first_key_value()?.0;
        if at > now {
            return None;
        }
        let (_, (key, id)) = self.waits.pop_first()?;
        Some((key, id, Ok(Reply::Operation(OperationReply::default()))))
    }

    pub fn poll_timeout(&self) -> Option<Time> {
        self.waits.first_key_value().map(|((at, _), _)| *at)
    }
}
