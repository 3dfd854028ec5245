//! One connection of a session: its bytes, its mode, the phase of its handshake.
//!
//! Until the signatures have been exchanged, all bytes of the connection are recorded, because both ends sign
//! what they received.

use crate::event::CloseReason;
use crate::secure::{ciphers, signature};
use auth::{MODE_CRC, MODE_SECURE, Side};
use bytes::{Bytes, BytesMut};
use engine::{Message, Time};
use std::collections::VecDeque;
use wire::frame::{Banner, Control, Decoder, Encoder, Frame, MessageHeader, SIGNATURE_LENGTH};

/// Bound for the recording in each direction; a handshake takes a few kilobytes.
const HANDSHAKE_LENGTH_MAX: usize = 256 << 10;

/// The next expected input, in the order in which a connection passes through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Banner,
    Hello,
    Auth,
    Signature,
    /// The connection belongs to a session, or is about to.
    Session,
}

pub(crate) struct Link {
    phase: Phase,
    side: Side,
    started: Time,
    encoder: Encoder,
    decoder: Decoder,
    chunks: VecDeque<Bytes>,
    chunk_bytes: usize,
    /// The host holds the buffer of the large message.
    lent: bool,
    /// Both directions of the handshake, until they are signed.
    transcript: Option<Box<Transcript>>,
    expected_signature: [u8; SIGNATURE_LENGTH],
    /// Connecting: the modes from which the peer may choose.
    offered_modes: Vec<u32>,
    /// Mode of the connection, with the keys that it needs; `None` before the signatures.
    mode: Option<u32>,
    /// Sequence number of the last message sent on this connection.
    last_seq: Option<u64>,
}

#[derive(Default)]
struct Transcript {
    received: Vec<u8>,
    sent: Vec<u8>,
}

impl Link {
    /// A new connection, which sends its banner first.
    pub fn new(side: Side, now: Time) -> Self {
        let mut link = Link {
            phase: Phase::Banner,
            side,
            started: now,
            encoder: Encoder::default(),
            decoder: Decoder::default(),
            chunks: VecDeque::new(),
            chunk_bytes: 0,
            lent: false,
            transcript: Some(Box::default()),
            expected_signature: [0; SIGNATURE_LENGTH],
            offered_modes: Vec::new(),
            mode: None,
            last_seq: None,
        };
        let banner = Banner::OURS.encode();
        link.encoder.raw(&banner);
        link.record_sent(0);
        link
    }

    /// The next expected input.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The end of the connection that this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Start of the handshake.
    pub fn started(&self) -> Time {
        self.started
    }

    /// Goes on to a later phase.
    pub fn enter(&mut self, phase: Phase) {
        assert!(phase > self.phase, "{phase:?} does not follow {:?}", self.phase);
        self.phase = phase;
    }

    /// Notes the modes from which the peer may choose.
    pub fn offer(&mut self, modes: &[u32]) {
        self.offered_modes.clear();
        self.offered_modes.extend_from_slice(modes);
    }

    /// True for a mode of the last offer.
    pub fn has_offered(&self, mode: u32) -> bool {
        self.offered_modes.contains(&mode)
    }

    /// Adds received bytes. Fails if an unauthenticated peer sends more than a handshake takes.
    pub fn receive(&mut self, chunk: Bytes) -> Result<(), CloseReason> {
        self.chunk_bytes += chunk.len();
        if self.phase != Phase::Session && self.chunk_bytes > HANDSHAKE_LENGTH_MAX {
            return Err(CloseReason::HandshakeLength { limit: HANDSHAKE_LENGTH_MAX });
        }
        if !chunk.is_empty() {
            self.chunks.push_back(chunk);
        }
        Ok(())
    }

    /// Queues a control frame behind everything that was queued before.
    pub fn send(&mut self, control: &Control) {
        let start = self.encoder.pending().len();
        self.encoder.control(control);
        self.record_sent(start);
    }

    fn record_sent(&mut self, start: usize) {
        if let Some(transcript) = &mut self.transcript {
            transcript.sent.extend_from_slice(&self.encoder.pending()[start..]);
        }
    }

    /// The peer's banner, once it has arrived and was accepted.
    pub fn take_banner(&mut self) -> Result<Option<Banner>, CloseReason> {
        let transcript = self.transcript.as_mut().expect("banners come before the signatures");
        while let Some(chunk) = self.chunks.pop_front() {
            let before = transcript.received.len();
            transcript.received.extend_from_slice(&chunk);
            let Some((banner, length)) = Banner::decode(&transcript.received)? else { continue };
            banner.check()?;
            transcript.received.truncate(length);
            let rest = chunk.slice(length - before..);
            self.chunk_bytes = rest.len() + self.chunks.iter().map(Bytes::len).sum::<usize>();
            if !rest.is_empty() {
                self.chunks.push_front(rest);
            }
            return Ok(Some(banner));
        }
        Ok(None)
    }

    /// The next whole frame; `None` if more bytes are needed or the host holds the buffer.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, CloseReason> {
        if self.lent {
            return Ok(None);
        }
        loop {
            let mut chunk = self.chunks.pop_front().unwrap_or_default();
            let whole = self.transcript.is_some().then(|| chunk.clone());
            let length = chunk.len();
            let frame = self.decoder.decode(&mut chunk)?;
            let consumed = length - chunk.len();
            self.chunk_bytes -= consumed;
            if let (Some(transcript), Some(whole)) = (&mut self.transcript, whole) {
                transcript.received.extend_from_slice(&whole[..consumed]);
                if transcript.received.len() > HANDSHAKE_LENGTH_MAX {
                    return Err(CloseReason::HandshakeLength { limit: HANDSHAKE_LENGTH_MAX });
                }
            }
            if !chunk.is_empty() {
                self.chunks.push_front(chunk);
            }
            if frame.is_some() || self.chunks.is_empty() {
                return Ok(frame);
            }
        }
    }

    /// Ends the recording: switches to the negotiated mode and sends the signature.
    pub fn sign(&mut self, mode: u32, key: &[u8], secret: &[u8]) -> Result<(), CloseReason> {
        match mode {
            MODE_CRC => {}
            MODE_SECURE => {
                let (rx, tx) = ciphers(secret, self.side).ok_or(CloseReason::Secret)?;
                self.decoder.secure(rx);
                self.encoder.secure(tx);
            }
            other => return Err(CloseReason::Mode(other)),
        }
        let transcript = self.transcript.take().expect("a handshake is signed once");
        self.expected_signature = signature(key, &transcript.sent);
        self.mode = Some(mode);
        self.enter(Phase::Signature);
        self.send(&Control::AuthSignature { signature: signature(key, &transcript.received) });
        Ok(())
    }

    /// Compares the peer's signature; if it is right, the handshake is over.
    pub fn check_signature(&mut self, found: &[u8; SIGNATURE_LENGTH]) -> Result<(), CloseReason> {
        if *found != self.expected_signature {
            return Err(CloseReason::Signature);
        }
        self.enter(Phase::Session);
        Ok(())
    }

    /// Frames of messages are accepted from now on.
    pub fn allow_messages(&mut self) {
        self.decoder.allow_messages();
    }

    /// Appends a message to `pieces`, behind what was sent before.
    pub fn send_message(&mut self, seq: u64, ack: u64, message: &Message, pieces: &mut Vec<Bytes>) {
        assert!(self.phase == Phase::Session, "messages follow the handshake");
        // Numbers may be missing: a peer may acknowledge what it received on an earlier connection.
        let follows = self.last_seq.is_none_or(|last| seq > last);
        assert!(follows, "message {seq} follows {:?}", self.last_seq);
        self.last_seq = Some(seq);
        let late = [&message.front, &message.middle, &message.data];
        self.encoder.message(&header(seq, ack, message), late, pieces);
    }

    /// Appends everything else that waits to be sent.
    pub fn flush(&mut self, pieces: &mut Vec<Bytes>) {
        self.encoder.flush(pieces);
    }

    /// Missing bytes of a large message, if the host may receive them straight into its buffer.
    pub fn direct_length(&self) -> Option<usize> {
        if self.lent || !self.chunks.is_empty() {
            return None;
        }
        self.decoder.direct_length()
    }

    /// Gives the host the buffer of the large message; nothing is decoded until it is returned.
    pub fn lend_buffer(&mut self) -> Option<BytesMut> {
        self.direct_length()?;
        self.lent = true;
        Some(self.decoder.take_gathered())
    }

    /// Takes the buffer back; bytes behind the message are kept as received bytes.
    pub fn return_buffer(&mut self, buffer: BytesMut) {
        if !std::mem::take(&mut self.lent) {
            return;
        }
        let surplus = self.decoder.put_gathered(buffer);
        if !surplus.is_empty() {
            self.chunk_bytes += surplus.len();
            self.chunks.push_front(surplus);
        }
    }

    /// # Panics
    /// If what the connection keeps does not fit its phase.
    pub fn check_invariants(&self) {
        let is_signed = self.phase >= Phase::Signature;
        assert_eq!(self.mode.is_some(), is_signed, "keys without signatures, or no keys");
        assert_eq!(self.transcript.is_none(), is_signed, "the recording ends with the signatures");
        assert!(
            self.last_seq.is_none() || self.phase == Phase::Session,
            "messages were sent early"
        );
        let mut held: usize = self.chunks.iter().map(Bytes::len).sum();
        if let (Phase::Banner, Some(transcript)) = (self.phase, &self.transcript) {
            held += transcript.received.len();
        }
        assert_eq!(self.chunk_bytes, held, "received bytes");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn signed() -> Link {
        let mut link = Link::new(Side::Connecting, Time(0));
        link.sign(MODE_CRC, b"key", b"").unwrap();
        link.enter(Phase::Session);
        link
    }

    #[test]
    #[should_panic(expected = "keys without signatures")]
    fn a_session_without_keys_is_noticed() {
        let mut link = signed();
        link.check_invariants();
        link.mode = None;
        link.check_invariants();
    }

    #[test]
    #[should_panic(expected = "received bytes")]
    fn a_wrong_count_of_received_bytes_is_noticed() {
        let mut link = signed();
        link.receive(Bytes::from_static(b"abc")).unwrap();
        link.check_invariants();
        link.chunk_bytes -= 1;
        link.check_invariants();
    }

    #[test]
    #[should_panic(expected = "message 1 follows Some(3)")]
    fn a_message_out_of_sequence_is_noticed() {
        let (mut link, mut pieces) = (signed(), Vec::new());
        let message = Message::new(1, 1, 1, Bytes::new());
        link.send_message(1, 0, &message, &mut pieces);
        link.send_message(3, 0, &message, &mut pieces);
        link.send_message(1, 0, &message, &mut pieces);
    }
}
