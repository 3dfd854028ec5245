//! Construction of a scenario's cluster, before it runs.

use crate::erasure::ErasureShape;
use crate::files::FileSystem;
use crate::names::{APPENDED, BESIDE, MON_NAMES, POOL, QUOTA_OBJECTS, QUOTA_POOL};
use crate::network::Presence;
use crate::process::{
    ClientProcess, ControlDisk, FileClientProcess, ImageOwner, ImageSharer, ImageUser, MdsProcess,
    MonitorProcess, OsdProcess, Process, Shared, SharedControl, StoreDisk,
};
use crate::scenario::Scenario;
use crate::stores::StoreKind;
use crate::workload::{Target, Workload};
use crate::world::{START, World};
use auth::{CephxPolicy, Entropy, KeyType};
use engine::Duration;
use mon::control::MemControl;
use mon::{AuthMode, Parameters, Settings};
use rados::{Config, Credentials};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use stdx::Prng;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, OsdId, ParticipantName, Uuid};

const MON_HOST: u8 = 1;
const OSD_HOSTS: u8 = 10;
const CLIENT_HOSTS: u8 = 100;
const SERVER_HOSTS: u8 = 200;
const FILE_CLIENT_HOSTS: u8 = 220;
const MON_PORT: u16 = 3300;
const MGR_PORT: u16 = 6789;
/// An OSD uses another port at every start.
const OSD_PORT_FIRST: u16 = 6800;
/// Connection modes: crc and secure.
const CONNECTION_MODES: [u32; 2] = [1, 2];
const SOURCES: usize = 2;

/// A process with its addresses.
type Node = (Box<dyn Process>, Presence);

fn addr(host: u8, port: u16, nonce: u32) -> EntityAddr {
    EntityAddr::msgr2(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, host)), port), nonce)
}

/// Addresses of an OSD at one of its starts.
pub fn osd_addrs(osd: OsdId, start: u32) -> EntityAddrVec {
    let port = OSD_PORT_FIRST + (start % 20_000) as u16;
    EntityAddrVec::one(addr(OSD_HOSTS + osd.0 as u8, port, 0))
}

/// A world in which no process runs yet.
pub fn build(scenario: Scenario, printed: bool) -> World {
    let mut seeds = Prng::new(scenario.seed.wrapping_add(1));
    let monitors: Vec<EntityAddrVec> = (0..scenario.cluster.monitors).map(mon_addrs).collect();
    let parameters = parameters(&scenario);
    let mut entropy = Entropy::from_seed([scenario.seed as u8; 32]);
    let made = mon::bootstrap(&parameters, START.wall(), &mut entropy);
    let made = made.expect("the parameters make a cluster");
    let mut control = MemControl::new();
    control.commit(&made.transaction).expect("the store is empty");

    let admin = EntityName::client("admin");
    let credentials = match scenario.cluster.uses_cephx {
        true => Credentials::Key(made.keyring.entities[&admin].key.clone()),
        false => Credentials::None,
    };
    let mut nodes: Vec<Node> = Vec::new();
    let control = SharedControl::new(control, seeds.next_u64(), START);
    for rank in 0..scenario.cluster.monitors {
        nodes.push(monitor(&scenario, rank, &control, seeds.next_u64()));
    }
    for (id, store) in (0..).map(OsdId).zip(scenario.disks.stores.clone()) {
        let config = osd::Config {
            id,
            fsid: made.fsid,
            addrs: osd_addrs(id, 0),
            monitors: monitors.clone(),
            key: None,
            uuid: types::Uuid::default(),
            auth_none: !scenario.cluster.uses_cephx,
            connection_modes: CONNECTION_MODES.to_vec(),
            hostname: host_name(id.0 as usize % scenario.cluster.hosts),
            holds_shards: scenario.cluster.erasure.is_some(),
            sizes: scenario.trials.sizes,
        };
        nodes.push(osd(store, config, seeds.next_u64()));
    }
    for number in 0..scenario.cluster.clients {
        let mut config = Config::new(admin.clone(), credentials.clone(), monitors.clone());
        config.prefers_secure = scenario.cluster.prefers_secure && scenario.cluster.uses_cephx;
        let (mut process, presence) = client(number, config);
        // The other clients read from the primary, and must see the same.
        if scenario.trials.balances_reads && number % 2 == 0 {
            process = process.with_balanced_reads();
        }
        nodes.push((Box::new(process), presence));
    }
    if scenario.load.has_image {
        let config = Config::new(admin, credentials.clone(), monitors.clone());
        nodes.extend(image_users(&scenario, &config));
    }
    if let Some(shape) = scenario.file_system {
        nodes.extend(file_system(shape, made.fsid, &credentials, &monitors));
    }
    let workload = Workload::new(seeds.fork(), scenario.load.reach, targets(&scenario));
    World::new(scenario, nodes, workload, &mut seeds, printed)
}

fn host_name(host: usize) -> String {
    format!("host.{host}")
}

fn mon_addrs(rank: usize) -> EntityAddrVec {
    EntityAddrVec::one(addr(MON_HOST + rank as u8, MON_PORT, 0))
}

fn mgr_addrs(rank: usize) -> EntityAddrVec {
    EntityAddrVec::one(addr(MON_HOST + rank as u8, MGR_PORT, 0))
}

/// OSDs enter the map when they boot; monitors but the first, when they start.
fn parameters(scenario: &Scenario) -> Parameters {
    Parameters {
        mon_name: MON_NAMES[0].to_owned(),
        mon_addrs: mon_addrs(0),
        mgr_name: "x".to_owned(),
        mgr_addrs: mgr_addrs(0),
        osd_count: 0,
        host: "virtual".to_owned(),
        failure_domain: scenario.failure_domain().to_owned(),
        device_class: None,
        pool_size: scenario.cluster.size,
        key_type: KeyType::Aes,
    }
}

fn monitor(scenario: &Scenario, rank: usize, control: &Shared, seed: u64) -> Node {
    let (mon_addrs, mgr_addrs) = (mon_addrs(rank), mgr_addrs(rank));
    let settings = Settings {
        mon_name: MON_NAMES[rank].to_owned(),
        mon_addrs: mon_addrs.clone(),
        mgr_name: format!("x{rank}"),
        mgr_addrs: mgr_addrs.clone(),
        auth: if scenario.cluster.uses_cephx { AuthMode::Cephx } else { AuthMode::None },
        connection_modes: CONNECTION_MODES.to_vec(),
        cephx: CephxPolicy::default(),
        services: Default::default(),
        hostname: "virtual".to_owned(),
        served: types::ServedVersions::OWN,
    };
    let process = MonitorProcess::new(settings, ControlDisk::new(control, seed));
    let presence = Presence {
        participants: vec![
            ParticipantName::new(EntityType::MON, rank as i64),
            ParticipantName::new(EntityType::MGR, rank as i64),
        ],
        name: EntityName::new(EntityType::MON, rank.to_string()),
        addrs: EntityAddrVec([mon_addrs.0.clone(), mgr_addrs.0.clone()].concat()),
        is_client: false,
        is_up: false,
    };
    (Box::new(process), presence)
}

fn osd(store: StoreKind, config: osd::Config, seed: u64) -> Node {
    let presence = Presence {
        participants: vec![ParticipantName::new(EntityType::OSD, config.id.0.into())],
        name: EntityName::osd(config.id.0),
        addrs: config.addrs.clone(),
        is_client: false,
        is_up: false,
    };
    (Box::new(OsdProcess::new(config, StoreDisk::new(seed, store), osd_addrs)), presence)
}

fn client(number: usize, config: Config) -> (ClientProcess, Presence) {
    let presence = Presence {
        participants: vec![ParticipantName::new(EntityType::CLIENT, number as i64)],
        name: config.name.clone(),
        addrs: EntityAddrVec::one(addr(CLIENT_HOSTS + number as u8, 0, number as u32 + 1)),
        is_client: true,
        is_up: false,
    };
    (ClientProcess::new(config), presence)
}

/// Metadata servers, and clients of the file system.
fn file_system(
    shape: FileSystem,
    fsid: Uuid,
    credentials: &Credentials,
    monitors: &[EntityAddrVec],
) -> Vec<Node> {
    let auth_none = matches!(credentials, Credentials::None);
    let server = |number: usize| {
        let name = ["a", "b", "c"][number].to_owned();
        let presence = Presence {
            participants: vec![ParticipantName::new(EntityType::MDS, 0)],
            name: EntityName::new(EntityType::MDS, name.clone()),
            addrs: EntityAddrVec::one(addr(SERVER_HOSTS + number as u8, OSD_PORT_FIRST, 0)),
            // It authenticates as a client does, and gets a number for each run.
            is_client: true,
            is_up: false,
        };
        let config = mds::Config {
            name,
            fsid,
            addrs: presence.addrs.clone(),
            monitors: monitors.to_vec(),
            key: None,
            auth_none,
            hostname: format!("server.{number}"),
            gid: 0,
            is_volatile: false,
            reconnect_timeout: Duration::from_millis(shape.reconnect_ms),
        };
        (Box::new(MdsProcess::new(config)) as Box<dyn Process>, presence)
    };
    let user = |number: usize| {
        let name = EntityName::client("admin");
        let presence = Presence {
            participants: vec![ParticipantName::new(EntityType::CLIENT, 1_000 + number as i64)],
            name: name.clone(),
            addrs: EntityAddrVec::one(addr(FILE_CLIENT_HOSTS + number as u8, 0, number as u32 + 1)),
            is_client: true,
            is_up: false,
        };
        let (credentials, monitors) = (credentials.clone(), monitors.to_vec());
        let config = fsclient::Config {
            name,
            credentials,
            monitors,
            file_system: None,
            ends_with_session: false,
        };
        (Box::new(FileClientProcess::new(config)) as Box<dyn Process>, presence)
    };
    (0..shape.servers).map(server).chain((0..shape.clients).map(user)).collect()
}

/// One client with an image of its own that never dies, or several that share one.
fn image_users(scenario: &Scenario, config: &Config) -> Vec<Node> {
    let with = |number: u64, user: Box<dyn ImageUser>| {
        let number = scenario.cluster.clients + number as usize;
        let (process, presence) = client(number, config.clone());
        (Box::new(process.with_image_user(user)) as Box<dyn Process>, presence)
    };
    let prng = |number: u64| Prng::new(!scenario.seed ^ number << 32);
    let place = || scenario.image_place();
    match scenario.load.image_sharers {
        0 => {
            vec![with(0, Box::new(ImageOwner::new(prng(0), place(), scenario.load.has_snapshots)))]
        }
        all => (0..all)
            .map(|one| with(one, Box::new(ImageSharer::new(one, all, prng(one), place()))))
            .collect(),
    }
}

/// About a third of the objects are journals.
fn targets(scenario: &Scenario) -> Vec<Target> {
    let erasure = scenario.cluster.erasure;
    let is_erasure = erasure.is_some();
    let target = |index: usize| Target {
        pool: if is_erasure && index % 4 == 3 { BESIDE } else { POOL }.to_owned(),
        name: format!("object.{index}"),
        // In a tight cluster, objects that only grow would leave no room in the end.
        is_journal: index.is_multiple_of(3) && !scenario.disks.is_tight,
        is_source: false,
        has_omap: !is_erasure || index % 4 == 3,
        stripe: None,
    };
    let appended = |shape: ErasureShape| Target {
        pool: APPENDED.to_owned(),
        name: "appended".to_owned(),
        is_journal: false,
        is_source: false,
        has_omap: false,
        stripe: Some(shape.stripe()),
    };
    let unchanging = |pool: &str, name: &str, count: usize| {
        let target = |index| Target {
            pool: pool.to_owned(),
            name: format!("{name}.{index}"),
            is_journal: false,
            is_source: true,
            // Objects with an omap cannot be copied to all pools.
            has_omap: !is_erasure || pool == QUOTA_POOL || pool == BESIDE && index % 2 == 1,
            stripe: None,
        };
        (0..count).map(target).collect::<Vec<_>>()
    };
    let trials = &scenario.trials;
    let copied = if trials.has_copies { SOURCES } else { 0 };
    let sources = unchanging(POOL, "source", copied);
    let beside = unchanging(BESIDE, "beside", if is_erasure { copied } else { 0 });
    let kept = unchanging(QUOTA_POOL, "kept", if trials.has_quota { QUOTA_OBJECTS } else { 0 });
    let appended = erasure.filter(|shape| shape.has_appended).map(appended);
    let changing = (0..scenario.load.objects).map(target).chain(appended);
    changing.chain(sources).chain(beside).chain(kept).collect()
}
