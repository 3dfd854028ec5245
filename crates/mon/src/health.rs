//! Health checks of the cluster, with the names of Ceph's checks.
//!
//! A check has a summary, which counts, and details, which name the affected daemons, groups or pools and end
//! with the next step for the administrator.

mod crashes;
mod groups;
mod history;
mod monitors;
mod osds;
mod pools;
mod scrubs;

use crate::live::Live;
use crate::state::State;
use crate::statistics::Statistics;
use engine::Time;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use wire::options::Values;

/// Bound of the detail lines of a check; further ones are only counted.
const DETAILS_MAX: usize = 50;
/// Severity of a check; the cluster has that of its worst check that is not muted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Ok,
    Warning,
    Error,
}

impl Severity {
    /// `HEALTH_OK`, `HEALTH_WARN` or `HEALTH_ERR`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Ok => "HEALTH_OK",
            Severity::Warning => "HEALTH_WARN",
            Severity::Error => "HEALTH_ERR",
        }
    }

    fn short(self) -> &'static str {
        match self {
            Severity::Ok => "INF",
            Severity::Warning => "WRN",
            Severity::Error => "ERR",
        }
    }
}

/// One failed health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub severity: Severity,
    /// One line, which counts the affected entities.
    pub summary: String,
    /// Number of affected entities.
    pub count: u64,
    /// Lines about the affected entities; the last one begins with `next:`.
    pub details: Vec<String>,
}

/// All failed checks, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    pub checks: BTreeMap<&'static str, Check>,
    /// Checks that OSDs reported, under names of their own.
    pub reported: BTreeMap<String, Check>,
    /// Names of muted checks, whether or not they fail.
    pub muted: Vec<String>,
}

/// The inputs of a check.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub state: &'a State,
    pub live: Live<'a>,
    pub now: Time,
}

impl<'a> View<'a> {
    /// Options as they apply to this monitor.
    fn options(&self) -> Values<impl Fn(&str) -> Option<&'a str>> {
        self.state.options(self.live.running)
    }

    /// A boolean option of this monitor; `true` if it is not set.
    fn is_on(&self, name: &str) -> bool {
        self.state.mon_switch(self.live.running, name, true)
    }
}

/// Runs all checks.
pub fn health(view: &View<'_>) -> Health {
    let mut health = Health::default();
    monitors::check(&mut health, view);
    osds::check(&mut health, view);
    groups::check(&mut health, view);
    history::check(&mut health, view);
    pools::check(&mut health, view);
    scrubs::check(&mut health, view);
    crashes::check(&mut health, view);
    take_reported(&mut health, view.live.stats);
    health.muted = view.state.mutes.iter().map(|mute| mute.code.clone()).collect();
    health
}

/// Adds the checks that OSDs report about themselves, such as slow operations.
fn take_reported(health: &mut Health, stats: &Statistics) {
    for (osd, report) in stats.osds() {
        for (name, message) in &report.health {
            let check = health.reported.entry(name.clone()).or_insert_with(|| Check {
                severity: Severity::Warning,
                summary: message.clone(),
                count: 0,
                details: Vec::new(),
            });
            check.count += 1;
            if check.count > 1 {
                check.summary = format!("{} OSDs: {message}", check.count);
            }
            if check.details.len() < DETAILS_MAX {
                check.details.push(format!("osd.{osd}: {message}"));
            }
        }
    }
}

/// Appends the next step for the administrator to the details of a check.
fn next_step(details: impl IntoIterator<Item = String>, step: &str) -> Vec<String> {
    let mut details: Vec<String> = details.into_iter().take(DETAILS_MAX).collect();
    if !details.is_empty() {
        details.push(format!("next: {step}"));
    }
    details
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// `3/12 objects degraded (25.000%)`
fn share(some: u64, all: u64, what: &str) -> String {
    let percent = some as f64 * 100.0 / all.max(1) as f64;
    format!("{some}/{all} objects {what} ({percent:.3}%)")
}

impl Health {
    fn warn(&mut self, name: &'static str, count: usize, summary: String, details: Vec<String>) {
        self.add(name, Severity::Warning, count, summary, details);
    }

    fn add(
        &mut self,
        name: &'static str,
        severity: Severity,
        count: usize,
        summary: String,
        mut details: Vec<String>,
    ) {
        if count == 0 {
            return;
        }
        // The `next:` line is not counted.
        if details.len() > DETAILS_MAX + 1 {
            let more = details.len() - DETAILS_MAX;
            details.truncate(DETAILS_MAX);
            details.push(format!("{more} more"));
        }
        let check = Check { severity, summary, count: count as u64, details };
        self.checks.insert(name, check);
    }

    /// All checks, including reported ones, in the order of their names.
    pub fn all(&self) -> BTreeMap<&str, &Check> {
        let own = self.checks.iter().map(|(name, check)| (*name, check));
        own.chain(self.reported.iter().map(|(name, check)| (name.as_str(), check))).collect()
    }

    pub fn is_muted(&self, name: &str) -> bool {
        self.muted.iter().any(|muted| muted == name)
    }

    /// The worst severity of the checks that are not muted.
    pub fn severity(&self) -> Severity {
        let audible = self.all().into_iter().filter(|(name, _)| !self.is_muted(name));
        audible.map(|(_, check)| check.severity).max().unwrap_or(Severity::Ok)
    }

    /// As `ceph health --format json` shows it; `detail` adds the detail lines.
    pub fn json(&self, state: &State, detail: bool) -> Value {
        let checks = self.all().into_iter().map(|(name, check)| {
            let mut object = Map::new();
            object.insert("severity".to_owned(), json!(check.severity.name()));
            let summary = json!({ "message": check.summary, "count": check.count });
            object.insert("summary".to_owned(), summary);
            if detail {
                let details = check.details.iter().map(|line| json!({ "message": line }));
                object.insert("detail".to_owned(), details.collect());
            }
            object.insert("muted".to_owned(), json!(self.is_muted(name)));
            (name.to_owned(), Value::Object(object))
        });
        let mutes = state.mutes.iter().map(|mute| {
            json!({
                "code": mute.code,
                "sticky": mute.sticky,
                "summary": mute.summary,
                "count": mute.count,
            })
        });
        json!({
            "status": self.severity().name(),
            "checks": checks.collect::<Map<_, _>>(),
            "mutes": mutes.collect::<Vec<_>>(),
        })
    }

    /// The summaries of checks that are not muted, and the names of muted ones in parentheses.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .all()
            .into_iter()
            .filter(|(name, _)| !self.is_muted(name))
            .map(|(_, check)| check.summary.clone())
            .collect();
        if !self.muted.is_empty() {
            lines.push(format!("(muted: {})", self.muted.join(", ")));
        }
        lines
    }

    /// As `ceph health` shows it; `detail` adds the detail lines.
    pub fn plain(&self, detail: bool) -> String {
        let lines = self.lines();
        let mut text = self.severity().name().to_owned();
        if !lines.is_empty() {
            text += &format!(" {}", lines.join("; "));
        }
        text.push('\n');
        if detail {
            for (name, check) in self.all() {
                let muted = if self.is_muted(name) { "(MUTED) " } else { "" };
                let severity = check.severity.short();
                text += &format!("{muted}[{severity}] {name}: {}\n", check.summary);
                for line in &check.details {
                    text += &format!("    {line}\n");
                }
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::testing::Overview;
    use crate::state::Mute;
    use maps::{Osd, OsdMapFlags, OsdState};

    fn look(state: &State) -> Health {
        let (stats, overview) = (&Statistics::default(), &Overview::default());
        health(&View { state, live: overview.live(stats), now: Time(0) })
    }

    #[test]
    fn muted_checks_are_listed_but_do_not_count() {
        let mut state = State::default();
        state.osdmap.flags = OsdMapFlags::NOOUT;
        state.osdmap.osds = vec![Osd { state: OsdState::EXISTS | OsdState::UP, ..Osd::default() }];
        let loud = look(&state);
        assert_eq!(loud.plain(false), "HEALTH_WARN noout flag(s) set\n");
        state.mutes.push(Mute {
            code: "OSDMAP_FLAGS".to_owned(),
            sticky: false,
            summary: String::new(),
            count: 1,
            expires_at: 0,
        });
        let quiet = look(&state);
        assert_eq!(quiet.plain(false), "HEALTH_OK (muted: OSDMAP_FLAGS)\n");
        assert_eq!(quiet.json(&state, true)["checks"]["OSDMAP_FLAGS"]["muted"], true);
    }
}
