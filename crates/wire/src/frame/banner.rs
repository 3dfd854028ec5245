//! The banner, which both ends send before the first frame.

use codec::{Reader, Writer};
use thiserror::Error;

/// msgr 2.1
pub const FEATURE_REVISION_1: u64 = 1 << 0;
/// Compression of frames (`CEPH_MSGR2_FEATURE_COMPRESSION`).
pub const FEATURE_COMPRESSION: u64 = 1 << 1;

const PREFIX: &[u8] = b"ceph v2\n";
/// Beginning of a msgr1 banner.
const PREFIX_MSGR1: &[u8] = b"ceph v0";
/// Bound for the payload in bytes. Later releases may append to it.
const PAYLOAD_LENGTH_MAX: usize = 256;

/// Features of the frame protocol (`CEPH_MSGR2_FEATURE_*`), a namespace of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Banner {
    /// Features that the sender has.
    pub supported: u64,
    /// Features that the receiver must have.
    pub required: u64,
}

/// Reason to refuse a peer at its banner.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BannerError {
    /// The peer speaks msgr1.
    #[error("the peer speaks msgr1; only msgr2 is spoken here")]
    Msgr1,
    /// The bytes are no banner.
    #[error("the peer does not speak msgr2")]
    NotMsgr2,
    /// The payload is too short or too long.
    #[error("the banner's payload has {length} bytes, expected are 16 to {PAYLOAD_LENGTH_MAX}")]
    PayloadLength {
        /// Length of the payload in bytes.
        length: usize,
    },
    /// The peer speaks msgr 2.0 only.
    #[error("the peer speaks msgr 2.0 only; msgr 2.1 (Ceph 14.2.11, Linux 5.11) is needed")]
    Revision0,
    /// The peer requires features that this implementation lacks.
    #[error("the peer requires frame features {0:#x}, which are not supported")]
    Required(u64),
}

impl Banner {
    /// The banner of this implementation.
    pub const OURS: Banner = Banner { supported: FEATURE_REVISION_1, required: FEATURE_REVISION_1 };

    /// Prefix, length and payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.raw(PREFIX);
        w.u16(16);
        w.u64(self.supported);
        w.u64(self.required);
        w.into_vec()
    }

    /// The banner at the start of `bytes` and its length; `None` if more bytes are needed. A
    /// wrong start is refused at its first wrong byte.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Banner, usize)>, BannerError> {
        let start = &bytes[..bytes.len().min(PREFIX.len())];
        if !PREFIX.starts_with(start) {
            let is_msgr1 = start.len() >= PREFIX_MSGR1.len() && start.starts_with(PREFIX_MSGR1);
            return match is_msgr1 {
                true => Err(BannerError::Msgr1),
                false if PREFIX_MSGR1.starts_with(start) => Ok(None),
                false => Err(BannerError::NotMsgr2),
            };
        }
        let mut r = Reader::new(&bytes[start.len()..]);
        let Ok(length) = r.u16("banner length") else { return Ok(None) };
        let length = usize::from(length);
        if !(16..=PAYLOAD_LENGTH_MAX).contains(&length) {
            return Err(BannerError::PayloadLength { length });
        }
        let Ok(payload) = r.take("banner", length) else { return Ok(None) };
        let word = |at: usize| {
            u64::from_le_bytes(payload[at..at + 8].try_into().expect("the length was checked"))
        };
        Ok(Some((Banner { supported: word(0), required: word(8) }, PREFIX.len() + 2 + length)))
    }

    /// Refuses a peer with which no common revision exists.
    pub fn check(&self) -> Result<(), BannerError> {
        let unsupported = self.required & !Banner::OURS.supported;
        if unsupported != 0 {
            return Err(BannerError::Required(unsupported));
        }
        match self.supported & FEATURE_REVISION_1 {
            0 => Err(BannerError::Revision0),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banners_are_read_as_they_arrive() {
        let bytes = Banner::OURS.encode();
        assert_eq!(&bytes[..10], b"ceph v2\n\x10\x00");
        for end in 0..bytes.len() {
            assert_eq!(Banner::decode(&bytes[..end]), Ok(None), "{end} bytes");
        }
        assert_eq!(Banner::decode(&bytes), Ok(Some((Banner::OURS, bytes.len()))));
    }

    #[test]
    fn other_protocols_are_named() {
        assert_eq!(Banner::decode(b"ceph v027"), Err(BannerError::Msgr1));
        assert_eq!(Banner::decode(b"GET / HTT"), Err(BannerError::NotMsgr2));
        assert_eq!(
            Banner::decode(b"ceph v2\n\xff\xff"),
            Err(BannerError::PayloadLength { length: 65535 })
        );
        let old = Banner { supported: 0, required: 0 };
        assert_eq!(old.check(), Err(BannerError::Revision0));
        let compressing = Banner { supported: 3, required: 2 };
        assert_eq!(compressing.check(), Err(BannerError::Required(2)));
    }
}
