//! Mirroring of a pool: peers and mirrored images.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::UTime;

/// `MirrorMode`, of a pool.
pub(crate) mod mode {
    /// The pool is not mirrored.
    pub const DISABLED: u32 = 0;
    /// Selected images are mirrored.
    pub const IMAGE: u32 = 1;
    /// All images with journaling are mirrored.
    pub const POOL: u32 = 2;
    /// The pool is prepared for mirroring.
    pub const INIT_ONLY: u32 = 3;
}

/// `MirrorPeerDirection`
pub(crate) mod peer_direction {
    /// Images of the peer are copied here.
    pub const RECEIVE: u8 = 0;
    /// Images are copied to the peer.
    pub const SEND: u8 = 1;
    /// Both.
    pub const BOTH: u8 = 2;
}

/// `MirrorImageState`
pub(crate) mod image_state {
    /// Mirroring of the image is being disabled.
    pub const DISABLING: u8 = 0;
    /// The image is mirrored.
    pub const ENABLED: u8 = 1;
    /// The image is being created as a copy.
    pub const CREATING: u8 = 3;
}

/// `MirrorPeer`: another cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MirrorPeer {
    /// Id of the peer.
    pub uuid: Bytes,
    /// [`peer_direction`]
    pub direction: u8,
    /// Name of the peer's site, for users.
    pub site_name: Bytes,
    /// Entity as which this cluster reads from the peer.
    pub client_name: Bytes,
    /// Mirroring id of the peer's pool.
    pub mirror_uuid: Bytes,
    /// Time of the last ping.
    pub last_seen: UTime,
}

impl MirrorPeer {
    /// True if the fields are consistent with the direction.
    pub fn is_valid(&self) -> bool {
        let has_client = match self.direction {
            peer_direction::SEND => true,
            peer_direction::RECEIVE | peer_direction::BOTH => !self.client_name.is_empty(),
            _ => false,
        };
        has_client && !self.uuid.is_empty() && !self.site_name.is_empty()
    }
}

impl Encode for MirrorPeer {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.value(&self.uuid);
            w.value(&self.site_name);
            w.value(&self.client_name);
            w.i64(-1); // a pool, once
            w.u8(self.direction);
            w.value(&self.mirror_uuid);
            w.value(&self.last_seen);
        });
    }
}

impl Decode for MirrorPeer {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("mirror peer", 2, |r, version| {
            let (uuid, site_name, client_name) = r.value()?;
            r.i64("pool")?;
            let (direction, mirror_uuid, last_seen) = match version {
                1 => (peer_direction::BOTH, Bytes::new(), UTime::ZERO),
                _ => r.value()?,
            };
            Ok(MirrorPeer { uuid, direction, site_name, client_name, mirror_uuid, last_seen })
        })
    }
}

/// `MirrorImage`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MirrorImage {
    /// Id of the image in all clusters.
    pub global_id: Bytes,
    /// [`image_state`]
    pub state: u8,
    /// `MirrorImageMode`: by journal or by snapshots.
    pub mode: u8,
}

impl Encode for MirrorImage {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.value(&self.global_id);
            w.u8(self.state);
            w.u8(self.mode);
        });
    }
}

impl Decode for MirrorImage {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("mirror image", 2, |r, version| {
            let (global_id, state) = r.value()?;
            let mode = if version >= 2 { r.u8("mode")? } else { 0 };
            Ok(MirrorImage { global_id, state, mode })
        })
    }
}

/// `MirrorImageMap`: assignment of an image to a mirroring daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MirrorImageMap {
    /// Id of the daemon.
    pub instance: Bytes,
    /// Time of the assignment.
    pub mapped: UTime,
    /// Data of the daemon, which the class does not interpret.
    pub data: Bytes,
}

impl Encode for MirrorImageMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.value(&self.instance);
            w.value(&self.mapped);
            w.value(&self.data);
        });
    }
}

impl Decode for MirrorImageMap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("mirror image map", 1, |r, _| {
            let (instance, mapped, data) = r.value()?;
            Ok(MirrorImageMap { instance, mapped, data })
        })
    }
}
