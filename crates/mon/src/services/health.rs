//! Changes of health checks: written to the cluster log, so that a failure can be read there after it is
//! over, and compared with mutes, which end when their check clears or gets worse.

use crate::change::Change;
use crate::commands::{report, status};
use crate::health::{Health, Severity};
use crate::keys;
use crate::service::{Catalog, Cx, DecideCx, Family, Service};
use crate::sessions::Sessions;
use crate::state::{Mute, State};
use engine::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Interval at which health is checked.
const INTERVAL: Duration = Duration::from_secs(2);
/// How long a muted check must be absent to count as cleared. A new leader does not know all reports at once.
const CLEARED: Duration = Duration::from_secs(20);

/// The checks that failed at the last look: severity and summary by name.
#[derive(Debug, Default)]
struct HealthSeen {
    due: Time,
    checks: BTreeMap<String, (Severity, String)>,
    /// Muted checks that are not raised, and the time of the first look that missed them.
    absent: BTreeMap<String, Time>,
    /// Codes of mutes that have ended.
    ended: BTreeSet<String>,
}

impl HealthSeen {
    /// Whether a mute has ended: its check cleared, or counts more than when it was muted.
    fn has_ended(&self, mute: &Mute) -> bool {
        self.ended.contains(&mute.code)
    }

    /// This monitor leads from now on; absences seen before do not count.
    fn restart(&mut self) {
        (self.absent, self.ended) = Default::default();
    }

    fn update_mutes(&mut self, now: Time, mutes: &[Mute], health: &Health) {
        let raised = health.all();
        let mutes = || mutes.iter().filter(|mute| !mute.sticky);
        let is_absent =
            |code: &str| mutes().any(|mute| mute.code == code) && !raised.contains_key(code);
        self.absent.retain(|code, _| is_absent(code));
        self.ended.clear();
        for mute in mutes() {
            let has_ended = match raised.get(mute.code.as_str()) {
                Some(check) => check.count > mute.count,
                None => {
                    let since = *self.absent.entry(mute.code.clone()).or_insert(now);
                    now.since(since) >= CLEARED
                }
            };
            if has_ended {
                self.ended.insert(mute.code.clone());
            }
        }
    }

    /// Log entries for the difference, with the severities of the log.
    fn update(&mut self, now: BTreeMap<String, (Severity, String)>) -> Vec<(u16, String)> {
        let before = std::mem::replace(&mut self.checks, now);
        let mut notes = Vec::new();
        for (name, (severity, summary)) in &self.checks {
            match before.get(name) {
                None => notes
                    .push((level(*severity), format!("Health check failed: {summary} ({name})"))),
                // Counts change all the time; only a change of severity is logged.
                Some((known, _)) if known != severity => notes
                    .push((level(*severity), format!("Health check update: {summary} ({name})"))),
                Some(_) => {}
            }
        }
        let gone = before.iter().filter(|(name, _)| !self.checks.contains_key(*name));
        notes.extend(gone.map(|(name, (_, summary))| {
            (INFO, format!("Health check cleared: {name} (was: {summary})"))
        }));
        if self.checks.is_empty() && !before.is_empty() {
            notes.push((INFO, "Cluster is now healthy".to_owned()));
        }
        notes
    }
}

/// Severities of the cluster log.
const INFO: u16 = 1;

fn level(severity: Severity) -> u16 {
    match severity {
        Severity::Ok => INFO,
        Severity::Warning => 3,
        Severity::Error => 4,
    }
}

/// The service of health: changes of checks, and mutes.
#[derive(Debug, Default)]
pub(crate) struct HealthService {
    seen: HealthSeen,
}

pub(super) const CATALOG: Catalog = Catalog {
    topics: &[],
    messages: &[],
    commands: &[Family(1, status::COMMANDS), Family(2, report::COMMANDS)],
    checks: &[],
};

impl Service for HealthService {
    /// Removes mutes that are over.
    fn plan(&mut self, cx: &DecideCx<'_>, change: &mut Change) {
        let (mutes, second) = (&cx.state.mutes, u64::from(cx.now.wall().seconds));
        let has_expired = |expires_at: u64| expires_at != 0 && expires_at <= second;
        let is_over = |mute: &&Mute| has_expired(mute.expires_at) || self.seen.has_ended(mute);
        if mutes.iter().any(|mute| is_over(&mute)) {
            let kept: Vec<_> = mutes.iter().filter(|mute| !is_over(mute)).collect();
            change.put(keys::HEALTH_MUTES, serde_json::to_vec(&kept).unwrap_or_default());
        }
    }

    fn check_invariants(&self, _state: &State, _sessions: &Sessions) {
        for name in self.seen.checks.keys() {
            let is_code = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            assert!(name.chars().all(is_code), "{name} is no name of a health check");
        }
    }

    fn leadership(&mut self, _cx: &mut Cx<'_>, leads: bool) {
        if leads {
            self.seen.restart();
        }
    }
}

impl HealthService {
    /// Whether health is to be checked again.
    pub fn is_due(&self, now: Time) -> bool {
        self.seen.due <= now
    }

    /// Compares health with what it was, and returns entries for the cluster log: severity and text. Muted
    /// checks are not logged.
    pub fn note(&mut self, now: Time, mutes: &[Mute], health: &Health) -> Vec<(u16, String)> {
        self.seen.due = now + INTERVAL;
        self.seen.update_mutes(now, mutes, health);
        let audible = health.all().into_iter().filter(|(name, _)| !health.is_muted(name));
        let checks =
            audible.map(|(name, check)| (name.to_owned(), (check.severity, check.summary.clone())));
        self.seen.update(checks.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_gets_worse_and_ends_is_said_once() {
        let mut seen = HealthSeen::default();
        let one = |severity, summary: &str| {
            BTreeMap::from([("OSD_DOWN".to_owned(), (severity, summary.to_owned()))])
        };
        let begins = seen.update(one(Severity::Warning, "1 osds down"));
        assert_eq!(begins, [(3, "Health check failed: 1 osds down (OSD_DOWN)".to_owned())]);
        assert!(seen.update(one(Severity::Warning, "2 osds down")).is_empty());
        assert_eq!(seen.update(one(Severity::Error, "9 osds down"))[0].0, 4);
        let ends: Vec<String> =
            seen.update(BTreeMap::new()).into_iter().map(|(_, text)| text).collect();
        assert_eq!(
            ends,
            ["Health check cleared: OSD_DOWN (was: 9 osds down)", "Cluster is now healthy"]
        );
    }
}
