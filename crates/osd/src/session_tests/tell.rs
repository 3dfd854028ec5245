//! Commands to an OSD: their output, and their effects.

use super::lone::Lone;
use super::{append, failed, read};
use crate::commands::table::{COMMANDS, prefix_of};
use bytes::Bytes;
use engine::{ConnId, Daemon};
use serde_json::{Value, json};
use std::collections::VecDeque;
use types::Errno;
use types::features::SUPPORTED;
use wire::op::watch_op;
use wire::options::RUNNING_COMMANDS;
use wire::osd_op::WatchArguments;
use wire::{Command, MessageBody, OsdOp};

const PAGE: &str = include_str!("../../../../docs/internals/capabilities.md");

fn tell(lone: &mut Lone, admin: ConnId, command: Value) -> Result<Value, Errno> {
    let reply = lone.command(admin, &command.to_string());
    match reply.result {
        0 if reply.output.is_empty() => Ok(Value::Null),
        0 => Ok(serde_json::from_slice(&reply.output).expect("it is JSON")),
        result => Err(Errno(-result)),
    }
}

fn ask(lone: &mut Lone, admin: ConnId, prefix: &str) -> Value {
    tell(lone, admin, json!({ "prefix": prefix }))
        .unwrap_or_else(|errno| panic!("{prefix}: {errno}"))
}

/// A command with all arguments that it needs.
fn whole(signature: &str) -> Value {
    let mut command = json!({ "prefix": prefix_of(signature) });
    let given = [
        ("var", json!("osd_max_backfills")),
        ("val", json!(["2"])),
        ("injected_args", json!(["--osd-max-backfills=3"])),
        ("heapcmd", json!("stats")),
        ("level", json!("info")),
        ("message", json!(["hello"])),
        ("count", json!(1 << 20)),
        ("size", json!(1 << 16)),
        ("delay", json!(0)),
        ("type", json!("none")),
    ];
    for (name, value) in given {
        if signature.contains(&format!("name={name},")) {
            command[name] = value;
        }
    }
    command
}

#[test]
fn each_command_is_answered_to_those_who_may_do_everything_and_to_nobody_else() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    lone.wait(6);
    let reader = lone.client("allow rwx");
    for (signature, _) in COMMANDS.iter().chain(&RUNNING_COMMANDS) {
        let command = whole(signature);
        let refused = lone.command(reader, &command.to_string());
        assert_eq!(refused.result, Errno::ACCES.negative(), "{signature}");
        let answered = lone.command(admin, &command.to_string());
        assert_eq!(answered.result, 0, "{signature}: {}", answered.text);
        let name = format!("`{}`", prefix_of(signature));
        assert!(PAGE.contains(&name), "docs/internals/capabilities.md lacks {name}");
    }
    assert_eq!(tell(&mut lone, admin, json!({ "prefix": "nonsense" })), Err(Errno::INVAL));
}

#[test]
fn options_set_at_the_osd_take_effect_at_once_and_win_over_the_database() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    let set = json!({ "prefix": "config set", "var": "osd_max_backfills", "val": ["4"] });
    tell(&mut lone, admin, set).unwrap();
    assert_eq!(lone.osd.options().max_backfills, 4);
    lone.configure(&[("osd_max_backfills", "9")]);
    assert_eq!(lone.osd.options().max_backfills, 4);
    let inject = json!({ "prefix": "injectargs", "injected_args": ["--osd-max-backfills 6"] });
    tell(&mut lone, admin, inject).unwrap();
    assert_eq!(lone.osd.options().max_backfills, 6);
    let unset = json!({ "prefix": "config unset", "var": "osd_max_backfills" });
    tell(&mut lone, admin, unset).unwrap();
    assert_eq!(lone.osd.options().max_backfills, 9);
    let unknown = json!({ "prefix": "injectargs", "injected_args": ["--no_such_option=2"] });
    assert_eq!(tell(&mut lone, admin, unknown), Err(Errno::INVAL));
    let unknown = json!({ "prefix": "config set", "var": "no_such_option", "val": ["2"] });
    assert_eq!(tell(&mut lone, admin, unknown), Err(Errno::NOENT));
}

#[test]
fn operations_that_are_done_are_shown_with_their_times_and_without_their_data() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    assert_eq!(lone.call(admin, "a", append(5)), Some(0));
    assert_eq!(lone.call(admin, "a", read()), Some(0));
    assert_eq!(lone.call(admin, "a", vec![OsdOp::call("version", "read", b"")]), Some(0));
    let history = ask(&mut lone, admin, "dump_historic_ops");
    let ops = history["ops"].as_array().unwrap();
    assert_eq!((ops.len(), &history["size"]), (3, &json!(20)));
    let description = |index: usize| ops[index]["description"].as_str().unwrap();
    assert!(description(0).contains("[append 0~5]"), "{}", description(0));
    assert!(description(2).contains("[call version.read]"), "{}", description(2));
    let events = |index: usize| {
        let events = ops[index]["type_data"]["events"].as_array().unwrap();
        events.iter().map(|event| event["event"].as_str().unwrap()).collect::<Vec<_>>()
    };
    let written =
        ["initiated", "queued_for_pg", "started", "waiting for subops", "op_commit", "done"];
    assert_eq!(events(0), written);
    assert_eq!(events(1), ["initiated", "queued_for_pg", "started", "done"]);
    assert_eq!(ops[0]["type_data"]["client_info"]["tid"], 1);
    assert_eq!(ask(&mut lone, admin, "ops")["num_ops"], 0);
    let filtered = json!({ "prefix": "dump_historic_ops", "filterstr": ["version.read"] });
    let filtered = tell(&mut lone, admin, filtered).unwrap();
    assert_eq!(filtered["ops"].as_array().unwrap().len(), 1);
    lone.wait(601);
    assert_eq!(ask(&mut lone, admin, "dump_historic_ops")["ops"], json!([]));
    assert_eq!(ask(&mut lone, admin, "dump_historic_ops_by_duration")["ops"], json!([]));
}

#[test]
fn an_operation_in_flight_is_shown_blocked_after_a_while_and_slow_when_it_is_done() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    assert_eq!(lone.call(admin, "a", append(5)), Some(0));
    lone.held = Some(Default::default());
    assert_eq!(lone.call(admin, "a", read()), None);
    assert_eq!(ask(&mut lone, admin, "dump_ops_in_flight")["num_ops"], 1);
    assert_eq!(ask(&mut lone, admin, "dump_blocked_ops")["num_blocked_ops"], 0);
    lone.wait(31);
    let blocked = ask(&mut lone, admin, "dump_blocked_ops");
    assert_eq!((&blocked["num_blocked_ops"], &blocked["complaint_time"]), (&json!(1), &json!(30)));
    assert_eq!(blocked["ops"][0]["type_data"]["flag_point"], "started");
    assert_eq!(blocked["ops"][0]["age"], 31.0);
    assert!(lone.answer_held());
    let slow = ask(&mut lone, admin, "dump_historic_slow_ops");
    assert_eq!((&slow["Ops"][0]["duration"], &slow["num to keep"]), (&json!(31.0), &json!(20)));
    let slowest = ask(&mut lone, admin, "dump_historic_ops_by_duration");
    let durations: Vec<&Value> =
        slowest["ops"].as_array().unwrap().iter().map(|op| &op["duration"]).collect();
    assert_eq!(durations, [&json!(31.0), &json!(0.0)]);
}

#[test]
fn as_many_operations_are_kept_as_options_say() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    (0..30).for_each(|_| assert_eq!(lone.call(admin, "a", append(1)), Some(0)));
    assert_eq!(lone.osd.shared().report.kept(), (20, 20, 0));
    lone.configure(&[("osd_op_history_size", "3"), ("osd_op_history_slow_op_threshold", "0")]);
    (0..30).for_each(|_| assert_eq!(lone.call(admin, "a", append(1)), Some(0)));
    assert_eq!(lone.osd.shared().report.kept(), (3, 3, 20));
    lone.configure(&[("osd_op_history_size", "0"), ("osd_op_history_slow_op_size", "99999999")]);
    (0..1200).for_each(|_| assert_eq!(lone.call(admin, "a", append(1)), Some(0)));
    assert_eq!(lone.osd.shared().report.kept().0, 0);
    lone.configure(&[
        ("osd_op_history_slow_op_threshold", "0"),
        ("osd_op_history_slow_op_size", "99999999"),
    ]);
    (0..1200).for_each(|_| assert_eq!(lone.call(admin, "a", append(1)), Some(0)));
    assert_eq!(lone.osd.shared().report.kept().2, 1000);
}

#[test]
fn statistics_are_flushed_by_a_report_with_the_number_that_was_told() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    lone.wait(2);
    let before = lone.reports.last().expect("it reports by itself").0;
    let told = ask(&mut lone, admin, "flush_pg_stats").as_u64().unwrap();
    assert!(told > before && told >> 32 > 0, "{told:x} after {before:x}");
    lone.wait(0);
    assert_eq!(lone.reports.last().unwrap().0, told);
}

#[test]
fn a_benchmark_writes_what_was_asked_for_and_leaves_nothing() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    lone.wait(6);
    let used = lone.store.usage();
    let bench = json!({ "prefix": "bench", "count": 10_000_000, "size": 65_536 });
    let done = tell(&mut lone, admin, bench).unwrap();
    assert_eq!((&done["bytes_written"], &done["blocksize"]), (&json!(10_000_000), &json!(65_536)));
    let after = lone.store.usage();
    assert_eq!((after.bytes_used, after.objects), (used.bytes_used, used.objects));
    let tiny = json!({ "prefix": "bench", "count": 1 << 20, "size": 1 });
    assert_eq!(tell(&mut lone, admin, tiny), Err(Errno::INVAL));
}

#[test]
fn a_benchmark_whose_session_has_ended_is_not_answered() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    lone.wait(6);
    let bench = json!({ "prefix": "bench", "count": 65_536, "size": 65_536 });
    let command = vec![bench.to_string()];
    let command = Command { fsid: lone.map.fsid, command, input: Bytes::new() };
    lone.osd.handle_message(lone.now, admin, command.encode(SUPPORTED));
    lone.close(admin);
    assert!(lone.answers.is_empty());
    let other = lone.client("allow *");
    assert!(tell(&mut lone, other, bench).is_ok(), "it has ended");
}

#[test]
fn a_disk_that_is_made_out_to_be_full_refuses_writes_and_is_reported_so() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    lone.wait(6);
    let available = lone.reports.last().unwrap().1;
    let inject = |kind: &str| json!({ "prefix": "injectfull", "type": kind });
    tell(&mut lone, admin, inject("failsafe")).unwrap();
    lone.wait(1);
    assert!(lone.reports.last().unwrap().1 < available / 30);
    assert_eq!(lone.call(admin, "a", append(1)), failed(Errno::NOSPC));
    tell(&mut lone, admin, inject("none")).unwrap();
    lone.wait(1);
    assert_eq!(lone.reports.last().unwrap().1, available);
    assert_eq!(lone.call(admin, "a", append(1)), Some(0));
    assert_eq!(tell(&mut lone, admin, inject("very")), Err(Errno::INVAL));
    let before = lone.reports.len();
    let once = json!({ "prefix": "injectfull", "type": "failsafe", "count": 1 });
    tell(&mut lone, admin, once).unwrap();
    lone.wait(12);
    let after: Vec<bool> =
        lone.reports[before..].iter().map(|(_, left)| *left < available / 2).collect();
    assert_eq!((after.first(), after.last()), (Some(&true), Some(&false)), "{after:?}");
}

#[test]
fn watchers_and_counters_are_shown_and_counters_begin_anew() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    assert_eq!(lone.call(admin, "a", append(5)), Some(0));
    let watch = WatchArguments { cookie: 7, op: watch_op::WATCH, ..WatchArguments::default() };
    assert_eq!(lone.call(admin, "a", vec![OsdOp::watch(watch)]), Some(0));
    let watchers = ask(&mut lone, admin, "dump_watchers");
    assert_eq!((&watchers[0]["object"], &watchers[0]["cookie"]), (&json!("a"), &json!(7)));
    // It is sent twice, and executed once.
    let again = lone.request("a", append(5), 0);
    lone.deliver(admin, again.clone());
    lone.deliver(admin, again);
    let counted = |lone: &mut Lone| {
        let all = ask(lone, admin, "perf dump");
        let parts = ["queue_latency", "commit_latency"];
        let parts = parts.map(|part| all["sepiola_writes"][part]["avgcount"].as_u64().unwrap());
        (all["osd"]["op_w_latency"]["avgcount"].as_u64().unwrap(), parts)
    };
    assert_eq!(counted(&mut lone), (4, [3, 3]));
    let reset = json!({ "prefix": "perf reset", "var": "all" });
    tell(&mut lone, admin, reset).unwrap();
    assert_eq!(counted(&mut lone), (0, [0, 0]));
    assert_eq!(lone.call(admin, "a", append(5)), Some(0));
    assert_eq!(counted(&mut lone), (1, [1, 1]));
}

#[test]
fn what_is_to_be_logged_reaches_the_monitor() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    let log = json!({ "prefix": "cluster_log", "level": "warning", "message": ["a", "word"] });
    tell(&mut lone, admin, log).unwrap();
    let entry = lone.logged.pop().unwrap();
    assert_eq!(
        (entry.text.as_str(), entry.severity, entry.channel.as_str()),
        ("a word", 3, "cluster")
    );
}

#[test]
fn states_that_a_group_went_through_are_shown() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    let shown = ask(&mut lone, admin, "dump_pgstate_history");
    assert_eq!(shown["pgs"][0]["currently"], "Started/Primary/Active");
    let states = shown["pgs"][0]["history"][0]["states"].as_array().unwrap();
    assert!(!states.is_empty());
    assert!(!ask(&mut lone, admin, "dump_pg_recovery_stats").as_array().unwrap().is_empty());
    ask(&mut lone, admin, "reset_pg_recovery_stats");
    assert_eq!(ask(&mut lone, admin, "dump_pg_recovery_stats"), json!([]));
}

#[test]
fn the_slowest_request_stays_as_it_was_when_the_memory_of_others_is_used_again() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    lone.configure(&[("osd_op_history_size", "2")]);
    assert_eq!(lone.call(admin, "slow", append(1)), Some(0));
    lone.held = Some(VecDeque::new());
    lone.send(admin, "slow", read(), 0);
    lone.wait(1);
    assert!(lone.answer_held());
    lone.held = None;
    (0..5).for_each(|_| assert_eq!(lone.call(admin, "fast", append(1)), Some(0)));
    let named = |shown: &Value| {
        let ops = shown["ops"].as_array().unwrap().iter();
        ops.map(|op| op["description"].to_string().contains("slow")).collect::<Vec<_>>()
    };
    assert_eq!(named(&ask(&mut lone, admin, "dump_historic_ops")), [false, false]);
    assert_eq!(named(&ask(&mut lone, admin, "dump_historic_ops_by_duration")), [true, true]);
}

#[test]
fn counters_and_histograms_count_each_answered_request_once() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    (0..3).for_each(|_| assert_eq!(lone.call(admin, "a", append(5000)), Some(0)));
    assert_eq!(lone.call(admin, "a", vec![OsdOp::read(0, 5000)]), Some(0));
    let dump = ask(&mut lone, admin, "perf histogram dump");
    let sum = |name: &str| -> u64 {
        let rows = dump["osd"][name]["values"].as_array().unwrap().iter();
        rows.flat_map(|row| row.as_array().unwrap()).filter_map(Value::as_u64).sum()
    };
    assert_eq!(sum("op_w_latency_in_bytes_histogram"), 3);
    assert_eq!(sum("op_r_latency_out_bytes_histogram"), 1);
    let none = json!({ "prefix": "perf histogram dump", "logger": "other" });
    assert_eq!(tell(&mut lone, admin, none).unwrap(), json!({}));
    let (dump, schema) = (ask(&mut lone, admin, "perf dump"), ask(&mut lone, admin, "perf schema"));
    let names = |value: &Value| -> Vec<String> {
        let sections = value.as_object().unwrap().iter();
        let names = |(section, all): (&String, &Value)| {
            let names = all.as_object().unwrap().keys();
            names.map(|name| format!("{section}.{name}")).collect::<Vec<_>>()
        };
        sections.flat_map(names).collect()
    };
    assert_eq!(names(&dump), names(&schema));
    for name in ["sepiola_store.batches", "sepiola_core.stalls", "objecter.op_r"] {
        assert!(names(&dump).contains(&name.to_owned()), "{name}");
    }
    lone.wait(6);
    let counted = &lone.counters;
    assert_eq!((counted.writes, counted.reads, counted.read_bytes), (3, 1, 5000));
    assert!(counted.write_bytes > 15_000 && counted.groups == 1 && counted.activations == 1);
}
