//! The engine as its host sees it: boot, restart, conflicts, subscriptions, sessions.

mod cluster;

use cluster::{ADMIN, Cluster};
use engine::{ConnId, Daemon, Message};
use maps::OsdState;
use mon::control::Transaction;
use serde_json::json;
use std::time::Duration;
use types::{EntityType, Epoch, OsdId, Uuid};
use wire::internal::{
    PgStat, RotatingSecrets, RotatingSecretsRequest, SlowRequests, StatsReport, pg_state,
};
use wire::{
    GetPoolStats, GetPoolStatsReply, MonGetVersion, MonGetVersionReply, MonMapMessage,
    MonSubscribe, OsdMapMessage, OsdMarkMeDown, PoolOp, PoolOpKind, PoolOpReply, Statfs,
    StatfsReply, SubscribeItem,
};

fn subscribe(cluster: &mut Cluster, conn: ConnId, what: &str, start: u64, flags: u8) {
    let what = [(what.to_owned(), SubscribeItem { start, flags })].into();
    cluster.send(conn, 0, &MonSubscribe { what, hostname: String::new() });
}

#[test]
fn three_osds_boot_and_the_status_says_so() {
    let mut cluster = Cluster::healthy();
    let status = cluster.json(json!({ "prefix": "status" }));
    assert_eq!(status["osdmap"]["num_up_osds"], 3);
    assert_eq!(status["osdmap"]["num_in_osds"], 3);
    assert_eq!(status["health"]["status"], "HEALTH_OK");
    assert_eq!(status["quorum_names"], json!(["a"]));
    assert_eq!(status["fsid"], cluster.monitor.fsid().to_string());
    let plain = cluster.plain(json!({ "prefix": "status" }));
    assert!(plain.contains("osd: 3 osds: 3 up (since 0s), 3 in (since 0s)"), "{plain}");
    let metadata = cluster.json(json!({ "prefix": "osd metadata", "id": 1 }));
    assert_eq!(metadata["hostname"], "alpha");
    let log = cluster.plain(json!({ "prefix": "log last", "num": 1 }));
    assert!(log.ends_with("[INF] osd.2 v2:127.0.0.1:6902/1 boot\n"), "{log}");
}

#[test]
fn a_restart_leads_to_the_same_state() {
    let mut cluster = Cluster::healthy();
    cluster.json(json!({ "prefix": "osd dump" }));
    cluster.command(json!({ "prefix": "osd pool create", "pool": "data", "pg_num": 16 }));
    cluster.command(
        json!({ "prefix": "config set", "who": "osd", "name": "osd_max_backfills", "value": "3" }),
    );
    cluster.command(json!({ "prefix": "config-key set", "key": "a/b", "val": "c" }));
    cluster.command(json!({ "prefix": "log", "logtext": ["hello"] }));
    let questions = [
        "osd dump",
        "auth ls",
        "config dump",
        "config-key dump",
        "log last",
        "mon dump",
        "osd metadata",
    ];
    let ask =
        |cluster: &mut Cluster| questions.map(|prefix| cluster.json(json!({ "prefix": prefix })));
    let before = ask(&mut cluster);
    let mut cluster = Cluster::on(cluster.control);
    assert_eq!(ask(&mut cluster), before);
}

#[test]
fn global_ids_are_never_given_twice_across_restarts() {
    let cluster = Cluster::new();
    let first = cluster.monitor.state().global_id_next;
    let cluster = Cluster::on(cluster.control);
    assert!(cluster.monitor.is_ready());
    assert!(cluster.monitor.state().global_id_next > first);
}

#[test]
fn a_conflict_is_decided_again_on_the_newer_state() {
    let mut cluster = Cluster::healthy();
    let before = cluster.epoch();
    // Another monitor writes to the same part of the state first.
    let mut rival = Transaction::default();
    rival.put("version/osdmap", "1000");
    cluster.rivals.push_back(rival);
    let reply = cluster.command(json!({ "prefix": "osd pool create", "pool": "data" }));
    assert_eq!((reply.result, reply.text.as_str()), (0, "pool 'data' created"));
    assert_eq!(cluster.epoch(), before.next());
    let pools = cluster.json(json!({ "prefix": "osd lspools" }));
    assert_eq!(pools, json!([{ "poolnum": 1, "poolname": "data" }]));
}

#[test]
fn that_there_is_nothing_to_do_is_said_only_of_the_newest_state() {
    let mut cluster = Cluster::new();
    let mut rival = Transaction::default();
    rival.put("config-key/a", "1");
    rival.put("version/config-key", "1000");
    cluster.rivals.push_back(rival);
    let reply = cluster.command(json!({ "prefix": "config-key rm", "key": "a" }));
    assert_eq!((reply.result, reply.text.as_str()), (0, "key deleted"));
    assert_eq!(cluster.json(json!({ "prefix": "config-key ls" })), json!([]));
}

#[test]
fn changes_of_other_monitors_are_seen() {
    let mut cluster = Cluster::new();
    let mut change = Transaction::default();
    change.put("config-key/from-afar", "1");
    let revision = cluster.control.commit(&change).unwrap();
    let events = mon::control::MemControl::events(&change, revision);
    cluster.monitor.handle_completion(cluster.now, events);
    assert_eq!(cluster.json(json!({ "prefix": "config-key ls" })), json!(["from-afar"]));
}

#[test]
fn subscribers_get_the_map_and_then_each_difference() {
    let mut cluster = Cluster::healthy();
    subscribe(&mut cluster, ADMIN, "osdmap", 0, 0);
    let maps = cluster.take::<OsdMapMessage>(ADMIN);
    assert_eq!(maps[0].full.keys().copied().collect::<Vec<_>>(), [cluster.epoch()]);
    cluster.command(json!({ "prefix": "osd set", "key": "noout" }));
    let maps = cluster.take::<OsdMapMessage>(ADMIN);
    assert_eq!(maps[0].incrementals.keys().copied().collect::<Vec<_>>(), [cluster.epoch()]);
    subscribe(&mut cluster, ADMIN, "osdmap", 2, SubscribeItem::ONETIME);
    let maps = cluster.take::<OsdMapMessage>(ADMIN);
    assert_eq!(maps[0].range(), Some((Epoch(2), cluster.epoch())));
    subscribe(&mut cluster, ADMIN, "monmap", 0, SubscribeItem::ONETIME);
    assert_eq!(cluster.take::<MonMapMessage>(ADMIN).len(), 1);
    subscribe(&mut cluster, ADMIN, "no such thing", 0, 0);
}

#[test]
fn the_log_is_watched_at_one_level_and_from_now_on() {
    let mut cluster = Cluster::healthy();
    let say = |cluster: &mut Cluster| {
        cluster.command(json!({ "prefix": "log", "logtext": ["hello"] }));
        let logs = cluster.take::<wire::Log>(ADMIN);
        logs.iter().flat_map(|log| &log.entries).map(|entry| entry.text.clone()).collect::<Vec<_>>()
    };
    subscribe(&mut cluster, ADMIN, "log-info", 0, 0);
    assert_eq!(say(&mut cluster), ["hello"]);
    subscribe(&mut cluster, ADMIN, "log-error", 0, 0);
    assert!(say(&mut cluster).is_empty());
}

#[test]
fn old_epochs_are_trimmed_and_late_readers_get_the_newest_map() {
    let mut cluster = Cluster::healthy();
    for _ in 0..300 {
        cluster.command(json!({ "prefix": "osd set", "key": "noout" }));
        cluster.command(json!({ "prefix": "osd unset", "key": "noout" }));
    }
    cluster.advance(Duration::from_secs(2));
    let state = cluster.monitor.state();
    assert_eq!(state.history.incrementals.len(), mon::state::INCREMENTALS_KEPT);
    assert_eq!(state.history.full.len(), mon::state::FULL_MAPS_KEPT);
    assert_eq!(cluster.control.range("osdmap/inc/").len(), mon::state::INCREMENTALS_KEPT);
    subscribe(&mut cluster, ADMIN, "osdmap", 5, SubscribeItem::ONETIME);
    let maps = cluster.take::<OsdMapMessage>(ADMIN);
    assert_eq!(maps[0].range(), Some((cluster.epoch(), cluster.epoch())));
}

#[test]
fn as_many_old_maps_are_kept_as_an_option_says() {
    let mut cluster = Cluster::healthy();
    let set = json!({ "prefix": "config set", "who": "mon", "name": "mon_min_osdmap_epochs", "value": "10" });
    cluster.command(set);
    for _ in 0..20 {
        cluster.command(json!({ "prefix": "osd set", "key": "noout" }));
        cluster.command(json!({ "prefix": "osd unset", "key": "noout" }));
    }
    cluster.advance(Duration::from_secs(2));
    assert_eq!(cluster.monitor.state().history.incrementals.len(), 10);
}

#[test]
fn an_osd_that_returns_unnoticed_ends_its_old_life_first() {
    let mut cluster = Cluster::healthy();
    let before = cluster.epoch();
    cluster.boot_as(1, 2);
    assert_eq!(cluster.epoch(), before.next().next());
    let osd = cluster.monitor.state().osdmap.osd(OsdId(1)).unwrap();
    assert_eq!(osd.info.down_at, before.next());
    assert_eq!(osd.info.up_from, before.next().next());
    // Another boot of the same incarnation changes nothing.
    cluster.boot_as(1, 2);
    assert_eq!(cluster.epoch(), before.next().next());
}

#[test]
fn osds_that_were_killed_together_come_up_in_one_map() {
    let mut cluster = Cluster::healthy();
    let before = cluster.epoch();
    let kill = |cluster: &mut Cluster, osd| {
        cluster.monitor.handle_closed(cluster.now, Cluster::osd_conn(osd));
        cluster.drain();
    };
    let up_from = |cluster: &Cluster, osd| {
        cluster.monitor.state().osdmap.osd(OsdId(osd)).unwrap().info.up_from
    };
    (0..3).for_each(|osd| kill(&mut cluster, osd));
    cluster.boot_as(1, 2);
    cluster.boot_as(0, 2);
    assert_eq!(cluster.epoch(), before, "osd.2 has lost its session as well");
    cluster.boot_as(2, 2);
    let up = before.next().next();
    assert_eq!(cluster.epoch(), up, "the old lives end in one map, the new ones begin in one");
    assert!((0..3).all(|osd| up_from(&cluster, osd) == up));

    // An OSD that does not come back delays the others only for a while.
    (0..3).for_each(|osd| kill(&mut cluster, osd));
    cluster.boot_as(0, 3);
    cluster.boot_as(1, 3);
    cluster.advance(Duration::from_secs(1));
    assert_eq!(cluster.epoch(), up);
    cluster.advance(Duration::from_secs(2));
    let up = up.next().next();
    assert_eq!((up_from(&cluster, 0), up_from(&cluster, 1)), (up, up));

    // A single boot does not wait.
    cluster.boot_as(2, 3);
    kill(&mut cluster, 1);
    cluster.boot_as(1, 4);
    assert_eq!(up_from(&cluster, 1), cluster.epoch());
}

#[test]
fn an_osd_says_goodbye_and_is_answered() {
    let mut cluster = Cluster::healthy();
    let target_addrs = cluster.monitor.state().osdmap.client_addrs(OsdId(2)).unwrap().clone();
    let goodbye = OsdMarkMeDown {
        version: 0,
        fsid: cluster.monitor.fsid(),
        target: OsdId(2),
        target_addrs,
        epoch: cluster.epoch(),
        request_ack: true,
        down_and_dead: true,
    };
    let conn = Cluster::osd_conn(2);
    cluster.send(conn, 0, &goodbye);
    assert_eq!(cluster.take::<OsdMarkMeDown>(conn).len(), 1);
    assert!(!cluster.monitor.state().osdmap.is_up(OsdId(2)));
    let health = cluster.json(json!({ "prefix": "health", "detail": "detail" }));
    assert_eq!(health["checks"]["OSD_DOWN"]["summary"]["message"], "1 osds down");
}

#[test]
fn an_osd_says_goodbye_for_itself_and_for_no_other() {
    let mut cluster = Cluster::healthy();
    let target_addrs = cluster.monitor.state().osdmap.client_addrs(OsdId(2)).unwrap().clone();
    let goodbye = OsdMarkMeDown {
        version: 0,
        fsid: cluster.monitor.fsid(),
        target: OsdId(2),
        target_addrs,
        epoch: cluster.epoch(),
        request_ack: true,
        down_and_dead: true,
    };
    cluster.send(Cluster::osd_conn(1), 0, &goodbye);
    assert!(cluster.monitor.state().osdmap.is_up(OsdId(2)));
}

#[test]
fn an_osd_without_a_session_is_marked_down_and_later_out() {
    let mut cluster = Cluster::healthy();
    cluster.monitor.handle_closed(cluster.now, Cluster::osd_conn(0));
    cluster.advance(Duration::from_secs(15));
    assert!(cluster.monitor.state().osdmap.is_up(OsdId(0)));
    cluster.advance(Duration::from_secs(10));
    assert!(!cluster.monitor.state().osdmap.is_up(OsdId(0)));
    cluster.advance(Duration::from_secs(650));
    assert!(!cluster.monitor.state().osdmap.is_in(OsdId(0)));
    cluster.boot_as(0, 2);
    assert!(cluster.monitor.state().osdmap.is_in(OsdId(0)));
}

#[test]
fn osds_that_do_not_come_back_after_a_restart_are_marked_down() {
    let mut cluster = Cluster::on(Cluster::healthy().control);
    cluster.boot_as(0, 2);
    cluster.advance(Duration::from_secs(25));
    assert_eq!(cluster.monitor.state().osdmap.up_count(), 1);
}

#[test]
fn an_osd_that_the_map_does_not_know_gets_a_place() {
    let mut cluster = Cluster::healthy();
    cluster.boot(5);
    let tree = cluster.plain(json!({ "prefix": "osd tree" }));
    assert!(tree.contains("osd.5"), "{tree}");
    assert_eq!(cluster.monitor.state().osdmap.up_count(), 4);
}

#[test]
fn versions_usage_and_pool_statistics_are_told() {
    let mut cluster = Cluster::healthy();
    cluster.command(json!({ "prefix": "osd pool create", "pool": "data", "pg_num": 8 }));
    (0..3).for_each(|osd| cluster.report(osd, 5));
    cluster.send(ADMIN, 7, &MonGetVersion { handle: 3, what: "osdmap".to_owned() });
    let version = cluster.take::<MonGetVersionReply>(ADMIN);
    assert_eq!((version[0].handle, version[0].version), (3, cluster.epoch().0.into()));
    let fsid = cluster.monitor.fsid();
    cluster.send(ADMIN, 8, &Statfs { version: 0, fsid, data_pool: None });
    let usage = cluster.take::<StatfsReply>(ADMIN);
    assert_eq!((usage[0].kib, usage[0].objects), (12 << 20, 40));
    let pools = vec!["data".to_owned(), "nope".to_owned()];
    cluster.send(ADMIN, 9, &GetPoolStats { version: 0, fsid, pools });
    let stats = cluster.take::<GetPoolStatsReply>(ADMIN);
    assert_eq!(stats[0].stats.len(), 1);
    assert_eq!(stats[0].stats["data"].stats.sum.objects, 40);
    assert_eq!(stats[0].stats["data"].store.allocated, 12_000);
}

#[test]
fn pools_and_snapshots_are_made_by_message() {
    let mut cluster = Cluster::healthy();
    let fsid = cluster.monitor.fsid();
    let op = |op, pool, name: &str, snap| PoolOp {
        version: 0,
        fsid,
        pool,
        op,
        snap: types::SnapId(snap),
        name: name.to_owned(),
        crush_rule: -1,
    };
    let mut run = |op: PoolOp| {
        cluster.send(ADMIN, 1, &op);
        let reply: PoolOpReply = cluster.take(ADMIN).remove(0);
        assert_eq!(reply.epoch, cluster.epoch().0);
        (reply.result, reply.response)
    };
    assert_eq!(run(op(PoolOpKind::Create, 0, "p", 0)).0, 0);
    assert_eq!(run(op(PoolOpKind::Create, 0, "", 0)).0, -22);
    assert_eq!(run(op(PoolOpKind::CreateSnap, 1, "s", 0)).0, 0);
    assert_eq!(run(op(PoolOpKind::CreateSnap, 1, "s", 0)).0, -17);
    assert_eq!(run(op(PoolOpKind::CreateUnmanagedSnap, 1, "", 0)).0, -22);
    assert_eq!(run(op(PoolOpKind::DeleteSnap, 1, "s", 0)).0, 0);
    assert_eq!(run(op(PoolOpKind::DeleteSnap, 1, "s", 0)).0, -2);
    run(op(PoolOpKind::Create, 0, "q", 0));
    let (result, id) = run(op(PoolOpKind::CreateUnmanagedSnap, 2, "", 0));
    assert_eq!((result, id.as_deref()), (0, Some(&2u64.to_le_bytes()[..])));
    assert_eq!(run(op(PoolOpKind::DeleteUnmanagedSnap, 2, "", 2)).0, 0);
    assert_eq!(run(op(PoolOpKind::DeleteUnmanagedSnap, 2, "", 99)).0, -2);
    assert_eq!(run(op(PoolOpKind::Delete, 2, "", 0)).0, 0);
    assert_eq!(run(op(PoolOpKind::Delete, 2, "", 0)).0, 0);
    assert_eq!(run(op(PoolOpKind::CreateSnap, 2, "s", 0)).0, -2);
}

#[test]
fn quotas_raise_and_clear_the_flag() {
    let mut cluster = Cluster::healthy();
    cluster.command(json!({ "prefix": "osd pool create", "pool": "data", "pg_num": 8 }));
    cluster.command(json!({
        "prefix": "osd pool set-quota", "pool": "data", "field": "max_objects", "val": "30",
    }));
    (0..3).for_each(|osd| cluster.report(osd, 5));
    cluster.advance(Duration::from_secs(2));
    let pools = cluster.json(json!({ "prefix": "osd pool ls", "detail": "detail" }));
    assert_eq!(pools[0]["flags_names"], "hashpspool,full,full_quota");
    let health = cluster.json(json!({ "prefix": "health" }));
    assert_eq!(health["checks"]["POOL_FULL"]["summary"]["count"], 1);
    (0..3).for_each(|osd| cluster.report(osd, 1));
    cluster.advance(Duration::from_secs(2));
    let pools = cluster.json(json!({ "prefix": "osd pool ls", "detail": "detail" }));
    assert_eq!(pools[0]["flags_names"], "hashpspool");
}

#[test]
fn a_full_disk_stops_the_pools_that_it_serves() {
    let mut cluster = Cluster::healthy();
    cluster.command(json!({ "prefix": "osd pool create", "pool": "data", "pg_num": 8 }));
    cluster.report_with(0, 5, 100 << 20);
    cluster.advance(Duration::from_secs(2));
    let dump = cluster.json(json!({ "prefix": "osd dump" }));
    assert_eq!(dump["osds"][0]["state"], json!(["exists", "full", "up"]));
    assert_eq!(dump["pools"][0]["flags_names"], "hashpspool,full");
    let health = cluster.json(json!({ "prefix": "health" }));
    assert_eq!(health["status"], "HEALTH_ERR");
    cluster.report_with(0, 5, 3 << 30);
    cluster.advance(Duration::from_secs(2));
    let dump = cluster.json(json!({ "prefix": "osd dump" }));
    assert_eq!(dump["osds"][0]["state"], json!(["exists", "up"]));
    assert_eq!(dump["pools"][0]["flags_names"], "hashpspool");
}

#[test]
fn rotating_secrets_go_to_osds_and_to_nobody_else() {
    let mut cluster = Cluster::healthy();
    let request = RotatingSecretsRequest { service: EntityType::OSD.0.into() };
    let conn = Cluster::osd_conn(0);
    cluster.send(conn, 0, &request);
    assert_eq!(cluster.take::<RotatingSecrets>(conn).len(), 1);
    cluster.send(ADMIN, 0, &request);
    assert!(cluster.take::<RotatingSecrets>(ADMIN).is_empty());
    // They are sent again when they rotate.
    cluster.advance(Duration::from_secs(3 * 3600));
    assert!(!cluster.take::<RotatingSecrets>(conn).is_empty());
}

#[test]
fn unreadable_messages_close_their_session() {
    let mut cluster = Cluster::new();
    for kind in [50, 15, 49, 13, 0x7f02] {
        let conn = ConnId(ConnId::ACCEPTED + 50 + u64::from(kind));
        cluster.open(conn, "client.admin", 1, "allow *");
        let message = Message::new(kind, 1, 1, bytes::Bytes::from_static(b"\xff\xff\xff"));
        cluster.monitor.handle_message(cluster.now, conn, message);
        cluster.drain();
        assert!(cluster.closed.contains(&conn), "kind {kind}");
    }
    let message = Message::new(0xbeef, 1, 1, bytes::Bytes::from_static(b"\xff"));
    cluster.monitor.handle_message(cluster.now, ADMIN, message);
    cluster.drain();
    assert!(!cluster.closed.contains(&ADMIN));
}

#[test]
fn osds_are_told_of_options_when_they_change() {
    let mut cluster = Cluster::healthy();
    let conn = Cluster::osd_conn(1);
    subscribe(&mut cluster, conn, "config", 0, 0);
    cluster.take::<wire::Config>(conn);
    let mut set = |who: &str, value: &str| {
        let name = "osd_max_backfills";
        let command = json!({ "prefix": "config set", "who": who, "name": name, "value": value });
        let result = cluster.command(command).result;
        let told = cluster.take::<wire::Config>(conn).pop();
        (result, told.and_then(|config| config.options.get(name).cloned()))
    };
    assert_eq!(set("osd", "3"), (0, Some("3".to_owned())));
    assert_eq!(set("osd/class:ssd", "8"), (0, Some("3".to_owned())), "its class is hdd");
    assert_eq!(set("osd/host:alpha", "6"), (0, Some("6".to_owned())));
    assert_eq!(set("osd/class:hdd", "7"), (0, Some("7".to_owned())));
    assert_eq!(set("osd.1", "4"), (0, Some("4".to_owned())));
    assert_eq!(set("osd", "5"), (0, Some("4".to_owned())));
    assert_eq!(set("osd", "many"), (-22, None));
}

/// Makes `count` maps.
fn many_maps(cluster: &mut Cluster, count: usize) {
    for number in 0..count {
        let prefix = if number % 2 == 0 { "osd set" } else { "osd unset" };
        cluster.command(json!({ "prefix": prefix, "key": "noout" }));
    }
}

#[test]
fn differences_of_maps_are_kept_while_a_group_that_is_not_clean_may_need_them() {
    let mut cluster = Cluster::healthy();
    cluster.command(json!({ "prefix": "osd pool create", "pool": "data", "pg_num": 8 }));
    let clean = cluster.epoch();
    let report = |cluster: &mut Cluster, clean: Epoch| {
        (0..3).for_each(|osd| cluster.report_clean_since(osd, clean));
        cluster.advance(Duration::from_secs(2));
        *cluster.monitor.state().history.incrementals.first_key_value().unwrap().0
    };
    many_maps(&mut cluster, 600);
    cluster.advance(Duration::from_secs(2));
    assert_eq!(cluster.monitor.state().history.incrementals.len() as u32, cluster.epoch().0);
    assert_eq!(report(&mut cluster, Epoch(1)), Epoch(1));
    assert_eq!(report(&mut cluster, clean), Epoch(1), "a few are not worth a transaction");
    let newest = cluster.epoch();
    assert_eq!(report(&mut cluster, newest), Epoch(newest.0 - 499));
}

#[test]
fn what_is_destroyed_already_stays_as_it_is() {
    let mut cluster = Cluster::healthy();
    cluster.command(json!({ "prefix": "osd down", "ids": ["2"] }));
    for _ in 0..3 {
        cluster
            .command(json!({ "prefix": "osd destroy", "id": "2", "yes_i_really_mean_it": true }));
        let map = &cluster.monitor.state().osdmap;
        let state = map.osd(OsdId(2)).unwrap().state;
        assert!(state.contains(OsdState::DESTROYED) && !state.contains(OsdState::UP), "{state:?}");
    }
    // Its last boot message may arrive late.
    cluster.boot_store(2, 7, Uuid::default());
    let state = cluster.monitor.state().osdmap.osd(OsdId(2)).unwrap().state;
    assert!(state.contains(OsdState::DESTROYED) && !state.contains(OsdState::UP), "{state:?}");
}

#[test]
fn an_osd_may_not_boot_with_a_store_that_was_replaced() {
    let mut cluster = Cluster::healthy();
    let is_up = |cluster: &Cluster| cluster.monitor.state().osdmap.is_up(OsdId(2));
    let down = json!({ "prefix": "osd down", "ids": ["2"] });
    let destroy = json!({ "prefix": "osd destroy", "id": "2", "yes_i_really_mean_it": true });
    let (new, old) = (Uuid([5; 16]), Uuid([4; 16]));
    let register = json!({ "prefix": "osd new", "uuid": new.to_string(), "id": "2" });
    for command in [down, destroy, register] {
        let reply = cluster.command_on(ADMIN, &command, b"");
        assert_eq!(reply.result, 0, "{command}: {}", reply.text);
    }
    cluster.boot_store(2, 7, old);
    assert!(!is_up(&cluster));
    cluster.boot_store(2, 8, new);
    assert!(is_up(&cluster));
}

#[test]
fn a_client_that_asks_for_one_map_is_told_of_all_that_follow_for_a_while() {
    let mut cluster = Cluster::healthy();
    let conn = ConnId(ConnId::ACCEPTED + 50);
    cluster.open(conn, "client.x", 50, "allow r");
    let next = u64::from(cluster.epoch().0) + 1;
    subscribe(&mut cluster, conn, "osdmap", next, SubscribeItem::ONETIME);
    // Three OSDs that were killed boot again, each in a map of its own.
    let newest = |cluster: &mut Cluster| {
        let maps = cluster.take::<OsdMapMessage>(conn);
        maps.iter().flat_map(|map| map.incrementals.keys().copied()).max()
    };
    for osd in 0..3 {
        cluster.boot_as(osd, 2);
        assert_eq!(newest(&mut cluster), Some(cluster.epoch()), "osd.{osd}");
    }
    cluster.advance(Duration::from_secs(31));
    cluster.take::<OsdMapMessage>(conn);
    cluster.boot_as(0, 3);
    assert_eq!(newest(&mut cluster), None, "not for ever");
}

/// A monitor that restarts while its OSDs run on, none of which has reported yet.
fn restarted(cluster: &Cluster) -> Cluster {
    let mut anew = Cluster::on(cluster.control.clone());
    anew.now = cluster.now;
    anew.advance(Duration::from_secs(1));
    (0..3).for_each(|osd| anew.boot(osd));
    anew
}

#[test]
fn a_quota_is_lifted_only_when_all_groups_have_been_reported() {
    let mut cluster = Cluster::healthy();
    cluster.command(json!({ "prefix": "osd pool create", "pool": "data", "pg_num": 8 }));
    cluster.command(json!({
        "prefix": "osd pool set-quota", "pool": "data", "field": "max_objects", "val": "30",
    }));
    (0..3).for_each(|osd| cluster.report(osd, 5));
    cluster.advance(Duration::from_secs(2));
    let mut cluster = restarted(&cluster);
    let flags = |cluster: &mut Cluster| {
        cluster.advance(Duration::from_secs(3));
        let pools = cluster.json(json!({ "prefix": "osd pool ls", "detail": "detail" }));
        pools[0]["flags_names"].clone()
    };
    assert_eq!(flags(&mut cluster), "hashpspool,full,full_quota", "nothing was reported");
    // Groups that are not active yet do not know their size.
    let peering = PgStat { state: pg_state::PEERING, ..PgStat::default() };
    (0..2).for_each(|osd| cluster.report(osd, 1));
    cluster.report_groups(2, 3 << 30, |_| peering.clone());
    assert_eq!(flags(&mut cluster), "hashpspool,full,full_quota", "some peer");
    cluster.report(2, 1);
    assert_eq!(flags(&mut cluster), "hashpspool");
}

#[test]
fn what_an_earlier_life_of_an_osd_reported_is_stale() {
    let mut cluster = Cluster::healthy();
    cluster.command(json!({ "prefix": "osd pool create", "pool": "data", "pg_num": 8 }));
    (0..3).for_each(|osd| cluster.report(osd, 5));
    let stale = |cluster: &mut Cluster| {
        let status = cluster.json(json!({ "prefix": "status" }));
        let states = status["pgmap"]["pgs_by_state"].as_array().unwrap().clone();
        states.iter().any(|state| state["state_name"].as_str().unwrap().contains("stale"))
    };
    assert!(!stale(&mut cluster));
    // A restart that was not noticed: its groups peer, whatever it reported before.
    cluster.boot_as(0, 2);
    assert!(stale(&mut cluster));
    (0..3).for_each(|osd| cluster.report(osd, 5));
    assert!(!stale(&mut cluster));
}

#[test]
fn an_osd_that_does_not_start_says_why_until_it_does() {
    let mut cluster = Cluster::healthy();
    let osd = ConnId(ConnId::ACCEPTED + 60);
    let down = json!({ "prefix": "osd down", "ids": ["1"] });
    assert_eq!(cluster.command(down).result, 0);
    cluster.open(osd, "osd.1", 1, "profile osd");
    let key = "daemon-private/osd.1/refusal";
    let said =
        json!({ "prefix": "config-key set", "key": key, "val": "the superblock is damaged" });
    assert_eq!(cluster.command_on(osd, &said, b"").result, 0);
    let health = cluster.json(json!({ "prefix": "health", "detail": "detail" }));
    let details = &health["checks"]["OSD_START_FAILED"]["detail"];
    assert_eq!(details[0]["message"], "osd.1 does not start: the superblock is damaged");
    assert!(details[1]["message"].as_str().unwrap().starts_with("next: "));
    cluster.boot_as(1, 2);
    let health = cluster.json(json!({ "prefix": "health", "detail": "detail" }));
    assert!(health["checks"]["OSD_START_FAILED"].is_null());
    assert!(cluster.monitor.state().config_keys.is_empty());
}

#[test]
fn slow_requests_are_summed_and_their_groups_named() {
    let mut cluster = Cluster::healthy();
    let pg = types::PgId { pool: types::PoolId(1), seed: 3 };
    let slow = |count: u64, oldest_ms: u64| SlowRequests {
        count,
        oldest_ms,
        oldest_in: pg,
        state: "peering".to_owned(),
    };
    let check = |cluster: &mut Cluster| {
        let health = cluster.json(json!({ "prefix": "health", "detail": "detail" }));
        health["checks"]["SLOW_OPS"].clone()
    };
    let say = |cluster: &mut Cluster, osd: i32, slow: SlowRequests| {
        let report = StatsReport { osd: OsdId(osd), slow, ..StatsReport::default() };
        cluster.send(Cluster::osd_conn(osd), 1, &report);
    };
    say(&mut cluster, 1, slow(2, 31_500));
    let one = check(&mut cluster);
    let expected = "2 slow ops, oldest one blocked for 31 sec, osd.1 has slow ops";
    assert_eq!(one["summary"]["message"], expected);
    say(&mut cluster, 2, slow(3, 90_000));
    let both = check(&mut cluster);
    let expected =
        "5 slow ops, oldest one blocked for 90 sec, daemons [osd.1,osd.2] have slow ops.";
    assert_eq!(both["summary"]["message"], expected);
    assert_eq!(
        both["detail"][1]["message"],
        "osd.2 has 3 slow ops, the oldest for 90 sec in pg 1.3, which is peering"
    );
    assert!(both["detail"][2]["message"].as_str().unwrap().starts_with("next: "));
    // The last report of an OSD that is down no longer counts.
    cluster.command(json!({ "prefix": "osd down", "ids": ["2"] }));
    assert_eq!(check(&mut cluster), one);
    say(&mut cluster, 1, SlowRequests::default());
    assert!(check(&mut cluster).is_null());
}

#[test]
fn repairs_are_counted_by_the_osd_whose_copies_were_bad() {
    let mut cluster = Cluster::healthy();
    cluster.command(json!({ "prefix": "osd pool create", "pool": "data", "pg_num": 1 }));
    let stat = PgStat { state: pg_state::ACTIVE, repaired: 3, ..PgStat::default() };
    (0..3).for_each(|osd| cluster.report_groups(osd, 3 << 30, |_| stat.clone()));
    let dump = cluster.json(json!({ "prefix": "pg dump" }));
    assert_eq!(dump["pg_map"]["pg_stats"][0]["stat_sum"]["num_objects_repaired"], 3);

    let check = |cluster: &mut Cluster| {
        let health = cluster.json(json!({ "prefix": "health", "detail": "detail" }));
        health["checks"]["OSD_TOO_MANY_REPAIRS"].clone()
    };
    let say = |cluster: &mut Cluster, osd: i32, copies: u64| {
        let repaired_copies = [(OsdId(2), copies)].into();
        let report = StatsReport { osd: OsdId(osd), repaired_copies, ..StatsReport::default() };
        cluster.send(Cluster::osd_conn(osd), 1, &report);
    };
    say(&mut cluster, 0, 5);
    say(&mut cluster, 1, 4);
    assert!(check(&mut cluster).is_null());
    say(&mut cluster, 1, 5);
    let many = check(&mut cluster);
    assert_eq!(many["summary"]["message"], "Too many repaired reads on 1 OSDs");
    let line = "osd.2 had 10 bad copies of objects replaced since it was started";
    assert_eq!(many["detail"][0]["message"], line);
    cluster.command(json!({
        "prefix": "config set", "who": "mon", "name": "mon_osd_warn_num_repaired", "value": "11",
    }));
    assert!(check(&mut cluster).is_null());
}
