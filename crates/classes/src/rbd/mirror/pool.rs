//! A pool's mirroring mode, its identity, and its peers.

use crate::encoding::Raw;
use crate::method::{Method, methods};
use crate::object::{ObjectContext, Result, unique_id};
use crate::omap;
use crate::rbd::values::{MirrorPeer, mode, peer_direction};
use bytes::Bytes;
use types::Errno;

pub(crate) const METHODS: &[Method] = methods! {
    "mirror_uuid_get": READ => uuid,
    "mirror_uuid_set": READ_WRITE => set_uuid,
    "mirror_mode_get": READ => mode,
    "mirror_mode_set": READ_WRITE => set_mode,
    "mirror_remote_namespace_get": READ => remote_namespace,
    "mirror_remote_namespace_set": READ_WRITE => set_remote_namespace,
    "mirror_peer_list": READ => peers,
    "mirror_peer_add": READ_WRITE => add_peer,
    "mirror_peer_remove": READ_WRITE => remove_peer,
    "mirror_peer_set_client": READ_WRITE => set_peer_client,
    "mirror_peer_set_cluster": READ_WRITE => set_peer_site,
    "mirror_peer_set_direction": READ_WRITE => set_peer_direction,
    "mirror_peer_ping": READ_WRITE => ping,
};

const UUID: &str = "mirror_uuid";
const MODE: &str = "mirror_mode";
const REMOTE_NAMESPACE: &str = "remote_namespace";
const PEER_PREFIX: &str = "mirror_peer_";

fn uuid(object: &mut dyn ObjectContext, (): ()) -> Result<Bytes> {
    let Raw(uuid) = omap::require(object, UUID)?;
    Ok(uuid)
}

fn stored_mode(object: &mut dyn ObjectContext) -> Result<u32> {
    Ok(omap::get(object, MODE)?.unwrap_or(mode::DISABLED))
}

fn set_uuid(object: &mut dyn ObjectContext, uuid: Bytes) -> Result<()> {
    if uuid.is_empty() || stored_mode(object)? != mode::DISABLED {
        return Err(Errno::INVAL.into());
    }
    omap::set(object, UUID, &Raw(uuid))
}

fn mode(object: &mut dyn ObjectContext, (): ()) -> Result<u32> {
    omap::require(object, MODE)
}

fn set_mode(object: &mut dyn ObjectContext, new: u32) -> Result<()> {
    match new {
        mode::DISABLED if !peers(object, ())?.is_empty() => Err(Errno::BUSY.into()),
        mode::DISABLED => {
            [MODE, UUID, REMOTE_NAMESPACE].iter().try_for_each(|key| omap::discard(object, *key))
        }
        mode::IMAGE | mode::POOL | mode::INIT_ONLY if omap::contains(object, UUID)? => {
            omap::set(object, MODE, &new)
        }
        _ => Err(Errno::INVAL.into()),
    }
}

fn remote_namespace(object: &mut dyn ObjectContext, (): ()) -> Result<Bytes> {
    omap::require(object, REMOTE_NAMESPACE)
}

fn set_remote_namespace(object: &mut dyn ObjectContext, namespace: Bytes) -> Result<()> {
    if !matches!(stored_mode(object)?, mode::DISABLED | mode::INIT_ONLY) {
        return Err(Errno::INVAL.into());
    }
    omap::set(object, REMOTE_NAMESPACE, &namespace)
}

fn peers(object: &mut dyn ObjectContext, (): ()) -> Result<Vec<MirrorPeer>> {
    let listed = omap::list_all(object, PEER_PREFIX)?;
    Ok(listed.into_iter().map(|(_, peer)| peer).collect())
}

fn peer_key(uuid: &[u8]) -> Bytes {
    omap::key(PEER_PREFIX, uuid)
}

fn store_peer(object: &mut dyn ObjectContext, peer: &MirrorPeer) -> Result<()> {
    omap::set(object, peer_key(&peer.uuid), peer)
}

fn require_enabled(object: &mut dyn ObjectContext) -> Result<()> {
    if stored_mode(object)? == mode::DISABLED { Err(Errno::INVAL.into()) } else { Ok(()) }
}

fn add_peer(object: &mut dyn ObjectContext, peer: MirrorPeer) -> Result<()> {
    require_enabled(object)?;
    if !peer.is_valid() {
        return Err(Errno::INVAL.into());
    }
    if uuid(object, ())? == peer.uuid || peer.direction == peer_direction::SEND {
        return Err(Errno::INVAL.into());
    }
    for other in peers(object, ())? {
        if other.uuid == peer.uuid {
            return Err(Errno::STALE.into());
        }
        let same_cluster = !peer.mirror_uuid.is_empty() && other.mirror_uuid == peer.mirror_uuid;
        if other.site_name == peer.site_name || same_cluster {
            return Err(Errno::EXIST.into());
        }
    }
    store_peer(object, &peer)
}

fn remove_peer(object: &mut dyn ObjectContext, uuid: Bytes) -> Result<()> {
    omap::discard(object, peer_key(&uuid))
}

fn set_peer_client(object: &mut dyn ObjectContext, (uuid, name): (Bytes, Bytes)) -> Result<()> {
    let peer: MirrorPeer = omap::require(object, peer_key(&uuid))?;
    store_peer(object, &MirrorPeer { client_name: name, ..peer })
}

fn set_peer_site(object: &mut dyn ObjectContext, (uuid, name): (Bytes, Bytes)) -> Result<()> {
    let (mut named, others): (Vec<_>, Vec<_>) =
        peers(object, ())?.into_iter().partition(|peer| peer.uuid == uuid);
    if others.iter().any(|other| other.site_name == name) {
        return Err(Errno::EXIST.into());
    }
    let peer = named.pop().ok_or(Errno::NOENT)?;
    store_peer(object, &MirrorPeer { site_name: name, ..peer })
}

fn set_peer_direction(
    object: &mut dyn ObjectContext,
    (uuid, direction): (Bytes, u8),
) -> Result<()> {
    let peer: MirrorPeer = omap::require(object, peer_key(&uuid))?;
    store_peer(object, &MirrorPeer { direction, ..peer })
}

/// A remote cluster that mirrors from here registers; an unknown one becomes a peer.
fn ping(
    object: &mut dyn ObjectContext,
    (site, mirror_uuid, direction): (Bytes, Bytes, u8),
) -> Result<()> {
    if direction != peer_direction::SEND {
        return Err(Errno::INVAL.into());
    }
    require_enabled(object)?;
    if site.is_empty() || mirror_uuid.is_empty() {
        return Err(Errno::INVAL.into());
    }
    let known = find_pinging(peers(object, ())?, &site, &mirror_uuid);
    let mut peer = known.unwrap_or_else(|| MirrorPeer {
        uuid: unique_id(object).to_string().into(),
        direction: peer_direction::SEND,
        site_name: site,
        mirror_uuid,
        ..MirrorPeer::default()
    });
    if peer.direction == peer_direction::RECEIVE {
        peer.direction = peer_direction::BOTH;
    }
    peer.last_seen = object.now();
    if !peer.is_valid() {
        return Err(Errno::INVAL.into());
    }
    store_peer(object, &peer)
}

/// Finds the peer by site name or by UUID, whichever matches better, and learns the other.
fn find_pinging(peers: Vec<MirrorPeer>, site: &Bytes, uuid: &Bytes) -> Option<MirrorPeer> {
    let by_site = peers.iter().find(|peer| peer.site_name == *site);
    if let Some(peer) = by_site
        && (peer.mirror_uuid.is_empty() || peer.mirror_uuid == *uuid)
    {
        return Some(MirrorPeer { mirror_uuid: uuid.clone(), ..peer.clone() });
    }
    match (peers.iter().find(|peer| peer.mirror_uuid == *uuid), by_site) {
        // Another peer has the name.
        (Some(peer), Some(_)) => Some(peer.clone()),
        (Some(peer), None) => Some(MirrorPeer { site_name: site.clone(), ..peer.clone() }),
        (None, Some(peer)) => Some(MirrorPeer { mirror_uuid: uuid.clone(), ..peer.clone() }),
        (None, None) => None,
    }
}
