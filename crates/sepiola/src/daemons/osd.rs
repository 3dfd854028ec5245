//! An OSD of this process.

use super::common::CONNECTION_MODES;
use access::AuthMode;
use anyhow::Result;
use auth::CryptoKey;
use disks::{Disk, DiskOptions, Owner, disk_facts};
use host::{AnyCore, DaemonNode, Listening, Member, Prepared};
use machine::{host_facts, random_bytes, random_u64};
use osd::Osd;
use std::net::SocketAddr;
use std::path::PathBuf;
use types::{EntityAddr, EntityAddrVec, EntityType, OsdId, ParticipantName, Uuid};

/// An OSD that this process is to run.
#[derive(Debug)]
pub struct OsdMember {
    /// Its number.
    pub id: i32,
    /// Of its store's incarnation, as it was registered; zeros if it was not.
    pub uuid: Uuid,
    /// With its store.
    pub directory: PathBuf,
    /// Its cluster's id.
    pub fsid: Uuid,
    /// Where it listens; any port if that is 0.
    pub listen: SocketAddr,
    /// Where it looks for monitors.
    pub monitors: Vec<EntityAddrVec>,
    /// How it proves who it is.
    pub auth: AuthMode,
    /// Not needed where the monitor lives in the same process.
    pub key: Option<CryptoKey>,
    /// Where CRUSH places it.
    pub hostname: String,
    /// Of its store.
    pub memory: u64,
    /// Where a store of files keeps its log, if not beside the data.
    pub log: Option<PathBuf>,
    /// Of a store of files that shares its file system.
    pub capacity: Option<u64>,
}

impl Member for OsdMember {
    fn participant(&self) -> ParticipantName {
        ParticipantName::new(EntityType::OSD, self.id.into())
    }

    /// Where a port is left open any is taken: maps tell which.
    fn prepare<'a>(&'a self, core: &mut AnyCore, node: usize) -> Result<Prepared<'a>> {
        let (participant, nonce) = (self.participant(), random_u64()? as u32);
        let addr = core.listen(self.listen, Listening { node, participant, nonce })?;
        let addr = EntityAddr::msgr2(addr, nonce);
        Ok(Box::new(move |core| {
            let disk = Disk::open(&self.directory, &self.disk_options(), core)?;
            Ok(Box::new(DaemonNode::new(participant, self.daemon(addr)?, disk)))
        }))
    }
}

impl OsdMember {
    fn daemon(&self, addr: EntityAddr) -> Result<Osd> {
        let config = osd::Config {
            id: OsdId(self.id),
            uuid: self.uuid,
            fsid: self.fsid,
            addrs: EntityAddrVec::one(addr),
            monitors: self.monitors.clone(),
            key: self.key.clone(),
            auth_none: self.auth == AuthMode::None,
            connection_modes: CONNECTION_MODES.to_vec(),
            hostname: self.hostname.clone(),
            holds_shards: true,
            sizes: osd::Sizes::default(),
        };
        let mut osd = Osd::new(config, random_bytes()?);
        let disks = disk_facts(&self.directory, self.log.as_deref());
        osd.describe_host(host_facts().into_iter().chain(disks).collect());
        Ok(osd)
    }

    fn disk_options(&self) -> DiskOptions {
        DiskOptions {
            owner: Owner { cluster: self.fsid, osd: self.id },
            memory: self.memory,
            log: self.log.clone(),
            capacity: self.capacity,
        }
    }
}
