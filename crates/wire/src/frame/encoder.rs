//! Frames to bytes.

use super::layout::{
    CIPHER_TAG_LENGTH, EPILOGUE_CRC_LENGTH, EPILOGUE_SECURE_LENGTH, INLINE_LENGTH, STATUS_COMPLETE,
    crc32c, padded,
};
use super::{Control, FrameCipher, MessageHeader, PREAMBLE_LENGTH, Preamble, Tag};
use bytes::{BufMut, Bytes, BytesMut};
use codec::Writer;

/// Segments up to this length (bytes) are copied beside the headers, which costs less than a separate piece.
pub const COPY_LENGTH_MAX: usize = 1024;
/// Headers, copied segments and control frames of many messages share one buffer of this size.
const SCRATCH_LENGTH: usize = 16 << 10;
/// Bytes of a message in crc mode that are not passed by reference.
const MESSAGE_SCRATCH_LENGTH: usize =
    PREAMBLE_LENGTH + 64 + EPILOGUE_CRC_LENGTH + 3 * COPY_LENGTH_MAX;
/// The reserved half of the status byte; its receivers ignore it.
const STATUS: u8 = STATUS_COMPLETE | 0xe0;

/// One direction of a connection. Returns pieces that, in sequence, are the frames: large segments by
/// reference, all other bytes in a shared buffer.
pub struct Encoder {
    cipher: Option<Box<dyn FrameCipher>>,
    /// Bytes encoded since the last piece was returned.
    scratch: BytesMut,
}

impl Default for Encoder {
    fn default() -> Self {
        Encoder { cipher: None, scratch: BytesMut::new() }
    }
}

impl Encoder {
    /// Switches to secure mode.
    pub fn secure(&mut self, cipher: Box<dyn FrameCipher>) {
        self.cipher = Some(cipher);
    }

    /// Bytes with which the next piece starts.
    pub fn pending(&self) -> &[u8] {
        &self.scratch
    }

    /// Bytes as they are; for the banner.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.scratch.extend_from_slice(bytes);
    }

    /// Encodes a control frame.
    pub fn control(&mut self, control: &Control) {
        let mut w = Writer::new();
        control.encode_payload(&mut w);
        let payload = w.as_slice();
        let preamble = Preamble::new(control.tag(), [payload.len(), 0, 0, 0]);
        self.reserve(PREAMBLE_LENGTH + INLINE_LENGTH + padded(payload.len()) + 64);
        self.first(preamble, payload);
    }

    /// Appends complete pieces to `pieces`; the rest waits for [`Encoder::flush`].
    pub fn message(&mut self, header: &MessageHeader, late: [&Bytes; 3], pieces: &mut Vec<Bytes>) {
        let header = header.to_array();
        let lengths = [header.len(), late[0].len(), late[1].len(), late[2].len()];
        let preamble = Preamble::new(Tag::Message, lengths);
        if self.cipher.is_some() {
            self.reserve(256 + preamble.secure_body_length());
            self.first(preamble, &header);
            if preamble.count() > 1 {
                self.late_secure(late);
            }
            return;
        }
        self.reserve(MESSAGE_SCRATCH_LENGTH);
        self.first(preamble, &header);
        if preamble.count() > 1 {
            self.late_crc(late, pieces);
        }
    }

    /// Returns the pending bytes.
    pub fn flush(&mut self, pieces: &mut Vec<Bytes>) {
        if !self.scratch.is_empty() {
            pieces.push(self.scratch.split().freeze());
        }
    }

    /// Reserves capacity, so that a frame's start is not moved while its end is written.
    fn reserve(&mut self, length: usize) {
        if self.scratch.capacity() - self.scratch.len() < length {
            self.scratch.reserve(length.max(SCRATCH_LENGTH));
        }
    }

    fn first(&mut self, preamble: Preamble, segment: &[u8]) {
        let start = self.scratch.len();
        self.scratch.put_slice(&preamble.to_array());
        if self.cipher.is_none() {
            if !segment.is_empty() {
                self.scratch.put_slice(segment);
                self.scratch.put_u32_le(crc32c(segment));
            }
            return;
        }
        let (inlined, rest) = segment.split_at(segment.len().min(INLINE_LENGTH));
        self.scratch.put_slice(inlined);
        self.scratch.put_bytes(0, INLINE_LENGTH - inlined.len());
        self.seal(start);
        if !rest.is_empty() {
            let start = self.scratch.len();
            self.put_padded(rest);
            self.seal(start);
        }
    }

    fn late_crc(&mut self, late: [&Bytes; 3], pieces: &mut Vec<Bytes>) {
        let mut crcs = [0; 3];
        // An empty segment in front of the last has a crc, an absent one behind it none.
        let last = late.iter().rposition(|segment| !segment.is_empty()).unwrap_or(0);
        for (segment, crc) in late.iter().zip(&mut crcs).take(last + 1) {
            *crc = crc32c(segment);
            if segment.len() <= COPY_LENGTH_MAX {
                self.scratch.put_slice(segment);
            } else {
                self.flush(pieces);
                pieces.push(Bytes::clone(segment));
            }
        }
        self.scratch.put_u8(STATUS);
        crcs.into_iter().for_each(|crc| self.scratch.put_u32_le(crc));
    }

    fn late_secure(&mut self, late: [&Bytes; 3]) {
        let start = self.scratch.len();
        late.iter().for_each(|segment| self.put_padded(segment));
        self.scratch.put_u8(STATUS);
        self.scratch.put_bytes(0, EPILOGUE_SECURE_LENGTH - 1);
        self.seal(start);
    }

    fn put_padded(&mut self, segment: &[u8]) {
        self.scratch.put_slice(segment);
        self.scratch.put_bytes(0, padded(segment.len()) - segment.len());
    }

    /// Seals the bytes written since `start`.
    fn seal(&mut self, start: usize) {
        let cipher = self.cipher.as_mut().expect("only called in secure mode");
        let tag: [u8; CIPHER_TAG_LENGTH] = cipher.seal(&mut self.scratch[start..]);
        self.scratch.put_slice(&tag);
    }
}
