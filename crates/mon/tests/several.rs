//! Several monitors on one control store: election, forwarding, and the failure of each.

mod cluster;
mod monitors;

use engine::{AuthRequest, AuthVerdict, ConnId, ConnectingAnswer, ConnectingStep, Daemon, Output};
use mon::control::{Completion, MemControl, Request, Transaction};
use monitors::{ADMIN, Monitors, OSD, TTL};
use serde_json::json;
use std::time::Duration;
use types::{EntityName, EntityType, OsdId};
use wire::forward::ReportRequest;
use wire::internal::ScrubOrder;
use wire::{MonCommandAck, OsdBoot, OsdFailure, OsdMapMessage, OsdSuperblock};

#[test]
fn monitors_join_by_being_started_and_one_leads() {
    let mut monitors = Monitors::start(3);
    for index in 0..3 {
        let status = monitors.json(index, json!({ "prefix": "status" }));
        assert_eq!(status["quorum_names"], json!(["a", "b", "c"]));
        assert_eq!(monitors.leader(index), "a");
    }
    let map = monitors.json(1, json!({ "prefix": "mgr dump" }));
    assert_eq!(map["active_name"], "xa");
    assert_eq!(map["standbys"].as_array().unwrap().len(), 2);
}

#[test]
fn a_monitor_joins_although_the_store_failed_it_at_first() {
    let mut monitors = Monitors::start(1);
    monitors.failing = Some(1);
    monitors.revive(1);
    monitors.advance(Duration::from_secs(2));
    let status = monitors.json(0, json!({ "prefix": "status" }));
    assert_eq!(status["quorum_names"], json!(["a", "b"]));
    assert!(monitors.running[1].as_ref().unwrap().is_ready());
}

#[test]
fn every_monitor_gives_the_same_answers_and_takes_the_same_orders() {
    let mut monitors = Monitors::start(3);
    monitors.boot(2, 5 << 30);
    let used: Vec<u64> = (0..3).map(|index| monitors.used(index)).collect();
    assert_eq!(used, [5 << 30; 3]);
    for (index, pool) in ["one", "two", "three"].into_iter().enumerate() {
        monitors.json(index, json!({ "prefix": "osd pool create", "pool": pool }));
        let pools = monitors.json(index, json!({ "prefix": "osd lspools" }));
        assert_eq!(pools.as_array().unwrap().len(), index + 1);
    }
    assert!(!monitors.take::<OsdMapMessage>(2, OSD).is_empty(), "maps come from its monitor");
}

#[test]
fn another_one_takes_over_when_the_leader_dies() {
    let mut monitors = Monitors::start(3);
    monitors.boot(1, 1 << 30);
    monitors.take::<ReportRequest>(1, OSD);
    monitors.crash(0);
    monitors.advance(TTL + Duration::from_secs(2));
    let leader = monitors.leader(1);
    assert!(["b", "c"].contains(&leader.as_str()), "{leader}");
    assert_eq!(monitors.leader(2), leader);
    assert!(!monitors.take::<ReportRequest>(1, OSD).is_empty(), "the new one knows no reports");
    monitors.report(1, 2 << 30);
    assert_eq!([monitors.used(1), monitors.used(2)], [2 << 30; 2]);
    let status = monitors.json(2, json!({ "prefix": "status" }));
    assert_eq!(status["quorum_names"], json!(["b", "c"]));
    assert_eq!(status["osdmap"]["num_up_osds"], 1, "its session was there all the time");
    // It comes back and follows.
    monitors.revive(0);
    monitors.advance(Duration::from_secs(2));
    assert_eq!(monitors.leader(0), leader);
}

#[test]
fn an_osd_boots_by_what_it_says_to_the_leader_and_not_by_what_it_said_before_there_was_one() {
    let mut monitors = Monitors::start(3);
    monitors.crash(0);
    monitors.boot(1, 1 << 30);
    monitors.take::<ReportRequest>(1, OSD);
    monitors.advance(TTL + Duration::from_secs(2));
    assert!(!monitors.take::<ReportRequest>(1, OSD).is_empty(), "it is asked");
    let up = |monitors: &mut Monitors| {
        monitors.json(2, json!({ "prefix": "status" }))["osdmap"]["num_up_osds"].clone()
    };
    assert_eq!(up(&mut monitors), 0);
    monitors.boot(1, 1 << 30);
    assert_eq!(up(&mut monitors), 1);
}

#[test]
fn a_leader_that_is_gone_is_succeeded_before_its_lease_ends() {
    let mut monitors = Monitors::start(3);
    monitors.crash(0);
    monitors.advance(Duration::from_secs(1));
    let leader = monitors.leader(1);
    assert!(["b", "c"].contains(&leader.as_str()), "{leader}");
    assert_eq!(monitors.leader(2), leader);
}

#[test]
fn two_that_cannot_reach_each_other_do_not_take_turns_in_leading() {
    let mut monitors = Monitors::start(3);
    monitors.part(0, 1);
    monitors.advance(Duration::from_secs(1));
    assert_eq!(monitors.leader(2), "b", "it reaches the store, but not its leader");
    for _ in 0..20 {
        monitors.advance(Duration::from_secs(1));
        assert_eq!(monitors.leader(2), "b");
    }
}

#[test]
fn daemons_of_services_register_with_the_leader_and_again_with_the_next_one() {
    const GATEWAY: ConnId = ConnId(ConnId::ACCEPTED + 9);
    let mut monitors = Monitors::start(3);
    let name = || EntityName::new(EntityType::CLIENT, "70");
    let said = Some(wire::ServiceDaemon::default());
    let (service_name, daemon_name) = ("rgw".to_owned(), "one".to_owned());
    let open =
        wire::MgrOpen { service_name, daemon_name, service_daemon: said, ..Default::default() };
    let services = |monitors: &mut Monitors, index: usize| {
        monitors.json(index, json!({ "prefix": "service dump" }))["services"].take()
    };
    // The gateway has an old mgr map.
    monitors.open_with(1, GATEWAY, name(), "Gallow rw");
    monitors.send(1, GATEWAY, 0, &open);
    assert_eq!(monitors.closed, [(1, GATEWAY)]);
    monitors.open_with(0, GATEWAY, name(), "Gallow rw");
    monitors.send(0, GATEWAY, 0, &open);
    for index in 0..3 {
        assert_eq!(services(&mut monitors, index)["rgw"]["daemons"]["one"]["gid"], 70);
    }
    monitors.part(0, 1);
    monitors.advance(Duration::from_secs(1));
    assert_eq!(monitors.leader(2), "b");
    assert_eq!(services(&mut monitors, 2), json!({}));
    monitors.send(0, GATEWAY, 0, &wire::MgrReport::default());
    monitors.closed.retain(|(_, conn)| *conn == GATEWAY);
    assert_eq!(monitors.closed[1..], [(0, GATEWAY)], "it must look for the manager");
    monitors.open_with(1, GATEWAY, name(), "Gallow rw");
    monitors.send(1, GATEWAY, 0, &open);
    assert_eq!(monitors.take::<wire::MgrConfigure>(1, GATEWAY).len(), 1);
    assert_eq!(services(&mut monitors, 2)["rgw"]["daemons"]["one"]["gid"], 70);
}

#[test]
fn health_names_a_monitor_that_nobody_hears_until_it_is_back() {
    let mut monitors = Monitors::start(3);
    assert!(monitors.health(1).get("MON_DOWN").is_none());
    monitors.crash(2);
    monitors.advance(TTL + Duration::from_secs(2));
    let check = monitors.health(1)["MON_DOWN"].take();
    assert_eq!(check["summary"]["message"], "1/3 mons down, quorum a,b");
    let details = check["detail"].to_string();
    assert!(details.contains("mon.c (rank 2) addr v2:127.0.0.3:3300/0 is down"), "{details}");
    assert!(details.contains("next: start it"), "{details}");
    monitors.revive(2);
    monitors.advance(Duration::from_secs(2));
    assert!(monitors.health(1).get("MON_DOWN").is_none());
}

#[test]
fn health_names_monitors_whose_clocks_are_apart_until_they_are_not() {
    let mut monitors = Monitors::start(3);
    monitors.ahead[2] = Duration::from_millis(40);
    monitors.advance(Duration::from_secs(11));
    assert!(monitors.health(0).get("MON_CLOCK_SKEW").is_none());
    monitors.ahead[2] = Duration::from_millis(400);
    monitors.advance(Duration::from_secs(11));
    let check = monitors.health(1)["MON_CLOCK_SKEW"].take();
    assert_eq!(check["summary"]["message"], "clock skew detected on mon.c");
    let details = check["detail"].to_string();
    assert!(details.contains("mon.c clock skew 0.400000s > max 0.05s"), "{details}");
    let status = monitors.json(1, json!({ "prefix": "time-sync-status" }));
    assert_eq!(status["time_skew_status"]["c"]["health"], "HEALTH_WARN");
    assert_eq!(status["time_skew_status"]["b"]["health"], "HEALTH_OK");
    assert_eq!(status["time_skew_status"]["a"]["skew"], 0.0);
    monitors.ahead[2] = Duration::ZERO;
    monitors.advance(Duration::from_secs(11));
    assert!(monitors.health(0).get("MON_CLOCK_SKEW").is_none());
    monitors.crash(2);
    monitors.advance(TTL + Duration::from_secs(2));
    let status = monitors.json(1, json!({ "prefix": "time-sync-status" }));
    assert!(status["time_skew_status"].get("c").is_none());
}

#[test]
fn health_says_that_the_store_is_out_of_reach_until_it_answers() {
    let mut monitors = Monitors::start(3);
    monitors.is_silent = true;
    monitors.advance(TTL + Duration::from_secs(2));
    let check = monitors.health(1)["CONTROL_STORE_DOWN"].take();
    assert_eq!(check["severity"], "HEALTH_ERR");
    let details = check["detail"].to_string();
    assert!(details.contains("has had no answer for") && details.contains("next: "), "{details}");
    monitors.answer_all();
    monitors.advance(Duration::from_secs(2));
    assert!(monitors.health(1).get("CONTROL_STORE_DOWN").is_none());
}

#[test]
fn a_leader_that_cannot_read_the_store_gives_its_lease_up_and_sends_its_osds_to_others() {
    let mut monitors = Monitors::start(3);
    monitors.boot(0, 1 << 30);
    monitors.cannot_read(0);
    monitors.advance(Duration::from_secs(6));
    let check = monitors.health(0)["CONTROL_STORE_DOWN"].take();
    assert_eq!(check["severity"], "HEALTH_ERR");
    let details = check["detail"].to_string();
    assert!(details.contains("mon.a could read nothing for"), "{details}");
    assert!(details.contains("the disk fails"), "{details}");
    monitors.advance(Duration::from_secs(10));
    assert!(monitors.closed.contains(&(0, OSD)), "no OSD stays with a monitor that learns nothing");
    monitors.advance(TTL + Duration::from_secs(2));
    let leader = monitors.leader(1);
    assert!(["b", "c"].contains(&leader.as_str()), "{leader}");
    assert!(monitors.health(1).get("MON_DOWN").is_some());
    monitors.json(1, json!({ "prefix": "osd pool create", "pool": "data" }));
    monitors.answer_all();
    monitors.advance(Duration::from_secs(3));
    monitors.open(0, ADMIN, EntityName::client("admin"));
    assert_eq!(monitors.leader(0), leader, "it follows");
    assert!(monitors.health(0).get("CONTROL_STORE_DOWN").is_none());
    assert!(monitors.health(0).get("MON_DOWN").is_none());
    assert_eq!(monitors.json(0, json!({ "prefix": "osd pool ls" })), json!(["data"]));
}

const ANOTHER: ConnId = ConnId(OSD.0 + 1000);

/// A second OSD at monitor `index` that boots.
fn boot_another(monitors: &mut Monitors, index: usize) {
    monitors.open(index, ANOTHER, EntityName::osd(1));
    let fsid = monitors.running[index].as_ref().unwrap().fsid();
    let superblock =
        OsdSuperblock { whoami: OsdId(1), cluster_fsid: fsid, ..OsdSuperblock::default() };
    monitors.send(index, ANOTHER, 0, &OsdBoot { superblock, ..OsdBoot::default() });
}

#[test]
fn an_osd_that_left_a_follower_long_ago_is_not_marked_down_when_that_one_leads() {
    let mut monitors = Monitors::start(2);
    monitors.open(1, OSD, EntityName::osd(0));
    let now = monitors.now;
    monitors.with(1, |monitor| monitor.handle_closed(now, OSD));
    monitors.boot(0, 1 << 30);
    boot_another(&mut monitors, 0);
    monitors.advance(Duration::from_secs(30));
    monitors.crash(0);
    monitors.advance(Duration::from_secs(2));
    assert_eq!(monitors.leader(1), "b");
    let map = &monitors.running[1].as_ref().unwrap().state().osdmap;
    assert!(map.is_up(OsdId(0)), "it has had two seconds to find the new leader");
}

#[test]
fn failure_reports_from_before_another_monitor_led_count_no_more() {
    const REPORTER: ConnId = ConnId(OSD.0 + 1000);
    let mut monitors = Monitors::start(2);
    monitors.boot(0, 1 << 30);
    monitors.open(0, REPORTER, EntityName::osd(1));
    let fsid = monitors.running[0].as_ref().unwrap().fsid();
    let superblock =
        OsdSuperblock { whoami: OsdId(1), cluster_fsid: fsid, ..OsdSuperblock::default() };
    monitors.send(0, REPORTER, 0, &OsdBoot { superblock, ..OsdBoot::default() });
    let map = &monitors.running[0].as_ref().unwrap().state().osdmap;
    assert!(map.is_up(OsdId(0)) && map.is_up(OsdId(1)));
    let failure = OsdFailure {
        target: OsdId(0),
        target_addrs: map.client_addrs(OsdId(0)).unwrap().clone(),
        epoch: map.epoch,
        flags: OsdFailure::FAILED,
        failed_for_seconds: 1,
        ..OsdFailure::default()
    };
    monitors.send(0, REPORTER, 0, &failure);
    // The report is cancelled at the next leader.
    monitors.cannot_read(0);
    monitors.advance(Duration::from_secs(16) + TTL + Duration::from_secs(2));
    assert_eq!(monitors.leader(1), "b");
    monitors.answer_all();
    monitors.crash(1);
    monitors.advance(TTL + Duration::from_secs(2));
    monitors.open(0, ADMIN, EntityName::client("admin"));
    assert_eq!(monitors.leader(0), "a");
    assert!(monitors.running[0].as_ref().unwrap().state().osdmap.is_up(OsdId(0)));
    assert!(monitors.health(0).get("OSD_SILENT").is_none());
}

#[test]
fn a_commit_that_is_answered_during_a_load_stays_known_when_the_load_was_executed_before_it() {
    let mut monitors = Monitors::start(1);
    (monitors.is_silent, monitors.untold) = (true, Some(0));
    monitors.ask(0, 7, &json!({ "prefix": "osd pool create", "pool": "data" }));
    monitors.cannot_read(0);
    let [(_, commit), (_, load)] = monitors.unanswered.make_contiguous() else { panic!() };
    let (commit, load) = (commit.clone(), load.clone());
    assert!(matches!(load, Request::Range { .. }));
    let loaded = monitors.control.execute(monitors.now, &load);
    monitors.execute(0, &commit);
    let now = monitors.now;
    monitors.with(0, |monitor| monitor.handle_completion(now, loaded));
    monitors.drain();
    let answers = monitors.take::<MonCommandAck>(0, ADMIN);
    assert_eq!((answers.len(), answers[0].1.result), (1, 0));
    assert_eq!(monitors.json(0, json!({ "prefix": "osd pool ls" })), json!(["data"]));
}

#[test]
fn the_answer_to_an_older_load_is_ignored() {
    let mut monitors = Monitors::start(1);
    (monitors.is_silent, monitors.untold) = (true, Some(0));
    monitors.cannot_read(0);
    let (_, older) = monitors.unanswered.pop_front().unwrap();
    assert!(matches!(older, Request::Range { .. }));
    let before = monitors.control.execute(monitors.now, &older);
    // A second load is requested, and executed after a change.
    monitors.cannot_read(0);
    let (_, newer) = monitors.unanswered.pop_front().unwrap();
    let mut transaction = Transaction::default();
    transaction.put("config-key/name", "value");
    let change = Request::Commit { token: 99, transaction };
    monitors.control.execute(monitors.now, &change);
    let after = monitors.control.execute(monitors.now, &newer);
    (monitors.is_silent, monitors.untold) = (false, None);
    let now = monitors.now;
    monitors.with(0, |monitor| monitor.handle_completion(now, after));
    monitors.with(0, |monitor| monitor.handle_completion(now, before));
    monitors.drain();
    monitors.json(0, json!({ "prefix": "config-key exists", "key": "name" }));
}

#[test]
fn a_lone_monitor_that_cannot_read_the_store_goes_on_answering_and_says_so() {
    let mut monitors = Monitors::start(1);
    monitors.boot(0, 1 << 30);
    monitors.cannot_read(0);
    monitors.advance(Duration::from_secs(60));
    assert!(monitors.closed.is_empty());
    assert!(monitors.health(0).get("CONTROL_STORE_DOWN").is_some());
    monitors.answer_all();
    monitors.advance(Duration::from_secs(2));
    assert!(monitors.health(0).get("CONTROL_STORE_DOWN").is_none());
    monitors.json(0, json!({ "prefix": "osd pool create", "pool": "data" }));
}

#[test]
fn questions_on_their_way_to_a_leader_that_dies_are_answered_by_the_next() {
    let mut monitors = Monitors::start(3);
    monitors.is_silent = true;
    monitors.ask(1, 7, &json!({ "prefix": "osd pool create", "pool": "data" }));
    monitors.crash(0);
    assert!(monitors.take::<MonCommandAck>(1, ADMIN).is_empty());
    monitors.answer_all();
    monitors.advance(TTL + Duration::from_secs(2));
    let answers = monitors.take::<MonCommandAck>(1, ADMIN);
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].0, answers[0].1.text.as_str()), (7, "pool 'data' created"));
}

#[test]
fn without_its_store_a_monitor_serves_what_it_knows_and_changes_wait() {
    let mut monitors = Monitors::start(3);
    monitors.boot(1, 1 << 30);
    monitors.is_silent = true;
    monitors.advance(Duration::from_secs(60));
    assert_eq!(monitors.used(2), 1 << 30);
    monitors.ask(1, 8, &json!({ "prefix": "osd pool create", "pool": "data" }));
    monitors.advance(Duration::from_secs(60));
    assert!(monitors.take::<MonCommandAck>(1, ADMIN).is_empty());
    monitors.answer_all();
    monitors.advance(Duration::from_secs(6));
    assert_eq!(monitors.take::<MonCommandAck>(1, ADMIN).len(), 1);
    let status = monitors.json(0, json!({ "prefix": "status" }));
    assert_eq!(status["osdmap"]["num_up_osds"], 1, "nobody is judged by who had no lease");
}

#[test]
fn a_command_that_the_store_did_not_answer_is_done_once_when_it_is_back() {
    for is_done in [false, true] {
        let mut monitors = Monitors::start(2);
        (monitors.failing, monitors.is_done_unanswered) = (Some(0), is_done);
        monitors.ask(1, 7, &json!({ "prefix": "osd pool create", "pool": "data" }));
        monitors.advance(Duration::from_secs(2));
        let texts = |monitors: &mut Monitors| -> Vec<(u64, i32, String)> {
            let answers = monitors.take::<MonCommandAck>(1, ADMIN).into_iter();
            answers.map(|(tid, answer)| (tid, answer.result, answer.text)).collect()
        };
        assert_eq!(texts(&mut monitors), [(7, 0, "pool 'data' created".to_owned())]);
        let snap = json!({ "prefix": "osd pool mksnap", "pool": "data", "snap": "s" });
        // A second execution would fail because the snapshot exists.
        monitors.failing = Some(0);
        monitors.ask(1, 8, &snap);
        assert_eq!(texts(&mut monitors), []);
        monitors.advance(Duration::from_secs(2));
        assert_eq!(texts(&mut monitors), [(8, 0, "created pool data snap s".to_owned())]);
    }
}

#[test]
fn a_command_waits_for_the_store_no_longer_than_it_says() {
    let mut monitors = Monitors::start(1);
    monitors.is_silent = true;
    for tid in [7, 8] {
        monitors.ask(0, tid, &json!({ "prefix": "osd pool create", "pool": format!("p{tid}") }));
    }
    monitors.advance(Duration::from_secs(290));
    assert!(monitors.take::<MonCommandAck>(0, ADMIN).is_empty());
    monitors.advance(Duration::from_secs(20));
    let answers = monitors.take::<MonCommandAck>(0, ADMIN);
    assert_eq!(answers.iter().map(|(tid, _)| *tid).collect::<Vec<_>>(), [8]);
    assert_eq!(answers[0].1.result, -110);
    assert!(answers[0].1.text.starts_with("nothing was changed: the control store"));
    // The outcome of a transaction in flight is unknown.
    monitors.answer_all();
    monitors.advance(Duration::from_secs(2));
    let answers = monitors.take::<MonCommandAck>(0, ADMIN);
    assert_eq!((answers[0].0, answers[0].1.result), (7, 0));
    assert_eq!(monitors.json(0, json!({ "prefix": "osd pool ls" })), json!(["p7"]));
}

#[test]
fn an_osd_that_has_gone_while_the_store_was_away_does_not_boot() {
    let mut monitors = Monitors::start(1);
    monitors.is_silent = true;
    monitors.ask(0, 7, &json!({ "prefix": "osd pool create", "pool": "data" }));
    monitors.boot(0, 1 << 30);
    let now = monitors.now;
    monitors.with(0, |monitor| monitor.handle_closed(now, OSD));
    monitors.answer_all();
    monitors.advance(Duration::from_secs(2));
    assert_eq!(monitors.take::<MonCommandAck>(0, ADMIN).len(), 1);
    let status = monitors.json(0, json!({ "prefix": "status" }));
    assert_eq!(status["osdmap"]["num_up_osds"], 0);
}

/// A report of osd.1 that osd.0 does not run any more.
fn report_of_another(monitors: &Monitors, index: usize) -> OsdFailure {
    let map = &monitors.running[index].as_ref().unwrap().state().osdmap;
    assert!(map.is_up(OsdId(0)) && map.is_up(OsdId(1)));
    OsdFailure {
        target: OsdId(0),
        target_addrs: map.client_addrs(OsdId(0)).unwrap().clone(),
        epoch: map.epoch,
        flags: OsdFailure::FAILED | OsdFailure::IMMEDIATE,
        ..OsdFailure::default()
    }
}

#[test]
fn a_report_that_a_former_leader_has_not_judged_is_judged_by_it_no_more() {
    let mut monitors = Monitors::start(2);
    monitors.boot(0, 1 << 30);
    boot_another(&mut monitors, 0);
    monitors.cannot_read(0);
    let failure = report_of_another(&monitors, 0);
    monitors.send(0, ANOTHER, 0, &failure);
    monitors.advance(Duration::from_secs(16) + TTL + Duration::from_secs(2));
    assert_eq!(monitors.leader(1), "b");
    monitors.answer_all();
    monitors.advance(Duration::from_secs(2));
    assert!(monitors.running[1].as_ref().unwrap().state().osdmap.is_up(OsdId(0)));
}

#[test]
fn reports_from_before_an_outage_of_the_store_are_asked_for_again() {
    let mut monitors = Monitors::start(1);
    monitors.boot(0, 1 << 30);
    boot_another(&mut monitors, 0);
    monitors.is_silent = true;
    monitors.ask(0, 7, &json!({ "prefix": "osd pool create", "pool": "data" }));
    let failure = report_of_another(&monitors, 0);
    monitors.send(0, ANOTHER, 0, &failure);
    monitors.advance(Duration::from_secs(60));
    monitors.take::<ReportRequest>(0, ANOTHER);
    monitors.answer_all();
    monitors.advance(Duration::from_secs(2));
    assert!(monitors.running[0].as_ref().unwrap().state().osdmap.is_up(OsdId(0)));
    assert_eq!(monitors.take::<ReportRequest>(0, ANOTHER).len(), 1);
    monitors.send(0, ANOTHER, 0, &failure);
    assert!(!monitors.running[0].as_ref().unwrap().state().osdmap.is_up(OsdId(0)));
}

#[test]
fn an_order_reaches_an_osd_of_which_an_earlier_session_still_seems_to_be_open() {
    let mut monitors = Monitors::start(2);
    monitors.open(1, OSD, EntityName::osd(0));
    monitors.boot(0, 1 << 30);
    let order = json!({ "prefix": "osd deep-scrub", "who": "all" });
    monitors.json(0, order);
    assert_eq!(monitors.take::<ScrubOrder>(0, OSD).len(), 1);
}

#[test]
fn an_answer_takes_no_request_of_another_kind_for_its_own() {
    let mut monitors = Monitors::start(3);
    monitors.boot(1, 1 << 30);
    monitors.is_silent = true;
    // Clients count pool operations and commands separately.
    let pool = monitors.running[1].as_ref().unwrap().fsid();
    monitors.ask(1, 7, &json!({ "prefix": "osd pool create", "pool": "data" }));
    monitors.send(1, ADMIN, 7, &wire::Statfs { fsid: pool, ..wire::Statfs::default() });
    assert_eq!(monitors.take::<wire::StatfsReply>(1, ADMIN).len(), 1);
    monitors.crash(0);
    monitors.answer_all();
    monitors.advance(TTL + Duration::from_secs(2));
    assert_eq!(monitors.take::<MonCommandAck>(1, ADMIN).len(), 1, "the next leader was asked");
}

/// A leader, and a follower with a request about a change that another monitor made and only the follower has
/// received.
fn asked_too_early() -> (Monitors, Completion) {
    let mut monitors = Monitors::start(2);
    monitors.boot(1, 1 << 30);
    assert_eq!(monitors.leader(1), "a");
    let mut change = Transaction::default();
    change.put("config-key/x", "new");
    let revision = monitors.control.commit(&change).unwrap();
    let told = MemControl::events(&change, revision);
    monitors.untold = Some(0);
    monitors.tell_all(&told);
    monitors.ask(1, 7, &json!({ "prefix": "config-key get", "key": "x" }));
    assert!(monitors.take::<MonCommandAck>(1, ADMIN).is_empty());
    (monitors, told)
}

#[test]
fn a_leader_that_was_not_told_yet_of_what_its_asker_knows_waits_for_it() {
    let (mut monitors, told) = asked_too_early();
    monitors.untold = Some(1);
    monitors.tell_all(&told);
    monitors.drain();
    let answers = monitors.take::<MonCommandAck>(1, ADMIN);
    assert_eq!((answers.len(), answers[0].1.result), (1, 0), "{}", answers[0].1.text);
    assert_eq!(&answers[0].1.output[..], b"new");
}

#[test]
fn a_leader_waits_with_no_more_than_so_many_messages() {
    let (mut monitors, _) = asked_too_early();
    (0..1 << 14).for_each(|_| monitors.report(1, 1 << 30));
    assert_eq!(
        monitors.take::<MonCommandAck>(1, ADMIN).len(),
        1,
        "it is answered as far as is known"
    );
}

/// Two monitors that must authenticate to each other, frame by frame.
#[test]
fn a_follower_proves_that_it_is_a_monitor() {
    let mut monitors = Monitors::start(2);
    let (now, conn, accepted) = (monitors.now, ConnId(9), ConnId(ConnId::ACCEPTED + 9));
    let mut follower = monitors.running[1].take().unwrap();
    let mut leader = monitors.running[0].take().unwrap();
    while follower.poll_output().is_some() {}
    let mut step = ConnectingStep::Begin;
    loop {
        let request = match follower.authenticate(now, conn, step) {
            ConnectingAnswer::Start { method, preferred_modes, payload } => AuthRequest::Start {
                method,
                preferred_modes,
                payload,
                seen_addr: Default::default(),
            },
            ConnectingAnswer::More { payload } => AuthRequest::More { payload },
            ConnectingAnswer::Finish { session_key, .. } => {
                assert!(!session_key.is_empty());
                return;
            }
            ConnectingAnswer::Refuse => panic!("the follower gives up"),
        };
        leader.handle_auth(now, accepted, request);
        let Some(Output::Auth { verdict, .. }) = leader.poll_output() else { panic!("no verdict") };
        step = match verdict {
            AuthVerdict::More { payload } => ConnectingStep::More { payload },
            AuthVerdict::Done { name, global_id, payload, .. } => {
                assert_eq!(name, EntityName::new(EntityType::MON, "b"));
                ConnectingStep::Done { global_id, payload }
            }
            AuthVerdict::BadMethod { result, .. } => panic!("refused: {result}"),
        };
    }
}
