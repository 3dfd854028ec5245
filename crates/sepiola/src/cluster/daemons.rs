//! Which daemons run on which core, and how each is made.

use super::address;
use super::create::{MGR_NAME, MON_NAME, Settings};
use super::node::Node;
use super::osd::{CONNECTION_MODES, OsdMember, default_memory};
use crate::cli::{AuthMode, UpArgs};
use crate::connection::fill_random;
use crate::control::{Control, mark};
use crate::datadir::DataDir;
use crate::host::{Core, DaemonNode, Directory, Listening, NodeAddress};
use crate::host_facts::host_facts;
use crate::up::hostname;
use anyhow::{Context, Result};
use auth::CephxPolicy;
use mon::Monitor;
use std::net::SocketAddr;
use types::{EntityAddr, EntityAddrVec, EntityType, ParticipantName, Uuid};

/// The daemons of this process and their places, in turn over all cores.
pub struct Plan {
    places: Vec<(Role, NodeAddress)>,
    cores: usize,
}

enum Role {
    Mon(Box<MonMember>),
    Osd(Box<OsdMember>),
}

/// A monitor of this process.
pub struct MonMember {
    pub name: String,
    /// As maps had it when it was started, to be called by; others find it by its address.
    pub rank: usize,
    /// Of the manager that it plays.
    pub manager: String,
    pub listen: SocketAddr,
    pub auth: AuthMode,
    /// It says where the control store is.
    pub dir: DataDir,
}

/// The sockets of one core.
#[derive(Debug, Default)]
pub struct Sockets {
    pub mgr: Option<SocketAddr>,
    osds: Vec<(i32, EntityAddr)>,
}

impl Role {
    fn participant(&self) -> ParticipantName {
        match self {
            Role::Mon(mon) => ParticipantName::new(EntityType::MON, mon.rank as i64),
            Role::Osd(osd) => ParticipantName::new(EntityType::OSD, osd.id.into()),
        }
    }
}

impl Plan {
    /// A whole cluster: the monitor first, then its OSDs.
    pub fn whole(dir: &DataDir, settings: &Settings, args: &UpArgs) -> Self {
        let monitor = MonMember {
            name: MON_NAME.to_owned(),
            rank: 0,
            manager: MGR_NAME.to_owned(),
            listen: settings.mon_addr,
            auth: settings.auth,
            dir: dir.clone(),
        };
        let osds = (0..settings.osds as i32).map(|id| OsdMember {
            id,
            uuid: Uuid::default(),
            directory: dir.osd(id),
            fsid: settings.fsid,
            listen: SocketAddr::new(settings.mon_addr.ip(), 0),
            monitors: vec![addrs(settings.mon_addr)],
            auth: settings.auth,
            key: None,
            hostname: hostname(),
            memory: args.memory.unwrap_or_else(|| default_memory(&dir.osd(id), settings.osds)),
            log: settings.log.as_ref().map(|log| log.join(format!("osd.{id}.log"))),
            capacity: Some(settings.osd_capacity),
        });
        let osds = osds.map(Box::new).map(Role::Osd);
        Plan::spread(std::iter::once(Role::Mon(Box::new(monitor))).chain(osds), args.cores)
    }

    /// One monitor of a cluster whose other daemons run elsewhere.
    pub fn monitor(monitor: MonMember) -> Self {
        Plan::spread(std::iter::once(Role::Mon(Box::new(monitor))), None)
    }

    /// OSDs of a cluster whose monitors run elsewhere.
    pub fn osds(osds: Vec<OsdMember>, cores: Option<usize>) -> Self {
        Plan::spread(osds.into_iter().map(Box::new).map(Role::Osd), cores)
    }

    fn spread(roles: impl Iterator<Item = Role>, cores: Option<usize>) -> Self {
        let roles: Vec<Role> = roles.collect();
        let osds = roles.iter().filter(|role| matches!(role, Role::Osd(_))).count();
        let available = std::thread::available_parallelism().map_or(1, |n| n.get());
        // The other half is for the clients that run on the same machine.
        let cores = cores.unwrap_or(available / 2).clamp(1, osds.max(1));
        let (mut counts, mut next_osd) = (vec![0; cores], 0);
        let places = roles.into_iter().map(|role| {
            let core = match role {
                Role::Mon(_) => 0,
                Role::Osd(_) => {
                    next_osd += 1;
                    (next_osd - 1) % cores
                }
            };
            counts[core] += 1;
            (role, address(core, counts[core] - 1))
        });
        Plan { places: places.collect(), cores }
    }

    pub fn cores(&self) -> usize {
        self.cores
    }

    pub fn directory(&self) -> Directory {
        let mut directory = Directory::default();
        for (role, place) in &self.places {
            match role {
                Role::Mon(mon) => directory.insert_monitor(mon.listen, *place),
                Role::Osd(_) => directory.insert(role.participant(), *place),
            }
        }
        directory
    }

    fn of_core(&self, core: usize) -> impl Iterator<Item = &(Role, NodeAddress)> {
        self.places.iter().filter(move |(_, place)| place.core == core)
    }

    /// Listens for the daemons of one core. Where a port is left open any is taken: maps tell which.
    pub fn open_sockets(&self, index: usize, core: &mut Core<Node>) -> Result<Sockets> {
        let mut sockets = Sockets::default();
        for (role, place) in self.of_core(index) {
            let node = place.node;
            let participant = role.participant();
            match role {
                Role::Mon(mon) => {
                    let mon_addr = mon.listen;
                    core.listen(mon_addr, Listening { node, participant, nonce: 0 })?;
                    let rank = mon.rank as i64;
                    let participant = ParticipantName::new(EntityType::MGR, rank);
                    let listening = Listening { node, participant, nonce: 0 };
                    sockets.mgr = Some(core.listen(SocketAddr::new(mon_addr.ip(), 0), listening)?);
                }
                Role::Osd(osd) => {
                    let nonce = random_seed()? as u32;
                    let addr = core.listen(osd.listen, Listening { node, participant, nonce })?;
                    sockets.osds.push((osd.id, EntityAddr::msgr2(addr, nonce)));
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
        mgr_addr: Option<SocketAddr>,
    ) -> Result<()> {
        for (role, place) in self.of_core(index) {
            let participant = role.participant();
            let node = match role {
                Role::Mon(mon) => {
                    let control = Control::open(&mon.dir, &mon.name, mon.listen, core.waker())?;
                    let mgr_addr = mgr_addr.context("a monitor without a manager")?;
                    let node = DaemonNode::new(participant, mon.daemon(mgr_addr)?, control);
                    Node::Mon(Box::new(node))
                }
                Role::Osd(osd) => {
                    let addr = sockets.osds.iter().find(|(id, _)| *id == osd.id).map(|(_, a)| *a);
                    let addr = addr.context("an OSD without a socket")?;
                    let disk = osd.disk(core)?;
                    Node::Osd(Box::new(DaemonNode::new(participant, osd.daemon(addr)?, disk)))
                }
            };
            let added = core.add(node);
            assert_eq!(added, *place, "daemons are added in the order of the plan");
        }
        Ok(())
    }
}

impl MonMember {
    fn daemon(&self, mgr_addr: SocketAddr) -> Result<Monitor> {
        let settings = mon::Settings {
            mon_name: self.name.clone(),
            mon_addrs: addrs(self.listen),
            mgr_name: self.manager.clone(),
            mgr_addrs: addrs(mgr_addr),
            auth: match self.auth {
                AuthMode::Cephx => mon::AuthMode::Cephx,
                AuthMode::None => mon::AuthMode::None,
            },
            connection_modes: CONNECTION_MODES.to_vec(),
            cephx: CephxPolicy::default(),
            hostname: hostname(),
        };
        let mark = mark::load(&self.dir)?;
        let mut monitor = Monitor::new(settings, seed()?).with_high_water(mark);
        monitor.describe_host(host_facts());
        Ok(monitor)
    }
}

fn addrs(addr: SocketAddr) -> EntityAddrVec {
    EntityAddrVec::one(EntityAddr::msgr2(addr, 0))
}

pub(super) fn seed() -> Result<[u8; 32]> {
    let mut seed = [0; 32];
    fill_random(&mut seed)?;
    Ok(seed)
}

pub fn random_seed() -> Result<u64> {
    Ok(u64::from_le_bytes(seed()?[..8].try_into().expect("eight bytes")))
}
