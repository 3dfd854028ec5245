//! Accepted connections of lossless sessions: each may belong to a session that is there already,
//! whichever end began it.

use super::{Wire, WireEvent, WireId};
use msgr::Admission;
use rt::Reactor;
use types::EntityAddrVec;

impl Wire {
    /// Decides about a connection whose peer is known by now. One that is adopted by an older session
    /// is over for the daemon, which never saw it open.
    pub(super) fn admit(
        &mut self,
        reactor: &mut Reactor,
        id: WireId,
        peer: &EntityAddrVec,
    ) -> Option<WireEvent> {
        let existing = self.session_with(id, peer);
        let admission = match existing {
            None => self.entry(id).session.admit(None),
            Some(existing) => {
                let pair = self.entries.get_two_mut(id.0, existing.0);
                let [entry, existing] = pair.expect("both are there, and differ");
                entry.session.admit(Some(&mut existing.session))
            }
        };
        if let Some(existing) = existing {
            self.touch(existing);
        }
        self.touch(id);
        let adopter = existing.filter(|_| admission == Admission::Adopted)?;
        self.hand_over(reactor, id, adopter);
        Some(WireEvent::Closed)
    }

    /// The lossless session that the same daemon has with that peer.
    fn session_with(&self, newcomer: WireId, peer: &EntityAddrVec) -> Option<WireId> {
        let node = self.entries.get(newcomer.0)?.node;
        let mut others = self.entries.iter().filter(|(key, _)| *key != newcomer.0);
        let found = others
            .find(|(_, other)| other.node == node && other.session.registry_key() == Some(peer));
        found.map(|(key, _)| WireId(key))
    }

    /// The adopter goes on over the other's socket, and gives up its own.
    fn hand_over(&mut self, reactor: &mut Reactor, from: WireId, adopter: WireId) {
        let socket = self.entry(from).socket.take();
        let old = std::mem::replace(&mut self.entry(adopter).socket, socket);
        self.forget_socket(reactor, old);
        if let Some(socket) = socket {
            self.by_socket.insert(socket, adopter);
        }
        self.entry(adopter).tell_socket(reactor);
    }

    /// Loses all connections, as a network may.
    #[cfg(test)]
    pub(crate) fn break_connections(&mut self, now: engine::Time, reactor: &mut Reactor) {
        let sockets: Vec<rt::SocketId> = self.by_socket.keys().copied().collect();
        for socket in sockets {
            self.disconnected(now, socket, None);
            reactor.close(socket);
        }
    }
}
