//! Messages on their way to clients, until what they tell is durable.
//!
//! Messages of one client keep their order, but for those that only say that something is durable: no client
//! depends on the order of these, and they would hold up all behind them.

use engine::Message;
use std::collections::{BTreeMap, VecDeque};

/// Messages that are not sent yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Those that may be sent, with their clients.
    ready: VecDeque<(u64, Message)>,
    /// Those of each client that wait, in order, with the LSN that must be durable first.
    held: BTreeMap<u64, VecDeque<(u64, Message)>>,
    /// Those that only say that something is durable, by LSN.
    late: VecDeque<(u64, u64, Message)>,
    /// LSNs that must be durable before anything more is sent to a client.
    floors: BTreeMap<u64, u64>,
    /// The greatest LSN for which a client waits.
    awaited: u64,
    /// The last LSN that was durable.
    durable: u64,
}

impl Outbox {
    /// Sends a message, behind earlier ones of the client, when a record is durable.
    pub fn send(&mut self, client: u64, lsn: u64, message: Message) {
        let lsn = self.floors.get(&client).map_or(lsn, |floor| lsn.max(*floor));
        if lsn <= self.durable && !self.held.contains_key(&client) {
            return self.ready.push_back((client, message));
        }
        self.awaited = self.awaited.max(lsn);
        self.held.entry(client).or_default().push_back((lsn, message));
    }

    /// Sends a message as soon as a record is durable, also before earlier ones of the client. LSNs of such
    /// messages ascend.
    pub fn send_late(&mut self, client: u64, lsn: u64, message: Message) {
        match lsn <= self.durable {
            true => self.send(client, lsn, message),
            false => self.late.push_back((lsn, client, message)),
        }
    }

    /// Nothing more is sent to a client before a record is durable.
    pub fn hold_back(&mut self, client: u64, lsn: u64) {
        if lsn > self.durable {
            let floor = self.floors.entry(client).or_default();
            *floor = lsn.max(*floor);
        }
    }

    /// A session ends: what its client is told late goes before the end.
    pub fn end_session(&mut self, client: u64) {
        let late = std::mem::take(&mut self.late).into_iter();
        let (own, others): (VecDeque<_>, VecDeque<_>) =
            late.partition(|(_, owner, _)| *owner == client);
        self.late = others;
        own.into_iter().for_each(|(lsn, _, message)| self.send(client, lsn, message));
    }

    /// The next message and its client, when records are durable up to this one.
    pub fn poll(&mut self, durable: u64) -> Option<(u64, Message)> {
        // Nothing else frees a message, so not all clients are looked at each time.
        if durable > self.durable {
            self.durable = durable;
            self.release();
        }
        self.ready.pop_front()
    }

    fn release(&mut self) {
        let (durable, ready) = (self.durable, &mut self.ready);
        self.floors.retain(|_, lsn| *lsn > durable);
        self.held.retain(|client, messages| {
            while messages.front().is_some_and(|(lsn, _)| *lsn <= durable) {
                let (_, message) = messages.pop_front().expect("it was seen");
                ready.push_back((*client, message));
            }
            !messages.is_empty()
        });
        while self.late.front().is_some_and(|(lsn, ..)| *lsn <= durable) {
            let (_, client, message) = self.late.pop_front().expect("it was seen");
            ready.push_back((client, message));
        }
    }

    /// The greatest LSN for which a client waits, perhaps one that is durable.
    pub fn awaited(&self) -> u64 {
        self.awaited
    }

    /// A client waits until everything up to this record is durable.
    pub fn expect(&mut self, lsn: u64) {
        self.awaited = self.awaited.max(lsn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tid: u64) -> Message {
        Message { tid, ..Message::default() }
    }

    fn sent(outbox: &mut Outbox, durable: u64) -> Vec<(u64, u64)> {
        std::iter::from_fn(|| outbox.poll(durable))
            .map(|(client, sent)| (client, sent.tid))
            .collect()
    }

    #[test]
    fn messages_of_a_client_wait_behind_those_that_must_be_durable() {
        let mut outbox = Outbox::default();
        outbox.send(1, 5, message(1));
        outbox.send(1, 0, message(2));
        outbox.send(2, 0, message(3));
        assert_eq!(sent(&mut outbox, 4), [(2, 3)]);
        assert_eq!(sent(&mut outbox, 5), [(1, 1), (1, 2)]);
        outbox.send(1, 5, message(4));
        assert_eq!(sent(&mut outbox, 5), [(1, 4)]);
    }

    #[test]
    fn a_message_that_only_says_what_is_durable_holds_up_none() {
        let mut outbox = Outbox::default();
        outbox.send_late(1, 5, message(1));
        outbox.send(1, 0, message(2));
        assert_eq!(sent(&mut outbox, 4), [(1, 2)]);
        assert_eq!(sent(&mut outbox, 5), [(1, 1)]);
        assert_eq!(outbox.awaited(), 0, "no client waits for it");
    }

    #[test]
    fn a_session_ends_behind_all_that_its_client_is_told() {
        let mut outbox = Outbox::default();
        outbox.send_late(1, 5, message(1));
        outbox.send_late(2, 6, message(2));
        outbox.end_session(1);
        outbox.send(1, 7, message(3));
        assert_eq!(sent(&mut outbox, 8), [(1, 1), (1, 3), (2, 2)]);
    }

    #[test]
    fn a_client_that_is_held_back_gets_nothing_more_until_then() {
        let mut outbox = Outbox::default();
        outbox.hold_back(1, 5);
        outbox.hold_back(1, 3);
        outbox.send(1, 0, message(1));
        assert_eq!((sent(&mut outbox, 4), outbox.awaited()), (Vec::new(), 5));
        assert_eq!(sent(&mut outbox, 6), [(1, 1)]);
        outbox.send(1, 0, message(2));
        assert_eq!(sent(&mut outbox, 6), [(1, 2)]);
    }
}
