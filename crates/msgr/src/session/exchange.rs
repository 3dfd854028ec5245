//! Messages, acknowledgements and keepalives of an open session.

use super::{Session, Step};
use crate::event::CloseReason;
use auth::Side;
use bytes::Bytes;
use engine::{Duration, Message, Policy, Time};
use wire::frame::{COPY_LENGTH_MAX, Control, Frame, MessageHeader};

/// Bytes for one system call; a larger message is returned whole.
pub const TRANSMIT_LENGTH: usize = 1 << 20;
/// Pieces that a host passes to one system call.
const TRANSMIT_PIECES: usize = 62;
/// A message that is sent acknowledges what has arrived; where none is sent for this long …
const ACK_DELAY: Duration = Duration::from_millis(20);
/// … or this many have arrived, an ACK frame does.
const ACK_BATCH: u32 = 32;

impl Session {
    pub(super) fn exchange(&mut self, frame: Frame) -> Result<Step, CloseReason> {
        match frame {
            Frame::Message { header, front, middle, data } => {
                return self.handle_message(header, front, middle, data);
            }
            Frame::Control(Control::Ack { seq }) => self.acknowledge(seq)?,
            Frame::Control(Control::Keepalive2 { stamp }) => {
                self.send_control(&Control::Keepalive2Ack { stamp });
            }
            Frame::Control(Control::Keepalive2Ack { .. }) => {}
            Frame::Control(other) => return Err(CloseReason::Unexpected(other.tag())),
        }
        Ok(Step::Progress)
    }

    fn handle_message(
        &mut self,
        header: MessageHeader,
        front: Bytes,
        middle: Bytes,
        data: Bytes,
    ) -> Result<Step, CloseReason> {
        self.acknowledge(header.ack_seq)?;
        if header.seq <= self.in_seq {
            // A duplicate, resent because its acknowledgement was lost with a connection.
            return Ok(Step::Progress);
        }
        // Numbers may be skipped: a peer may withdraw unsent messages.
        self.in_seq = header.seq;
        if self.unacked.messages == 0 {
            self.unacked.since = self.now;
        }
        self.unacked.messages += 1;
        Ok(Step::Arrived(Message {
            kind: header.kind,
            priority: header.priority,
            version: header.version,
            compat_version: header.compat_version,
            tid: header.tid,
            front,
            middle,
            data,
        }))
    }

    /// The peer has received everything up to `seq`.
    pub(super) fn acknowledge(&mut self, seq: u64) -> Result<(), CloseReason> {
        if self.policy == Policy::Lossless {
            let sent = self.queue.highest_sent();
            if seq > sent {
                return Err(CloseReason::AckBeyondSent { claimed: seq, sent });
            }
            self.queue.acknowledge(seq);
        }
        Ok(())
    }

    pub(super) fn transmit_messages(&mut self, pieces: &mut Vec<Bytes>) {
        let Some(link) = &mut self.link else { return };
        let (start, mut length) = (pieces.len(), 0);
        while length < TRANSMIT_LENGTH && pieces.len() - start < TRANSMIT_PIECES {
            let Some((seq, message)) = self.queue.take_next() else { break };
            let header = header(seq, self.in_seq, &message);
            let late = [&message.front, &message.middle, &message.data];
            link.encoder.message(&header, late, pieces);
            length += message.len() + COPY_LENGTH_MAX / 8;
            self.unacked.messages = 0;
        }
        if self.ack_deadline().is_some_and(|deadline| self.now >= deadline) {
            self.unacked.messages = 0;
            self.send_control(&Control::Ack { seq: self.in_seq });
        }
    }

    /// Latest time for the acknowledgement of received messages.
    fn ack_deadline(&self) -> Option<Time> {
        match (self.policy, self.unacked.messages) {
            (Policy::Lossy, _) | (_, 0) => None,
            (_, ACK_BATCH..) => Some(self.now),
            _ => Some(self.unacked.since + ACK_DELAY),
        }
    }

    pub(super) fn open_deadline(&self) -> Time {
        let patience = match (self.asks_silent_peer(), self.keepalive_sent) {
            (false, _) => self.config.idle_max,
            (true, true) => self.config.silence_max,
            (true, false) => self.config.keepalive_interval,
        };
        let silence = self.last_received + patience;
        self.ack_deadline().map_or(silence, |deadline| deadline.min(silence))
    }

    fn asks_silent_peer(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.side == Side::Connecting)
    }

    /// An acknowledgement that is due goes out with the next `poll_transmit`.
    pub(super) fn open_timeout(&mut self) {
        let silence = self.now.since(self.last_received);
        if !self.asks_silent_peer() {
            if silence >= self.config.idle_max {
                self.fail(CloseReason::Idle);
            }
            return;
        }
        if silence >= self.config.silence_max {
            return self.fail(CloseReason::Silent);
        }
        if silence >= self.config.keepalive_interval && !self.keepalive_sent {
            self.keepalive_sent = true;
            self.send_control(&Control::Keepalive2 { stamp: self.now.wall() });
        }
    }
}

fn header(seq: u64, ack_seq: u64, message: &Message) -> MessageHeader {
    MessageHeader {
        seq,
        tid: message.tid,
        kind: message.kind,
        priority: message.priority,
        version: message.version,
        compat_version: message.compat_version,
        ack_seq,
        ..MessageHeader::default()
    }
}
