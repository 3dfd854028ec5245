//! Faults of peers in messages whose decoders are not those of `wire`.

use codec::DecodeError;
use wire::PeerFault;

/// The outcome of a message; its session ends if its peer is at fault.
pub(crate) type Handled = Result<(), PeerFault>;

/// The fault of a peer whose message of this kind does not decode.
pub(crate) fn undecodable(kind: u16) -> impl FnOnce(DecodeError) -> PeerFault {
    move |error| PeerFault::Undecodable { kind, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use engine::Message;
    use pg::message::Body;
    use wire::FaultKind;

    #[test]
    fn the_fault_of_a_member_names_the_message_and_the_offset() {
        let query = Message::new(0x7000, 1, 1, Bytes::from_static(b"short"));
        assert!(pg::message::is_pg_message(query.kind));
        let fault = Body::decode(&query).map_err(undecodable(query.kind)).unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Undecodable);
        let text = fault.to_string();
        assert!(text.starts_with("message 0x7000 does not decode: "), "{text}");
        assert!(text.contains(" at byte "), "{text}");
    }
}
