//! One connection of a session: its bytes, its mode, the phase of its handshake.
//!
//! Until the signatures have been exchanged, all bytes of the connection are recorded, because both ends sign
//! what they received.

use crate::CloseReason;
use crate::secure::{ciphers, signature};
use auth::Side;
use auth::{MODE_CRC, MODE_SECURE};
use bytes::{Bytes, BytesMut};
use engine::Time;
use std::collections::VecDeque;
use wire::frame::{Banner, Control, Decoder, Encoder, Frame, SIGNATURE_LENGTH};

/// Bound for the recording in each direction; a handshake takes a few kilobytes.
const HANDSHAKE_LENGTH_MAX: usize = 256 << 10;

/// The next expected input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Banner,
    Hello,
    Auth,
    Signature,
    /// The connection belongs to a session, or is about to.
    Session,
}

pub(crate) struct Link {
    pub phase: Phase,
    pub side: Side,
    pub started: Time,
    pub encoder: Encoder,
    decoder: Decoder,
    chunks: VecDeque<Bytes>,
    chunk_bytes: usize,
    /// The host holds the buffer of the large message.
    lent: bool,
    /// Both directions of the handshake, until they are signed.
    transcript: Option<Box<Transcript>>,
    expected_signature: [u8; SIGNATURE_LENGTH],
    /// Connecting: the modes from which the peer may choose.
    pub offered_modes: Vec<u32>,
}

#[derive(Default)]
struct Transcript {
    received: Vec<u8>,
    sent: Vec<u8>,
}

impl Link {
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
        };
        let banner = Banner::OURS.encode();
        link.encoder.raw(&banner);
        link.record_sent(0);
        link
    }

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
        self.phase = Phase::Signature;
        self.send(&Control::AuthSignature { signature: signature(key, &transcript.received) });
        Ok(())
    }

    pub fn check_signature(&mut self, found: &[u8; SIGNATURE_LENGTH]) -> Result<(), CloseReason> {
        if *found != self.expected_signature {
            return Err(CloseReason::Signature);
        }
        self.phase = Phase::Session;
        Ok(())
    }

    pub fn allow_messages(&mut self) {
        self.decoder.allow_messages();
    }

    pub fn direct_length(&self) -> Option<usize> {
        if self.lent || !self.chunks.is_empty() {
            return None;
        }
        self.decoder.direct_length()
    }

    pub fn lend_buffer(&mut self) -> Option<BytesMut> {
        self.direct_length()?;
        self.lent = true;
        Some(self.decoder.take_gathered())
    }

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
}
