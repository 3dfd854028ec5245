//! Whole answers, frozen: the descriptions of all commands, and the state of two fixed clusters.
//!
//! A file of `golden/` changes only with a change of behaviour that users see. `UPDATE_GOLDEN=1 cargo test -p
//! mon --test golden` writes the answers of this build to the files; their difference must be reviewed.

mod cluster;
mod monitors;

use bytes::Bytes;
use cluster::{ADMIN, Cluster};
use engine::ConnId;
use monitors::{Monitors, OSD};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use types::OsdId;
use wire::internal::{PgStat, pg_state};
use wire::{Command, CommandReply, MgrOpen, OsdPgTemp, ServiceDaemon};

const GATEWAY: ConnId = ConnId(ConnId::ACCEPTED + 7);

/// Compares a text with a golden file, without the number of this release.
fn check(name: &str, text: &str) {
    let release = concat!("sepiola version ", env!("CARGO_PKG_VERSION"));
    let text = text.replace(release, "sepiola version X");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &text).expect("golden files can be written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let mut lines = golden.lines().zip(text.lines()).enumerate();
    if let Some((number, (wanted, found))) = lines.find(|(_, (wanted, found))| wanted != found) {
        panic!("{name}, line {}:\n  golden {wanted}\n  now    {found}", number + 1);
    }
    assert_eq!(golden.lines().count(), text.lines().count(), "{name}: lines");
}

/// One line for each command.
fn lines(descriptions: &Value) -> String {
    let described = descriptions.as_object().unwrap().iter();
    described.map(|(number, description)| format!("{number} {description}\n")).collect()
}

fn tell(cluster: &mut Cluster, command: &Value) -> Value {
    let (fsid, command) = (cluster.monitor.fsid(), vec![command.to_string()]);
    cluster.send(ADMIN, 5, &Command { fsid, command, input: Bytes::new() });
    let reply = cluster.take::<CommandReply>(ADMIN).remove(0);
    serde_json::from_slice(&reply.output).unwrap()
}

/// Three OSDs on one host with pools, users, options, a gateway and a variety of warnings.
fn fixed_cluster() -> Cluster {
    let mut cluster = Cluster::healthy();
    for command in [
        json!({ "prefix": "osd pool create", "pool": "data", "pg_num": 16 }),
        json!({ "prefix": "osd pool create", "pool": "small", "pg_num": 4, "size": 2 }),
        json!({ "prefix": "osd pool application enable", "pool": "data", "app": "rbd" }),
        json!({ "prefix": "osd pool mksnap", "pool": "data", "snap": "s" }),
        json!({ "prefix": "osd pool set-quota", "pool": "small", "field": "max_objects", "val": "5" }),
        json!({ "prefix": "config set", "who": "osd.0", "name": "debug_osd", "value": "5/5" }),
        json!({ "prefix": "auth get-or-create", "entity": "client.x", "caps": ["mon", "allow r"] }),
        json!({ "prefix": "log", "logtext": ["hello"] }),
        json!({ "prefix": "osd blocklist", "blocklistop": "add", "addr": "10.0.0.1:0/5" }),
        json!({ "prefix": "osd set", "key": "noscrub" }),
        json!({ "prefix": "osd reweight", "id": 1, "weight": 0.5 }),
        json!({ "prefix": "health mute", "code": "OSDMAP_FLAGS", "sticky": true }),
    ] {
        let reply = cluster.command(command.clone());
        assert_eq!(reply.result, 0, "{command}: {}", reply.text);
    }
    let crash = json!({
        "crash_id": "c", "timestamp": "2027-01-15T07:00:00.000000Z", "entity_name": "osd.0",
    });
    let posted = json!({ "prefix": "crash post" });
    assert_eq!(cluster.command_on(ADMIN, &posted, crash.to_string().as_bytes()).result, 0);
    (0..2).for_each(|osd| cluster.report(osd, 3));
    let inconsistent = PgStat {
        state: pg_state::ACTIVE | pg_state::INCONSISTENT | pg_state::DEGRADED,
        objects: 10,
        degraded: 4,
        ..PgStat::default()
    };
    cluster.report_groups(1, 1 << 28, |_| inconsistent.clone());
    cluster.command(json!({ "prefix": "osd down", "ids": ["2"] }));
    let pg = "1.0".parse().unwrap();
    let pg_temp = [(pg, vec![OsdId(1), OsdId(0)])].into();
    let temporary = OsdPgTemp { map_epoch: cluster.epoch(), pg_temp, ..OsdPgTemp::default() };
    cluster.send(Cluster::osd_conn(0), 0, &temporary);
    cluster.advance(Duration::from_secs(90));
    register_gateway(&mut cluster);
    cluster
}

fn register_gateway(cluster: &mut Cluster) {
    cluster.open_with(GATEWAY, "client.rgw", 4711, "Gallow rw");
    let metadata = [("hostname", "alpha"), ("zone_id", "z1"), ("ceph_version", "ceph version 18")];
    let metadata = metadata.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let open = MgrOpen {
        service_name: "rgw".to_owned(),
        daemon_name: "one".to_owned(),
        service_daemon: Some(ServiceDaemon { metadata, ..ServiceDaemon::default() }),
        ..MgrOpen::default()
    };
    cluster.send(GATEWAY, 0, &open);
}

#[test]
fn descriptions_of_all_commands_are_as_before() {
    let mut cluster = Cluster::healthy();
    let command = json!({ "prefix": "get_command_descriptions" });
    check("commands.txt", &lines(&cluster.json(command.clone())));
    check("daemon_commands.txt", &lines(&tell(&mut cluster, &command)));
}

#[test]
fn answers_about_a_fixed_cluster_are_as_before() {
    let mut cluster = fixed_cluster();
    for prefix in ["status", "report"] {
        let value = cluster.json(json!({ "prefix": prefix }));
        check(&format!("{prefix}.json"), &format!("{value:#}\n"));
    }
    check("status.txt", &cluster.plain(json!({ "prefix": "status" })));
    let detail = json!({ "prefix": "health", "detail": "detail" });
    check("health_detail.txt", &cluster.plain(detail.clone()));
    check("health_detail.json", &format!("{:#}\n", cluster.json(detail)));
}

#[test]
fn answers_about_a_store_that_refuses_writes_are_as_before() {
    let mut cluster = fixed_cluster();
    cluster.refuses_writes = Some("no space".to_owned());
    cluster.advance(Duration::from_secs(90));
    let detail = json!({ "prefix": "health", "detail": "detail" });
    check("health_refused.txt", &cluster.plain(detail));
}

#[test]
fn answers_of_a_follower_about_a_lost_monitor_are_as_before() {
    let mut monitors = Monitors::start(3);
    monitors.boot(1, 5 << 30);
    monitors.ahead[1] = Duration::from_millis(400);
    monitors.crash(2);
    monitors.advance(Duration::from_secs(90));
    assert!(!monitors.closed.contains(&(1, OSD)));
    let health = monitors.health(1);
    check("health_of_monitors.json", &format!("{health:#}\n"));
    let status = monitors.json(1, json!({ "prefix": "status" }));
    check("status_of_monitors.json", &format!("{status:#}\n"));
}
