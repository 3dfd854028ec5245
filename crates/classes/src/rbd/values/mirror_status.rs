//! Mirroring status of an image, as each site reports it.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::{AddrType, EntityAddr, ParticipantName, UTime};

/// `MirrorImageStatusState`
pub(crate) mod status_state {
    /// Nothing is known.
    pub const UNKNOWN: u8 = 0;
    /// Mirroring has failed.
    pub const ERROR: u8 = 1;
}

/// `entity_inst_t`: a mirroring daemon. The kind of its address depends on the daemon it talks to, and is
/// ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Instance {
    name: ParticipantName,
    addr: EntityAddr,
}

impl Instance {
    /// A daemon by name and address.
    pub fn new(name: ParticipantName, addr: EntityAddr) -> Self {
        Instance { name, addr: EntityAddr { kind: AddrType::Any, ..addr } }
    }
}

impl Encode for Instance {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.name);
        w.value(&self.addr);
    }
}

impl Decode for Instance {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (name, addr) = r.value()?;
        Ok(Instance::new(name, addr))
    }
}

/// `MirrorImageSiteStatus`; the local site's has no mirror UUID.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SiteStatus {
    /// Mirroring id of the site; empty for the local one.
    pub mirror_uuid: Bytes,
    /// [`status_state`], or another number of the daemon.
    pub state: u8,
    /// Text for users.
    pub description: Bytes,
    /// Time of the report.
    pub last_update: UTime,
    /// True while the reporting daemon watches the object.
    pub up: bool,
}

impl SiteStatus {
    /// True for the report of this cluster's daemon.
    pub fn is_local(&self) -> bool {
        self.mirror_uuid.is_empty()
    }

    fn encode_body(&self, w: &mut Writer) {
        w.u8(self.state);
        w.value(&self.description);
        w.value(&self.last_update);
        w.bool(self.up);
    }

    fn decode_body(r: &mut Reader<'_>, mirror_uuid: Bytes) -> Result<Self> {
        let (state, description, last_update, up) = r.value()?;
        Ok(SiteStatus { mirror_uuid, state, description, last_update, up })
    }
}

impl Encode for SiteStatus {
    fn encode(&self, w: &mut Writer) {
        let version = if self.is_local() { 1 } else { 2 };
        w.versioned(version, version, |w| {
            if version >= 2 {
                w.value(&self.mirror_uuid);
            }
            self.encode_body(w);
        });
    }
}

impl Decode for SiteStatus {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("site status", 2, |r, version| {
            let mirror_uuid = if version >= 2 { r.value()? } else { Bytes::new() };
            Self::decode_body(r, mirror_uuid)
        })
    }
}

/// `MirrorImageSiteStatusOnDisk`: a status, and the daemon that reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredStatus {
    /// The daemon.
    pub origin: Instance,
    /// Its report.
    pub status: SiteStatus,
}

impl Encode for StoredStatus {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| w.value(&self.origin));
        w.value(&self.status);
    }
}

impl Decode for StoredStatus {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let origin = r.versioned("origin", 1, |r, _| r.value())?;
        Ok(StoredStatus { origin, status: r.value()? })
    }
}

/// `MirrorImageStatus`: the status of one image at all sites.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Statuses(pub Vec<SiteStatus>);

impl Statuses {
    /// The report of this cluster's daemon.
    pub fn local(&self) -> Option<&SiteStatus> {
        self.0.iter().find(|status| status.is_local())
    }

    /// The reports of other sites.
    pub fn remote(&self) -> impl Iterator<Item = &SiteStatus> {
        self.0.iter().filter(|status| !status.is_local())
    }
}

impl Encode for Statuses {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            let local = self.local();
            local.unwrap_or(&SiteStatus::default()).encode_body(w);
            w.bool(local.is_some());
            w.count(self.remote().count());
            for status in self.remote() {
                w.value(&status.mirror_uuid);
                status.encode_body(w);
            }
        });
    }
}

impl Decode for Statuses {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("image status", 2, |r, version| {
            let local = SiteStatus::decode_body(r, Bytes::new())?;
            if version < 2 {
                return Ok(Statuses(vec![local]));
            }
            let has_local = r.bool("local status")?;
            let remote = r.list("site statuses", |r| {
                let mirror_uuid = r.value()?;
                SiteStatus::decode_body(r, mirror_uuid)
            })?;
            Ok(Statuses(has_local.then_some(local).into_iter().chain(remote).collect()))
        })
    }
}
