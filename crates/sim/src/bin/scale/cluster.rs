//! Map of the measured cluster: racks of hosts of OSDs, all up, and a few pools.

use super::report::{Report, timed};
use crush::{CrushMap, Location, RuleKind, SimpleRule};
use maps::{Incremental, OsdMap, OsdMapFlags, OsdState, Pool, PoolType, Release, WEIGHT_IN};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use types::{EntityAddr, EntityAddrVec, Epoch, OsdId, OsdId as Id, PoolId, UTime, Uuid};

/// Id of the cluster.
pub const FSID: Uuid = Uuid([9; 16]);
/// OSDs of each host.
pub const OSDS_PER_HOST: usize = 25;
/// Hosts of each rack.
pub const HOSTS_PER_RACK: usize = 20;
const COPIES: u8 = 3;
/// One large pool and three smaller ones, with their shares of all groups in 1/32.
const POOLS: [(&str, u32); 4] = [("rbd", 16), ("objects", 8), ("archive", 4), ("meta", 4)];
/// Time of all changes.
pub const NOW: UTime = UTime { seconds: 1_750_000_000, nanoseconds: 0 };

/// Size of the cluster.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Number of OSDs.
    pub osds: usize,
    /// Number of groups.
    pub groups: u32,
}

impl Shape {
    /// OSDs of a rack.
    pub fn rack(self, number: usize) -> impl Iterator<Item = OsdId> + Clone {
        let size = OSDS_PER_HOST * HOSTS_PER_RACK;
        (number * size..((number + 1) * size).min(self.osds)).map(|id| Id(id as i32))
    }
}

/// The host of an OSD.
pub fn host_of(osd: usize) -> usize {
    osd / OSDS_PER_HOST
}

/// Addresses of an OSD.
pub fn addrs(osd: OsdId) -> EntityAddrVec {
    let (host, port) = (host_of(osd.0 as usize), 6800 + (osd.0 as usize % OSDS_PER_HOST) as u16);
    let ip = IpAddr::V4(Ipv4Addr::new(10, 1, (host / 200) as u8, (host % 200) as u8 + 1));
    EntityAddrVec::one(EntityAddr::msgr2(SocketAddr::new(ip, port), 1))
}

fn location(osd: usize) -> Location {
    let host = host_of(osd);
    let levels = [
        "root=default".to_owned(),
        format!("rack=rack{}", host / HOSTS_PER_RACK),
        format!("host=host{host}"),
    ];
    Location::parse(levels.iter().map(String::as_str)).expect("these are types")
}

/// The CRUSH map of `osds` OSDs, with one rule that puts copies into different racks.
pub fn crush(osds: usize) -> CrushMap {
    let mut crush = CrushMap::new();
    for osd in 0..osds {
        let name = format!("osd.{osd}");
        crush.insert_item(osd as i32, WEIGHT_IN, &name, &location(osd)).expect("it is new");
    }
    let (name, root, failure_domain, class) = ("replicated_rule", "default", "rack", None);
    let kind = RuleKind::Replicated;
    let rule = SimpleRule { name, root, failure_domain, class, kind };
    crush.add_simple_rule(&rule).expect("the tree has racks");
    crush
}

/// Builds the map.
pub fn build(shape: Shape, report: &mut Report) -> OsdMap {
    report.section(&format!("A cluster of {} OSDs and {} groups", shape.osds, shape.groups));
    let (crush, took) = timed(|| crush(shape.osds));
    report.time("building the CRUSH map, OSD by OSD", took);
    let mut first = Incremental::new(FSID, Epoch(1), NOW);
    first.crush = Some(Arc::new(crush));
    first.new_max_osd = Some(shape.osds as i32);
    first.new_flags = Some(OsdMapFlags::BASE);
    first.new_require_osd_release = Some(Release::REEF);
    first.new_require_min_compat_client = Some(Release::LUMINOUS);
    (first.new_full_ratio, first.new_backfillfull_ratio) = (Some(0.95), Some(0.90));
    first.new_nearfull_ratio = Some(0.85);
    for osd in (0..shape.osds as i32).map(OsdId) {
        let mut uuid = [0; 16];
        uuid[..4].copy_from_slice(&osd.0.to_le_bytes());
        first.new_uuid.insert(osd, Uuid(uuid));
        first.new_weight.insert(osd, WEIGHT_IN);
        first.new_state.insert(osd, OsdState::EXISTS);
        first.mark_up(osd, addrs(osd), addrs(osd), addrs(osd), addrs(osd));
    }
    for (id, (name, share)) in (1..).map(PoolId).zip(POOLS) {
        let groups = (shape.groups / 32 * share).max(1);
        let mut pool = Pool::new(PoolType::Replicated, COPIES, groups, 0);
        (pool.min_size, pool.pgp_num, pool.create_time) = (2, groups, NOW);
        first.new_pools.insert(id, pool);
        first.new_pool_names.insert(id, name.to_owned());
        first.new_pool_max = Some(id);
    }
    let (map, took) = timed(|| first.seal(&OsdMap::new(FSID)).expect("it is a valid first map"));
    report.time("making the first map from one increment", took);
    map
}

/// The incremental of an edit, and the next map.
pub fn change(map: &OsdMap, edit: impl FnOnce(&mut Incremental)) -> (Incremental, OsdMap) {
    let mut increment = Incremental::new(FSID, map.epoch.next(), NOW);
    edit(&mut increment);
    let next = increment.seal(map).expect("the change fits the map");
    (increment, next)
}

/// All OSDs of a rack are marked down.
pub fn rack_goes_down(map: &OsdMap, shape: Shape) -> (Incremental, OsdMap) {
    change(map, |increment| {
        shape.rack(0).for_each(|osd| {
            increment.new_state.insert(osd, OsdState::UP);
        });
    })
}

/// All OSDs of a rack are marked out.
pub fn rack_goes_out(map: &OsdMap, shape: Shape) -> (Incremental, OsdMap) {
    change(map, |increment| {
        shape.rack(0).for_each(|osd| {
            increment.new_weight.insert(osd, 0);
        });
    })
}
