//! Monitors with a failing control store: older than the cluster, full, or unreadable. And clock skew between
//! monitors.

mod cluster;

use cluster::{ADMIN, Cluster, START, settings};
use engine::{AuthRequest, AuthVerdict, ConnId, Daemon, Output, Time};
use mon::control::{CommitError, Completion, MemControl, Request, Transaction};
use mon::{AuthMode, HighWater, HighWaterGauge, Monitor, Settings};
use serde_json::{Value, json};
use std::time::Duration;
use types::{EntityName, Epoch, OsdId};
use wire::{MessageBody, MonCommandAck, OsdAlive};

const SECOND: Duration = Duration::from_secs(1);

impl Cluster {
    /// The monitor's next run, on a copy of the store from another time.
    fn restarted_on(&self, control: MemControl, passed: Duration) -> Cluster {
        let mut cluster = Cluster::at(control, self.now + passed);
        cluster.advance(3 * SECOND);
        cluster
    }

    /// The same with the high-water mark of earlier runs.
    fn restarted_with(&self, control: MemControl, mark: HighWater) -> Cluster {
        let monitor = Monitor::new(settings(), [9; 32]).with_high_water(mark);
        let mut cluster = Cluster::run(monitor, control, self.now + SECOND);
        cluster.advance(3 * SECOND);
        cluster
    }

    /// The high-water mark of a monitor that reads the store now.
    fn high_water(&self) -> HighWater {
        let mut gauge = HighWaterGauge::default();
        let all = Request::Range { token: 1, prefix: String::new() };
        gauge.told(&self.control.clone().execute(self.now, &all));
        gauge.mark().clone()
    }

    fn checks(&mut self) -> Value {
        self.json(json!({ "prefix": "health", "detail": "detail" }))["checks"].take()
    }

    /// An OSD that is up reports the epoch of its map.
    fn tell_epoch(&mut self, osd: i32, epoch: Epoch) {
        let alive = OsdAlive { version: epoch.0.into(), want: Epoch(1) };
        self.send(Cluster::osd_conn(osd), 0, &alive);
    }

    /// A monitor without authentication.
    fn without_authentication(control: MemControl) -> Cluster {
        let settings = Settings { auth: AuthMode::None, ..settings() };
        let now = Time(START);
        Cluster::run(Monitor::new(settings, [9; 32]), control, now)
    }

    /// The global id that a new client gets.
    fn log_in(&mut self) -> u64 {
        let conn = ConnId(ConnId::ACCEPTED + 7);
        let asked = auth::MonAuthRequest { name: EntityName::client("admin"), global_id: 0 };
        let request = AuthRequest::Start {
            method: 1,
            preferred_modes: vec![1],
            payload: codec::encode_to_bytes(&asked),
            seen_addr: "v2:127.0.0.1:9/9".parse().unwrap(),
        };
        self.monitor.handle_auth(self.now, conn, request);
        self.drain();
        match self.verdicts.pop() {
            Some((_, AuthVerdict::Done { global_id, .. })) => global_id,
            other => panic!("{other:?}"),
        }
    }

    /// Requests a pool without waiting for the answer.
    fn create_later(&mut self, name: &str) {
        let command = json!({ "prefix": "osd pool create", "pool": name, "pg_num": 8 }).to_string();
        let fsid = self.monitor.fsid();
        let create = wire::MonCommand { fsid, command: vec![command], ..Default::default() };
        self.send(ADMIN, 42, &create);
    }

    fn create_pool(&mut self, name: &str) -> i32 {
        self.command(json!({ "prefix": "osd pool create", "pool": name, "pg_num": 8 })).result
    }
}

#[test]
fn a_store_that_went_back_gives_out_no_id_again() {
    let cluster = Cluster::new();
    let backup = cluster.control.clone();
    let again = cluster.restarted_on(backup.clone(), SECOND);
    let given = again.monitor.state().global_id_next;
    let restored = again.restarted_on(backup, Duration::ZERO);
    let reserved = restored.monitor.state().global_id_next;
    assert!(reserved >= given + 1000, "{reserved} reaches into what was given before: {given}");
}

#[test]
fn a_monitor_that_has_seen_a_newer_map_makes_none_on_an_old_store_before_any_osd_speaks() {
    let mut cluster = Cluster::healthy();
    let backup = cluster.control.clone();
    assert_eq!(cluster.create_pool("later"), 0);
    let (newest, mark) = (cluster.epoch(), cluster.high_water());
    let mut restored = cluster.restarted_with(backup, mark.clone());
    let before = restored.epoch();
    assert!(before < newest);
    assert_ne!(restored.create_pool("other"), 0);
    restored.advance(60 * SECOND);
    assert_eq!(restored.epoch(), before, "no epoch is used again");
    let details = restored.checks()["CONTROL_STORE_WENT_BACK"]["detail"].to_string();
    assert!(
        details.contains(&format!("mon.a has seen the OSD map of epoch {newest}")),
        "{details}"
    );
    // The store in its current state is fine.
    let mut again = cluster.restarted_with(cluster.control.clone(), mark);
    assert_eq!(again.create_pool("other"), 0);
    assert!(again.checks().get("CONTROL_STORE_WENT_BACK").is_none());
}

#[test]
fn ids_that_a_monitor_has_seen_reserved_are_not_given_out_again_though_its_clock_was_set_back() {
    let cluster = Cluster::new();
    let backup = cluster.control.clone();
    let again = cluster.restarted_on(backup.clone(), 3600 * SECOND);
    let given = again.monitor.state().global_id_next;
    let restored = cluster.restarted_with(backup, again.high_water());
    let reserved = restored.monitor.state().global_id_next;
    assert!(reserved >= given + 1000, "{reserved} reaches into what was given before: {given}");
}

/// Both reserve in the same second, the store refuses one of them, and its content is the same for either.
#[test]
fn ids_that_another_monitor_reserved_are_not_taken_for_those_whose_reservation_was_refused() {
    let mut cluster = Cluster::without_authentication(Cluster::new().control);
    for _ in 0..600 {
        cluster.log_in();
    }
    cluster.now = cluster.now + SECOND;
    let numbers = cluster.control.range("version/meta");
    let version: u64 = std::str::from_utf8(&numbers[0].value).unwrap().parse().unwrap();
    let first = u64::from(cluster.now.wall().seconds) * 65_536;
    let mut rival = Transaction::default();
    rival.put("meta/global-id", (first + 1000).to_string());
    rival.put("version/meta", (version + 1).to_string());
    cluster.rivals.push_back(rival);
    cluster.refuses_writes = Some("no space left".to_owned());
    cluster.monitor.handle_timeout(cluster.now);
    cluster.drain();
    assert_eq!(cluster.monitor.state().global_id_next, first + 1000, "the rival's");
    cluster.refuses_writes = None;
    cluster.advance(5 * SECOND);
    let id = cluster.log_in();
    assert!(!(first..first + 1000).contains(&id), "{id} is another's");
}

#[test]
fn a_number_that_no_epoch_can_have_reached_stops_no_change() {
    let mut cluster = Cluster::healthy();
    for claimed in [u64::MAX, u32::MAX.into(), 3_000_000] {
        let alive = OsdAlive { version: claimed, want: Epoch(1) };
        cluster.send(Cluster::osd_conn(1), 0, &alive);
    }
    assert!(cluster.checks().get("CONTROL_STORE_WENT_BACK").is_none());
    assert_eq!(cluster.create_pool("data"), 0);
    // An old backup is detected all the same: half an hour passes, in which two million maps may have been
    // made.
    for _ in 0..3 {
        (0..3).for_each(|osd| cluster.report(osd, 0));
        cluster.advance(600 * SECOND);
    }
    cluster.tell_epoch(1, Epoch(2_000_000));
    assert!(cluster.checks().get("CONTROL_STORE_WENT_BACK").is_some());
}

#[test]
fn what_a_leader_decided_by_the_time_is_not_done_once_another_one_leads() {
    let mut cluster = Cluster::healthy();
    cluster.monitor.handle_closed(cluster.now, Cluster::osd_conn(1));
    cluster.advance(18 * SECOND);
    assert!(cluster.monitor.state().osdmap.is_up(OsdId(1)));
    // Another monitor takes over while the next transaction is in flight, and has made no map yet.
    let mut takes_over = Transaction::default();
    takes_over.put("leader", json!({ "name": "b", "incarnation": 7 }).to_string());
    cluster.rivals.push_back(takes_over);
    let before = cluster.epoch();
    cluster.advance(10 * SECOND);
    assert!(cluster.rivals.is_empty());
    assert_eq!(cluster.epoch(), before);
    assert!(cluster.monitor.state().osdmap.is_up(OsdId(1)), "the other one may know that it lives");
}

#[test]
fn an_osd_with_a_newer_map_shows_that_the_store_went_back_and_no_map_is_made_any_more() {
    let mut cluster = Cluster::healthy();
    let backup = cluster.control.clone();
    assert_eq!(cluster.create_pool("later"), 0);
    let newest = cluster.epoch();
    let mut restored = cluster.restarted_on(backup, SECOND);
    restored.open(Cluster::osd_conn(1), "osd.1", 1, "allow profile osd");
    restored.tell_epoch(1, newest);
    let before = restored.epoch();
    assert!(before < newest);
    let check = restored.checks()["CONTROL_STORE_WENT_BACK"].take();
    assert_eq!(check["severity"], "HEALTH_ERR");
    let details = check["detail"].to_string();
    assert!(details.contains(&format!("osd.1 has the OSD map of epoch {newest}")), "{details}");
    assert!(details.contains("control rebuild"), "{details}");
    assert_ne!(restored.create_pool("other"), 0);
    restored.advance(60 * SECOND);
    assert_eq!(restored.epoch(), before, "no epoch is used again");
    // Commands that do not change the OSD map are executed.
    let set = json!({ "prefix": "config-key set", "key": "k", "val": "v" });
    assert_eq!(restored.command(set).result, 0);
}

#[test]
fn a_store_that_went_back_makes_no_map_of_file_systems_either() {
    let mut cluster = Cluster::healthy();
    for pool in ["meta", "data"] {
        assert_eq!(cluster.create_pool(pool), 0);
    }
    let new = json!({ "prefix": "fs new", "fs_name": "one", "metadata": "meta", "data": "data" });
    assert_eq!(cluster.command(new).result, 0);
    let backup = cluster.control.clone();
    assert_eq!(cluster.create_pool("later"), 0);
    let mark = cluster.high_water();
    let mut restored = cluster.restarted_with(backup, mark);
    let epoch = restored.monitor.state().fs.map.epoch;
    let set =
        json!({ "prefix": "fs set", "fs_name": "one", "var": "session_timeout", "val": "90" });
    assert_ne!(restored.command(set).result, 0);
    assert_eq!(restored.monitor.state().fs.map.epoch, epoch);
}

#[test]
fn an_osd_that_knows_more_than_a_monitor_that_was_not_told_yet_is_no_sign_of_an_old_store() {
    let mut cluster = Cluster::healthy();
    // Another monitor makes a map, which this one does not receive.
    let mut other = Cluster::on(cluster.control.clone());
    other.advance(2 * SECOND);
    assert_eq!(other.create_pool("data"), 0);
    cluster.control = other.control.clone();
    let newest = other.epoch();
    assert!(cluster.epoch() < newest);
    cluster.tell_epoch(1, newest);
    assert!(cluster.epoch() >= newest);
    assert!(cluster.checks().get("CONTROL_STORE_WENT_BACK").is_none());
    assert_eq!(cluster.create_pool("more"), 0);
}

#[test]
fn a_store_that_counts_less_than_before_under_a_running_monitor_went_back() {
    let mut cluster = Cluster::healthy();
    let backup = cluster.control.clone();
    assert_eq!(cluster.create_pool("later"), 0);
    cluster.control = backup;
    cluster.monitor.handle_completion(cluster.now, Completion::Missed);
    cluster.drain();
    let details = cluster.checks()["CONTROL_STORE_WENT_BACK"]["detail"].to_string();
    assert!(details.contains("the control store was at revision"), "{details}");
}

#[test]
fn a_store_that_takes_no_writes_is_an_error_until_it_does() {
    let mut cluster = Cluster::healthy();
    cluster.refuses_writes = Some("no space left".to_owned());
    cluster.create_later("p");
    cluster.advance(6 * SECOND);
    let check = cluster.checks()["CONTROL_STORE_REFUSES_WRITES"].take();
    assert_eq!(check["severity"], "HEALTH_ERR");
    let details = check["detail"].to_string();
    assert!(details.contains("no space left") && details.contains("next: "), "{details}");
    // The waiting command was rejected, and nothing is to be written: it stays an error.
    cluster.advance(Duration::from_secs(302));
    assert_eq!(cluster.take::<MonCommandAck>(ADMIN)[0].result, types::Errno::TIMEDOUT.negative());
    assert!(cluster.checks().get("CONTROL_STORE_REFUSES_WRITES").is_some());
    cluster.refuses_writes = None;
    cluster.advance(5 * SECOND);
    assert!(cluster.checks().get("CONTROL_STORE_REFUSES_WRITES").is_none());
}

#[test]
fn a_change_that_the_store_will_never_take_fails_at_once_and_holds_nothing_up() {
    let mut cluster = Cluster::healthy();
    cluster.never_takes = Some("osdmap/");
    let create = json!({ "prefix": "osd pool create", "pool": "data", "pg_num": 8 });
    let reply = cluster.command(create.clone());
    assert_eq!(reply.result, types::Errno::FBIG.negative());
    assert!(reply.text.contains("request is too large"), "{}", reply.text);
    let set = json!({ "prefix": "config-key set", "key": "k", "val": "v" });
    assert_eq!(cluster.command(set).result, 0);
    // The monitor's own changes are dropped, and become due again.
    cluster.monitor.handle_closed(cluster.now, Cluster::osd_conn(1));
    cluster.advance(30 * SECOND);
    let details = cluster.checks()["CONTROL_STORE_REFUSES_WRITES"]["detail"].to_string();
    assert!(details.contains("request is too large") && details.contains("next: "), "{details}");
    assert!(cluster.monitor.state().osdmap.is_up(OsdId(1)));
    cluster.never_takes = None;
    cluster.advance(3 * SECOND);
    assert!(!cluster.monitor.state().osdmap.is_up(OsdId(1)));
    cluster.advance(60 * SECOND);
    assert!(cluster.checks().get("CONTROL_STORE_REFUSES_WRITES").is_none());
    assert_eq!(cluster.create_pool("data"), 0);
}

#[test]
fn a_store_that_goes_on_failing_is_not_read_again_and_again() {
    let mut cluster = Cluster::healthy();
    cluster.refuses_writes = Some("no space left".to_owned());
    cluster.create_later("data");
    let before = cluster.loads;
    cluster.advance(60 * SECOND);
    let loads = cluster.loads - before;
    assert!((10..20).contains(&loads), "{loads} in a minute");
    cluster.refuses_writes = None;
    cluster.advance(6 * SECOND);
    assert_eq!(cluster.take::<MonCommandAck>(ADMIN)[0].result, 0);
}

fn blocklisted(cluster: &Cluster) -> usize {
    cluster.monitor.state().osdmap.blocklist.len()
}

fn fence(cluster: &mut Cluster, seconds: u32) {
    let fence = json!({
        "prefix": "osd blocklist", "blocklistop": "add", "addr": "10.0.0.9:0/77", "expire": seconds,
    });
    assert_eq!(cluster.command(fence).result, 0);
}

#[test]
fn a_leader_whose_clock_is_ahead_keeps_who_was_just_fenced() {
    let mut cluster = Cluster::healthy();
    // The stored reading of the clock is old.
    fence(&mut cluster, 5);
    cluster.advance(Duration::from_secs(4000));
    assert_eq!(blocklisted(&cluster), 0);
    fence(&mut cluster, 3600);
    let mut ahead = cluster.restarted_on(cluster.control.clone(), Duration::from_secs(3700));
    assert_eq!(blocklisted(&ahead), 1, "it was fenced a moment ago");
    ahead.advance(Duration::from_secs(3500));
    assert_eq!(blocklisted(&ahead), 1);
    ahead.advance(Duration::from_secs(200));
    assert_eq!(blocklisted(&ahead), 0, "its hour is over");
}

#[test]
fn entries_of_the_blocklist_end_in_time_while_leaders_change_often() {
    let mut cluster = Cluster::healthy();
    fence(&mut cluster, 100);
    for _ in 0..6 {
        cluster.advance(7 * SECOND);
        cluster = cluster.restarted_on(cluster.control.clone(), 4 * SECOND);
    }
    assert_eq!(blocklisted(&cluster), 1);
    cluster.advance(20 * SECOND);
    assert_eq!(blocklisted(&cluster), 0);
}

#[test]
fn a_clock_that_is_behind_ends_nothing_early() {
    let mut cluster = Cluster::healthy();
    fence(&mut cluster, 100);
    let mut behind = Cluster::at(cluster.control.clone(), Time(START - 3_600_000_000_000));
    behind.advance(200 * SECOND);
    assert_eq!(blocklisted(&behind), 1);
    // Back at the first monitor, whose clock is an hour ahead of the last leader's.
    let mut back = cluster.restarted_on(behind.control.clone(), 10 * SECOND);
    assert_eq!(blocklisted(&back), 1);
    back.advance(Duration::from_secs(3300));
    assert_eq!(blocklisted(&back), 1, "put off by the hour that the clocks are apart");
    back.advance(Duration::from_secs(400));
    assert_eq!(blocklisted(&back), 0);
}

#[test]
fn a_client_that_is_fenced_again_stays_so_for_the_new_time() {
    let mut cluster = Cluster::healthy();
    fence(&mut cluster, 100);
    cluster.advance(90 * SECOND);
    fence(&mut cluster, 1000);
    cluster.advance(600 * SECOND);
    assert_eq!(blocklisted(&cluster), 1);
    // A shorter time does not shorten the fence.
    fence(&mut cluster, 10);
    cluster.advance(300 * SECOND);
    assert_eq!(blocklisted(&cluster), 1);
    cluster.advance(200 * SECOND);
    assert_eq!(blocklisted(&cluster), 0);
}

#[test]
fn a_load_that_a_commit_of_this_monitor_overtook_is_no_sign_of_an_old_store() {
    let mut cluster = Cluster::healthy();
    cluster.monitor.handle_completion(cluster.now, Completion::Missed);
    let Some(Output::Storage(load)) = cluster.monitor.poll_output() else { panic!("no load") };
    let loaded = cluster.control.execute(cluster.now, &load);
    // Before the answer arrives, the lease has expired, and the monitor claims leadership again.
    let before = cluster.commits;
    cluster.now = cluster.now + 10 * SECOND;
    cluster.advance(3 * SECOND);
    assert!(cluster.commits > before);
    cluster.monitor.handle_completion(cluster.now, loaded);
    cluster.drain();
    assert!(cluster.checks().get("CONTROL_STORE_WENT_BACK").is_none());
}

/// The store applies a change and its answer is lost, while a load is in progress that the store executed
/// before.
#[test]
fn a_load_that_is_older_than_a_change_does_not_tell_whether_it_was_made() {
    let mut cluster = Cluster::healthy();
    let osds = cluster.monitor.state().osdmap.max_osd();
    let command = json!({ "prefix": "osd create" }).to_string();
    let fsid = cluster.monitor.fsid();
    let create = wire::MonCommand { fsid, command: vec![command], ..Default::default() };
    cluster.monitor.handle_message(cluster.now, ADMIN, create.encode(u64::MAX).with_tid(42));
    let Some(Output::Storage(commit)) = cluster.monitor.poll_output() else { panic!("no commit") };
    cluster.monitor.handle_completion(cluster.now, Completion::Missed);
    let Some(Output::Storage(load)) = cluster.monitor.poll_output() else { panic!("no load") };
    let loaded = cluster.control.execute(cluster.now, &load);
    let Request::Commit { token, transaction } = commit else { panic!("{commit:?}") };
    cluster.control.commit(&transaction).unwrap();
    let outcome = Err(CommitError::Failed { reason: "no answer".to_owned() });
    cluster.monitor.handle_completion(cluster.now, Completion::Committed { token, outcome });
    cluster.monitor.handle_completion(cluster.now, loaded);
    cluster.drain();
    cluster.advance(10 * SECOND);
    assert_eq!(cluster.monitor.state().osdmap.max_osd(), osds + 1, "one OSD was created");
}

#[test]
fn what_another_monitor_wrote_and_this_one_cannot_read_is_not_written_over() {
    let mut cluster = Cluster::healthy();
    let (newest, text) = (cluster.epoch().next(), "of a newer release");
    let mut strange = Transaction::default();
    strange.put(format!("osdmap/full/{:010}", newest.0), text);
    strange.put("version/osdmap", "1000");
    let revision = cluster.control.commit(&strange).unwrap();
    cluster.monitor.handle_completion(cluster.now, MemControl::events(&strange, revision));
    cluster.drain();
    let command = json!({ "prefix": "osd pool create", "pool": "p", "pg_num": 8 }).to_string();
    let fsid = cluster.monitor.fsid();
    let create = wire::MonCommand { fsid, command: vec![command], ..Default::default() };
    cluster.send(ADMIN, 42, &create);
    cluster.advance(30 * SECOND);
    let key = format!("osdmap/full/{:010}", newest.0);
    assert_eq!(cluster.control.range(&key)[0].value, text);
    let check = cluster.checks()["CONTROL_STORE_UNREADABLE"].take();
    assert!(check["detail"].to_string().contains(&key), "{check}");
    // The other monitor reverts it.
    let mut readable = Transaction::default();
    readable.delete(key);
    readable.put("version/osdmap", "1001");
    cluster.control.commit(&readable).unwrap();
    cluster.advance(3 * SECOND);
    assert_eq!(cluster.take::<MonCommandAck>(ADMIN)[0].result, 0);
    assert!(cluster.checks().get("CONTROL_STORE_UNREADABLE").is_none());
}

/// Keys that one transaction may write in every store.
const WRITES_MAX: usize = 2000;

#[test]
fn a_long_history_of_maps_goes_in_transactions_that_every_store_takes() {
    let mut before = Cluster::healthy();
    assert_eq!(before.create_pool("data"), 0);
    let mut map = before.monitor.state().osdmap.clone();
    let first = map.epoch.0 + 1;
    map.epoch = Epoch(9000);
    // A group that was not clean for weeks has kept them all.
    let mut history = Transaction::default();
    history.put("osdmap/full/0000009000", codec::encode_to_bytes(&map));
    (first..=9000).for_each(|epoch| history.put(format!("osdmap/inc/{epoch:010}"), ""));
    before.control.commit(&history).unwrap();
    let mut cluster = Cluster::on(before.control.clone());
    (0..3).for_each(|osd| cluster.boot_as(osd, 2));
    (0..3).for_each(|osd| cluster.report(osd, 1));
    cluster.advance(60 * SECOND);
    assert!(cluster.monitor.state().history.incrementals.len() < 600);
    assert!(cluster.largest <= WRITES_MAX, "{}", cluster.largest);
}

#[test]
fn what_no_store_takes_at_once_is_refused_and_holds_nothing_up() {
    let mut cluster = Cluster::healthy();
    let key = "k".repeat(1 << 20);
    let huge = json!({ "prefix": "config-key set", "key": key, "val": "v" });
    assert_eq!(cluster.command(huge).result, types::Errno::FBIG.negative());
    let keyring: String = (0..3000)
        .map(|n| format!("[client.x{n}]\n\tkey = AQA0ZrFpAAAAABAAAQEBAQEBAQEBAQEBAQEBAQ==\n"))
        .collect();
    let many = json!({ "prefix": "auth import" });
    let reply = cluster.command_on(ADMIN, &many, keyring.as_bytes());
    assert_eq!(reply.result, types::Errno::FBIG.negative(), "{}", reply.text);
    assert!(reply.text.contains("in parts"), "{}", reply.text);
    // Of a flood of log entries the latest are kept.
    let entry = |n: u64| wire::LogEntry { text: n.to_string(), ..wire::LogEntry::default() };
    let fsid = cluster.monitor.fsid();
    let flood = wire::Log { version: 0, fsid, entries: (0..5000).map(entry).collect() };
    cluster.send(Cluster::osd_conn(0), 0, &flood);
    assert_eq!(cluster.take::<wire::LogAck>(Cluster::osd_conn(0)).len(), 1);
    let newest = cluster.monitor.state().log.last_key_value().map(|(_, entry)| entry.text.clone());
    assert_eq!(newest, Some("4999".to_owned()));
    assert!(cluster.largest <= WRITES_MAX, "{}", cluster.largest);
    assert_eq!(cluster.create_pool("data"), 0);
}

#[test]
fn a_monitor_that_starts_while_another_one_leads_leaves_the_secrets_to_that_one() {
    let before = Cluster::healthy();
    let mut control = before.control.clone();
    let mut leads = Transaction::default();
    leads.put("leader", json!({ "name": "b", "incarnation": 7 }).to_string());
    control.commit(&leads).unwrap();
    let version = before.monitor.state().secrets.version();
    // Its clock is two days ahead: by that clock all tickets have expired, but the secrets must not be
    // rotated.
    let ahead = Duration::from_secs(2 * 86_400);
    let mut second = Cluster::at(control, before.now + ahead);
    second.advance(3 * SECOND);
    assert_eq!(second.monitor.state().secrets.version(), version);
    // Without a leader they are rotated at once.
    let mut control = before.control.clone();
    let mut nobody = Transaction::default();
    nobody.delete("leader");
    control.commit(&nobody).unwrap();
    let alone = Cluster::at(control, before.now + ahead);
    assert_ne!(alone.monitor.state().secrets.version(), version);
}
