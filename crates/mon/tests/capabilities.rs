//! The capabilities that each command and message needs: they suffice, and less does not.

mod cluster;

use bytes::Bytes;
use cluster::{ADMIN, Cluster};
use engine::{ConnId, Daemon, Message};
use mon::command::Registry;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use types::features::SUPPORTED;
use types::{Epoch, Errno, OsdId, SnapId, Uuid};
use wire::osd_map::MonGetOsdMap;
use wire::{
    GetPoolStats, GetPoolStatsReply, Log, LogAck, LogEntry, MessageBody, MgrCommand,
    MgrCommandReply, MonCommand, MonCommandAck, OsdMapMessage, PoolOp, PoolOpKind, PoolOpReply,
    Statfs, StatfsReply,
};

const CLIENT: ConnId = ConnId(ConnId::ACCEPTED + 1);
const PAGE: &str = include_str!("../../../docs/internals/capabilities.md");

fn registry() -> Registry {
    mon::registry()
}

/// The permission without each of its letters in turn.
fn short_of(permission: &str) -> Vec<String> {
    permission.chars().map(|missing| permission.replace(missing, "")).collect()
}

/// All permissions for all other services, and this one for `module`.
fn only(services: &BTreeSet<&str>, module: &str, permission: &str) -> String {
    let others = services.iter().filter(|service| **service != module);
    let mut grants: Vec<String> =
        others.map(|service| format!("allow service {service} rwx")).collect();
    if !permission.is_empty() {
        grants.push(format!("allow service {module} {permission}"));
    }
    grants.join(", ")
}

fn monitor_command(cluster: &mut Cluster, prefix: &str) -> i32 {
    let command = json!({ "prefix": prefix });
    cluster.command_on(CLIENT, &command, b"").result
}

fn manager_command(cluster: &mut Cluster, prefix: &str) -> i32 {
    let command = vec![json!({ "prefix": prefix }).to_string()];
    let fsid = cluster.monitor.fsid();
    cluster.send(CLIENT, 7, &MgrCommand { fsid, command, input: Bytes::new() });
    cluster.take::<MgrCommandReply>(CLIENT).remove(0).result
}

#[test]
fn each_command_of_the_monitor_is_refused_to_those_who_lack_one_letter() {
    let registry = registry();
    let services: BTreeSet<&str> =
        registry.descriptions().iter().map(|(_, command)| command.module).collect();
    let mut cluster = Cluster::healthy();
    for (signature, command) in registry.descriptions().iter() {
        for less in short_of(command.permission) {
            let before = cluster.commits;
            cluster.open(CLIENT, "client.x", 9, &only(&services, command.module, &less));
            let result = monitor_command(&mut cluster, &signature.prefix);
            assert_eq!(result, Errno::ACCES.negative(), "{} with {less}", signature.prefix);
            assert_eq!(cluster.commits, before, "{}", signature.prefix);
        }
    }
}

#[test]
fn each_command_is_open_to_those_who_have_what_it_needs() {
    for (signature, command) in registry().descriptions().iter() {
        let mut cluster = Cluster::healthy();
        let caps = format!("allow service {} {}", command.module, command.permission);
        cluster.open(CLIENT, "client.x", 9, &caps);
        let result = monitor_command(&mut cluster, &signature.prefix);
        assert_ne!(result, Errno::ACCES.negative(), "{}", signature.prefix);
    }
}

#[test]
fn each_command_of_the_manager_is_refused_to_those_who_lack_one_letter() {
    let registry = registry();
    let mut cluster = Cluster::healthy();
    for (signature, command) in registry.descriptions().iter() {
        let is_module = command.module == "rbd_support";
        let subject = if is_module { "module" } else { "service" };
        for less in short_of(command.permission) {
            let grant = match less.as_str() {
                "" => "allow service other rwx".to_owned(),
                less => format!("allow {subject} {} {less}", command.module),
            };
            let before = cluster.commits;
            cluster.open_with(CLIENT, "client.x", 9, &format!("G{grant}"));
            let result = manager_command(&mut cluster, &signature.prefix);
            let expected = match command.is_of_manager() {
                true => Errno::ACCES,
                false => Errno::INVAL,
            };
            assert_eq!(result, expected.negative(), "{} with {grant}", signature.prefix);
            assert_eq!(cluster.commits, before, "{}", signature.prefix);
        }
    }
}

#[test]
fn what_only_workers_ask_is_not_open_to_those_who_may_read() {
    let mut cluster = Cluster::healthy();
    cluster.open_with(CLIENT, "client.x", 9, "Gallow r");
    for (signature, command) in registry().descriptions().iter() {
        let is_for_workers = command.help.starts_with("for workers");
        let is_refused =
            manager_command(&mut cluster, &signature.prefix) == Errno::ACCES.negative();
        assert!(is_refused || !is_for_workers, "{}", signature.prefix);
    }
}

#[test]
fn the_page_names_every_command_with_what_it_needs() {
    let mut rows = BTreeMap::<(&str, &str), BTreeSet<String>>::new();
    let (cluster, daemon) = (registry(), mon::daemon_registry());
    for (signature, command) in cluster.descriptions().iter().chain(daemon.descriptions().iter()) {
        let row = rows.entry((command.module, command.permission)).or_default();
        row.insert(format!("`{}`", signature.prefix));
    }
    let row = |((module, permission), commands): (_, BTreeSet<String>)| {
        let commands = commands.into_iter().collect::<Vec<_>>().join(", ");
        format!("| `{module}` | `{permission}` | {commands} |")
    };
    let missing: Vec<String> =
        rows.into_iter().map(row).filter(|row| !PAGE.contains(row)).collect();
    let missing = missing.join("\n");
    assert!(missing.is_empty(), "docs/internals/capabilities.md needs these rows:\n{missing}");
}

/// Sends a message in a session with capabilities, and returns whether it had an effect.
fn is_answered(caps: &str, message: &Message, answer: u16) -> bool {
    let mut cluster = Cluster::healthy();
    cluster.open(CLIENT, "client.x", 9, caps);
    cluster.command(json!({ "prefix": "osd pool create", "pool": "p" }));
    cluster.monitor.handle_message(cluster.now, CLIENT, message.clone());
    cluster.drain();
    cluster.sent.iter().any(|(conn, message)| *conn == CLIENT && message.kind == answer)
}

#[test]
fn messages_are_refused_to_those_who_may_do_everything_else() {
    let services = ["mon", "osd", "pg", "log", "config", "auth", "mgr"].into();
    let statfs = Statfs { fsid: Uuid::default(), version: 0, data_pool: None };
    let pools = GetPoolStats { fsid: Uuid::default(), version: 0, pools: vec!["p".to_owned()] };
    let (first, last) = (Epoch(1), Epoch(100));
    let maps = MonGetOsdMap {
        version: 0,
        full_first: first,
        full_last: last,
        incremental_first: Epoch(0),
        incremental_last: Epoch(0),
    };
    let log = Log { version: 0, fsid: Uuid::default(), entries: vec![LogEntry::default()] };
    let table = [
        ("pg", "r", statfs.encode(SUPPORTED), StatfsReply::KIND),
        ("pg", "r", pools.encode(SUPPORTED), GetPoolStatsReply::KIND),
        ("osd", "r", maps.encode(SUPPORTED), OsdMapMessage::KIND),
        ("log", "w", log.encode(SUPPORTED), LogAck::KIND),
    ];
    for (service, needed, message, answer) in table {
        let rest = "rwx".replace(needed, "");
        assert!(!is_answered(&only(&services, service, &rest), &message, answer), "{service}");
        let enough = format!("allow service {service} {needed}");
        assert!(is_answered(&enough, &message, answer), "{service}");
    }
}

fn pool_op(op: PoolOpKind, pool: u32) -> PoolOp {
    PoolOp {
        version: 0,
        fsid: Uuid::default(),
        pool,
        name: "s".to_owned(),
        op,
        snap: SnapId(2),
        crush_rule: -1,
    }
}

/// The result of an operation on pool 1, `volumes`, for a user with these capabilities.
fn pool_op_result(mon: &str, osd: &str, op: PoolOpKind) -> i32 {
    let mut cluster = Cluster::healthy();
    cluster.command(json!({ "prefix": "osd pool create", "pool": "volumes" }));
    let caps = ["mon", mon, "osd", osd];
    let made = cluster.command(
        json!({ "prefix": "auth get-or-create", "entity": "client.cinder", "caps": caps }),
    );
    assert_eq!(made.result, 0, "{}", made.text);
    cluster.send(ADMIN, 1, &pool_op(PoolOpKind::CreateUnmanagedSnap, 1));
    cluster.open(CLIENT, "client.cinder", 9, mon);
    cluster.send(CLIENT, 1, &pool_op(op, 1));
    cluster.take::<PoolOpReply>(CLIENT).remove(0).result
}

#[test]
fn users_of_images_take_snapshots_of_the_pools_that_they_write_and_of_no_others() {
    let taking = [PoolOpKind::CreateUnmanagedSnap, PoolOpKind::DeleteUnmanagedSnap];
    for (mon, osd, expected) in [
        ("profile rbd", "profile rbd pool=volumes, profile rbd-read-only pool=images", 0),
        ("profile rbd", "profile rbd", 0),
        ("allow r", "allow class-read object_prefix rbd_children, allow rwx pool=volumes", 0),
        ("allow r", "allow rwx pool=volumes object_prefix rbd_", 0),
        ("profile rbd", "profile rbd pool=volumes namespace=mine", 0),
        ("allow r", "allow *", 0),
        ("allow r, allow command \"osd pool op unmanaged-snap\"", "allow r", 0),
        (
            "allow r, allow command \"osd pool op unmanaged-snap\" with poolname=volumes",
            "allow r",
            0,
        ),
        ("allow rw", "allow r", 0),
        // For another pool; read-only; without naming the pool.
        (
            "allow r, allow command \"osd pool op unmanaged-snap\" with poolname=images",
            "allow r",
            -1,
        ),
        ("profile rbd", "profile rbd-read-only pool=volumes", -1),
        ("profile rbd", "profile rbd pool=images", -1),
        ("profile rbd", "profile rbd namespace=mine", -1),
        ("profile rbd", "allow rwx tag rbd data=volumes", -1),
        ("profile rbd", "allow rwx object_prefix rbd_", -1),
        ("profile rbd", "allow rwx network 10.0.0.0/8", -1),
        ("profile rbd", "allow rx pool=volumes", -1),
    ] {
        for op in taking {
            assert_eq!(pool_op_result(mon, osd, op), expected, "mon '{mon}' osd '{osd}' {op:?}");
        }
    }
}

#[test]
fn other_operations_on_pools_remain_the_monitors_business() {
    for op in [
        PoolOpKind::Create,
        PoolOpKind::Delete,
        PoolOpKind::CreateSnap,
        PoolOpKind::DeleteSnap,
        PoolOpKind::AuidChange,
    ] {
        assert_eq!(pool_op_result("profile rbd", "allow *", op), -1, "{op:?}");
    }
}

/// Sends commands while the store has not answered the first of them.
fn flood(cluster: &mut Cluster, caps: &str, count: u64) {
    let fsid = cluster.monitor.fsid();
    cluster.open(CLIENT, "client.x", 9, caps);
    for tid in 0..count {
        let command = json!({ "prefix": "osd pool create", "pool": format!("p{tid}") });
        let command = vec![command.to_string()];
        let message = MonCommand { version: 0, fsid, command, input: Bytes::new() };
        let message = message.encode(SUPPORTED).with_tid(tid);
        cluster.monitor.handle_message(cluster.now, CLIENT, message);
    }
}

#[test]
fn refused_commands_wait_for_nothing_and_write_nothing() {
    let mut cluster = Cluster::healthy();
    let before = cluster.commits;
    flood(&mut cluster, "allow r", 5000);
    cluster.drain();
    let answers = cluster.take::<MonCommandAck>(CLIENT);
    assert_eq!(answers.len(), 5000);
    assert!(answers.iter().all(|answer| answer.result == Errno::ACCES.negative()));
    assert_eq!(cluster.commits, before);
}

#[test]
fn a_client_with_much_to_do_is_paused_and_osds_find_room() {
    let mut cluster = Cluster::new();
    flood(&mut cluster, "allow rw", 5000);
    // The boot of an OSD neither waits behind all of that, nor is it dropped.
    cluster.boot(1);
    assert!(cluster.monitor.state().osdmap.is_up(OsdId(1)));
    assert!(!cluster.paused.contains(&CLIENT), "resumed when it has less");
    let answers = cluster.take::<MonCommandAck>(CLIENT);
    assert_eq!(answers.len(), 5000);
    let is_busy = |answer: &&MonCommandAck| answer.result == Errno::AGAIN.negative();
    assert!(answers.iter().filter(is_busy).count() > 3000);
}

#[test]
fn commands_of_monitors_are_not_taken_by_the_manager_whatever_it_allows() {
    let mut cluster = Cluster::healthy();
    cluster.open_with(CLIENT, "client.x", 9, "Gallow *");
    let (keys, epoch) = (cluster.monitor.state().entities.len(), cluster.epoch());
    for command in [
        json!({ "prefix": "auth get", "entity": "client.admin" }),
        json!({ "prefix": "auth get-or-create", "entity": "client.y", "caps": ["mon", "allow *"] }),
        json!({ "prefix": "config-key dump" }),
        json!({ "prefix": "osd pool create", "pool": "p", "pg_num": 8 }),
        json!({ "prefix": "osd blocklist clear" }),
    ] {
        let fsid = cluster.monitor.fsid();
        let text = vec![command.to_string()];
        cluster.send(CLIENT, 7, &MgrCommand { fsid, command: text.clone(), input: Bytes::new() });
        let reply = cluster.take::<MgrCommandReply>(CLIENT).remove(0);
        assert_eq!(reply.result, Errno::INVAL.negative(), "{command}");
        assert!(reply.output.is_empty() && reply.text.contains("monitors"), "{}", reply.text);
        cluster.send(CLIENT, 8, &wire::Command { fsid, command: text, ..Default::default() });
        let reply = cluster.take::<wire::CommandReply>(CLIENT).remove(0);
        assert_eq!(reply.result, Errno::INVAL.negative(), "{command}");
    }
    assert_eq!((cluster.monitor.state().entities.len(), cluster.epoch()), (keys, epoch));
}

#[test]
fn a_key_that_makes_keys_makes_those_that_it_is_for_and_no_others() {
    let mut cluster = Cluster::healthy();
    cluster.open(CLIENT, "client.bootstrap-rgw", 9, "allow profile bootstrap-rgw");
    let mut make = |entity: &str, caps: &[&str]| {
        let make = json!({ "prefix": "auth get-or-create", "entity": entity, "caps": caps });
        cluster.command_on(CLIENT, &make, b"").result
    };
    let refused = Errno::ACCES.negative();
    assert_eq!(make("client.rgw.a", &["mon", "allow rw", "osd", "allow rwx"]), 0);
    assert_eq!(make("client.a", &["mon", "allow rw", "osd", "allow rwx"]), refused);
    assert_eq!(make("client.rgw.b", &["mon", "allow *", "osd", "allow rwx"]), refused);
    for more in ["mgr", "mds"] {
        let caps = ["mon", "allow rw", "osd", "allow rwx", more, "allow *"];
        assert_eq!(make("client.rgw.b", &caps), refused, "{more}");
    }
    let twice = ["mon", "allow rw", "mon", "allow *", "osd", "allow rwx"];
    assert_eq!(make("client.rgw.b", &twice), refused);
}

#[test]
fn an_entry_of_the_log_is_acknowledged_when_it_is_durable() {
    let mut cluster = Cluster::healthy();
    cluster.refuses_writes = Some("no space left".to_owned());
    let entries = vec![LogEntry { text: "slow".to_owned(), ..LogEntry::default() }];
    let conn = Cluster::osd_conn(0);
    cluster.send(conn, 0, &Log { version: 0, fsid: Uuid::default(), entries });
    assert!(cluster.take::<LogAck>(conn).is_empty());
    cluster.refuses_writes = None;
    cluster.advance(std::time::Duration::from_secs(3));
    assert_eq!(cluster.take::<LogAck>(conn).len(), 1);
}
