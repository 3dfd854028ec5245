//! The monitors themselves: their map, and the skews of their clocks.
//!
//! The leader requests the time of each monitor that has a session with it. The answer was taken at an
//! unknown moment of the round trip, so it is accurate to half of that.

use crate::change::Change;
use crate::commands::{cluster_version, misc, mon};
use crate::health::{monitors, versions};
use crate::keys;
use crate::live::Skew;
use crate::service::{Catalog, Cx, Family, Intake, Pattern, Reader, Role, Service, Topic, Via};
use crate::sessions::{Sessions, Subscription};
use crate::settings::Settings;
use crate::state::State;
use engine::{ConnId, Message, Time};
use maps::MonInfo;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::forward::{ClockReply, ClockRequest};
use wire::{MessageBody, MonGetMap, MonMapMessage, PeerFault};

pub(super) const CATALOG: Catalog = Catalog {
    topics: &[Topic {
        pattern: Pattern::Exact("monmap"),
        needs: None,
        first: |_, item| item.start,
        version: Some(|state| (state.monmap.epoch.0.into(), 1)),
        lingers: None,
        excludes_others: false,
    }],
    messages: &[Intake { kind: MonGetMap::KIND, via: Via::Here }],
    commands: &[
        Family(4, mon::COMMANDS),
        Family(44, misc::COMMANDS),
        Family(52, cluster_version::COMMANDS),
    ],
    checks: &[monitors::check, versions::check],
};

/// Interval at which clocks are compared.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// The service of the mon map.
#[derive(Debug, Default)]
pub(crate) struct MonsService {
    /// Clock skews of other monitors relative to this one, by name; known while it leads.
    clocks: BTreeMap<String, Skew>,
    /// Time of the next comparison of clocks.
    check_due: Time,
}

impl Service for MonsService {
    fn handle_message(
        &mut self,
        cx: &mut Cx<'_>,
        from: ConnId,
        _message: &Message,
    ) -> Result<(), PeerFault> {
        let state = cx.state;
        cx.reply(from, |features| monmap(state, features));
        Ok(())
    }

    fn publish(
        &mut self,
        state: &State,
        reader: Reader<'_>,
        _topic: &str,
        subscription: &mut Subscription,
        messages: &mut Vec<Message>,
    ) {
        if subscription.reaches(state.monmap.epoch.0.into()) {
            messages.push(monmap(state, reader.features));
        }
    }

    fn tick(&mut self, cx: &mut Cx<'_>, role: Role) {
        if role == Role::Owner && self.check_due <= cx.now {
            self.check_clocks(cx);
        }
    }
}

impl MonsService {
    /// Clock skews of other monitors.
    pub fn clocks(&self) -> &BTreeMap<String, Skew> {
        &self.clocks
    }

    /// Requests the other monitors' clocks.
    fn check_clocks(&mut self, cx: &mut Cx<'_>) {
        self.check_due = cx.now + CHECK_INTERVAL;
        let present = &cx.state.members.present;
        self.clocks.retain(|name, _| present.contains_key(name));
        let sessions = cx.sessions;
        for conn in sessions.of_monitors() {
            let asked = ClockRequest { sent: cx.now.0 };
            cx.send(conn, asked.encode(0));
        }
    }

    /// Handles the clock reading of another monitor.
    pub fn handle_clock(&mut self, cx: &Cx<'_>, conn: ConnId, told: &ClockReply) {
        let Some(name) = name_of_monitor(cx.sessions, cx.state, conn) else { return };
        let seconds = |nanos: i128| nanos as f64 / 1e9;
        let (sent, there, arrived) =
            (i128::from(told.sent), i128::from(told.clock), i128::from(cx.now.0));
        let skew = Skew {
            seconds: seconds(there - (sent + arrived) / 2),
            latency: seconds(arrived - sent).abs() / 2.0,
        };
        self.clocks.insert(name, skew);
    }
}

/// The name of the monitor at the other end: its authenticated name, or, within a process, that of its
/// address.
fn name_of_monitor(sessions: &Sessions, state: &State, conn: ConnId) -> Option<String> {
    let peer = sessions.get(conn).filter(|session| session.is_monitor())?.peer();
    let map = &state.monmap;
    if map.mon_info.contains_key(&peer.name.id) {
        return Some(peer.name.id.clone());
    }
    let listens = map.mon_info.values().find(|mon| mon.public_addrs == peer.addrs);
    listens.map(|mon| mon.name.clone())
}

/// A message with the current mon map.
fn monmap(state: &State, features: u64) -> Message {
    MonMapMessage { map: codec::encode_to_bytes(&state.monmap) }.encode(features)
}

/// Writes this monitor's current addresses into the mon map. A monitor that is not in it joins.
pub(super) fn announce(settings: &Settings, state: &State, change: &mut Change) {
    let mut monmap = state.monmap.clone();
    let known = monmap.mon_info.get(&settings.mon_name);
    if known.is_some_and(|mon| mon.public_addrs == settings.mon_addrs) {
        return;
    }
    if known.is_none() {
        monmap.ranks.push(settings.mon_name.clone());
    }
    let mon = monmap.mon_info.entry(settings.mon_name.clone()).or_insert_with(|| MonInfo {
        name: settings.mon_name.clone(),
        time_added: change.now(),
        ..MonInfo::default()
    });
    mon.public_addrs = settings.mon_addrs.clone();
    monmap.epoch = monmap.epoch.next();
    monmap.last_changed = change.now();
    change.put(keys::monmap(monmap.epoch), codec::encode_to_bytes(&monmap));
    change.delete(keys::monmap(state.monmap.epoch));
}
