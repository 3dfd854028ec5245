//! Ends of sessions: what groups and requests forget with them.

use super::HostedGroups;
use crate::cx::cx;
use crate::operations::copying;
use crate::operations::request::Origin;
use crate::shared::Shared;
use engine::{ConnId, Output};

/// Forgets a session that has ended: its watches, notifications and waiting requests.
pub(crate) fn forget_session(hosted: &mut HostedGroups, shared: &mut Shared, conn: ConnId) {
    forget_waiting(hosted, shared, conn);
    let Some(session) = shared.clients.remove(conn) else { return };
    for (pg, object, key) in session.into_watches() {
        if let Some(group) = hosted.groups.get_mut(pg) {
            group.watches.disconnect(shared.env.now, conn, &object, &key);
        }
    }
    hosted.watches.forget_notifier(conn);
    hosted.operations.forget_unstarted(cx!(shared), conn);
    copying::end_vain(&mut hosted.operations, cx!(shared));
    hosted.settle(shared);
}

/// Forgets the inputs of a session that has ended which wait for a map.
fn forget_waiting(hosted: &mut HostedGroups, shared: &mut Shared, conn: ConnId) {
    let requests = &hosted.operations;
    let is_of =
        |key| requests.get(key).map(|request| request.origin) == Some(Origin::Client { conn });
    let gone = hosted.waiting_for_map.forget(conn, is_of);
    gone.into_iter().for_each(|key| hosted.operations.forget(cx!(shared), key));
}

/// A session has ended that may have led to another OSD.
pub(crate) fn peer_closed(hosted: &mut HostedGroups, shared: &mut Shared, conn: ConnId) {
    forget_waiting(hosted, shared, conn);
    if let Some(osd) = shared.peers.closed(cx!(shared), &shared.monitor, conn) {
        hosted.operations.interrupt_copies(osd, shared.env.now);
    }
}

/// Ends sessions to OSDs that are down or have another address now.
pub(super) fn peers_changed(hosted: &mut HostedGroups, shared: &mut Shared) {
    for osd in shared.peers.gone(shared.maps.map()) {
        if let Some(conn) = shared.peers.unlink(osd) {
            close_peer(hosted, shared, conn);
        }
    }
    shared.peers.forget_mended(shared.maps.map());
}

/// Ends all sessions before this OSD boots again.
pub(crate) fn leave_peers(hosted: &mut HostedGroups, shared: &mut Shared) {
    shared.peers.leave().for_each(|conn| close_peer(hosted, shared, conn));
}

fn close_peer(hosted: &mut HostedGroups, shared: &mut Shared, conn: ConnId) {
    forget_waiting(hosted, shared, conn);
    shared.outbox.push(Output::Close { conn });
    shared.peers.forget_offered(conn);
    forget_session(hosted, shared, conn);
}
