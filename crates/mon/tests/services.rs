//! Service daemons: registration, output, and removal.

mod cluster;

use cluster::Cluster;
use engine::ConnId;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{MgrClose, MgrConfigure, MgrOpen, MgrReport, ServiceDaemon};

const CLIENT: ConnId = ConnId(ConnId::ACCEPTED + 1);
const OTHER: ConnId = ConnId(ConnId::ACCEPTED + 2);

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn open(service: &str, name: &str, metadata: &[(&str, &str)]) -> MgrOpen {
    let said = ServiceDaemon { metadata: texts(metadata), ..ServiceDaemon::default() };
    MgrOpen {
        service_name: service.to_owned(),
        daemon_name: name.to_owned(),
        service_daemon: Some(said),
        ..MgrOpen::default()
    }
}

fn report(status: &[(&str, &str)]) -> MgrReport {
    MgrReport { daemon_status: Some(texts(status)), ..MgrReport::default() }
}

fn services(cluster: &mut Cluster) -> Value {
    cluster.json(json!({ "prefix": "service dump" }))["services"].clone()
}

/// Whether a client of this name, with these encoded capabilities, is requested to report.
fn is_registered(cluster: &mut Cluster, conn: ConnId, name: &str, caps: &str) -> bool {
    cluster.open_with(conn, name, (conn.0 - ConnId::ACCEPTED) as i64, caps);
    cluster.send(conn, 0, &open("laundry", &conn.0.to_string(), &[]));
    !cluster.take::<MgrConfigure>(conn).is_empty()
}

#[test]
fn a_daemon_is_shown_with_what_it_says_of_itself() {
    let mut cluster = Cluster::healthy();
    cluster.open_with(CLIENT, "client.rgw", 4711, "Gallow rw");
    let metadata = [("hostname", "alpha"), ("zone_id", "z1"), ("ceph_version", "ceph version 18")];
    cluster.send(CLIENT, 0, &open("rgw", "one", &metadata));
    let configure = cluster.take::<MgrConfigure>(CLIENT).remove(0);
    assert_eq!(configure.stats_period_seconds, 5);
    cluster.send(CLIENT, 0, &report(&[("load", "low")]));

    let dump = cluster.json(json!({ "prefix": "service dump" }));
    let daemons = &dump["services"]["rgw"]["daemons"];
    assert_eq!((&dump["epoch"], &daemons["summary"]), (&json!(2), &json!("")));
    let one = &daemons["one"];
    assert_eq!((&one["gid"], &one["addr"]), (&json!(4711), &json!("127.0.0.1:7000/4711")));
    assert_eq!((&one["metadata"], &one["task_status"]), (&json!(texts(&metadata)), &json!({})));
    let status = cluster.json(json!({ "prefix": "service status" }));
    assert_eq!(status["rgw"]["one"]["status"], json!({ "load": "low" }));
    assert_eq!(cluster.json(json!({ "prefix": "status" }))["servicemap"], dump);
    let versions = cluster.json(json!({ "prefix": "versions" }));
    assert_eq!(versions["rgw"], json!({ "ceph version 18": 1 }));
    assert_eq!(versions["overall"]["ceph version 18"], json!(1));
}

#[test]
fn status_has_a_line_for_each_service_and_what_its_daemons_do() {
    let mut cluster = Cluster::healthy();
    for (number, zone) in [(1, "z1"), (2, "z2")] {
        let conn = ConnId(ConnId::ACCEPTED + number);
        cluster.open_with(conn, "client.rgw", number as i64, "Gallow rw");
        let metadata = [("hostname", "alpha"), ("zone_id", zone)];
        cluster.send(conn, 0, &open("rgw", zone, &metadata));
    }
    let conn = ConnId(ConnId::ACCEPTED + 3);
    cluster.open_with(conn, "client.x", 3, "Gallow rw");
    cluster.send(conn, 0, &open("laundry", "a", &[("daemon_type", "portal")]));
    let task_status = Some(texts(&[("wash", "spinning")]));
    cluster.send(conn, 0, &MgrReport { task_status, ..MgrReport::default() });
    let status = cluster.plain(json!({ "prefix": "status" }));
    let from = status.find("    mon: ").unwrap();
    let lines: Vec<&str> = status[from..].lines().collect();
    assert!(lines[0].starts_with("    mon:     1 daemons, quorum a"), "{status}");
    assert!(lines[2].starts_with("    osd:     3 osds: 3 up"), "{status}");
    let expected = [
        "    laundry: 1 portal active",
        "    rgw:     2 daemons active (1 hosts, 2 zones)",
        " ",
        "  task status:",
        "    wash:",
        "        laundry.a: spinning",
        " ",
        "  data:",
    ];
    assert_eq!(lines[3..11], expected, "{status}");
}

#[test]
fn a_daemon_that_goes_or_falls_silent_is_forgotten() {
    let mut cluster = Cluster::healthy();
    for conn in [CLIENT, OTHER] {
        assert!(is_registered(&mut cluster, conn, "client.x", "Gallow rw"));
    }
    let close = MgrClose { daemon_name: "x".to_owned(), service_name: "laundry".to_owned() };
    cluster.send(CLIENT, 0, &close);
    assert_eq!(cluster.take::<MgrClose>(CLIENT), [close]);
    let name = OTHER.0.to_string();
    assert_eq!(services(&mut cluster)["laundry"]["daemons"].as_object().unwrap().len(), 2);
    cluster.advance(Duration::from_secs(50));
    cluster.send(OTHER, 0, &report(&[]));
    cluster.advance(Duration::from_secs(50));
    assert!(services(&mut cluster)["laundry"]["daemons"][&name].is_object());
    cluster.advance(Duration::from_secs(12));
    assert_eq!(services(&mut cluster), json!({}));
    // It believes that it is registered: its session is closed, so that it registers again.
    cluster.send(OTHER, 0, &report(&[]));
    assert_eq!(cluster.closed, [OTHER]);
}

#[test]
fn the_time_that_a_daemon_may_be_silent_is_an_option() {
    let mut cluster = Cluster::healthy();
    let value = "5";
    let set = json!({ "prefix": "config set", "who": "mgr", "name": "mgr_service_beacon_grace", "value": value });
    assert_eq!(cluster.command(set).result, 0);
    assert!(is_registered(&mut cluster, CLIENT, "client.x", "Gallow rw"));
    cluster.advance(Duration::from_secs(7));
    assert_eq!(services(&mut cluster), json!({}));
}

#[test]
fn a_key_without_capabilities_for_the_manager_registers_nothing() {
    let mut cluster = Cluster::healthy();
    let mut conn = CLIENT.0;
    let mut try_with = |name: &str, caps: &str| {
        conn += 1;
        is_registered(&mut cluster, ConnId(conn), name, caps)
    };
    assert!(!try_with("client.x", "G"));
    assert!(!try_with("client.x", "Gallow r network 10.0.0.0/8"));
    assert!(!try_with("client.x", "Mallow *"), "it is no session with a manager");
    for caps in ["Gallow r", "Gprofile rbd", "Gallow command \"service status\"", "Gallow *"] {
        assert!(try_with("client.x", caps), "{caps}");
    }
    for (name, profile) in [("client.mirror", "rbd-mirror"), ("client.peer", "rbd-mirror-peer")] {
        let caps = ["mon", &format!("profile {profile}")];
        let add = json!({ "prefix": "auth get-or-create", "entity": name, "caps": caps });
        assert_eq!(cluster.command(add).result, 0);
        let is_mirror = profile == "rbd-mirror";
        conn += 1;
        assert_eq!(is_registered(&mut cluster, ConnId(conn), name, "G"), is_mirror, "{name}");
    }
}

#[test]
fn clients_without_a_daemon_are_not_asked_to_report() {
    let mut cluster = Cluster::healthy();
    cluster.open_with(CLIENT, "client.x", 7, "Gallow *");
    cluster.send(CLIENT, 0, &MgrOpen { daemon_name: "x".to_owned(), ..MgrOpen::default() });
    assert!(cluster.take::<MgrConfigure>(CLIENT).is_empty());
    assert!(cluster.closed.is_empty());
}
