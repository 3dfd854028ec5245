//! Messages of clients, when none are awaited.

use super::{Rank, client_sessions};
use crate::peer::ClientPeer;
use engine::{Message, Time};
use wire::{
    ClientCapRelease, ClientCaps, ClientLease, ClientReclaim, ClientReconnect, ClientRequest,
    ClientSession, MessageBody, PeerFault, SessionOp, decode_from_peer,
};

/// Messages from clients that are taken and have no effect yet: metrics.
const WITHOUT_EFFECT: [u16; 1] = [29];

/// Handles a message of a client, when no clients are awaited.
///
/// # Errors
///
/// The message does not decode, or is not one that a client sends.
pub(super) fn handle(
    rank: &mut Rank,
    now: Time,
    peer: &ClientPeer,
    message: &Message,
) -> Result<(), PeerFault> {
    let client = peer.client;
    if rank.unheard.contains(&client) {
        return Ok(());
    }
    rank.now = now;
    rank.log.set_author(Some(client));
    rank.permissions.learn(peer);
    if message.kind == ClientSession::KIND {
        client_sessions::handle(rank, peer, decode_from_peer(message)?);
    } else if rank.sessions.get(client).is_none() {
        // It was closed or evicted; the client opens a new one.
        rank.send(client, ClientSession::new(SessionOp::CLOSE, 0).encode(0));
    } else {
        match message.kind {
            ClientRequest::KIND => {
                rank.handle_request(client, message.tid, decode_from_peer(message)?);
            }
            ClientCaps::KIND => {
                rank.handle_caps(client, message.tid, &decode_from_peer(message)?)?;
            }
            ClientCapRelease::KIND => {
                rank.handle_release(client, &decode_from_peer(message)?);
            }
            // Its connection was lost, or it comes too late: what it claims may be another client's by
            // now. It opens a new session.
            ClientReconnect::KIND => client_sessions::drop_unheard(rank, client),
            ClientReclaim::KIND => {
                client_sessions::reclaim(rank, client, &decode_from_peer(message)?);
            }
            ClientLease::KIND => rank.handle_lease(client, decode_from_peer(message)?),
            kind if WITHOUT_EFFECT.contains(&kind) => {}
            kind => return Err(PeerFault::NotExpected { kind }),
        }
    }
    rank.settle();
    forget_peer(rank, client);
    Ok(())
}

/// Forgets the capabilities of a client without a session.
pub(super) fn forget_peer(rank: &mut Rank, client: u64) {
    if rank.sessions.get(client).is_none() {
        rank.permissions.forget(client);
    }
}
