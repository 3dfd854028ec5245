//! Forwarding of messages between monitors and the leader.
//!
//! A follower's session with a client or an OSD has a counterpart at the leader, named by the follower. It is
//! created by a [`ForwardOpen`] and ends with a [`ForwardClosed`], or with the session between the two
//! monitors.

use bytes::Bytes;
use engine::{Message, Peer};
use types::{EntityAddr, EntityAddrVec, EntityName, ParticipantName};

message! {
    /// A new session of the follower, with its peer.
    ForwardOpen = 0x7f10, version 1, compat 1 {
        /// The follower's number of the session.
        session: u64;
        /// Type and number of the peer, as `osd.3` or `client.4123`.
        participant: ParticipantName;
        /// Entity as which the peer has authenticated.
        name: EntityName;
        /// Addresses of the peer.
        addrs: EntityAddrVec;
        /// Feature bits that both ends have.
        features: u64;
        /// The peer's capabilities, as issued by the monitor.
        caps: Bytes;
        /// Address of the peer as the follower sees it.
        seen_addr: EntityAddr;
    }
}

message! {
    /// A message that arrived on a session of the follower at `revision` of the control store: the answer
    /// must not be older than what its sender may have seen.
    Forward = 0x7f11, version 2, compat 2 {
        /// The follower's number of the session.
        session: u64;
        /// Revision of the control store.
        revision: u64;
        /// The message.
        message: Carried;
    }
}

message! {
    /// The session with the client or OSD has ended.
    ForwardClosed = 0x7f12, version 1, compat 1 {
        /// The follower's number of the session.
        session: u64;
    }
}

message! {
    /// A message for a session of the follower. The follower sends it once it has reached `revision` of the
    /// control store, so that the receiver can read the state that the message reports.
    Routed = 0x7f13, version 1, compat 1 {
        /// The follower's number of the session.
        session: u64;
        /// Revision of the control store.
        revision: u64;
        /// The message.
        message: Carried;
    }
}

message! {
    /// To an OSD: requests all reports again, as another monitor collects them from now on.
    ReportRequest = 0x7f14, version 1, compat 1 {}
}

message! {
    /// From the leader to another monitor: requests a reading of its clock.
    ClockRequest = 0x7f15, version 1, compat 1 {
        /// By the leader's clock, in nanoseconds since 1970; the answer repeats it.
        sent: u64;
    }
}

message! {
    /// The answer to [`ClockRequest`].
    ClockReply = 0x7f16, version 1, compat 1 {
        /// Time that the request has.
        sent: u64;
        /// The sender's clock, in nanoseconds since 1970.
        clock: u64;
    }
}

structure! {
    /// A message inside of another.
    Carried, version 1, compat 1 {
        /// Kind of the message.
        kind: u16;
        /// Priority of the message.
        priority: u16;
        /// Version of its encoding.
        version_of_body: u16;
        /// Oldest version of a reader that understands it.
        compat_version_of_body: u16;
        /// Transaction id.
        tid: u64;
        /// First segment: the fields.
        front: Bytes;
        /// Second segment; rarely used.
        middle: Bytes;
        /// Data segment.
        data: Bytes;
    }
}

impl From<Message> for Carried {
    fn from(message: Message) -> Self {
        Carried {
            kind: message.kind,
            priority: message.priority,
            version_of_body: message.version,
            compat_version_of_body: message.compat_version,
            tid: message.tid,
            front: message.front,
            middle: message.middle,
            data: message.data,
        }
    }
}

impl From<Carried> for Message {
    fn from(carried: Carried) -> Self {
        Message {
            kind: carried.kind,
            priority: carried.priority,
            version: carried.version_of_body,
            compat_version: carried.compat_version_of_body,
            tid: carried.tid,
            front: carried.front,
            middle: carried.middle,
            data: carried.data,
        }
    }
}

impl ForwardOpen {
    /// Opens the counterpart of a session with this peer.
    pub fn new(session: u64, peer: &Peer) -> Self {
        ForwardOpen {
            session,
            participant: peer.participant,
            name: peer.name.clone(),
            addrs: peer.addrs.clone(),
            features: peer.features,
            caps: peer.caps.clone(),
            seen_addr: peer.seen_addr,
        }
    }

    /// The peer as the follower has authenticated it.
    pub fn peer(self) -> Peer {
        Peer {
            participant: self.participant,
            name: self.name,
            addrs: self.addrs,
            features: self.features,
            caps: self.caps,
            seen_addr: self.seen_addr,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MessageBody;

    #[test]
    fn a_message_comes_out_as_it_went_in() {
        let inner = Message {
            kind: 50,
            priority: 196,
            version: 3,
            compat_version: 2,
            tid: 77,
            front: Bytes::from_static(b"front"),
            middle: Bytes::new(),
            data: Bytes::from_static(b"data"),
        };
        let routed = Routed { session: 5, revision: 9, message: inner.clone().into() };
        let arrived = Routed::decode(&routed.encode(0)).unwrap();
        assert_eq!(arrived, routed);
        assert_eq!(Message::from(arrived.message), inner);
    }
}
