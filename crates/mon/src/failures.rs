//! Failure detection: collects the failure reports of OSDs, and decides when a target is marked down.
//!
//! Reports are collected per target. A single reporter may itself be cut off, so a target is marked down when
//! reporters from enough failure domains agree, each about the current incarnation of the target, and when
//! the grace is over. The grace grows for OSDs that were marked down before although they were running. A
//! refused connection, or a broken session between members of a group, needs neither: it is conclusive.
//!
//! A report of missed heartbeats counts until its reporter cancels it, and every report until its target or
//! its reporter is down or has restarted. Nothing of this is durable: reporters that still observe a failure
//! report it again to a new leader.

use crate::state::{Overrides, State};
use engine::Time;
use maps::{OsdMap, OsdXinfo};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Epoch, OsdId};
use wire::OsdFailure;

/// Reporters that are remembered per target; no cluster requires that many failure domains.
const REPORTERS_MAX: usize = 256;

/// Failure reports by target.
#[derive(Debug, Default)]
pub struct Failures {
    targets: BTreeMap<OsdId, Target>,
    domains: Domains,
}

/// An OSD that others have reported as failed.
#[derive(Debug)]
struct Target {
    /// The incarnation of the target that the reports are about.
    up_from: Epoch,
    reporters: BTreeMap<OsdId, Report>,
}

#[derive(Debug, Clone, Copy)]
struct Report {
    /// The reporter's incarnation.
    up_from: Epoch,
    failed_since: Time,
    is_certain: bool,
    /// The target's process does not run any more.
    is_dead: bool,
}

/// The reason an OSD is to be marked down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The target refuses connections, or a session to it broke.
    Certain { reporter: OsdId, is_dead: bool },
    /// Enough reporters miss its heartbeats, and its grace is over.
    Silent {
        reporters: usize,
        domains: usize,
        level: String,
        failed_for: Duration,
        grace: Duration,
    },
}

/// The current failure reports about one OSD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// OSDs whose reports count.
    pub reporters: Vec<OsdId>,
    /// Number of failure domains among the reporters, and the number required to mark the OSD down.
    pub domains: usize,
    pub domains_needed: usize,
    /// The bucket type of these failure domains.
    pub level: String,
    /// Time since the last of the reporters began to miss heartbeats.
    pub failed_for: Duration,
}

/// The bucket of the configured level that contains each OSD.
#[derive(Debug, Default)]
struct Domains {
    crush_version: u32,
    level: String,
    of_osd: BTreeMap<OsdId, i32>,
}

impl Domains {
    fn update(&mut self, map: &OsdMap, level: &str) {
        if self.crush_version == map.crush_version && self.level == level {
            return;
        }
        self.crush_version = map.crush_version;
        level.clone_into(&mut self.level);
        self.of_osd = BTreeMap::new();
        let type_id = map.crush.type_id(level);
        for bucket in map.crush.buckets().filter(|bucket| Some(bucket.type_id()) == type_id) {
            if !map.crush.is_shadow(bucket.id()) {
                let devices = map.crush.devices_below(bucket.id());
                self.of_osd.extend(devices.into_iter().map(|osd| (OsdId(osd), bucket.id())));
            }
        }
    }

    /// An OSD outside of such buckets is a domain of its own.
    fn of(&self, osd: OsdId) -> i32 {
        self.of_osd.get(&osd).copied().unwrap_or(osd.0)
    }
}

impl Failures {
    /// Records a report, or a cancellation. Returns whether it is about the current incarnation of a target
    /// that is up.
    pub fn record(&mut self, map: &OsdMap, now: Time, from: OsdId, report: &OsdFailure) -> bool {
        let (Some(target), Some(reporter)) = (map.osd(report.target), map.osd(from)) else {
            return false;
        };
        let is_current = target.is_up() && target.client_addrs == report.target_addrs;
        if !is_current || !reporter.is_up() || report.target == from {
            return false;
        }
        // An OSD that was marked down and came back drops its sessions: a peer that sees them end, and does
        // not have the new map yet, has observed no failure of the current incarnation.
        let newest_life = target.info.up_from.max(reporter.info.up_from);
        if report.epoch < newest_life {
            return false;
        }
        let known = self
            .targets
            .entry(report.target)
            .or_insert_with(|| Target { up_from: target.info.up_from, reporters: BTreeMap::new() });
        if known.up_from != target.info.up_from {
            *known = Target { up_from: target.info.up_from, reporters: BTreeMap::new() };
        }
        if report.flags & OsdFailure::FAILED == 0 {
            // A heartbeat that is answered again does not cancel conclusive evidence: a session that broke.
            if known.reporters.get(&from).is_some_and(|known| !known.is_certain) {
                known.reporters.remove(&from);
            }
        } else if known.reporters.len() < REPORTERS_MAX || known.reporters.contains_key(&from) {
            let seconds = u64::try_from(report.failed_for_seconds).unwrap_or(0);
            let failed_since = now - Duration::from_secs(seconds);
            let is_certain = report.flags & OsdFailure::IMMEDIATE != 0;
            let is_dead = is_certain && report.flags & OsdFailure::DEAD != 0;
            let before = known.reporters.get(&from).copied();
            let up_from = reporter.info.up_from;
            let said = Report { up_from, failed_since, is_certain, is_dead };
            known.reporters.insert(from, before.map_or(said, |before| before.and(said)));
        }
        assert!(known.reporters.len() <= REPORTERS_MAX, "reporters are bounded");
        self.targets.retain(|_, target| !target.reporters.is_empty());
        true
    }

    /// Drops reports about, or from, incarnations that are over.
    pub fn retain(&mut self, map: &OsdMap) {
        let lives = |osd: OsdId, up_from: Epoch| {
            map.osd(osd).is_some_and(|known| known.is_up() && known.info.up_from == up_from)
        };
        self.targets.retain(|osd, target| {
            target.reporters.retain(|reporter, report| lives(*reporter, report.up_from));
            lives(*osd, target.up_from) && !target.reporters.is_empty()
        });
    }

    /// OSDs that are reported as failed.
    pub fn targets(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.targets.keys().copied()
    }

    /// The reason to mark an OSD down now, if there is one.
    pub fn verdict(
        &mut self,
        state: &State,
        running: &Overrides,
        now: Time,
        osd: OsdId,
    ) -> Option<Verdict> {
        let target = self.targets.get(&osd)?;
        let certain = target.reporters.iter().find(|(_, report)| report.is_certain);
        if let Some((reporter, _)) = certain {
            let is_dead = target.reporters.values().any(|report| report.is_dead);
            return Some(Verdict::Certain { reporter: *reporter, is_dead });
        }
        let grace = grace(state, running, now, osd, target.reporters.keys());
        let reported = self.reported(state, running, now, osd)?;
        let Reported { domains, level, failed_for, .. } = reported;
        let suffices = failed_for >= grace && domains >= reported.domains_needed;
        let reporters = reported.reporters.len();
        suffices.then_some(Verdict::Silent { reporters, domains, level, failed_for, grace })
    }

    /// Failure reports about an OSD, whether or not they suffice to mark it down.
    pub fn reported(
        &mut self,
        state: &State,
        running: &Overrides,
        now: Time,
        osd: OsdId,
    ) -> Option<Reported> {
        let target = self.targets.get(&osd)?;
        let newest = target.reporters.values().map(|report| report.failed_since).max()?;
        let level = state.options(running).text("mon_osd_reporter_subtree_level");
        self.domains.update(&state.osdmap, level);
        let reporters: Vec<OsdId> = target.reporters.keys().copied().collect();
        let domains: BTreeSet<i32> =
            reporters.iter().map(|reporter| self.domains.of(*reporter)).collect();
        assert!((1..=reporters.len()).contains(&domains.len()), "a reporter is in one domain");
        Some(Reported {
            reporters,
            domains: domains.len(),
            domains_needed: self.domains_needed(state, running, osd),
            level: level.to_owned(),
            failed_for: now.since(newest),
        })
    }

    /// The configured number, or all other domains if there are fewer: in a cluster of two hosts, each can
    /// only be reported by the other.
    fn domains_needed(&self, state: &State, running: &Overrides, osd: OsdId) -> usize {
        let wanted = state.options(running).number("mon_osd_min_down_reporters").max(1);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let own = self.domains.of(osd);
        let mut others = BTreeSet::new();
        for (other, _) in state.osdmap.existing_osds().filter(|(_, known)| known.is_up()) {
            let domain = self.domains.of(other);
            if domain != own {
                others.insert(domain);
            }
            if others.len() >= wanted {
                return wanted;
            }
        }
        others.len().max(1)
    }
}

impl Report {
    /// Merges a repeated report: the failure began when the reporter first noticed it.
    fn and(self, later: Report) -> Report {
        if self.up_from != later.up_from {
            return later;
        }
        Report {
            failed_since: self.failed_since.min(later.failed_since),
            is_certain: self.is_certain || later.is_certain,
            is_dead: self.is_dead || later.is_dead,
            ..later
        }
    }
}

/// Time for which an OSD may be silent: longer if it, or its reporters, were marked down wrongly before.
fn grace<'a>(
    state: &State,
    running: &Overrides,
    now: Time,
    osd: OsdId,
    reporters: impl ExactSizeIterator<Item = &'a OsdId>,
) -> Duration {
    let grace = state.osd_options(running).duration("osd_heartbeat_grace");
    if !state.options(running).switch("mon_osd_adjust_heartbeat_grace") {
        return grace;
    }
    let lag = |osd: OsdId| {
        state.osdmap.osd(osd).map_or(Duration::ZERO, |known| lag(state, running, now, &known.xinfo))
    };
    let count = reporters.len().max(1) as u32;
    let of_reporters: Duration = reporters.map(|reporter| lag(*reporter)).sum();
    grace + lag(osd) + of_reporters / count
}

/// The extra grace for an OSD that was laggy before; it halves every `mon_osd_laggy_halflife` seconds.
pub fn lag(state: &State, running: &Overrides, now: Time, xinfo: &OsdXinfo) -> Duration {
    if xinfo.laggy_interval == 0 || xinfo.laggy_probability == 0 {
        return Duration::ZERO;
    }
    let half_life =
        state.options(running).duration("mon_osd_laggy_halflife").as_secs_f64().max(1.0);
    let age = now.since(Time(xinfo.down_stamp.as_nanos())).as_secs_f64();
    let probability = f64::from(xinfo.laggy_probability) / f64::from(u32::MAX);
    let lag = 0.5f64.powf(age / half_life) * f64::from(xinfo.laggy_interval) * probability;
    Duration::from_secs_f64(lag.max(0.0))
}

/// Updates an OSD's lagginess when it boots after it was marked down. `lived`: its process had been running.
///
/// A longer grace helps only if it avoids an interval. An OSD that was away for longer than the grace would
/// have been marked down with twice the grace as well, and its clients would have waited twice as long.
pub fn judge_past(
    state: &State,
    running: &Overrides,
    now: Time,
    xinfo: &mut OsdXinfo,
    lived: bool,
) {
    let options = state.options(running);
    let weight = options.real("mon_osd_laggy_weight").clamp(0.0, 1.0);
    let longest = options.duration("mon_osd_laggy_max_interval");
    let longest = longest.min(state.osd_options(running).duration("osd_heartbeat_grace"));
    let absence = now.since(Time(xinfo.down_stamp.as_nanos()));
    let was_laggy = lived && absence <= longest;
    // Whole seconds, the unit of the map.
    let absence = absence.as_secs_f64().ceil();
    let mix = |before: u32, latest: f64| {
        (f64::from(before) * (1.0 - weight) + if was_laggy { latest * weight } else { 0.0 }).round()
            as u32
    };
    xinfo.laggy_interval = mix(xinfo.laggy_interval, absence);
    xinfo.laggy_probability = mix(xinfo.laggy_probability, f64::from(u32::MAX));
}
