//! Recent states of groups and their durations: `dump_pgstate_history`, `dump_pg_recovery_stats`.

use engine::{Duration, Time};
use pg::State;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use types::{Epoch, PgId};

/// Past states that are kept per group.
const PAST_MAX: usize = 10;

/// A state that a group has left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Past {
    interval: Epoch,
    state: State,
    enter: Time,
    exit: Time,
}

/// The present and recent states of one group.
#[derive(Debug, Default)]
pub(crate) struct GroupStates {
    current: Option<(State, Epoch, Time)>,
    past: VecDeque<Past>,
}

impl GroupStates {
    /// Notes the present state; returns the one that the group has just left, if any.
    pub fn note(&mut self, now: Time, interval: Epoch, state: State) -> Option<Past> {
        let Some((known, since_interval, enter)) = self.current else {
            self.current = Some((state, interval, now));
            return None;
        };
        if known == state && since_interval == interval {
            return None;
        }
        self.current = Some((state, interval, now));
        let past = Past { interval: since_interval, state: known, enter, exit: now };
        if self.past.len() >= PAST_MAX {
            self.past.pop_front();
        }
        self.past.push_back(past);
        Some(past)
    }

    /// The entry of `dump_pgstate_history`.
    pub fn json(&self, pg: PgId) -> Value {
        let mut epochs: BTreeMap<Epoch, Vec<Value>> = BTreeMap::new();
        for past in &self.past {
            epochs.entry(past.interval).or_default().push(json!({
                "state": state_name(past.state),
                "enter": past.enter.wall().to_iso(),
                "exit": past.exit.wall().to_iso(),
            }));
        }
        let epoch = |(epoch, states): (Epoch, Vec<Value>)| {
            let epoch = epoch.0.to_string();
            json!({ "epoch": epoch, "states": states })
        };
        json!({
            "pg": pg.to_string(),
            "currently": self.current.map_or("", |(state, ..)| state_name(state)),
            "history": epochs.into_iter().map(epoch).collect::<Vec<_>>(),
        })
    }
}

#[derive(Debug, Clone, Copy)]
struct Total {
    count: u64,
    sum: Duration,
    least: Duration,
    most: Duration,
}

/// Durations of states of all groups, by the state's name.
#[derive(Debug, Default)]
pub(crate) struct StateTimes {
    totals: BTreeMap<&'static str, Total>,
}

impl StateTimes {
    /// Adds a state that a group has left.
    pub fn add(&mut self, past: Past) {
        let took = past.exit.since(past.enter);
        let none = Total { count: 0, sum: Duration::ZERO, least: took, most: took };
        let total = self.totals.entry(state_name(past.state)).or_insert(none);
        total.count += 1;
        total.sum += took;
        total.least = total.least.min(took);
        total.most = total.most.max(took);
    }

    pub fn reset(&mut self) {
        self.totals.clear();
    }

    /// The output of `dump_pg_recovery_stats`.
    pub fn json(&self) -> Value {
        let seconds = |duration: Duration| format!("{:.6}", duration.as_secs_f64());
        let row = |(name, total): (&&str, &Total)| {
            json!({
                "enter": total.count,
                "exit": total.count,
                "events": total.count,
                "event_time": seconds(Duration::ZERO),
                "total_time": seconds(total.sum),
                "min_time": seconds(total.least),
                "max_time": seconds(total.most),
                "nested_states": [name],
            })
        };
        Value::from(self.totals.iter().map(row).collect::<Vec<_>>())
    }
}

/// Ceph's name of the most similar state.
pub(crate) fn state_name(state: State) -> &'static str {
    match state {
        State::Loading => "Initial",
        State::Stray => "Started/Stray",
        State::Replica | State::ReplicaActive => "Started/ReplicaActive",
        State::GetInfo => "Started/Primary/Peering/GetInfo",
        State::GetLog => "Started/Primary/Peering/GetLog",
        State::GetMissing => "Started/Primary/Peering/GetMissing",
        State::WaitUpThru => "Started/Primary/Peering/WaitUpThru",
        State::WaitActingChange => "Started/Primary/WaitActingChange",
        State::Activating | State::WaitReadable => "Started/Primary/Active/Activating",
        State::Active | State::Inactive => "Started/Primary/Active",
        State::Down => "Started/Primary/Peering/Down",
        State::Incomplete => "Started/Primary/Peering/Incomplete",
        State::Refused | State::Stalled => "Started/Primary/Active/RecoveryToofull",
        State::SplitMerge => "Reset",
        State::Failed => "Crashed",
    }
}
