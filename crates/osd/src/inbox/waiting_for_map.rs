//! Inputs that were sent by a newer map than this OSD has, and wait for that map.
//!
//! Requests are bounded as all requests are (`sessions/throttle.rs`). Group messages of other OSDs are
//! bounded per session: a session beyond its bound is paused until the map has come. Nothing is
//! dropped, because members do not resend; when a session ends, its waiting messages end with it.

use crate::Budgets;
use crate::outbox::Outbox;
use engine::{ConnId, Message, Output};
use std::collections::{BTreeMap, VecDeque};
use types::{Epoch, OsdId};

/// An input that waits for a map: a request by its key, or a group message.
#[derive(Debug)]
pub(crate) enum WaitingInput {
    Request(u64),
    Group { conn: ConnId, from: OsdId, message: Message },
}

/// All inputs that wait for a map.
#[derive(Debug, Default)]
pub(crate) struct WaitingForMap {
    /// In order of arrival, with the epoch that is waited for.
    all: Vec<(Epoch, WaitingInput)>,
    /// Inputs whose map has come, handled a bounded number at a time.
    ready: VecDeque<WaitingInput>,
    /// Group messages that wait, by session.
    sessions: BTreeMap<ConnId, Held>,
}

/// Group messages of one session.
#[derive(Debug, Default, Clone, Copy)]
struct Held {
    messages: usize,
    bytes: usize,
    is_paused: bool,
}

impl Held {
    fn is_full(&self, budgets: &Budgets) -> bool {
        self.messages >= budgets.early_messages || self.bytes >= budgets.early_bytes
    }
}

impl WaitingForMap {
    /// Describes a session that exceeds its bound by more than the message that reached it.
    pub fn excess(&self, budgets: &Budgets, largest_held: usize) -> Option<String> {
        let messages = self.all.iter().filter_map(|(_, early)| match early {
            WaitingInput::Group { message, .. } => Some(message.len()),
            WaitingInput::Request(_) => None,
        });
        let largest = messages.max().unwrap_or(0).max(largest_held);
        let is_above = |held: &&Held| {
            held.messages > budgets.early_messages || held.bytes > budgets.early_bytes + largest
        };
        let held = self.sessions.values().find(is_above)?;
        Some(format!("{} messages ahead of the map, {} bytes", held.messages, held.bytes))
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds a request, by its key, that waits for a map.
    pub fn push_request(&mut self, awaited: Epoch, key: u64) {
        self.all.push((awaited, WaitingInput::Request(key)));
    }

    /// Adds a group message that waits for a map. It is counted for its session.
    pub fn push_message(&mut self, awaited: Epoch, conn: ConnId, from: OsdId, message: Message) {
        self.all.push((awaited, WaitingInput::Group { conn, from, message }));
    }

    /// Makes the inputs ready that waited for a map up to this epoch.
    pub fn make_ready(&mut self, epoch: Epoch) {
        let all = std::mem::take(&mut self.all);
        let (ready, early): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(awaited, _)| *awaited <= epoch);
        self.all = early;
        self.ready.extend(ready.into_iter().map(|(_, early)| early));
    }

    /// The next input whose map has come.
    pub fn pop_ready(&mut self) -> Option<WaitingInput> {
        self.ready.pop_front()
    }

    /// Counts a held group message of a session, and pauses the session at its bound.
    pub fn charge(&mut self, conn: ConnId, bytes: usize, budgets: &Budgets, out: &mut Outbox) {
        let held = self.sessions.entry(conn).or_default();
        held.messages += 1;
        held.bytes += bytes;
        if held.is_full(budgets) && !held.is_paused {
            held.is_paused = true;
            tracing::info!(?conn, messages = held.messages, "an OSD is ahead of our map and waits");
            out.push(Output::Pause { conn, paused: true });
        }
    }

    /// Counts a held message no more. Call [`WaitingForMap::resume`] once it is handled or held again.
    pub fn uncharge(&mut self, conn: ConnId, bytes: usize) {
        if let Some(held) = self.sessions.get_mut(&conn) {
            held.messages -= 1;
            held.bytes -= bytes;
        }
    }

    /// Resumes a session that is below its bound.
    pub fn resume(&mut self, conn: ConnId, budgets: &Budgets, out: &mut Outbox) {
        let Some(held) = self.sessions.get_mut(&conn) else { return };
        if held.is_paused && !held.is_full(budgets) {
            held.is_paused = false;
            out.push(Output::Pause { conn, paused: false });
        }
        if held.messages == 0 {
            self.sessions.remove(&conn);
        }
    }

    /// Forgets the waiting inputs of a session that has ended. `is_of` says whether a request is one
    /// of that session; returns the keys of those.
    pub fn forget(&mut self, conn: ConnId, is_of: impl Fn(u64) -> bool) -> Vec<u64> {
        self.sessions.remove(&conn);
        let mut gone = Vec::new();
        let mut stays = |early: &WaitingInput| match early {
            WaitingInput::Group { conn: of, .. } => *of != conn,
            WaitingInput::Request(key) => {
                let ends = is_of(*key);
                gone.extend(ends.then_some(*key));
                !ends
            }
        };
        self.all.retain(|(_, early)| stays(early));
        self.ready.retain(stays);
        gone
    }

    /// Panics unless each session with waiting messages is charged for these, and for those of `held`, which
    /// wait for the groups.
    pub fn check_invariants(&self, held: impl Iterator<Item = (ConnId, usize)>) {
        let waiting = self.all.iter().map(|(_, input)| input).chain(&self.ready);
        let waiting = waiting.filter_map(|input| match input {
            WaitingInput::Group { conn, message, .. } => Some((*conn, message.len())),
            WaitingInput::Request(_) => None,
        });
        let mut sums: BTreeMap<ConnId, (usize, usize)> = BTreeMap::new();
        let mut add = |(conn, bytes)| {
            let sum = sums.entry(conn).or_default();
            *sum = (sum.0 + 1, sum.1 + bytes);
        };
        for (conn, bytes) in waiting {
            assert!(self.sessions.contains_key(&conn), "messages end with their session");
            add((conn, bytes));
        }
        held.for_each(add);
        for (conn, held) in &self.sessions {
            let sum = sums.get(conn).copied().unwrap_or_default();
            assert_eq!(sum, (held.messages, held.bytes), "{conn:?} is charged for what waits");
        }
    }

    /// Whether the map of some inputs has come.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONN: ConnId = ConnId(1);

    fn message() -> Message {
        Message::new(1, 1, 1, vec![0; 9].into())
    }

    /// Waiting inputs with one message of a session, charged for so many bytes.
    fn waiting(bytes: usize) -> WaitingForMap {
        let (mut waiting, mut out) = (WaitingForMap::default(), Outbox::default());
        waiting.charge(CONN, bytes, &Budgets::default(), &mut out);
        waiting.push_message(Epoch(2), CONN, OsdId(1), message());
        waiting
    }

    #[test]
    #[should_panic(expected = "is charged for what waits")]
    fn a_wrong_charge_is_seen() {
        let bytes = message().len();
        waiting(bytes).check_invariants(std::iter::empty());
        waiting(2 * bytes).check_invariants(std::iter::empty());
    }

    #[test]
    #[should_panic(expected = "messages end with their session")]
    fn a_message_of_a_forgotten_session_is_seen() {
        let mut waiting = waiting(message().len());
        waiting.sessions.clear();
        waiting.check_invariants(std::iter::empty());
    }
}
