//! File systems: commands, beacons of metadata servers, and what replaces a silent one.

mod cluster;

use bytes::Bytes;
use cluster::{ADMIN, Cluster};
use codec::{decode_all, encode_to_bytes};
use engine::{ConnId, Daemon};
use maps::{CompatSet, FsMap, FsMapUser, MdsMap, MdsState};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityType, Errno, PgId, PoolId, ServedVersions, SnapId};
use wire::internal::{PgStat, RotatingSecrets, RotatingSecretsRequest};
use wire::{
    FsMapUserMessage, MdsBeacon, MdsCounters, MdsHealth, MdsHealthMetric, MdsMapMessage, MdsReport,
    MonCommand, MonCommandAck, MonSubscribe, PoolOp, PoolOpKind, PoolOpReply, RemoveSnaps,
    SubscribeItem,
};

/// A metadata server that speaks to the monitor.
struct Server {
    conn: ConnId,
    name: &'static str,
    gid: u64,
    sequence: u64,
    /// Whether it is Sepiola's own.
    is_own: bool,
}

/// The features of Ceph's servers.
fn compat() -> CompatSet {
    let mut compat = CompatSet::of_file_systems();
    compat.incompat.insert(7, "mds uses inline data");
    compat
}

impl Server {
    fn new(cluster: &mut Cluster, name: &'static str, gid: u64) -> Self {
        let conn = ConnId(ConnId::ACCEPTED + gid);
        cluster.open(conn, &format!("mds.{name}"), gid as i64, "allow profile mds");
        Server { conn, name, gid, sequence: 0, is_own: false }
    }

    fn beacon(&self, cluster: &Cluster, state: MdsState) -> MdsBeacon {
        let mut metadata = BTreeMap::from([("hostname".to_owned(), "alpha".to_owned())]);
        if self.is_own {
            metadata.insert(ServedVersions::FACT.to_owned(), ServedVersions::OWN.to_string());
        }
        MdsBeacon {
            fsid: cluster.monitor.fsid(),
            gid: self.gid,
            state: state.0,
            sequence: self.sequence,
            name: self.name.to_owned(),
            compat: encode_to_bytes(&compat()),
            metadata,
            ..MdsBeacon::default()
        }
    }

    /// Sends a beacon; returns the number of answers.
    fn beat(&mut self, cluster: &mut Cluster, state: MdsState) -> usize {
        self.complain(cluster, state, &[])
    }

    fn complain(&mut self, cluster: &mut Cluster, state: MdsState, kinds: &[u16]) -> usize {
        self.sequence += 1;
        let metric = |kind: &u16| MdsHealthMetric {
            kind: *kind,
            severity: 1,
            message: "trouble".to_owned(),
            metadata: BTreeMap::new(),
        };
        let health = MdsHealth { metrics: kinds.iter().map(metric).collect() };
        let beacon = MdsBeacon { health, ..self.beacon(cluster, state) };
        cluster.send(self.conn, 0, &beacon);
        cluster.take::<MdsBeacon>(self.conn).len()
    }

    fn state(&self, cluster: &Cluster) -> &'static str {
        fsmap(cluster).server(self.gid).map_or("gone", |info| info.state.name())
    }
}

fn fsmap(cluster: &Cluster) -> &FsMap {
    &cluster.monitor.state().fs.map
}

/// A cluster with pools `meta`, `data` and `more`.
fn with_pools() -> Cluster {
    let mut cluster = Cluster::healthy();
    for pool in ["meta", "data", "more"] {
        let create = json!({ "prefix": "osd pool create", "pool": pool, "pg_num": 8 });
        assert_eq!(cluster.command(create).result, 0);
    }
    cluster
}

fn new_fs(cluster: &mut Cluster) {
    let new =
        json!({ "prefix": "fs new", "fs_name": "cephfs", "metadata": "meta", "data": "data" });
    let reply = cluster.command(new);
    assert_eq!(
        (reply.result, reply.text.as_str()),
        (0, "new fs with metadata pool 1 and data pool 2")
    );
}

/// A file system with an active server `a`.
fn active() -> (Cluster, Server) {
    let mut cluster = with_pools();
    new_fs(&mut cluster);
    let mut server = Server::new(&mut cluster, "a", 101);
    assert_eq!(server.beat(&mut cluster, MdsState::BOOT), 1);
    assert_eq!(server.state(&cluster), "up:creating");
    assert_eq!(server.beat(&mut cluster, MdsState::ACTIVE), 1);
    assert_eq!(server.state(&cluster), "up:active");
    (cluster, server)
}

fn subscribe(cluster: &mut Cluster, conn: ConnId, what: &str) {
    let item = SubscribeItem { start: 0, flags: 0 };
    let what = [(what.to_owned(), item)].into();
    cluster.send(conn, 0, &MonSubscribe { what, ..MonSubscribe::default() });
}

fn mds_maps(cluster: &mut Cluster, conn: ConnId) -> Vec<MdsMap> {
    let messages = cluster.take::<MdsMapMessage>(conn);
    messages.iter().map(|message| decode_all("mdsmap", &message.map).unwrap()).collect()
}

fn refusal(cluster: &mut Cluster, command: Value) -> (Errno, String) {
    let reply = cluster.command(command);
    assert_ne!(reply.result, 0, "{}", reply.text);
    (Errno(-reply.result), reply.text)
}

fn health(cluster: &mut Cluster) -> Vec<String> {
    let health = cluster.json(json!({ "prefix": "health" }));
    let all = health["checks"].as_object().unwrap().keys();
    all.filter(|name| name.starts_with("MDS") || name.starts_with("FS")).cloned().collect()
}

/// Lets time pass, in which the servers send beacons.
fn pass(cluster: &mut Cluster, seconds: u64, servers: &mut [&mut Server]) {
    for _ in 0..seconds {
        for server in servers.iter_mut() {
            let state = fsmap(cluster).server(server.gid).map(|info| info.state);
            server.beat(cluster, state.unwrap_or(MdsState::STANDBY));
        }
        cluster.advance(Duration::from_secs(1));
    }
}

#[test]
fn a_server_becomes_active_and_clients_see_it() {
    let (mut cluster, server) = active();
    assert_eq!(cluster.plain(json!({ "prefix": "mds stat" })), "cephfs:1 {0=a=up:active}\n");
    assert_eq!(
        cluster.plain(json!({ "prefix": "fs ls" })),
        "name: cephfs, metadata pool: meta, data pools: [data ]\n"
    );
    let status = cluster.plain(json!({ "prefix": "status" }));
    assert!(status.contains("mds: 1/1 daemons up\n"), "{status}");
    assert!(status.contains("volumes: 1/1 healthy\n"), "{status}");
    assert_eq!(health(&mut cluster), [] as [String; 0]);
    let metadata = cluster.json(json!({ "prefix": "mds metadata", "who": "a" }));
    assert_eq!(metadata["hostname"], "alpha");

    for what in ["mdsmap", "mdsmap.1"] {
        subscribe(&mut cluster, ADMIN, what);
        let maps = mds_maps(&mut cluster, ADMIN);
        assert_eq!((maps.len(), maps[0].count(MdsState::ACTIVE)), (1, 1), "{what}");
    }
    subscribe(&mut cluster, ADMIN, "fsmap.user");
    let user = cluster.take::<FsMapUserMessage>(ADMIN).remove(0);
    let user: FsMapUser = decode_all("fsmap.user", &user.map).unwrap();
    assert_eq!((user.default_fscid, user.names[&1].as_str()), (1, "cephfs"));
    assert_eq!(fsmap(&cluster).server(server.gid).unwrap().state_seq, 2);
}

#[test]
fn the_map_and_the_metadata_of_servers_survive_the_monitor() {
    let (cluster, server) = active();
    let before = fsmap(&cluster).clone();
    let Cluster { control, now, .. } = cluster;
    let mut cluster = Cluster::at(control, now);
    assert_eq!(*fsmap(&cluster), before);
    assert_eq!(cluster.monitor.state().fs.metadata[&server.gid]["hostname"], "alpha");
    // Its server is awaited from the begin of the term on.
    cluster.advance(Duration::from_secs(10));
    assert_eq!(server.state(&cluster), "up:active");
    assert!(!fsmap(&cluster).server(server.gid).unwrap().is_laggy());
}

#[test]
fn a_silent_server_is_blocklisted_in_the_change_that_gives_its_rank_to_a_standby() {
    let (mut cluster, server) = active();
    let mut standby = Server::new(&mut cluster, "b", 102);
    standby.beat(&mut cluster, MdsState::BOOT);
    assert_eq!(standby.state(&cluster), "up:standby");
    subscribe(&mut cluster, standby.conn, "mdsmap");
    mds_maps(&mut cluster, standby.conn);
    pass(&mut cluster, 14, &mut [&mut standby]);
    assert_eq!(server.state(&cluster), "up:active");
    pass(&mut cluster, 3, &mut [&mut standby]);
    assert_eq!((server.state(&cluster), standby.state(&cluster)), ("gone", "up:replay"));

    let addr = "any:127.0.0.1:7000/101".parse().unwrap();
    let map = &cluster.monitor.state().osdmap;
    assert!(map.blocklist.contains_key(&addr), "{:?}", map.blocklist);
    let fs = &fsmap(&cluster).file_systems[&1].map;
    assert_eq!(fs.last_failure_osd_epoch, map.epoch);
    let metadata = &cluster.monitor.state().fs.metadata;
    assert!(!metadata.contains_key(&101) && metadata.contains_key(&102));
    let told = mds_maps(&mut cluster, standby.conn);
    assert_eq!(told.last().unwrap().server(0).unwrap().gid, 102);
    // The replaced server is sent a map without it, and starts again.
    let mut server = server;
    server.beat(&mut cluster, MdsState::ACTIVE);
    let null = mds_maps(&mut cluster, server.conn);
    assert!(null.last().unwrap().mds_info.is_empty());

    assert_eq!(health(&mut cluster), ["FS_DEGRADED"]);
    for state in [MdsState::RECONNECT, MdsState::REJOIN, MdsState::ACTIVE] {
        assert_eq!(standby.beat(&mut cluster, state), 1);
        assert_eq!(standby.state(&cluster), state.name());
    }
    assert_eq!(health(&mut cluster), [] as [String; 0]);
}

#[test]
fn a_silent_server_without_a_standby_keeps_its_rank_and_may_speak_again() {
    let (mut cluster, mut server) = active();
    pass(&mut cluster, 17, &mut []);
    assert!(fsmap(&cluster).server(server.gid).unwrap().is_laggy());
    assert_eq!(server.state(&cluster), "up:active");
    let epoch = cluster.epoch();
    assert_eq!(server.beat(&mut cluster, MdsState::ACTIVE), 1);
    assert!(!fsmap(&cluster).server(server.gid).unwrap().is_laggy());
    assert_eq!(cluster.epoch(), epoch, "it was not excluded");
}

#[test]
fn a_standby_replaces_one_of_two_silent_servers_and_the_other_keeps_its_rank() {
    let (mut cluster, server) = active();
    let mut other = Server::new(&mut cluster, "b", 102);
    other.beat(&mut cluster, MdsState::BOOT);
    let set = json!({ "prefix": "fs set", "fs_name": "cephfs", "var": "max_mds", "val": "2" });
    assert_eq!(cluster.command(set).result, 0);
    other.beat(&mut cluster, MdsState::ACTIVE);
    let mut standby = Server::new(&mut cluster, "c", 103);
    standby.beat(&mut cluster, MdsState::BOOT);
    pass(&mut cluster, 18, &mut [&mut standby]);
    assert_eq!((server.state(&cluster), standby.state(&cluster)), ("gone", "up:replay"));
    assert_eq!(other.state(&cluster), "up:active");
    assert!(fsmap(&cluster).server(other.gid).unwrap().is_laggy());
}

#[test]
fn time_in_which_the_monitor_did_not_run_counts_against_no_server() {
    let (mut cluster, mut server) = active();
    let mut standby = Server::new(&mut cluster, "b", 102);
    standby.beat(&mut cluster, MdsState::BOOT);
    pass(&mut cluster, 4, &mut [&mut server, &mut standby]);
    cluster.suspend(Duration::from_secs(60));
    // The beacon of the standby is the first in the sockets' buffers.
    pass(&mut cluster, 2, &mut [&mut standby]);
    assert_eq!((server.state(&cluster), standby.state(&cluster)), ("up:active", "up:standby"));
    pass(&mut cluster, 16, &mut [&mut standby]);
    assert_eq!((server.state(&cluster), standby.state(&cluster)), ("gone", "up:replay"));
}

#[test]
fn a_server_takes_no_state_that_the_monitor_has_not_led_it_to() {
    let (mut cluster, mut server) = active();
    let mut standby = Server::new(&mut cluster, "b", 102);
    assert_eq!(standby.beat(&mut cluster, MdsState::ACTIVE), 0, "it is not in the map");
    standby.beat(&mut cluster, MdsState::BOOT);
    let epoch = fsmap(&cluster).epoch;
    for state in [MdsState::ACTIVE, MdsState::REPLAY, MdsState::DAMAGED, MdsState::STOPPED] {
        standby.beat(&mut cluster, state);
    }
    for state in [MdsState::STOPPED, MdsState::REPLAY, MdsState::STANDBY, MdsState(77)] {
        server.beat(&mut cluster, state);
    }
    assert_eq!(fsmap(&cluster).epoch, epoch);
    // A client has no beacons to send, and a server none of another one.
    let conn = standby.conn;
    let mut imposter = Server { conn, name: "a", gid: 101, sequence: 9, is_own: false };
    imposter.beat(&mut cluster, MdsState::DNE);
    assert_eq!((server.state(&cluster), fsmap(&cluster).epoch), ("up:active", epoch));
}

#[test]
fn a_beacon_that_would_fill_the_memory_is_dropped() {
    let mut cluster = with_pools();
    let server = Server::new(&mut cluster, "a", 101);
    let mut features = compat();
    features.compat.insert(20, "x".repeat(1 << 20));
    let beacon = server.beacon(&cluster, MdsState::BOOT);
    let metric = MdsHealthMetric { message: "x".repeat(1 << 20), ..MdsHealthMetric::default() };
    for beacon in [
        MdsBeacon { compat: encode_to_bytes(&features), ..beacon.clone() },
        MdsBeacon { health: MdsHealth { metrics: vec![metric] }, ..beacon },
    ] {
        cluster.send(server.conn, 0, &beacon);
        assert_eq!(server.state(&cluster), "gone");
    }
}

#[test]
fn a_server_that_says_goodbye_is_replaced_at_once() {
    let (mut cluster, mut server) = active();
    let mut standby = Server::new(&mut cluster, "b", 102);
    standby.beat(&mut cluster, MdsState::BOOT);
    server.beat(&mut cluster, MdsState::DNE);
    assert_eq!((server.state(&cluster), standby.state(&cluster)), ("gone", "up:replay"));
}

#[test]
fn a_server_that_was_restarted_replaces_its_former_run() {
    let (mut cluster, server) = active();
    let mut again = Server::new(&mut cluster, "a", 103);
    again.beat(&mut cluster, MdsState::BOOT);
    assert_eq!((server.state(&cluster), again.state(&cluster)), ("gone", "up:replay"));
}

#[test]
fn a_failed_file_system_waits_until_it_is_joinable() {
    let (mut cluster, server) = active();
    let mut standby = Server::new(&mut cluster, "b", 102);
    standby.beat(&mut cluster, MdsState::BOOT);
    let remove = json!({ "prefix": "fs rm", "fs_name": "cephfs", "yes_i_really_mean_it": true });
    assert_eq!(refusal(&mut cluster, remove.clone()).0, Errno::INVAL);
    assert_eq!(cluster.command(json!({ "prefix": "fs fail", "fs_name": "cephfs" })).result, 0);
    assert_eq!((server.state(&cluster), standby.state(&cluster)), ("gone", "up:standby"));
    assert_eq!(health(&mut cluster), ["FS_DEGRADED", "MDS_ALL_DOWN", "MDS_UP_LESS_THAN_MAX"]);
    assert_eq!(
        cluster.plain(json!({ "prefix": "mds stat" })),
        "cephfs:0/1 1 up:standby, 1 failed\n"
    );
    let set = |value: &str| json!({ "prefix": "fs set", "fs_name": "cephfs", "var": "joinable", "val": value });
    assert_eq!(cluster.command(set("true")).result, 0);
    assert_eq!(standby.state(&cluster), "up:replay");
    cluster.command(json!({ "prefix": "fs fail", "fs_name": "cephfs" }));
    assert_eq!(cluster.command(remove).result, 0);
    assert!(fsmap(&cluster).file_systems.is_empty());
    assert_eq!(fsmap(&cluster).default_fscid, -1);
}

#[test]
fn ranks_follow_max_mds() {
    let (mut cluster, mut server) = active();
    let mut other = Server::new(&mut cluster, "b", 102);
    other.beat(&mut cluster, MdsState::BOOT);
    let set = |value: &str| json!({ "prefix": "fs set", "fs_name": "cephfs", "var": "max_mds", "val": value });
    assert_eq!(refusal(&mut cluster, set("0")).1, "You must specify at least one MDS");
    assert_eq!(cluster.command(set("2")).result, 0);
    assert_eq!(other.state(&cluster), "up:creating");
    other.beat(&mut cluster, MdsState::ACTIVE);
    assert_eq!(cluster.command(set("1")).result, 0);
    assert_eq!((server.state(&cluster), other.state(&cluster)), ("up:active", "up:stopping"));
    other.beat(&mut cluster, MdsState::STOPPED);
    assert_eq!(other.state(&cluster), "gone");
    let fs = &fsmap(&cluster).file_systems[&1].map;
    assert_eq!((fs.in_ranks.len(), fs.stopped.contains(&1)), (1, true));
    assert_eq!(server.beat(&mut cluster, MdsState::ACTIVE), 1);
}

/// All of them would read and write the tree of rank 0, with no one of them shut out.
#[test]
fn a_file_system_of_own_servers_has_one_rank() {
    let (mut cluster, _) = active();
    let mut other = Server::new(&mut cluster, "b", 102);
    other.is_own = true;
    other.beat(&mut cluster, MdsState::BOOT);
    let set = |value: &str| json!({ "prefix": "fs set", "fs_name": "cephfs", "var": "max_mds", "val": value });
    let said = refusal(&mut cluster, set("2"));
    assert_eq!(said.0, Errno::NOTSUPP);
    assert!(
        said.1.starts_with("mds.b is Sepiola's and supports a single active rank"),
        "{}",
        said.1
    );
    assert_eq!(other.state(&cluster), "up:standby");
    assert_eq!(cluster.command(set("1")).result, 0);
}

#[test]
fn a_damaged_rank_waits_for_an_administrator() {
    let (mut cluster, mut server) = active();
    let mut standby = Server::new(&mut cluster, "b", 102);
    standby.beat(&mut cluster, MdsState::BOOT);
    server.beat(&mut cluster, MdsState::DAMAGED);
    assert_eq!((server.state(&cluster), standby.state(&cluster)), ("gone", "up:standby"));
    assert!(health(&mut cluster).contains(&"MDS_DAMAGE".to_owned()));
    assert_eq!(cluster.command(json!({ "prefix": "mds repaired", "role": "0" })).result, 0);
    assert_eq!(standby.state(&cluster), "up:replay");
}

#[test]
fn a_failed_rank_that_is_removed_is_not_made_anew() {
    let (mut cluster, _) = active();
    cluster.command(json!({ "prefix": "mds fail", "role_or_gid": "a" }));
    let remove =
        json!({ "prefix": "mds rmfailed", "role": "cephfs:0", "yes_i_really_mean_it": true });
    assert_eq!(cluster.command(remove).result, 0);
    let mut standby = Server::new(&mut cluster, "b", 102);
    standby.beat(&mut cluster, MdsState::BOOT);
    assert_eq!(standby.state(&cluster), "up:standby");
    let fs = &fsmap(&cluster).file_systems[&1].map;
    assert!(fs.in_ranks.contains(&0) && fs.failed.is_empty());
    assert!(health(&mut cluster).contains(&"MDS_ALL_DOWN".to_owned()));
}

#[test]
fn complaints_of_a_server_are_health_checks() {
    let (mut cluster, mut server) = active();
    server.complain(&mut cluster, MdsState::ACTIVE, &[1, 10]);
    assert_eq!(health(&mut cluster), ["MDS_SLOW_REQUEST", "MDS_TRIM"]);
    server.beat(&mut cluster, MdsState::ACTIVE);
    assert_eq!(health(&mut cluster), [] as [String; 0]);
}

#[test]
fn a_servers_counters_are_shown_and_scraped() {
    let (mut cluster, mut server) = active();
    let mut counters = MdsCounters {
        requests: 40,
        sessions: 3,
        inodes: 12_345,
        caps: 7,
        ..MdsCounters::default()
    };
    let text = cluster.monitor.scrape(cluster.now);
    assert!(!text.contains("ceph_mds_inodes{"), "a zero would be a reset of the counter");
    cluster.send(server.conn, 0, &MdsReport { gid: server.gid, counters: counters.clone() });
    cluster.advance(Duration::from_secs(2));
    server.beat(&mut cluster, MdsState::ACTIVE);
    counters.requests += 50;
    cluster.send(server.conn, 0, &MdsReport { gid: server.gid, counters: counters.clone() });
    counters.requests += 1_000_000;
    cluster.send(server.conn, 0, &MdsReport { gid: 4711, counters });
    let status = cluster.command(json!({ "prefix": "fs status", "format": "json" }));
    let status: Value = serde_json::from_slice(&status.output).unwrap();
    let rank = &status["mdsmap"][0];
    assert_eq!(
        (&rank["rate"], &rank["caps"], &rank["inos"]),
        (&json!(25), &json!(7), &json!(12_345))
    );
    assert_eq!(status["clients"], json!([{ "fs": "cephfs", "clients": 3 }]));
    let plain = cluster.command(json!({ "prefix": "fs status" })).output;
    let plain = String::from_utf8(plain.to_vec()).unwrap();
    assert!(plain.starts_with("cephfs - 3 clients\n"), "{plain}");
    assert!(plain.contains("Reqs:   25 /s") && plain.contains(" 12.3k "), "{plain}");
    let text = cluster.monitor.scrape(cluster.now);
    for sample in [
        "ceph_mds_server_handle_client_request{ceph_daemon=\"mds.a\"} 90\n",
        "ceph_mds_inodes{ceph_daemon=\"mds.a\"} 12345\n",
        "ceph_fs_metadata{data_pools=\"2\",fs_id=\"1\",metadata_pool=\"1\",name=\"cephfs\"} 1\n",
        "ceph_mds_metadata{ceph_daemon=\"mds.a\",fs_id=\"1\",hostname=\"alpha\"",
    ] {
        assert!(text.contains(sample), "{sample}: {text}");
    }
}

#[test]
fn pools_of_a_file_system_are_marked_and_stay() {
    let (mut cluster, _) = active();
    let application = json!({ "prefix": "osd pool application get", "pool": "meta" });
    assert_eq!(cluster.json(application)["cephfs"]["metadata"], "cephfs");
    let remove = |pool: &str| {
        json!({ "prefix": "osd pool delete", "pool": pool, "pool2": pool,
                "yes_i_really_really_mean_it": true })
    };
    let said = refusal(&mut cluster, remove("data"));
    assert_eq!(said.0, Errno::BUSY);
    assert!(said.1.starts_with("pool 'data' is in use by CephFS: "), "{}", said.1);
    let add =
        |pool: &str| json!({ "prefix": "fs add_data_pool", "fs_name": "cephfs", "pool": pool });
    assert_eq!(cluster.command(add("more")).text, "added data pool 3 to fsmap");
    assert_eq!(cluster.command(add("more")).text, "data pool 3 is already on fs cephfs");
    assert_eq!(refusal(&mut cluster, add("meta")).0, Errno::INVAL);
    let drop = json!({ "prefix": "fs rm_data_pool", "fs_name": "cephfs", "pool": "more" });
    assert_eq!(cluster.command(drop).text, "removed data pool 3 from fsmap");
    assert_eq!(cluster.command(remove("more")).result, 0);
}

#[test]
fn a_new_file_system_needs_pools_that_can_hold_it() {
    let mut cluster = with_pools();
    let new = |metadata: &str, data: &str| json!({ "prefix": "fs new", "fs_name": "x", "metadata": metadata, "data": data });
    assert_eq!(refusal(&mut cluster, new("nix", "data")).1, "pool 'nix' does not exist");
    assert_eq!(refusal(&mut cluster, new("meta", "meta")).0, Errno::INVAL);
    new_fs(&mut cluster);
    assert!(refusal(&mut cluster, new("meta", "more")).1.contains("already using"));
    let same =
        json!({ "prefix": "fs new", "fs_name": "cephfs", "metadata": "meta", "data": "data" });
    assert_eq!(cluster.command(same).text, "filesystem 'cephfs' already exists");
}

#[test]
fn a_new_file_system_takes_no_pool_with_objects() {
    let mut cluster = with_pools();
    let new = json!({ "prefix": "fs new", "fs_name": "x", "metadata": "meta", "data": "data" });
    for used in [PoolId(1), PoolId(2)] {
        let stat = |pg: PgId| PgStat { objects: u64::from(pg.pool == used), ..PgStat::default() };
        cluster.advance(Duration::from_secs(1));
        (0..3).for_each(|osd| cluster.report_groups(osd, 3 << 30, stat));
        let (errno, text) = refusal(&mut cluster, new.clone());
        assert!(errno == Errno::INVAL && text.contains("Use an empty pool"), "{text}");
    }
    // The next leader has no reports yet.
    let mut cluster = Cluster::at(cluster.control.clone(), cluster.now + Duration::from_secs(60));
    cluster.advance(Duration::from_secs(3));
    let (errno, text) = refusal(&mut cluster, new.clone());
    assert!(errno == Errno::AGAIN && text.contains("reported"), "{text}");
    let mut forced = new;
    forced["force"] = true.into();
    assert_eq!(cluster.command(forced).result, 0);
}

#[test]
fn a_client_is_authorized_for_a_path() {
    let (mut cluster, _) = active();
    let authorize = |caps: &[&str]| json!({ "prefix": "fs authorize", "filesystem": "cephfs", "entity": "client.u", "caps": caps });
    assert_eq!(cluster.command(authorize(&["/a", "rw", "/", "r"])).result, 0);
    let entity = cluster.json(json!({ "prefix": "auth get", "entity": "client.u" }));
    let caps = &entity[0]["caps"];
    assert_eq!(caps["mds"], "allow rw fsname=cephfs path=/a, allow r fsname=cephfs");
    assert_eq!(caps["mon"], "allow r fsname=cephfs");
    assert_eq!(caps["osd"], "allow rw tag cephfs data=cephfs");
    let (errno, text) = refusal(&mut cluster, authorize(&["/", "r"]));
    assert!(errno == Errno::INVAL && text.contains("already has fs capabilities"), "{text}");
    assert_eq!(refusal(&mut cluster, authorize(&["/", "rwx"])).1, "Unknown permission flag 'x'.");
    assert_eq!(refusal(&mut cluster, authorize(&["/"])).0, Errno::INVAL);
}

#[test]
fn a_metadata_server_gets_the_secrets_of_its_service() {
    let mut cluster = with_pools();
    let ask = |cluster: &mut Cluster, conn: ConnId, service: EntityType| {
        let request = RotatingSecretsRequest { service: service.0.into() };
        cluster.send(conn, 0, &request);
        cluster.take::<RotatingSecrets>(conn).len()
    };
    let server = Server::new(&mut cluster, "a", 101);
    assert_eq!(ask(&mut cluster, server.conn, EntityType::MDS), 1);
    assert_eq!(ask(&mut cluster, server.conn, EntityType::OSD), 0, "it is no OSD");
    let reader = ConnId(ConnId::ACCEPTED + 7);
    cluster.open(reader, "mds.c", 107, "allow r");
    assert_eq!(ask(&mut cluster, reader, EntityType::MDS), 0);
}

#[test]
fn snapshots_that_a_server_has_removed_are_queued_for_trimming() {
    let (mut cluster, server) = active();
    let snaps = |cluster: &Cluster, pool| {
        let queue = &cluster.monitor.state().osdmap.removed_snaps_queue;
        queue.get(&PoolId(pool)).map_or(0, |queue| queue.len())
    };
    let request =
        |pool| RemoveSnaps { snaps: [(pool, vec![SnapId(2), SnapId(3)])].into(), version: 0 };
    cluster.send(ADMIN, 0, &request(2));
    assert_eq!(snaps(&cluster, 2), 0, "a client is no metadata server");
    cluster.send(server.conn, 0, &request(2));
    assert_eq!(snaps(&cluster, 2), 2);
    let pool = cluster.monitor.state().osdmap.pool(PoolId(2)).unwrap();
    assert_eq!(pool.snap_seq, SnapId(3));
    let epoch = cluster.epoch();
    cluster.send(server.conn, 0, &request(2));
    cluster.send(server.conn, 0, &request(3));
    assert_eq!((cluster.epoch(), snaps(&cluster, 3)), (epoch, 0), "pool 3 is of no file system");
}

#[test]
fn a_server_has_data_of_a_snapshot_removed_that_it_numbered_itself() {
    let (mut cluster, server) = active();
    let remove = |pool, op| PoolOp {
        version: 0,
        fsid: cluster.monitor.fsid(),
        pool,
        op,
        snap: SnapId(9),
        name: String::new(),
        crush_rule: -1,
    };
    let (own, other) = (PoolOpKind::DeleteUnmanagedSnap, PoolOpKind::CreateUnmanagedSnap);
    let [request, elsewhere, take] = [remove(2, own), remove(3, own), remove(2, other)];
    cluster.send(ADMIN, 1, &request);
    let refused: PoolOpReply = cluster.take(ADMIN).remove(0);
    assert_eq!(refused.result, Errno::PERM.negative(), "the server has not used the number yet");
    let mut run = |op: &PoolOp| {
        cluster.send(server.conn, 1, op);
        let reply: PoolOpReply = cluster.take(server.conn).remove(0);
        reply.result
    };
    assert_eq!(run(&take), Errno::PERM.negative(), "it may only remove them");
    assert_eq!(run(&elsewhere), Errno::NOENT.negative(), "pool 3 is of no file system");
    assert_eq!([run(&request), run(&request)], [0, 0]);
    let map = &cluster.monitor.state().osdmap;
    assert!(map.removed_snaps_queue[&PoolId(2)].contains(SnapId(9)));
    assert_eq!(map.pool(PoolId(2)).unwrap().snap_seq, SnapId(9));
}

#[test]
fn settings_are_checked() {
    let (mut cluster, _) = active();
    let mut set = |name: &str, value: &str| {
        let set = json!({ "prefix": "fs set", "fs_name": "cephfs", "var": name, "val": value });
        let reply = cluster.command(set);
        (reply.result, reply.text)
    };
    assert_eq!(set("max_file_size", "100").0, -Errno::RANGE.0);
    assert_eq!(set("session_timeout", "10").0, -Errno::RANGE.0);
    assert_eq!(set("max_mds", "x").1, "Expected option value to be integer, got 'x'");
    assert_eq!(set("max_file_size", "2199023255552").0, 0);
    assert_eq!(set("allow_new_snaps", "false").1, "disabled new snapshots");
    assert_eq!(set("down", "true").1, "cephfs marked down. ");
    assert_eq!(set("down", "false").1, "cephfs marked up, max_mds = 1");
    let dump = cluster.json(json!({ "prefix": "fs get", "fs_name": "cephfs" }));
    assert_eq!(dump["mdsmap"]["flags_state"]["allow_snaps"], false);
    let require = json!({ "prefix": "fs required_client_features", "fs_name": "cephfs",
                          "subop": "add", "val": "metric_collect" });
    assert_eq!(cluster.command(require).result, 0);
    let dump = cluster.json(json!({ "prefix": "fs get", "fs_name": "cephfs" }));
    let wanted = json!({ "feature_14": "metric_collect" });
    assert_eq!(dump["mdsmap"]["required_client_features"], wanted);
}

/// Sends a command that is answered later.
fn ask_later(cluster: &mut Cluster, conn: ConnId, tid: u64, command: &Value) {
    let (fsid, command) = (cluster.monitor.fsid(), vec![command.to_string()]);
    cluster.send(conn, tid, &MonCommand { fsid, command, input: Bytes::new(), version: 0 });
}

#[test]
fn a_command_on_subvolumes_is_answered_with_the_outcome_that_a_worker_reports() {
    let (mut cluster, _server) = active();
    let worker = ConnId(ConnId::ACCEPTED + 900);
    cluster.open(worker, "client.admin", 900, "allow *");
    let list = json!({ "prefix": "fs subvolume ls", "vol_name": "cephfs", "group_name": "csi" });
    ask_later(&mut cluster, ADMIN, 5, &list);
    assert_eq!(cluster.take::<MonCommandAck>(ADMIN).len(), 0, "no worker has carried it out");
    let take = json!({ "prefix": "fs volume orders take", "worker": "w" });
    ask_later(&mut cluster, worker, 1, &take);
    let taken = cluster.take::<MonCommandAck>(worker).remove(0);
    let order: Value = serde_json::from_slice(&taken.output).unwrap();
    assert_eq!(order["order"]["prefix"], "fs subvolume ls");
    assert_eq!(order["order"]["arguments"]["group_name"], "csi");
    assert_eq!(order["order"]["volume"]["data_pools"][0]["name"], "data");
    let done = json!({
        "prefix": "fs volume orders done", "worker": "w", "id": order["id"], "result": -2,
        "text": "subvolume group 'csi' does not exist",
    });
    ask_later(&mut cluster, worker, 2, &done);
    let answer = cluster.take::<MonCommandAck>(ADMIN).remove(0);
    assert_eq!((answer.result, answer.text.as_str()), (-2, "subvolume group 'csi' does not exist"));
    // A worker that waits is answered after a while, and a command without a worker fails.
    ask_later(&mut cluster, worker, 3, &take);
    cluster.advance(Duration::from_secs(15));
    let none = cluster.take::<MonCommandAck>(worker);
    assert_eq!(none.last().unwrap().output, "{}");
    cluster.monitor.handle_closed(cluster.now, worker);
    cluster.drain();
    ask_later(&mut cluster, ADMIN, 6, &list);
    cluster.advance(Duration::from_secs(125));
    let answer = cluster.take::<MonCommandAck>(ADMIN).remove(0);
    assert_eq!(answer.result, Errno::TIMEDOUT.negative());
    assert!(answer.text.contains("keyring"), "{}", answer.text);
}

#[test]
fn a_copy_that_a_worker_reports_is_shown_as_progress() {
    let (mut cluster, _server) = active();
    let worker = ConnId(ConnId::ACCEPTED + 900);
    cluster.open(worker, "client.admin", 900, "allow *");
    ask_later(
        &mut cluster,
        worker,
        1,
        &json!({ "prefix": "fs volume orders take", "worker": "w" }),
    );
    let clones = json!([{ "id": "i", "message": "Cloning", "progress": 0.5, "started": 1 }]);
    let jobs = |worker: &str| json!({ "prefix": "fs volume orders jobs", "worker": worker, "clones": clones.to_string() });
    assert_eq!(cluster.json(jobs("other")), json!([]), "another worker has nothing to do");
    let told = cluster.json(jobs("w"));
    assert_eq!((&told[0]["name"], &told[0]["generation"]), (&json!("cephfs"), &json!(0)));
    let shown = cluster.json(json!({ "prefix": "progress json" }));
    assert_eq!(shown["events"][0]["message"], "Cloning");
    assert!(cluster.plain(json!({ "prefix": "status" })).contains("Cloning"));
}
