//! Which daemons run on which core, and how each is made.

use super::address;
use super::create::{MGR_NAME, MON_NAME, Settings};
use super::disk::{BlockDisk, Disk};
use super::node::Node;
use crate::cli::{AuthMode, StoreKind, UpArgs};
use crate::connection::fill_random;
use crate::control::Control;
use crate::datadir::DataDir;
use crate::host::{Core, DaemonNode, Directory, Listening, NodeAddress};
use crate::store::{self, Owner, StoreDevices};
use crate::up::hostname;
use anyhow::{Context, Result};
use auth::CephxPolicy;
use files::{FileStore, Options};
use mon::Monitor;
use osd::Osd;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use types::{EntityAddr, EntityAddrVec, EntityType, OsdId, ParticipantName};

/// crc and secure
const CONNECTION_MODES: [u32; 2] = [1, 2];
/// For objects and database pages of each OSD that keeps files; data is cached by the kernel.
const FILES_MEMORY_DEFAULT: u64 = 32 << 20;
/// Memory of each block store, which nobody else caches for; all OSDs together take at most half of
/// the machine's unless told otherwise.
const BLOCK_MEMORY_DEFAULT: u64 = 1 << 30;
const BLOCK_MEMORY_MIN: u64 = 64 << 20;

/// The daemons of this process and their places: the monitor first, OSDs in turn over all cores.
pub struct Plan {
    dir: DataDir,
    settings: Settings,
    places: Vec<(Role, NodeAddress)>,
    cores: usize,
    /// For each OSD's store, if the user has said.
    memory: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Mon,
    Osd(i32),
}

/// The sockets of one core.
#[derive(Debug, Default)]
pub struct Sockets {
    pub mon: Option<SocketAddr>,
    pub mgr: Option<SocketAddr>,
    osds: Vec<(i32, EntityAddr)>,
}

impl Role {
    fn participant(self) -> ParticipantName {
        match self {
            Role::Mon => ParticipantName::new(EntityType::MON, 0),
            Role::Osd(id) => ParticipantName::new(EntityType::OSD, id.into()),
        }
    }
}

impl Plan {
    pub fn new(dir: &DataDir, settings: &Settings, args: &UpArgs) -> Result<Self> {
        let available = std::thread::available_parallelism().map_or(1, |n| n.get());
        let osds = settings.osds as usize;
        // The other half is for the clients that run on the same machine.
        let cores = args.cores.unwrap_or(available / 2).clamp(1, osds.max(1));
        let roles = std::iter::once(Role::Mon).chain((0..settings.osds as i32).map(Role::Osd));
        let mut counts = vec![0; cores];
        let mut place = |core: usize| {
            counts[core] += 1;
            address(core, counts[core] - 1)
        };
        let places = roles
            .map(|role| match role {
                Role::Mon => (role, place(0)),
                Role::Osd(id) => (role, place(id as usize % cores)),
            })
            .collect();
        let (dir, settings) = (dir.clone(), settings.clone());
        Ok(Plan { dir, settings, places, cores, memory: args.memory })
    }

    pub fn cores(&self) -> usize {
        self.cores
    }

    pub fn directory(&self) -> Directory {
        let mut directory = Directory::default();
        for (role, place) in &self.places {
            directory.insert(role.participant(), *place);
        }
        directory
    }

    fn of_core(&self, core: usize) -> impl Iterator<Item = (Role, NodeAddress)> {
        self.places.iter().copied().filter(move |(_, place)| place.core == core)
    }

    /// Listens for the daemons of one core. OSDs and the manager take any port: the maps tell which.
    pub fn open_sockets(&self, index: usize, core: &mut Core<Node>) -> Result<Sockets> {
        let mut sockets = Sockets::default();
        let mon_addr = self.settings.mon_addr;
        let any_port = SocketAddr::new(mon_addr.ip(), 0);
        for (role, place) in self.of_core(index) {
            let node = place.node;
            let participant = role.participant();
            match role {
                Role::Mon => {
                    sockets.mon =
                        Some(core.listen(mon_addr, Listening { node, participant, nonce: 0 })?);
                    let participant = ParticipantName::new(EntityType::MGR, 0);
                    let listening = Listening { node, participant, nonce: 0 };
                    sockets.mgr = Some(core.listen(any_port, listening)?);
                }
                Role::Osd(id) => {
                    let nonce = random_seed()? as u32;
                    let addr = core.listen(any_port, Listening { node, participant, nonce })?;
                    sockets.osds.push((id, EntityAddr::msgr2(addr, nonce)));
                }
            }
        }
        Ok(sockets)
    }

    pub fn add_daemons(
        &self,
        index: usize,
        core: &mut Core<Node>,
        sockets: &Sockets,
        mgr_addr: SocketAddr,
    ) -> Result<()> {
        for (role, place) in self.of_core(index) {
            let participant = role.participant();
            let node = match role {
                Role::Mon => {
                    let control = Control::open(&self.dir.control(), core.waker())?;
                    let node = DaemonNode::new(participant, self.monitor(mgr_addr)?, control);
                    Node::Mon(Box::new(node))
                }
                Role::Osd(id) => {
                    let addr = sockets.osds.iter().find(|(osd, _)| *osd == id).map(|(_, a)| *a);
                    let addr = addr.context("an OSD without a socket")?;
                    let disk = self.disk(id, core)?;
                    let node = DaemonNode::new(participant, self.osd(id, addr)?, disk);
                    Node::Osd(Box::new(node))
                }
            };
            let added = core.add(node);
            assert_eq!(added, place, "daemons are added in the order of the plan");
        }
        Ok(())
    }

    fn monitor(&self, mgr_addr: SocketAddr) -> Result<Monitor> {
        let settings = mon::Settings {
            mon_name: MON_NAME.to_owned(),
            mon_addrs: addrs(self.settings.mon_addr),
            mgr_name: MGR_NAME.to_owned(),
            mgr_addrs: addrs(mgr_addr),
            auth: match self.settings.auth {
                AuthMode::Cephx => mon::AuthMode::Cephx,
                AuthMode::None => mon::AuthMode::None,
            },
            connection_modes: CONNECTION_MODES.to_vec(),
            cephx: CephxPolicy::default(),
            hostname: hostname(),
            serves_snapshots: false,
        };
        Ok(Monitor::new(settings, seed()?))
    }

    fn osd(&self, id: i32, addr: EntityAddr) -> Result<Osd> {
        let config = osd::Config {
            id: OsdId(id),
            fsid: self.settings.fsid,
            addrs: EntityAddrVec::one(addr),
            mon_addrs: addrs(self.settings.mon_addr),
            auth_none: self.settings.auth == AuthMode::None,
            connection_modes: CONNECTION_MODES.to_vec(),
            hostname: hostname(),
        };
        Ok(Osd::new(config, seed()?))
    }

    fn disk(&self, id: i32, core: &mut Core<Node>) -> Result<Disk> {
        let path = self.dir.osd(id);
        let disk = store::kind_of(&path).and_then(|kind| match kind {
            StoreKind::Files => Ok(Disk::Files(self.file_store(id, core)?)),
            StoreKind::Block => Ok(Disk::Block(Box::new(self.block_store(id, core)?))),
        });
        disk.with_context(|| format!("opening the store of osd.{id} in {}", path.display()))
    }

    fn file_store(&self, id: i32, core: &Core<Node>) -> Result<FileStore> {
        let waker = core.waker();
        let log: Option<PathBuf> =
            self.settings.log.as_ref().map(|log| log.join(format!("osd.{id}.log")));
        let capacity = Some(self.settings.osd_capacity);
        let cache_size = self.memory.unwrap_or(FILES_MEMORY_DEFAULT) as usize;
        let options = Options { log, capacity, cache_size, ..Options::default() };
        Ok(FileStore::open(&self.dir.osd(id), &options, Arc::new(move || waker.wake()))?)
    }

    fn block_store(&self, id: i32, core: &mut Core<Node>) -> Result<BlockDisk> {
        let devices = StoreDevices::open(&self.dir.osd(id))?;
        devices.check_owner(Owner { cluster: self.settings.fsid, osd: id })?;
        let memory = self.memory.unwrap_or_else(|| {
            let share = machine_memory() / 2 / u64::from(self.settings.osds);
            share.clamp(BLOCK_MEMORY_MIN, BLOCK_MEMORY_DEFAULT)
        });
        BlockDisk::open(format!("osd.{id}"), devices, memory, core)
    }
}

/// As much as counts if it cannot be asked for.
fn machine_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(0, |kib| kib << 10)
}

fn addrs(addr: SocketAddr) -> EntityAddrVec {
    EntityAddrVec::one(EntityAddr::msgr2(addr, 0))
}

fn seed() -> Result<[u8; 32]> {
    let mut seed = [0; 32];
    fill_random(&mut seed)?;
    Ok(seed)
}

pub fn random_seed() -> Result<u64> {
    Ok(u64::from_le_bytes(seed()?[..8].try_into().expect("eight bytes")))
}
