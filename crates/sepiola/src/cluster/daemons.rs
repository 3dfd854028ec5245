//! The daemons of this process, and how each is made on its core.

use super::create::{MGR_NAME, MON_NAME, Settings};
use super::osd::{CONNECTION_MODES, OsdMember, default_memory};
use crate::cli::{AuthMode, UpArgs};
use crate::control::{Control, mark};
use crate::host_facts::host_facts;
use crate::up::hostname;
use access::{DataDir, fill_random};
use anyhow::Result;
use auth::CephxPolicy;
use host::{AnyCore, DaemonNode, Directory, Listening, Member, NodeAddress, Plan, Prepared};
use mon::Monitor;
use std::net::SocketAddr;
use types::{EntityAddr, EntityAddrVec, EntityType, ParticipantName, Uuid};

/// A monitor of this process.
pub struct MonMember {
    pub name: String,
    /// Rank in the maps at its start, for its name; others find it by its address.
    pub rank: usize,
    /// Of the manager that it plays.
    pub manager: String,
    pub listen: SocketAddr,
    pub auth: AuthMode,
    /// Its files tell where the control store is.
    pub dir: DataDir,
}

/// A whole cluster: the monitor first, then its OSDs.
pub(super) fn cluster_plan(dir: &DataDir, settings: &Settings, args: &UpArgs) -> Result<Plan> {
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
    let mut members: Vec<Box<dyn Member>> = vec![Box::new(monitor)];
    members.extend(osds.map(boxed));
    Ok(Plan::new(members, args.cores, random_seed()?))
}

/// One monitor of a cluster whose other daemons run elsewhere.
pub fn monitor_plan(monitor: MonMember) -> Result<Plan> {
    Ok(Plan::new(vec![Box::new(monitor)], None, random_seed()?))
}

/// OSDs of a cluster whose monitors run elsewhere.
pub fn osds_plan(osds: Vec<OsdMember>, cores: Option<usize>) -> Result<Plan> {
    Ok(Plan::new(osds.into_iter().map(boxed).collect(), cores, random_seed()?))
}

fn boxed(osd: OsdMember) -> Box<dyn Member> {
    Box::new(osd)
}

impl Member for MonMember {
    fn participant(&self) -> ParticipantName {
        ParticipantName::new(EntityType::MON, self.rank as i64)
    }

    fn is_light(&self) -> bool {
        true
    }

    fn register(&self, directory: &mut Directory, address: NodeAddress) {
        directory.insert_monitor(self.listen, address);
    }

    /// The port of the manager that it plays is left open: maps tell it.
    fn prepare<'a>(&'a self, core: &mut AnyCore, node: usize) -> Result<Prepared<'a>> {
        let participant = self.participant();
        core.listen(self.listen, Listening { node, participant, nonce: 0 })?;
        let manager = ParticipantName::new(EntityType::MGR, self.rank as i64);
        let manager = Listening { node, participant: manager, nonce: 0 };
        let mgr_addr = core.listen(SocketAddr::new(self.listen.ip(), 0), manager)?;
        Ok(Box::new(move |core| {
            let control = Control::open(&self.dir, &self.name, self.listen, core.waker())?;
            Ok(Box::new(DaemonNode::new(participant, self.daemon(mgr_addr)?, control)))
        }))
    }
}

impl Member for OsdMember {
    fn participant(&self) -> ParticipantName {
        ParticipantName::new(EntityType::OSD, self.id.into())
    }

    /// Where a port is left open any is taken: maps tell which.
    fn prepare<'a>(&'a self, core: &mut AnyCore, node: usize) -> Result<Prepared<'a>> {
        let (participant, nonce) = (self.participant(), random_seed()? as u32);
        let addr = core.listen(self.listen, Listening { node, participant, nonce })?;
        let addr = EntityAddr::msgr2(addr, nonce);
        Ok(Box::new(move |core| {
            let disk = self.disk(core)?;
            Ok(Box::new(DaemonNode::new(participant, self.daemon(addr)?, disk)))
        }))
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

pub(super) fn random_seed() -> Result<u64> {
    Ok(u64::from_le_bytes(seed()?[..8].try_into().expect("eight bytes")))
}
