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
        session: u64;
        participant: ParticipantName;
        name: EntityName;
        addrs: EntityAddrVec;
        features: u64;
        /// The peer's capabilities, as issued by the monitor.
        caps: Bytes;
        seen_addr: EntityAddr;
    }
}

message! {
    /// A message that arrived on a session of the follower at `revision` of the control store: the answer
    /// must not be older than what its sender may have seen.
    Forward = 0x7f11, version 2, compat 2 {
        session: u64;
        revision: u64;
        message: Carried;
    }
}

message! {
    ForwardClosed = 0x7f12, version 1, compat 1 {
        session: u64;
    }
}

message! {
    /// A message for a session of the follower. The follower sends it once it has reached `revision` of the
    /// control store, so that the receiver can read the state that the message reports.
    Routed = 0x7f13, version 1, compat 1 {
        session: u64;
        revision: u64;
        message: Carried;
    }
}

message! {
    /// To an OSD: another monitor collects reports from now on, and has none yet.
    ReportAgain = 0x7f14, version 1, compat 1 {}
}

message! {
    /// From the leader to another monitor: asks for its clock.
    ClockAsked = 0x7f15, version 1, compat 1 {
        /// By the leader's clock, in nanoseconds since 1970; the answer repeats it.
        sent: u64;
    }
}

message! {
    ClockTold = 0x7f16, version 1, compat 1 {
        sent: u64;
        clock: u64;
    }
}

structure! {
    /// A message inside of another.
    Carried, version 1, compat 1 {
        kind: u16;
        priority: u16;
        version_of_body: u16;
        compat_version_of_body: u16;
        tid: u64;
        front: Bytes;
        middle: Bytes;
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
