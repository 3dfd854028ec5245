//! The configuration database as scripts and `rbd config` read it.

mod cluster;

use cluster::{ADMIN, Cluster};
use serde_json::{Value, json};

fn set(who: &str, name: &str, value: &str) -> Value {
    json!({ "prefix": "config set", "who": who, "name": name, "value": value })
}

#[test]
fn unknown_names_and_impossible_values_are_refused() {
    let mut cluster = Cluster::healthy();
    for (who, name, value, reason) in [
        ("osd", "no_such_option", "1", "unrecognized config option 'no_such_option'"),
        ("osd", "osd_scrub_begin_hour", "25", "exceeds maximum 23"),
        ("osd", "osd_memory_target", "10", "below minimum"),
        ("client", "rbd_cache", "perhaps", "true or false"),
        ("osd", "osd_objectstore", "tape", "not one of the permitted values"),
        ("mon", "fsid", "12", "set it in ceph.conf"),
        ("osd", "osd_heartbeat_grace", "0", "expected 0.2 to 3600 s"),
        ("mon", "osd_pool_default_pg_autoscale_mode", "maybe", "expected one of off, warn, on"),
    ] {
        let answer = cluster.command(set(who, name, value));
        assert_eq!(answer.result, -22, "{name} = {value}: {}", answer.text);
        assert!(answer.text.contains(reason), "{name} = {value}: {}", answer.text);
    }
    let mut forced = set("osd", "no_such_option", "1");
    forced["force"] = json!(true);
    assert_eq!(cluster.command(forced).result, 0);
}

#[test]
fn an_option_is_described_with_its_range_and_with_advice() {
    let mut cluster = Cluster::healthy();
    let help = json!({ "prefix": "config help", "key": "osd_heartbeat_grace", "format": "json" });
    let help = cluster.json(help);
    assert_eq!((&help["min"], &help["max"]), (&json!(0.2), &json!(3600)), "{help}");
    assert_eq!(help["services"], json!(["mon", "osd"]));
    let mode = json!({ "prefix": "config help", "key": "osd_pool_default_pg_autoscale_mode" });
    let answer = cluster.command(mode);
    let shown = String::from_utf8(answer.output.to_vec()).unwrap();
    for line in ["  Possible values: off warn on\n", "  Default: off\n", "  Services: [mon]\n"] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(shown.ends_with("groups are then divided and merged.\n"), "{shown}");
}

#[test]
fn the_dump_is_in_the_order_of_ceph() {
    let mut cluster = Cluster::healthy();
    for (who, name, value) in [
        ("client.x", "rbd_cache", "0"),
        ("client", "rbd_cache", "true"),
        ("osd.1", "osd_max_backfills", "1"),
        ("osd", "osd_max_backfills", "2"),
        ("osd/class:ssd", "osd_max_backfills", "4"),
        ("mds", "mds_cache_memory_limit", "4Gi"),
        ("mgr", "debug_mgr", "1"),
        ("mon.a", "mon_max_pg_per_osd", "10"),
        ("global", "osd_pool_default_size", "3"),
    ] {
        let answer = cluster.command(set(who, name, value));
        assert_eq!(answer.result, 0, "{}", answer.text);
    }
    let dump = cluster.json(json!({ "prefix": "config dump" }));
    let rows: Vec<String> = dump
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            format!("{}/{}={}", text(&row["section"]), text(&row["mask"]), text(&row["value"]))
        })
        .collect();
    let order = [
        "global/=",
        "mon.a/=10",
        "mgr/=1/1",
        "osd/class:ssd=4",
        "osd/=2",
        "osd.1/=1",
        "mds/=4294967296",
    ];
    let clients = ["client/=true", "client.x/=false"];
    let expected: Vec<&str> = order.into_iter().chain(clients).collect();
    assert_eq!(rows.len(), expected.len(), "{rows:?}");
    assert!(rows.iter().zip(&expected).all(|(row, start)| row.starts_with(start)), "{rows:?}");
    assert_eq!(dump[3]["device_class"], "ssd");
}

#[test]
fn assimilation_gives_back_what_the_monitors_cannot_keep() {
    let mut cluster = Cluster::healthy();
    let file = "[global]\nfsid = 11111111-2222-3333-4444-555555555555\nosd pool default size = 2\n[osd]\nno such = 1\n";
    let answer =
        cluster.command_on(ADMIN, &json!({ "prefix": "config assimilate-conf" }), file.as_bytes());
    let rest = String::from_utf8_lossy(&answer.output).into_owned();
    assert!(
        rest.contains("[global]\n\tfsid = 11111111") && rest.contains("[osd]\n\tno_such = 1"),
        "{rest}"
    );
    assert!(!rest.contains("default_size"), "{rest}");
    let kept = json!({ "prefix": "config get", "who": "mon", "key": "osd_pool_default_size" });
    assert_eq!(cluster.plain(kept), "2\n");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
