//! One OSD of this process: what it must know, its store, its engine.

use super::daemons::seed;
use super::disk::{BlockDisk, Disk};
use crate::cli::{AuthMode, StoreKind};
use crate::host_facts::host_facts;
use crate::store::{self, Owner, StoreDevices};
use anyhow::{Context, Result};
use auth::CryptoKey;
use files::{FileStore, Options};
use host::AnyCore;
use osd::Osd;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use types::{EntityAddr, EntityAddrVec, OsdId, Uuid};

/// crc and secure
pub const CONNECTION_MODES: [u32; 2] = [1, 2];
/// For objects and database pages of each OSD that keeps files; data is cached by the kernel.
const FILES_MEMORY_DEFAULT: u64 = 32 << 20;
/// Memory of each block store, which nobody else caches for; all OSDs together take at most half of
/// the machine's unless told otherwise.
const BLOCK_MEMORY_DEFAULT: u64 = 1 << 30;
const BLOCK_MEMORY_MIN: u64 = 64 << 20;

/// An OSD that this process is to run.
#[derive(Debug)]
pub struct OsdMember {
    pub id: i32,
    /// Of its store's incarnation, as it was registered; zeros if it was not.
    pub uuid: Uuid,
    /// With its store.
    pub directory: PathBuf,
    pub fsid: Uuid,
    pub listen: SocketAddr,
    pub monitors: Vec<EntityAddrVec>,
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

impl OsdMember {
    pub fn daemon(&self, addr: EntityAddr) -> Result<Osd> {
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
            sizes: osd::Sizes::default(),
        };
        let mut osd = Osd::new(config, seed()?);
        osd.describe_host(host_facts());
        Ok(osd)
    }

    pub fn disk(&self, core: &mut AnyCore) -> Result<Disk> {
        let disk = store::kind_of(&self.directory).and_then(|kind| match kind {
            StoreKind::Files => Ok(Disk::Files(self.file_store(core)?)),
            StoreKind::Block => Ok(Disk::Block(Box::new(self.block_store(core)?))),
        });
        let path = self.directory.display();
        disk.with_context(|| format!("opening the store of osd.{} in {path}", self.id))
    }

    fn file_store(&self, core: &AnyCore) -> Result<FileStore> {
        let waker = core.waker();
        let options = Options {
            log: self.log.clone(),
            capacity: self.capacity,
            cache_size: self.memory as usize,
            ..Options::default()
        };
        Ok(FileStore::open(&self.directory, &options, Arc::new(move || waker.wake()))?)
    }

    fn block_store(&self, core: &mut AnyCore) -> Result<BlockDisk> {
        let devices = StoreDevices::open(&self.directory)?;
        devices.check_owner(Owner { cluster: self.fsid, osd: self.id })?;
        let name = format!("osd.{}", self.id);
        BlockDisk::open(name, self.directory.clone(), devices, self.memory, core)
    }
}

/// Default memory in bytes of an OSD's store on a machine with this many OSDs.
pub fn default_memory(directory: &Path, osds: u32) -> u64 {
    match store::kind_of(directory) {
        Ok(StoreKind::Files) => FILES_MEMORY_DEFAULT,
        _ => {
            let share = machine_memory() / 2 / u64::from(osds.max(1));
            share.clamp(BLOCK_MEMORY_MIN, BLOCK_MEMORY_DEFAULT)
        }
    }
}

/// As much as counts if it cannot be asked for.
pub fn machine_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(0, |kib| kib << 10)
}
