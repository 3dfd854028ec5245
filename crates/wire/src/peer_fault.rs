//! Faults of a peer: messages for which its session ends, or that are dropped.

use crate::MessageBody;
use codec::DecodeError;
use engine::Message;
use std::fmt::{Display, Formatter};
use thiserror::Error;

/// The fault of one message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PeerFault {
    /// The message does not decode. The error names the field and its offset in bytes.
    #[error("message {kind:#06x} does not decode: {error}")]
    Undecodable {
        /// `CEPH_MSG_*` or `MSG_*`.
        kind: u16,
        /// The violated rule of the encoding.
        #[source]
        error: DecodeError,
    },
    /// The peer's identity or its capabilities do not allow the message.
    #[error("message {kind:#06x} is not allowed")]
    NotAllowed {
        /// `CEPH_MSG_*` or `MSG_*`.
        kind: u16,
    },
    /// The protocol has no such message in this state of the session.
    #[error("message {kind:#06x} is not expected")]
    NotExpected {
        /// `CEPH_MSG_*` or `MSG_*`.
        kind: u16,
    },
    /// The message exceeds a bound of this end.
    #[error("message {kind:#06x} exceeds the limit {limit}")]
    TooMuch {
        /// `CEPH_MSG_*` or `MSG_*`.
        kind: u16,
        /// The bound, in its own unit.
        limit: u64,
    },
}

/// Kinds of faults, for counters and logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// Bytes that violate the encoding.
    Undecodable,
    /// Something that the peer's identity or its capabilities do not allow.
    NotAllowed,
    /// Something that the protocol does not have in this state.
    NotExpected,
    /// More than a bound of this end.
    TooMuch,
}

/// Decodes the body of a message of a peer.
pub fn decode_from_peer<T: MessageBody>(message: &Message) -> Result<T, PeerFault> {
    assert_eq!(message.kind, T::KIND, "the caller has looked at the kind");
    T::decode(message).map_err(|error| PeerFault::Undecodable { kind: message.kind, error })
}

impl PeerFault {
    /// The kind of the fault.
    pub fn kind(&self) -> FaultKind {
        match self {
            PeerFault::Undecodable { .. } => FaultKind::Undecodable,
            PeerFault::NotAllowed { .. } => FaultKind::NotAllowed,
            PeerFault::NotExpected { .. } => FaultKind::NotExpected,
            PeerFault::TooMuch { .. } => FaultKind::TooMuch,
        }
    }
}

impl Display for FaultKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FaultKind::Undecodable => "undecodable",
            FaultKind::NotAllowed => "not allowed",
            FaultKind::NotExpected => "not expected",
            FaultKind::TooMuch => "too much",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MonGetVersion;
    use bytes::Bytes;

    #[test]
    fn a_fault_names_the_message_and_the_offset() {
        let message = Message::new(MonGetVersion::KIND, 1, 1, Bytes::from_static(b"short"));
        let fault = decode_from_peer::<MonGetVersion>(&message).unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Undecodable);
        let text = fault.to_string();
        assert!(text.starts_with("message 0x0013 does not decode: "), "{text}");
        assert!(text.contains(" at byte 0: "), "{text}");
    }
}
