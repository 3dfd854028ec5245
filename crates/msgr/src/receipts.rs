//! Received messages of a session: the sequence number of the last one, and the acknowledgement that this end
//! owes.

use engine::{Duration, Time};

/// A message that is sent acknowledges all that have arrived; where none is sent for this long …
const ACK_DELAY: Duration = Duration::from_millis(20);
/// … or this many have arrived, an ACK frame does.
const ACK_BATCH: u32 = 32;

#[derive(Debug, Default)]
pub(crate) struct Receipts {
    /// Sequence number of the last message received.
    last: u64,
    /// Messages received and not yet acknowledged.
    unacked: u32,
    /// Arrival of the first of them.
    since: Time,
}

impl Receipts {
    /// Sequence number of the last message received.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Notes the arrival of message `seq`; false for a duplicate, resent because its acknowledgement was lost
    /// with a connection. Numbers may be skipped: a peer may withdraw unsent messages.
    pub fn receive(&mut self, seq: u64, now: Time) -> bool {
        if seq <= self.last {
            return false;
        }
        self.last = seq;
        if self.unacked == 0 {
            self.since = now;
        }
        self.unacked = self.unacked.saturating_add(1);
        true
    }

    /// The number that acknowledges everything received. The caller sends it.
    pub fn acknowledge(&mut self) -> u64 {
        self.unacked = 0;
        self.last
    }

    /// Latest time for the next acknowledgement; `None` if nothing has arrived since the last one.
    pub fn deadline(&self, now: Time) -> Option<Time> {
        match self.unacked {
            0 => None,
            ACK_BATCH.. => Some(now),
            _ => Some(self.since + ACK_DELAY),
        }
    }

    /// The connection is lost: the next one begins with the number of the last message received.
    pub fn connection_lost(&mut self) {
        self.unacked = 0;
    }

    /// The peer numbers its messages from 1 again.
    pub fn restart(&mut self) {
        assert_eq!(self.unacked, 0, "messages of a former numbering wait to be acknowledged");
        self.last = 0;
    }

    /// # Panics
    /// If more messages wait to be acknowledged than have arrived.
    pub fn check_invariants(&self) {
        assert!(u64::from(self.unacked) <= self.last, "acknowledges more than has been received");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_acknowledged_at_once_and_a_single_message_after_a_delay() {
        let (mut receipts, now) = (Receipts::default(), Time(1_000));
        assert_eq!(receipts.deadline(now), None);
        assert!(receipts.receive(1, now));
        assert!(!receipts.receive(1, now));
        assert_eq!(receipts.deadline(now), Some(now + ACK_DELAY));
        assert!((2..=u64::from(ACK_BATCH)).all(|seq| receipts.receive(seq, now)));
        assert_eq!(receipts.deadline(now), Some(now));
        receipts.check_invariants();
        assert_eq!((receipts.acknowledge(), receipts.deadline(now)), (u64::from(ACK_BATCH), None));
    }

    #[test]
    #[should_panic(expected = "acknowledges more than has been received")]
    fn an_acknowledgement_of_what_never_came_is_noticed() {
        Receipts { unacked: 3, last: 2, since: Time(0) }.check_invariants();
    }
}
