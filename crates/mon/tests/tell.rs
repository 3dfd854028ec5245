//! Commands to one monitor alone (`ceph tell mon.a …`).

mod cluster;

use bytes::Bytes;
use cluster::{ADMIN, Cluster};
use engine::ConnId;
use serde_json::{Value, json};
use types::Errno;
use wire::{Command, CommandReply};

const CLIENT: ConnId = ConnId(ConnId::ACCEPTED + 7);
/// A limit of groups per OSD that a replicated pool of 8 groups on 3 OSDs exceeds.
const FEW: &str = "5";

fn tell_from(cluster: &mut Cluster, conn: ConnId, command: &Value) -> CommandReply {
    let (fsid, command) = (cluster.monitor.fsid(), vec![command.to_string()]);
    cluster.send(conn, 5, &Command { fsid, command, input: Bytes::new() });
    cluster.take::<CommandReply>(conn).remove(0)
}

fn tell(cluster: &mut Cluster, command: Value) -> Value {
    let reply = tell_from(cluster, ADMIN, &command);
    assert_eq!(reply.result, 0, "{command}: {}", reply.text);
    serde_json::from_slice(&reply.output).unwrap_or_default()
}

fn create(cluster: &mut Cluster, pool: &str) -> i32 {
    cluster.command(json!({ "prefix": "osd pool create", "pool": pool, "pg_num": 8 })).result
}

#[test]
fn answers_are_json_with_the_fields_of_ceph() {
    let mut cluster = Cluster::healthy();
    create(&mut cluster, "data");
    for (command, fields) in [
        (json!({ "prefix": "version" }), &["version", "release", "release_type"][..]),
        (json!({ "prefix": "git_version" }), &["git_version"]),
        (json!({ "prefix": "mon_status" }), &["name", "rank", "state", "quorum", "monmap"]),
        (json!({ "prefix": "ops" }), &["ops", "num_ops"]),
        (json!({ "prefix": "dump_historic_ops" }), &["size", "duration", "ops"]),
        (json!({ "prefix": "dump_historic_ops_by_duration" }), &["size", "duration", "ops"]),
        (
            json!({ "prefix": "dump_historic_slow_ops" }),
            &["num to keep", "threshold to keep", "Ops"],
        ),
        (json!({ "prefix": "perf dump" }), &["cluster", "mon"]),
        (json!({ "prefix": "perf schema" }), &["cluster", "mon"]),
        (json!({ "prefix": "perf reset", "var": "all" }), &["success"]),
        (json!({ "prefix": "dump_mempools" }), &["mempool"]),
        (json!({ "prefix": "connection scores dump" }), &["rank", "epoch", "reports"]),
        (json!({ "prefix": "config help", "var": "mon_max_pg_per_osd" }), &["option"]),
        (json!({ "prefix": "config diff" }), &["diff"]),
        (json!({ "prefix": "help" }), &["config set", "sessions"]),
    ] {
        let value = tell(&mut cluster, command.clone());
        for field in fields {
            assert!(value.get(field).is_some(), "{command}: no {field} in {value}");
        }
    }
    assert_eq!(tell(&mut cluster, json!({ "prefix": "log flush" })), json!({}));
    let done = tell(&mut cluster, json!({ "prefix": "dump_historic_ops" }));
    let description = done["ops"][0]["description"].as_str().unwrap();
    assert!(description.contains("osd pool create"), "{done}");
    let one = json!({ "prefix": "perf dump", "logger": "cluster", "counter": "num_osd_up" });
    assert_eq!(tell(&mut cluster, one), json!({ "cluster": { "num_osd_up": 3 } }));
    let sessions = tell(&mut cluster, json!({ "prefix": "sessions" }));
    let is_admin = |session: &&Value| session["entity_name"] == "client.admin";
    let admin = sessions.as_array().unwrap().iter().find(is_admin).unwrap();
    assert_eq!((&admin["caps"]["text"], &admin["open"]), (&json!("allow *"), &json!(true)));
}

#[test]
fn an_option_that_is_set_at_the_monitor_counts_there_and_is_not_kept() {
    let mut cluster = Cluster::healthy();
    let get = json!({ "prefix": "config get", "var": "mon_max_pg_per_osd" });
    let set = json!({ "prefix": "config set", "var": "mon_max_pg_per_osd", "val": [FEW] });
    assert_eq!(create(&mut cluster, "before"), 0);
    let commits = cluster.commits;
    tell(&mut cluster, set);
    assert_eq!(tell(&mut cluster, get.clone()), json!({ "mon_max_pg_per_osd": FEW }));
    assert_eq!(cluster.commits, commits, "the store knows nothing of it");
    assert_ne!(create(&mut cluster, "meanwhile"), 0);
    tell(&mut cluster, json!({ "prefix": "config unset", "var": "mon_max_pg_per_osd" }));
    assert_eq!(create(&mut cluster, "after"), 0);
    let inject = json!({ "prefix": "injectargs", "injected_args": ["--mon_max_pg_per_osd=5"] });
    tell(&mut cluster, inject);
    assert_ne!(create(&mut cluster, "again"), 0);
    let mut again = Cluster::on(cluster.control);
    assert_eq!(tell(&mut again, get), json!({ "mon_max_pg_per_osd": "1000" }));
}

#[test]
fn the_commands_of_the_cluster_are_none_of_one_monitor() {
    let mut cluster = Cluster::healthy();
    for prefix in ["status", "health", "osd tree", "quorum_status", "nonsense"] {
        let reply = tell_from(&mut cluster, ADMIN, &json!({ "prefix": prefix }));
        assert_eq!(reply.result, Errno::INVAL.negative(), "{prefix}");
    }
    let unknown = json!({ "prefix": "config get", "var": "no_such_option" });
    assert_eq!(tell_from(&mut cluster, ADMIN, &unknown).result, Errno::NOENT.negative());
    let described = tell(&mut cluster, json!({ "prefix": "get_command_descriptions" }));
    let described = described.to_string();
    assert!(described.contains("dump_historic_ops") && !described.contains("\"pool\""));
}

#[test]
fn who_may_not_do_everything_at_the_monitor_is_told_nothing() {
    let mut cluster = Cluster::healthy();
    for less in ["rw", "rx", "wx"] {
        cluster.open(
            CLIENT,
            "client.x",
            9,
            &format!("allow service mon {less}, allow service osd rwx"),
        );
        for (signature, _) in mon::daemon_registry().descriptions().iter() {
            let command = json!({ "prefix": signature.prefix });
            let reply = tell_from(&mut cluster, CLIENT, &command);
            assert_eq!(reply.result, Errno::ACCES.negative(), "{command} with {less}");
        }
    }
    cluster.open(CLIENT, "client.x", 9, "allow service mon rwx");
    assert_eq!(tell_from(&mut cluster, CLIENT, &json!({ "prefix": "sessions" })).result, 0);
}

#[test]
fn a_manager_is_told_what_is_no_business_of_the_monitor() {
    let mut cluster = Cluster::healthy();
    cluster.open_with(CLIENT, "client.x", 9, "Gallow *");
    assert_eq!(tell_from(&mut cluster, CLIENT, &json!({ "prefix": "version" })).result, 0);
    for prefix in ["sessions", "dump_historic_ops", "config show", "injectargs"] {
        let reply = tell_from(&mut cluster, CLIENT, &json!({ "prefix": prefix }));
        assert_eq!(reply.result, Errno::INVAL.negative(), "{prefix}");
    }
}
