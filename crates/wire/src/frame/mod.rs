//! msgr 2.1 frames: how bytes on a connection are cut into control frames and messages.
//!
//! A connection starts with a [`Banner`] from both ends; everything after it is frames. A frame is
//! a 32-byte preamble that tells its tag and the lengths of up to four segments, then the
//! segments. In *crc mode* the first segment is followed by its crc and the others by an epilogue
//! with theirs; in *secure mode* the preamble with the first 48 bytes of the first segment, what is
//! left of that segment, and the rest of the frame are encrypted as one unit each (Ceph
//! `doc/dev/msgr2.rst`).
//!
//! Invariants:
//! * A length is compared with its named bound before memory is set aside for it.
//! * A segment that arrived within one chunk is handed out as a slice of that chunk; one that did
//!   not is gathered once, into a buffer that the host can receive into.
//! * Each byte's checksum is computed once, when it is sent and when it has arrived.
//!
//! Only revision 1 (msgr 2.1, since Ceph 14.2.11 and Linux 5.11) is spoken: a peer without it is
//! refused at its banner. Compression is never offered, so compressed frames are refused. Which
//! frame may come when is not known here but in crate `msgr`.

mod banner;
mod control;
mod decoder;
mod encoder;
mod error;
mod header;
mod layout;
mod preamble;
mod tag;
#[cfg(test)]
mod tests;

pub use banner::{Banner, BannerError, FEATURE_COMPRESSION, FEATURE_REVISION_1};
pub use control::{
    CONNECT_FLAG_LOSSY, ClientIdent, Control, MODES_MAX, Reconnect, SIGNATURE_LENGTH, ServerIdent,
};
pub use decoder::{DIRECT_LENGTH_MIN, Decoder, Frame};
pub use encoder::{COPY_LENGTH_MAX, Encoder};
pub use error::FrameError;
pub use header::{MESSAGE_HEADER_LENGTH, MessageHeader};
pub use layout::{CIPHER_TAG_LENGTH, INLINE_LENGTH, crc32c};
pub use preamble::{
    CONTROL_LENGTH_MAX, DATA_LENGTH_MAX, FRONT_LENGTH_MAX, MIDDLE_LENGTH_MAX, PREAMBLE_LENGTH,
    Preamble, SEGMENTS_MAX,
};
pub use tag::Tag;

/// One direction of a connection in secure mode. Units must be opened in the order in which they
/// were sealed.
pub trait FrameCipher: Send {
    /// Encrypts `unit` in place and gives its tag.
    fn seal(&mut self, unit: &mut [u8]) -> [u8; CIPHER_TAG_LENGTH];

    /// Decrypts `unit` in place; false if the tag does not match.
    fn open(&mut self, unit: &mut [u8], tag: &[u8; CIPHER_TAG_LENGTH]) -> bool;
}
