//! The console's sessions with monitors: they are like those of any client, at each monitor.

mod cluster;
mod monitors;

use bytes::Bytes;
use engine::ConnId;
use monitors::{ADMIN, Monitors, TTL};
use serde_json::{Value, json};
use std::time::Duration;
use types::{EntityName, Errno, Uuid};
use wire::{MonCommand, MonCommandAck};

/// A session number as the console gives it out.
const BROWSER: ConnId = ConnId(1 << 61 | 1);

fn ask(monitors: &mut Monitors, index: usize, command: &Value) -> MonCommandAck {
    let command = vec![command.to_string()];
    let input = Bytes::new();
    let message = MonCommand { version: 0, fsid: Uuid::default(), command, input };
    monitors.send(index, BROWSER, 7, &message);
    let mut answers = monitors.take::<MonCommandAck>(index, BROWSER);
    assert_eq!(answers.len(), 1, "{:?}", message.command);
    answers.remove(0).1
}

#[test]
fn a_browser_at_a_follower_sees_what_the_leader_knows_and_changes_what_it_may() {
    let mut monitors = Monitors::start(3);
    monitors.boot(0, 5 << 30);
    monitors.open_with(1, BROWSER, EntityName::client("viewer"), "Mallow r");
    let overview = json!({ "prefix": "console overview", "format": "json" });
    let answer = ask(&mut monitors, 1, &overview);
    let state: Value = serde_json::from_slice(&answer.output).unwrap();
    assert_eq!((&state["head"]["leader"], &state["head"]["changes"]), (&json!("a"), &json!([])));
    assert_eq!(state["view"]["used"], json!(5_u64 << 30));
    let answer = ask(&mut monitors, 1, &json!({ "prefix": "osd set", "key": "noout" }));
    assert_eq!(answer.result, Errno::ACCES.negative());
    let answer = ask(&mut monitors, 1, &json!({ "prefix": "console users" }));
    assert_eq!(answer.result, Errno::ACCES.negative());
    // The session goes on with the next leader.
    monitors.crash(0);
    monitors.advance(TTL + Duration::from_secs(2));
    let answer = ask(&mut monitors, 1, &overview);
    let state: Value = serde_json::from_slice(&answer.output).unwrap();
    assert_ne!(state["head"]["leader"], json!("a"));
}

#[test]
fn a_link_is_known_to_the_leader_that_made_it_and_serves_once() {
    let mut monitors = Monitors::start(2);
    monitors.open(1, BROWSER, EntityName::client("admin"));
    let link = monitors.json(1, json!({ "prefix": "console link" }));
    let url = link["url"].as_str().unwrap();
    let secret = url.strip_prefix("https://a:8443/#").expect("the leader's console");
    assert_eq!((&link["entity"], &link["seconds"]), (&json!("client.admin"), &json!(60)));
    let now = monitors.now;
    let mut redeemed = Vec::new();
    for index in [1, 0, 0] {
        monitors.with(index, |monitor| redeemed.push(monitor.redeem_link(now, secret)));
    }
    assert_eq!(redeemed, [None, Some(EntityName::client("admin")), None]);
    assert_ne!(BROWSER, ADMIN);
}

#[test]
fn capabilities_are_those_of_a_new_session() {
    let mut monitors = Monitors::start(1);
    let caps = |monitors: &Monitors, id: &str| {
        monitors.running[0].as_ref().unwrap().caps_of(&EntityName::client(id))
    };
    let create =
        json!({ "prefix": "auth get-or-create", "entity": "client.x", "caps": ["mon", "allow r"] });
    monitors.json(0, create);
    assert_eq!(caps(&monitors, "x").as_deref(), Some(&b"Mallow r"[..]));
    monitors.json(0, json!({ "prefix": "auth rm", "entity": "client.x" }));
    assert_eq!(caps(&monitors, "x"), None);
}
