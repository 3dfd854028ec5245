//! The states of a copy, one file for each: how it is entered, what it waits for, each way out, and what it
//! does with a query, an info, a write and a map. They use these commands besides those of `tests/world.rs`.
//!
//! ```text
//! state OSD            its state, with the data that the state carries
//! head OSD             the version of the last entry in its log
//! sent OSD             the kinds of its messages in flight, with their targets
//! pass FROM TO         deliver the next message in flight between them
//! store OSD            deliver all completions of its store
//! tell FROM TO KIND    deliver a message that is made up: query, info, log, activated, replicate, stalled,
//!                      space, full; `info` and `log` are those of a copy that has nothing
//! ```

mod activating;
mod active;
mod down;
mod get_info;
mod get_log;
mod get_missing;
mod inactive;
mod incomplete;
mod loading;
mod refused;
mod replica;
mod replica_active;
mod split_merge;
mod stalled;
mod stray;
mod wait_acting_change;
mod wait_readable;
mod wait_up_thru;

use super::world::{PG, World};
use crate::follower::{Follower, FollowerStage};
use crate::message::{Body, Header, Replicate};
use crate::primary::{Primary, Stage};
use crate::role::Role;
use crate::serving::Agreed;
use crate::{LogEntry, Member, Pg, PgInfo};
use std::fmt::Display;
use store::Transaction;
use types::{EVersion, OsdId};

fn list(word: &str, members: impl IntoIterator<Item = impl Display>) -> String {
    let osds: Vec<String> = members.into_iter().map(|osd| format!(" {osd}")).collect();
    if osds.is_empty() { String::new() } else { format!(" {word}{}", osds.concat()) }
}

fn agreed(agreed: &Agreed) -> String {
    let short: Vec<Member> = agreed.participants.select(agreed.short).collect();
    let filling = agreed.backfill.targets().collect::<Vec<_>>();
    let members = agreed.participants.to_vec();
    list("members", members) + &list("filling", filling) + &list("short", short)
}

fn primary(primary: &Primary) -> String {
    let waits = list("waits", primary.stage.waiting_for());
    let of_stage = match &primary.stage {
        Stage::GetLog { authority, .. } => format!(" from {authority}"),
        Stage::WaitActingChange => list("wants", primary.known.wanted.clone().unwrap_or_default()),
        Stage::Active(serving) | Stage::Inactive(serving) => match serving.in_flight.len() {
            0 => String::new(),
            writes => format!(" writes {writes}"),
        },
        _ => String::new(),
    };
    let members = primary.stage.agreed().map(agreed).unwrap_or_default();
    waits + &of_stage + &members + &list("blocked", primary.known.blocked_by.iter().copied())
}

fn follower(follower: &Follower) -> String {
    let reserved = match follower.stage {
        FollowerStage::Active { backfilled_by: Some(primary) } => format!(" reserved {primary}"),
        _ => String::new(),
    };
    list("asked", follower.asked_by) + &reserved
}

fn described(pg: &Pg) -> String {
    let data = match &pg.role {
        Role::Primary(known) => primary(known),
        Role::Follower(copy) => follower(copy),
        Role::Loading(loading) | Role::Refused(loading) => {
            let stops = if loading.split_merge.is_some() { " stops" } else { "" };
            list("asked", loading.asked_by.map(|(osd, _)| osd)) + stops
        }
        Role::SplitMerge(stopped) => format!(" held {}", stopped.held()),
        Role::Failed { asked_by } => list("asked", *asked_by),
    };
    format!("{:?}{data}", pg.state())
}

/// The name of a message's kind.
fn kind(body: &Body) -> String {
    let debug = format!("{body:?}");
    debug.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

impl World {
    /// One of the commands of this module.
    pub fn state_command(&mut self, command: &str, osd: OsdId, rest: &[&str]) -> String {
        match (command, rest) {
            ("state", []) => return described(&self.node(osd).pg),
            ("head", []) => return self.node(osd).pg.log().head().to_string(),
            ("sent", []) => {
                let own = self.messages.iter().filter(|(from, ..)| *from == osd);
                let name = |(_, to, message): &(OsdId, OsdId, _)| {
                    let (_, body) = Body::decode(message).unwrap();
                    format!("{} to {to}", kind(&body))
                };
                return own.map(name).collect::<Vec<_>>().join(", ");
            }
            ("pass", [to]) => self.pass(osd, OsdId(to.parse().unwrap())),
            ("store", []) => self.finish_commits(osd),
            ("tell", [to, kind]) => self.tell(osd, OsdId(to.parse().unwrap()), kind),
            _ => panic!("no such command: {command} {rest:?}"),
        }
        String::new()
    }

    fn pass(&mut self, from: OsdId, to: OsdId) {
        let mut on_way = self.messages.iter();
        let at = on_way.position(|(by, at, _)| (*by, *at) == (from, to)).expect("there is one");
        let (from, to, message) = self.messages.remove(at).unwrap();
        let (header, body) = Body::decode(&message).unwrap();
        self.node(to).pg.handle_message(from, &header, body);
        self.drain();
    }

    fn tell(&mut self, from: OsdId, to: OsdId, kind: &str) {
        let pg = &mut self.node(to).pg;
        let (interval, head) = (pg.interval(), pg.log().head());
        let body = match kind {
            "query" => Body::Query,
            "info" => Body::Info(None),
            "log" => Body::Log(Box::default()),
            "activated" => Body::Activated,
            "replicate" => {
                let version = EVersion { version: head.version + 1, ..head };
                Body::Replicate(Box::new(Replicate {
                    entry: codec::encode_to_bytes(&LogEntry::empty(version)),
                    info: codec::encode_to_bytes(&PgInfo {
                        last_update: version,
                        ..pg.info().clone()
                    }),
                    also: Vec::new(),
                    committed: head,
                    trim: EVersion::ZERO,
                    transaction: Transaction::new(),
                    deltas: Vec::new(),
                }))
            }
            "stalled" => Body::Stalled(None),
            "space" => Body::HasSpace(true),
            "full" => Body::HasSpace(false),
            other => panic!("no such message: {other}"),
        };
        let header = Header::replicated(PG, interval, interval);
        pg.handle_message(from, &header, body);
        self.drain();
    }
}
