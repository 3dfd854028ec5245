//! The send queue.
//!
//! Sequence numbers are not stored: message `i` of the queue has the number `acked + 1 + i`. A retaining
//! queue keeps sent messages until they are acknowledged, to send them again on the next connection.

use engine::Message;
use std::collections::VecDeque;

/// Bytes that a queued message counts besides its payload.
const MESSAGE_WEIGHT: usize = 128;

#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    messages: VecDeque<Message>,
    /// Number of messages at the front that were sent on the current connection.
    sent: usize,
    /// Sequence number of the last message that needs no retention.
    acked: u64,
    /// The highest sequence number ever assigned.
    highest_sent: u64,
    queued_bytes: usize,
    retain: bool,
}

impl SendQueue {
    /// An empty queue, which keeps sent messages if `retain` says so.
    pub fn new(retain: bool) -> Self {
        SendQueue { retain, ..SendQueue::default() }
    }

    /// Whether sent messages are kept until they are acknowledged.
    pub fn retains(&self) -> bool {
        self.retain
    }

    /// Whether sent messages are kept from now on. Called between connections or during a handshake.
    pub fn set_retain(&mut self, retain: bool) {
        assert_eq!(
            self.sent, 0,
            "messages sent on an open connection are kept or not from its start"
        );
        self.retain = retain;
    }

    /// Adds a message behind all others. The caller bounds [`SendQueue::queued_bytes`].
    pub fn push(&mut self, message: Message) {
        self.queued_bytes += weight(&message);
        self.messages.push_back(message);
    }

    /// The next message and its sequence number.
    pub fn take_next(&mut self) -> Option<(u64, Message)> {
        if self.retain {
            let message = self.messages.get(self.sent)?.clone();
            self.sent += 1;
            let seq = self.acked + self.sent as u64;
            self.highest_sent = self.highest_sent.max(seq);
            return Some((seq, message));
        }
        let message = self.messages.pop_front()?;
        self.queued_bytes -= weight(&message);
        self.acked += 1;
        self.highest_sent = self.acked;
        Some((self.acked, message))
    }

    /// Highest sequence number that the peer can have received.
    pub fn highest_sent(&self) -> u64 {
        self.highest_sent
    }

    /// Drops messages up to `seq`, which must have been sent before (on any connection).
    pub fn acknowledge(&mut self, seq: u64) {
        assert!(seq <= self.highest_sent, "message {seq} was never sent");
        while self.acked < seq {
            let Some(message) = self.messages.pop_front() else { return };
            self.queued_bytes -= weight(&message);
            self.sent = self.sent.saturating_sub(1);
            self.acked += 1;
        }
    }

    /// Marks all unacknowledged messages for resending.
    pub fn rewind(&mut self) {
        self.sent = 0;
    }

    /// Drops all messages and starts the numbers anew: the session has ended.
    pub fn clear(&mut self) {
        *self = SendQueue::new(self.retain);
    }

    /// Bytes of messages that are unsent or, with retention, unacknowledged.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// # Panics
    /// If the queue contradicts itself.
    pub fn check_invariants(&self) {
        let weights: usize = self.messages.iter().map(weight).sum();
        assert_eq!(self.queued_bytes, weights, "bytes of queued messages");
        assert!(self.sent <= self.messages.len(), "more messages are sent than queued");
        assert!(self.retain || self.sent == 0, "sent messages are kept without retention");
        let (sent, acked) = (self.highest_sent, self.acked);
        assert!(acked <= sent, "message {acked} was acknowledged, {sent} is the last one sent");
        assert!(acked + self.sent as u64 <= sent, "messages were sent beyond {sent}");
        let last = acked + self.messages.len() as u64;
        assert!(!self.retain || sent <= last, "message {sent} was sent and is not kept");
    }
}

fn weight(message: &Message) -> usize {
    message.len() + MESSAGE_WEIGHT
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn queue(retain: bool) -> SendQueue {
        let mut queue = SendQueue::new(retain);
        (0..4).for_each(|tid| {
            queue.push(Message::new(1, 1, 1, Bytes::from_static(b"abc")).with_tid(tid))
        });
        queue
    }

    #[test]
    fn unacknowledged_messages_come_again_with_the_same_numbers() {
        let mut queue = queue(true);
        let first: Vec<u64> = (0..3).map(|_| queue.take_next().unwrap().0).collect();
        assert_eq!(first, [1, 2, 3]);
        queue.acknowledge(1);
        queue.rewind();
        let again: Vec<(u64, u64)> =
            std::iter::from_fn(|| queue.take_next()).map(|(seq, m)| (seq, m.tid)).collect();
        assert_eq!(again, [(2, 1), (3, 2), (4, 3)]);
        queue.acknowledge(4);
        assert_eq!((queue.queued_bytes(), queue.highest_sent()), (0, 4));
    }

    #[track_caller]
    fn is_noticed(what: &str, damage: impl FnOnce(&mut SendQueue)) {
        let mut queue = queue(true);
        queue.take_next();
        queue.check_invariants();
        damage(&mut queue);
        let panic = std::panic::catch_unwind(|| queue.check_invariants()).unwrap_err();
        let text = panic
            .downcast_ref::<String>()
            .map_or_else(|| (*panic.downcast_ref::<&str>().unwrap()).to_owned(), String::clone);
        assert!(text.contains(what), "{text}");
    }

    #[test]
    fn contradictions_of_the_queue_are_noticed() {
        is_noticed("bytes of queued messages", |queue| queue.queued_bytes += 1);
        is_noticed("more messages are sent than queued", |queue| queue.sent = 5);
        is_noticed("kept without retention", |queue| queue.retain = false);
        is_noticed("was acknowledged", |queue| queue.acked = 2);
        is_noticed("were sent beyond", |queue| queue.sent = 2);
        is_noticed("sent and is not kept", |queue| queue.highest_sent = 5);
    }

    #[test]
    fn without_retention_nothing_is_kept() {
        let mut queue = queue(false);
        assert!(std::iter::from_fn(|| queue.take_next()).map(|(seq, _)| seq).eq(1..=4));
        assert_eq!((queue.queued_bytes(), queue.highest_sent()), (0, 4));
        queue.rewind();
        assert!(queue.take_next().is_none());
    }
}
