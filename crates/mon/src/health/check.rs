//! Failed checks, and how they are shown.

use crate::live::Live;
use crate::state::State;
use engine::Time;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use wire::options::Values;

/// Bound of the detail lines of a check; further ones are only counted.
pub(super) const DETAILS_MAX: usize = 50;

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

/// The checks of services, by service.
pub type Checks = &'static [&'static [fn(&mut Health, &View<'_>)]];

/// The inputs of a check.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub state: &'a State,
    pub live: Live<'a>,
    /// The checks of all services.
    pub checks: Checks,
    pub now: Time,
}

impl<'a> View<'a> {
    /// Options as they apply to this monitor.
    pub fn options(&self) -> Values<impl Fn(&str) -> Option<&'a str>> {
        self.state.options(self.live.running)
    }

    /// A boolean option of this monitor; `true` if it is not set.
    pub fn is_on(&self, name: &str) -> bool {
        self.state.mon_switch(self.live.running, name, true)
    }
}

/// Appends the next step for the administrator to the details of a check.
pub(super) fn next_step(details: impl IntoIterator<Item = String>, step: &str) -> Vec<String> {
    let mut details: Vec<String> = details.into_iter().take(DETAILS_MAX).collect();
    if !details.is_empty() {
        details.push(format!("next: {step}"));
    }
    details
}

pub(super) fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// `3/12 objects degraded (25.000%)`
pub(super) fn share(some: u64, all: u64, what: &str) -> String {
    let percent = some as f64 * 100.0 / all.max(1) as f64;
    format!("{some}/{all} objects {what} ({percent:.3}%)")
}

impl Health {
    pub fn warn(
        &mut self,
        name: &'static str,
        count: usize,
        summary: String,
        details: Vec<String>,
    ) {
        self.add(name, Severity::Warning, count, summary, details);
    }

    pub fn add(
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
        assert!(details.len() <= DETAILS_MAX + 1, "details are bounded");
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
