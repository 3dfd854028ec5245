//! Commands of administrators.

use super::*;
use serde_json::{Value, json};
use types::Errno;
use wire::{CommandReply, MdsReport};

const ADMIN: ConnId = ConnId(ConnId::ACCEPTED + 5);
const NOW: Time = Time(1_000_000_000);

/// An active server with one client, and a connection of an administrator.
fn active() -> Mds {
    let (mut mds, monitor) = started(NOW);
    mds.handle_opened(NOW, CLIENT, peer(EntityType::CLIENT, 4123));
    mds.handle_message(NOW, CLIENT, open_session());
    mds.handle_message(NOW, monitor, map(3, MdsState::ACTIVE));
    let (_, beacon) = sent::<MdsBeacon>(&outputs(&mut mds)).unwrap();
    mds.handle_message(NOW, monitor, beacon.encode(SUPPORTED));
    mds.handle_opened(NOW, ADMIN, peer(EntityType::CLIENT, 4200));
    outputs(&mut mds);
    mds
}

fn tell(mds: &mut Mds, command: &Value) -> CommandReply {
    let fsid = Config::for_tests().fsid;
    let command = Command { fsid, command: vec![command.to_string()], input: Default::default() };
    mds.handle_message(NOW, ADMIN, command.encode(SUPPORTED).with_tid(9));
    let (conn, reply) = sent::<CommandReply>(&outputs(mds)).expect("an answer");
    assert_eq!(conn, ADMIN);
    reply
}

fn shown(mds: &mut Mds, command: Value) -> Value {
    let reply = tell(mds, &command);
    assert_eq!(reply.result, 0, "{command}: {}", reply.text);
    serde_json::from_slice(&reply.output).expect("it is JSON")
}

#[test]
fn the_monitor_is_told_the_counters_of_the_rank() {
    let (mut mds, monitor) = started(NOW);
    mds.handle_opened(NOW, CLIENT, peer(EntityType::CLIENT, 4123));
    mds.handle_message(NOW, CLIENT, open_session());
    outputs(&mut mds);
    mds.handle_load(CoreLoad { cpu: Duration::from_nanos(17), ..CoreLoad::default() });
    mds.handle_message(NOW, monitor, map(3, MdsState::ACTIVE));
    let (conn, report) =
        sent::<MdsReport>(&outputs(&mut mds)).expect("the first one is sent at once");
    assert_eq!((conn, report.counters.cpu_ns, report.counters.directories), (monitor, 17, 1));
    let (mut now, mut report) = (NOW, None);
    while report.is_none() {
        let outputs = outputs(&mut mds);
        let beacon = sent::<MdsBeacon>(&outputs).map(|(_, beacon)| beacon);
        report = sent::<MdsReport>(&outputs).map(|(_, report)| report);
        if let Some(beacon) = beacon {
            mds.handle_message(now, monitor, beacon.encode(SUPPORTED));
        }
        now = mds.poll_timeout().expect("a beacon or a report is due");
        mds.handle_timeout(now);
    }
    assert_eq!(report.map(|report| report.counters.sessions), Some(1));
}

#[test]
fn commands_show_the_rank_under_the_names_of_ceph() {
    let mut mds = active();
    let status = shown(&mut mds, json!({ "prefix": "status" }));
    assert_eq!((&status["state"], &status["whoami"]), (&json!("up:active"), &json!(0)));
    let sessions = shown(&mut mds, json!({ "prefix": "session ls" }));
    let [session] = sessions.as_array().unwrap().as_slice() else { panic!("{sessions}") };
    assert_eq!((&session["id"], &session["state"]), (&json!(4123), &json!("open")));
    for (command, field) in [
        (json!({ "prefix": "ops" }), "num_ops"),
        (json!({ "prefix": "dump_blocked_ops" }), "num_blocked_ops"),
        (json!({ "prefix": "cache status" }), "pool"),
        (json!({ "prefix": "perf dump" }), "mds_sessions"),
        (json!({ "prefix": "version" }), "release"),
        (json!({ "prefix": "help" }), "session ls"),
        (json!({ "prefix": "config help" }), "options"),
        (json!({ "prefix": "get_command_descriptions" }), "cmd000"),
    ] {
        let value = shown(&mut mds, command.clone());
        assert!(value.get(field).is_some(), "{command}: no {field} in {value}");
    }
    let root = shown(&mut mds, json!({ "prefix": "dump inode", "number": 1 }));
    assert_eq!(root["path"], "/");
    assert_eq!(shown(&mut mds, json!({ "prefix": "damage ls" })), json!([]));
    let one = json!({ "prefix": "perf dump", "logger": "mds", "counter": "inodes" });
    assert_eq!(shown(&mut mds, one), json!({ "mds": { "inodes": 1 } }));
    for (filter, found) in [("id=4123", 1), ("id=4124", 0), ("state=open", 1)] {
        let command = json!({ "prefix": "client ls", "filters": [filter] });
        assert_eq!(shown(&mut mds, command).as_array().unwrap().len(), found, "{filter}");
    }
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    let mut mds = active();
    for (command, errno, why) in [
        (json!({ "prefix": "dump tree" }), Errno::NOTSUPP, "dump inode"),
        (json!({ "prefix": "scrub start", "path": "/" }), Errno::NOTSUPP, "--volatile"),
        (json!({ "prefix": "no such" }), Errno::INVAL, "no command"),
        (json!({ "prefix": "dump inode", "number": 77 }), Errno::NOENT, "no inode 77"),
        (json!({ "prefix": "dump inode" }), Errno::INVAL, "number"),
        (json!({ "prefix": "session evict" }), Errno::INVAL, "id=4123"),
        (json!({ "prefix": "session evict", "filters": ["id=1"] }), Errno::NOENT, "session ls"),
        (json!({ "prefix": "session ls", "filters": ["x=1"] }), Errno::INVAL, "no filter"),
        (json!({ "prefix": "session kill", "client_id": "4123" }), Errno::NOTSUPP, "--volatile"),
        (json!({ "prefix": "flush journal" }), Errno::NOTSUPP, "--volatile"),
        (json!("status"), Errno::INVAL, "JSON"),
    ] {
        let reply = tell(&mut mds, &command);
        assert_eq!(reply.result, errno.negative(), "{command}: {}", reply.text);
        assert!(reply.text.contains(why), "{command}: {}", reply.text);
    }
}

#[test]
fn a_standby_tells_its_status_and_why_it_has_nothing_else_to_show() {
    let (mut mds, _) = started(NOW);
    mds.handle_opened(NOW, ADMIN, peer(EntityType::CLIENT, 4200));
    outputs(&mut mds);
    assert_eq!(shown(&mut mds, json!({ "prefix": "status" }))["whoami"], -1);
    shown(&mut mds, json!({ "prefix": "version" }));
    let reply = tell(&mut mds, &json!({ "prefix": "session ls" }));
    assert_eq!(reply.result, Errno::AGAIN.negative());
    assert!(reply.text.contains("standby"), "{}", reply.text);
}

#[test]
fn commands_need_all_capabilities() {
    let mut mds = active();
    for (text, result) in [
        ("allow rw path=/a", Errno::ACCES.negative()),
        ("allow rwps", Errno::ACCES.negative()),
        ("allow * path=/a", Errno::ACCES.negative()),
        ("allow *", 0),
    ] {
        let caps = AuthCaps { allow_all: false, text: text.to_owned() };
        let caps = codec::encode_to_bytes(&caps);
        mds.handle_opened(NOW, ADMIN, Peer { caps, ..peer(EntityType::CLIENT, 4200) });
        let reply = tell(&mut mds, &json!({ "prefix": "status" }));
        assert_eq!(reply.result, result, "{text}: {}", reply.text);
    }
}
