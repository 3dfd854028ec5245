//! Bytes to frames.

use super::layout::{
    CIPHER_TAG_LENGTH, CRC_LENGTH, EPILOGUE_CRC_LENGTH, EPILOGUE_SECURE_LENGTH, INLINE_LENGTH,
    crc32c, is_complete, padded,
};
use super::{
    Control, FrameCipher, FrameError, MessageHeader, PREAMBLE_LENGTH, Preamble, SEGMENTS_MAX, Tag,
};
use bytes::{Buf, Bytes, BytesMut};
use codec::{Decode, Reader};

/// Missing bytes from which a body is received straight into the frame's buffer.
pub const DIRECT_LENGTH_MIN: usize = 32 << 10;
/// Alignment of a large gathered data segment, for direct I/O.
const DATA_ALIGNMENT: usize = 4096;
/// Preamble, inlined segment and tag in secure mode.
const SECURE_HEAD_LENGTH: usize = PREAMBLE_LENGTH + INLINE_LENGTH + CIPHER_TAG_LENGTH;

/// A complete, checked frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Any frame but a message.
    Control(Control),
    /// A message with its segments, which are slices of what was received.
    Message {
        /// Fields that all messages have.
        header: MessageHeader,
        /// First segment: the fields of the message.
        front: Bytes,
        /// Second segment; rarely used.
        middle: Bytes,
        /// Data segment.
        data: Bytes,
    },
}

/// One direction of a connection. Holds at most one incomplete frame.
pub struct Decoder {
    cipher: Option<Box<dyn FrameCipher>>,
    messages_allowed: bool,
    /// The preamble as it arrives, and then, in secure mode, the inlined segment beside it.
    head: [u8; SECURE_HEAD_LENGTH],
    head_filled: usize,
    /// Preamble of the frame whose body is awaited.
    preamble: Option<Preamble>,
    /// The start of that body, if it did not arrive in one chunk.
    gathered: BytesMut,
}

/// A frame's body: a slice of a chunk, or the gathered buffer.
enum Body {
    Shared(Bytes),
    Gathered(BytesMut),
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder {
            cipher: None,
            messages_allowed: false,
            head: [0; SECURE_HEAD_LENGTH],
            head_filled: 0,
            preamble: None,
            gathered: BytesMut::new(),
        }
    }
}

impl Decoder {
    /// Switches to secure mode.
    pub fn secure(&mut self, cipher: Box<dyn FrameCipher>) {
        assert!(self.preamble.is_none() && self.head_filled == 0, "modes change between frames");
        self.cipher = Some(cipher);
    }

    /// Allows messages, which are refused at their preamble before.
    pub fn allow_messages(&mut self) {
        self.messages_allowed = true;
    }

    /// Consumes bytes from the start of `chunk` until a frame is complete; `None` if the chunk ended first.
    /// After an error the decoder is unusable.
    pub fn decode(&mut self, chunk: &mut Bytes) -> Result<Option<Frame>, FrameError> {
        loop {
            if self.preamble.is_none() && !self.fill_head(chunk) {
                return Ok(None);
            }
            let preamble = match self.preamble {
                Some(preamble) => preamble,
                None => self.open_head()?,
            };
            let Some(body) = self.collect(chunk, preamble) else { return Ok(None) };
            self.preamble = None;
            let frame = match self.cipher {
                None => finish_crc(preamble, body.share())?,
                Some(_) => self.finish_secure(preamble, body.own())?,
            };
            // A frame that its sender aborted is skipped.
            if frame.is_some() {
                return Ok(frame);
            }
        }
    }

    /// Missing bytes of the large body that is being gathered.
    pub fn direct_length(&self) -> Option<usize> {
        let length = self.body_length(self.preamble?);
        let lacking = length - self.gathered.len();
        (lacking >= DIRECT_LENGTH_MIN && !self.gathered.is_empty()).then_some(lacking)
    }

    /// Takes the gathered body, to be extended by up to [`Decoder::direct_length`] bytes.
    pub fn take_gathered(&mut self) -> BytesMut {
        std::mem::take(&mut self.gathered)
    }

    /// Returns the body to the decoder; the result is the bytes behind its end.
    pub fn put_gathered(&mut self, mut gathered: BytesMut) -> Bytes {
        let length = self.preamble.map_or(0, |preamble| self.body_length(preamble));
        let surplus = match gathered.len() > length {
            true => gathered.split_off(length).freeze(),
            false => Bytes::new(),
        };
        self.gathered = gathered;
        surplus
    }

    fn head_length(&self) -> usize {
        if self.cipher.is_some() { SECURE_HEAD_LENGTH } else { PREAMBLE_LENGTH }
    }

    fn body_length(&self, preamble: Preamble) -> usize {
        match self.cipher {
            Some(_) => preamble.secure_body_length(),
            None => preamble.crc_body_length(),
        }
    }

    fn fill_head(&mut self, chunk: &mut Bytes) -> bool {
        let length = self.head_length();
        let taken = chunk.len().min(length - self.head_filled);
        chunk.copy_to_slice(&mut self.head[self.head_filled..self.head_filled + taken]);
        self.head_filled += taken;
        self.head_filled == length
    }

    fn open_head(&mut self) -> Result<Preamble, FrameError> {
        if let Some(cipher) = &mut self.cipher {
            let (unit, tag) = self.head.split_at_mut(PREAMBLE_LENGTH + INLINE_LENGTH);
            if !cipher.open(unit, (&*tag).try_into().expect("the rest of the head is the tag")) {
                return Err(FrameError::Forged);
            }
        }
        let bytes = self.head.first_chunk().expect("the head starts with the preamble");
        let preamble = Preamble::decode(bytes)?;
        if preamble.tag == Tag::Message && !self.messages_allowed {
            return Err(FrameError::EarlyMessage);
        }
        self.head_filled = 0;
        self.preamble = Some(preamble);
        Ok(preamble)
    }

    fn collect(&mut self, chunk: &mut Bytes, preamble: Preamble) -> Option<Body> {
        let length = self.body_length(preamble);
        if self.gathered.is_empty() {
            if chunk.len() >= length {
                return Some(Body::Shared(chunk.split_to(length)));
            }
            if chunk.is_empty() {
                return None;
            }
            self.gathered = self.gather_buffer(preamble, length);
        }
        let taken = chunk.len().min(length - self.gathered.len());
        self.gathered.extend_from_slice(&chunk[..taken]);
        chunk.advance(taken);
        let complete = self.gathered.len() == length;
        complete.then(|| Body::Gathered(std::mem::take(&mut self.gathered)))
    }

    /// An empty buffer for a body; a large data segment in it is aligned.
    fn gather_buffer(&self, preamble: Preamble, length: usize) -> BytesMut {
        if preamble.count() < SEGMENTS_MAX || preamble.length(3) < DIRECT_LENGTH_MIN {
            return BytesMut::with_capacity(length);
        }
        let data_offset = match self.cipher {
            None => preamble.first_crc_length() + preamble.length(1) + preamble.length(2),
            Some(_) => {
                let before = padded(preamble.length(1)) + padded(preamble.length(2));
                preamble.first_secure_length() + before
            }
        };
        let mut buffer = BytesMut::with_capacity(length + DATA_ALIGNMENT);
        let data_address = buffer.as_ptr() as usize + data_offset;
        let padding = data_address.next_multiple_of(DATA_ALIGNMENT) - data_address;
        buffer.resize(padding, 0);
        buffer.advance(padding);
        buffer
    }

    fn finish_secure(
        &mut self,
        preamble: Preamble,
        mut body: BytesMut,
    ) -> Result<Option<Frame>, FrameError> {
        let cipher = self.cipher.as_mut().expect("only called in secure mode");
        let mut late = body.split_off(preamble.first_secure_length());
        open(cipher.as_mut(), &mut body)?;
        open(cipher.as_mut(), &mut late)?;
        let inlined = &self.head[PREAMBLE_LENGTH..PREAMBLE_LENGTH + INLINE_LENGTH];
        let length = preamble.length(0);
        if length > INLINE_LENGTH {
            let first = [inlined, &body[..length - INLINE_LENGTH]].concat();
            return build(preamble, &first, Default::default()).map(Some);
        }
        let segments = split_late(preamble, &late.freeze(), padded);
        let status = late_status(&segments.1, EPILOGUE_SECURE_LENGTH);
        if !status.map_or(Ok(true), is_complete)? {
            return Ok(None);
        }
        build(preamble, &inlined[..length], segments.0).map(Some)
    }
}

impl Body {
    fn share(self) -> Bytes {
        match self {
            Body::Shared(bytes) => bytes,
            Body::Gathered(bytes) => bytes.freeze(),
        }
    }

    /// A copy for decryption in place: a chunk may hold other frames, so it is not written to.
    fn own(self) -> BytesMut {
        match self {
            Body::Shared(bytes) => BytesMut::from(&bytes[..]),
            Body::Gathered(bytes) => bytes,
        }
    }
}

/// Opens a unit and removes its tag. An absent unit was not sealed.
fn open(cipher: &mut dyn FrameCipher, unit: &mut BytesMut) -> Result<(), FrameError> {
    let Some(length) = unit.len().checked_sub(CIPHER_TAG_LENGTH) else { return Ok(()) };
    let tag = unit.split_off(length);
    match cipher.open(unit, (&*tag).try_into().expect("split off at its length")) {
        true => Ok(()),
        false => Err(FrameError::Forged),
    }
}

fn finish_crc(preamble: Preamble, body: Bytes) -> Result<Option<Frame>, FrameError> {
    let first = &body[..preamble.length(0)];
    if !first.is_empty() {
        check_crc(0, first, &body[first.len()..])?;
    }
    let late = body.slice(preamble.first_crc_length()..);
    let (segments, epilogue) = split_late(preamble, &late, |length| length);
    let status = late_status(&epilogue, EPILOGUE_CRC_LENGTH);
    if !status.map_or(Ok(true), is_complete)? {
        return Ok(None);
    }
    for (index, segment) in segments.iter().enumerate().take(preamble.count() - 1) {
        check_crc(index + 1, segment, &epilogue[1 + index * CRC_LENGTH..])?;
    }
    build(preamble, first, segments).map(Some)
}

/// The segments after the first, and the rest.
fn split_late(
    preamble: Preamble,
    late: &Bytes,
    on_wire: impl Fn(usize) -> usize,
) -> ([Bytes; 3], Bytes) {
    let (mut segments, mut at): ([Bytes; 3], usize) = Default::default();
    for (segment, length) in segments.iter_mut().zip(preamble.late_lengths()) {
        if length > 0 {
            *segment = late.slice(at..at + length);
        }
        at += on_wire(length);
    }
    (segments, late.slice(at..))
}

/// The status; `None` for a frame of one segment, which has no epilogue.
fn late_status(epilogue: &Bytes, length: usize) -> Option<u8> {
    debug_assert!(epilogue.is_empty() || epilogue.len() == length);
    epilogue.first().copied()
}

/// Compares with the crc at the start of `found`.
fn check_crc(segment: usize, bytes: &[u8], found: &[u8]) -> Result<(), FrameError> {
    let found = u32::from_le_bytes(*found.first_chunk().expect("lengths were added up before"));
    let computed = crc32c(bytes);
    if found != computed {
        return Err(FrameError::SegmentChecksum { segment, found, computed });
    }
    Ok(())
}

fn build(preamble: Preamble, first: &[u8], late: [Bytes; 3]) -> Result<Frame, FrameError> {
    if preamble.tag != Tag::Message {
        return Ok(Frame::Control(Control::decode(preamble.tag, first)?));
    }
    let header = MessageHeader::decode(&mut Reader::new(first))?;
    let [front, middle, data] = late;
    Ok(Frame::Message { header, front, middle, data })
}
