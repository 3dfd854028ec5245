//! Changes of health checks: written to the cluster log, so that a failure can be read there after it is
//! over, and compared with mutes, which end when their check clears or gets worse.

use super::Monitor;
use crate::health::{Health, Severity, View, health};
use crate::job::Job;
use crate::state::Mute;
use engine::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Interval at which health is checked.
const INTERVAL: Duration = Duration::from_secs(2);
/// How long a muted check must be absent to count as cleared. A new leader does not know all reports at once.
const CLEARED: Duration = Duration::from_secs(20);

/// The checks that failed at the last look: severity and summary by name.
#[derive(Debug, Default)]
pub(super) struct HealthSeen {
    due: Time,
    checks: BTreeMap<String, (Severity, String)>,
    /// Muted checks that are not raised, and the time of the first look that missed them.
    absent: BTreeMap<String, Time>,
    /// Codes of mutes that have ended.
    ended: BTreeSet<String>,
}

impl HealthSeen {
    /// Whether a mute has ended: its check cleared, or counts more than when it was muted.
    pub fn has_ended(&self, mute: &Mute) -> bool {
        self.ended.contains(&mute.code)
    }

    /// This monitor leads from now on; absences seen before do not count.
    pub fn restart(&mut self) {
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

impl Monitor {
    /// Logs changes of health, if a check is due. Muted checks are not logged.
    pub(super) fn watch_health(&mut self, now: Time) {
        if now < self.health_seen.due {
            return;
        }
        self.health_seen.due = now + INTERVAL;
        let (state, live) = (
            &self.state,
            self.overview.live(
                &self.stats,
                self.sessions.peers(),
                self.pipeline.troubles(),
                self.pipeline.operations(),
            ),
        );
        let health = health(&View { state, live, now });
        self.health_seen.update_mutes(now, &state.mutes, &health);
        let audible = health.all().into_iter().filter(|(name, _)| !health.is_muted(name));
        let checks =
            audible.map(|(name, check)| (name.to_owned(), (check.severity, check.summary.clone())));
        let notes = self.health_seen.update(checks.collect());
        if !notes.is_empty() {
            self.enqueue(Job::Notes(notes));
        }
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
