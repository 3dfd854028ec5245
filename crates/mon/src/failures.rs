//! Failures: what OSDs report about others that do not answer, and when that is believed.
//!
//! Reports are collected per target. One reporter may be the one that is cut off, so a target is
//! marked down when reporters from enough failure domains agree, each of them of a life of the target
//! that still goes on, and when the grace is over. The grace grows for OSDs that came back after such
//! a judgement although they had lived all the time. A refused connection, or a broken session between
//! members of a group, needs neither: it is evidence.
//!
//! A report of silence counts until it is taken back, and each until its target or its reporter is down or
//! has begun another life. Nothing of this is durable: those who still see a failure say so again to a new
//! monitor.

use crate::state::State;
use engine::Time;
use maps::{OsdMap, OsdXinfo};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Epoch, OsdId};
use wire::OsdFailure;

/// Reporters per target that are remembered; there are never that many failure domains to ask for.
const REPORTERS_MAX: usize = 256;

#[derive(Debug, Default)]
pub struct Failures {
    targets: BTreeMap<OsdId, Target>,
    domains: Domains,
}

/// An OSD of which others say that it failed.
#[derive(Debug)]
struct Target {
    /// Which life of it is meant.
    up_from: Epoch,
    reporters: BTreeMap<OsdId, Report>,
}

#[derive(Debug, Clone, Copy)]
struct Report {
    /// The reporter's life.
    up_from: Epoch,
    failed_since: Time,
    is_certain: bool,
    /// It does not run any more.
    is_dead: bool,
}

/// Why an OSD is to be marked down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Its port is closed, or a session to it broke.
    Certain { reporter: OsdId, is_dead: bool },
    Silent {
        reporters: usize,
        domains: usize,
        level: String,
        failed_for: Duration,
        grace: Duration,
    },
}

/// Heartbeats that others miss, as far as that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    pub reporters: Vec<OsdId>,
    /// Failure domains that reporters lie in, and how many of this level are asked for.
    pub domains: usize,
    pub domains_needed: usize,
    pub level: String,
    /// Since when all of the reporters have missed them.
    pub failed_for: Duration,
}

/// The bucket of the asked level that each OSD lies in.
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

    /// An OSD that lies in no such bucket is a domain of its own.
    fn of(&self, osd: OsdId) -> i32 {
        self.of_osd.get(&osd).copied().unwrap_or(osd.0)
    }
}

impl Failures {
    /// Takes a report, or takes one back. Whether it is about a life that still goes on.
    pub fn record(&mut self, map: &OsdMap, now: Time, from: OsdId, report: &OsdFailure) -> bool {
        let (Some(target), Some(reporter)) = (map.osd(report.target), map.osd(from)) else {
            return false;
        };
        let is_current = target.is_up() && target.client_addrs == report.target_addrs;
        if !is_current || !reporter.is_up() || report.target == from {
            return false;
        }
        // One that was marked down and came back leaves its sessions: whoever sees them end, and has not
        // heard of it yet, has seen no failure of the life that goes on.
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
            // That it answers again does not mend what is certain: a session that broke.
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
        self.targets.retain(|_, target| !target.reporters.is_empty());
        true
    }

    /// Forgets what concerns lives that are over.
    pub fn retain(&mut self, map: &OsdMap) {
        let lives = |osd: OsdId, up_from: Epoch| {
            map.osd(osd).is_some_and(|known| known.is_up() && known.info.up_from == up_from)
        };
        self.targets.retain(|osd, target| {
            target.reporters.retain(|reporter, report| lives(*reporter, report.up_from));
            lives(*osd, target.up_from) && !target.reporters.is_empty()
        });
    }

    pub fn targets(&self) -> impl Iterator<Item = OsdId> + '_ {
        self.targets.keys().copied()
    }

    /// Whether an OSD is to be marked down by now.
    pub fn verdict(&mut self, state: &State, now: Time, osd: OsdId) -> Option<Verdict> {
        let target = self.targets.get(&osd)?;
        let certain = target.reporters.iter().find(|(_, report)| report.is_certain);
        if let Some((reporter, _)) = certain {
            let is_dead = target.reporters.values().any(|report| report.is_dead);
            return Some(Verdict::Certain { reporter: *reporter, is_dead });
        }
        let grace = grace(state, now, osd, target.reporters.keys());
        let reported = self.reported(state, now, osd)?;
        let Reported { domains, level, failed_for, .. } = reported;
        let suffices = failed_for >= grace && domains >= reported.domains_needed;
        let reporters = reported.reporters.len();
        suffices.then_some(Verdict::Silent { reporters, domains, level, failed_for, grace })
    }

    /// Failure reports about an OSD, whether or not they suffice to mark it down.
    pub fn reported(&mut self, state: &State, now: Time, osd: OsdId) -> Option<Reported> {
        let target = self.targets.get(&osd)?;
        let newest = target.reporters.values().map(|report| report.failed_since).max()?;
        let level = state.options().text("mon_osd_reporter_subtree_level");
        self.domains.update(&state.osdmap, level);
        let reporters: Vec<OsdId> = target.reporters.keys().copied().collect();
        let domains: BTreeSet<i32> =
            reporters.iter().map(|reporter| self.domains.of(*reporter)).collect();
        Some(Reported {
            reporters,
            domains: domains.len(),
            domains_needed: self.domains_needed(state, osd),
            level: level.to_owned(),
            failed_for: now.since(newest),
        })
    }

    /// As many as the option says, or all others if there are fewer: in a cluster of two hosts, one
    /// can only be judged by the other.
    fn domains_needed(&self, state: &State, osd: OsdId) -> usize {
        let wanted = state.options().number("mon_osd_min_down_reporters").max(1);
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
    /// A reporter that repeats itself has seen the failure since it first said so.
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

/// How long an OSD may be silent: longer if it, or those who report it, were judged wrongly before.
fn grace<'a>(
    state: &State,
    now: Time,
    osd: OsdId,
    reporters: impl ExactSizeIterator<Item = &'a OsdId>,
) -> Duration {
    let grace = state.osd_options().duration("osd_heartbeat_grace");
    if !state.options().switch("mon_osd_adjust_heartbeat_grace") {
        return grace;
    }
    let lag = |osd: OsdId| {
        state.osdmap.osd(osd).map_or(Duration::ZERO, |known| lag(state, now, &known.xinfo))
    };
    let count = reporters.len().max(1) as u32;
    let of_reporters: Duration = reporters.map(|reporter| lag(*reporter)).sum();
    grace + lag(osd) + of_reporters / count
}

/// How late an OSD's signs of life may be expected to be, from its past; what was long ago counts
/// for less.
pub fn lag(state: &State, now: Time, xinfo: &OsdXinfo) -> Duration {
    if xinfo.laggy_interval == 0 || xinfo.laggy_probability == 0 {
        return Duration::ZERO;
    }
    let half_life = state.options().duration("mon_osd_laggy_halflife").as_secs_f64().max(1.0);
    let age = now.since(Time(xinfo.down_stamp.as_nanos())).as_secs_f64();
    let probability = f64::from(xinfo.laggy_probability) / f64::from(u32::MAX);
    let lag = 0.5f64.powf(age / half_life) * f64::from(xinfo.laggy_interval) * probability;
    Duration::from_secs_f64(lag.max(0.0))
}

/// An OSD's past once it boots again after it was marked down: `lived` says that it had been alive.
///
/// Patience is worth while where it spares an interval. One that stayed away for longer than the grace would
/// have been marked down with twice the grace as well, and its clients would have waited twice as long.
pub fn judge_past(state: &State, now: Time, xinfo: &mut OsdXinfo, lived: bool) {
    let options = state.options();
    let weight = options.real("mon_osd_laggy_weight").clamp(0.0, 1.0);
    let longest = options.duration("mon_osd_laggy_max_interval");
    let longest = longest.min(state.osd_options().duration("osd_heartbeat_grace"));
    let absence = now.since(Time(xinfo.down_stamp.as_nanos()));
    let was_laggy = lived && absence <= longest;
    // In whole seconds, as the map has it.
    let absence = absence.as_secs_f64().ceil();
    let mix = |before: u32, latest: f64| {
        (f64::from(before) * (1.0 - weight) + if was_laggy { latest * weight } else { 0.0 }).round()
            as u32
    };
    xinfo.laggy_interval = mix(xinfo.laggy_interval, absence);
    xinfo.laggy_probability = mix(xinfo.laggy_probability, f64::from(u32::MAX));
}
