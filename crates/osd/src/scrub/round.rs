//! A running round of a scrub whose primary this OSD is: its outputs and findings, and its end.

use super::state::{GroupScrub, Running, Scrubbed, Scrubs};
use crate::cx::Cx;
use crate::env::Env;
use crate::report::schedule::Schedule;
use crate::sessions::peers::Peers;
use crate::tokens::ScrubTag;
use engine::{Duration, Time};
use pg::Pg;
use pg::scrub::{
    Count, End, Finding, Level, OmapSize, OmapTotals, Order, Round, RoundOutput, SnapFinding, View,
};
use std::collections::BTreeSet;
use types::{HObject, OsdId, PgShard, UTime};

/// A round without an answer for so long is aborted.
const PATIENCE: Duration = Duration::from_secs(60);
/// Findings of a group that are kept for clients; further ones are only counted.
const FINDINGS_MAX: usize = 1000;
/// Request ids reserved for one round.
const ROUND_NUMBERS: u64 = 1 << 32;
/// Pause after an aborted round.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_STEP: Duration = Duration::from_millis(300);
const RETRY_STEPS: u64 = 7;

/// A finding that concerns other components.
pub(crate) enum Found {
    /// The group replaces the bad copies of an object on these OSDs.
    Repaired(HObject, Vec<OsdId>),
    /// An inconsistency that is not repaired, or only by a change that the group makes.
    Inconsistent,
    /// An omap that exceeds a threshold.
    LargeOmap(HObject, OmapSize),
}

impl Scrubs {
    /// Begins a round. Objects that were repaired are checked again first, in a round of their own.
    pub fn begin(
        &mut self,
        env: &Env,
        reports: &mut Schedule,
        group: &mut Scrubbed<'_>,
        level: Level,
        order: Option<Order>,
    ) {
        let (pg, whoami) = (group.pg.pg_shard(), group.pg.whoami());
        self.rounds += 1;
        let serial = self.rounds;
        let first = serial.wrapping_mul(ROUND_NUMBERS);
        let members = group.pg.members().acting_members().collect();
        let repaired = std::mem::take(&mut group.scrub.repaired);
        let is_recheck = !repaired.is_empty();
        let round = match is_recheck {
            true => {
                let level = repaired.values().copied().max().unwrap_or_default();
                let names = repaired.keys().cloned().collect();
                Round::of_names(pg.pg, whoami, members, level, names, first)
            }
            false => Round::new(pg.pg, whoami, members, level, first),
        };
        if !is_recheck {
            group.scrub.findings.clear();
            group.scrub.snap_findings.clear();
        }
        group.scrub.findings_of = Some(group.pg.interval());
        tracing::debug!(%pg, level = ?round.level(), is_recheck, "scrub begins");
        group.scrub.running = Some(Box::new(Running {
            round,
            serial,
            interval: group.pg.interval(),
            order,
            recheck: repaired,
            count: Count::default(),
            omaps: OmapTotals::default(),
            heard: env.now,
        }));
        self.own.insert(pg);
        reports.request(env.now);
    }

    /// Performs the outputs of a round up to a finding, or all of them; then the round may end.
    pub fn advance(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        reports: &mut Schedule,
        group: &mut Scrubbed<'_>,
    ) -> Option<Found> {
        while let Some(running) = &mut group.scrub.running {
            if let Some(finding) = running.round.poll_finding() {
                self.findings += 1;
                return Some(handle_finding(cx.env, group, finding));
            }
            if let Some(finding) = running.round.poll_snap_finding() {
                handle_snap_finding(cx.env.now, group, finding);
                return Some(Found::Inconsistent);
            }
            if let Some((object, size)) = running.round.poll_omap() {
                if running.count_omap(cx.env, size) {
                    return Some(Found::LargeOmap(object, size));
                }
                continue;
            }
            let serial = running.serial;
            match running.round.poll_output() {
                Some(RoundOutput::Send(to, body)) => group.send(cx, peers, to, &body),
                Some(RoundOutput::Storage(tag, kind)) => {
                    group.scan(cx.out, ScrubTag::Round(serial, tag), kind);
                }
                Some(RoundOutput::Index(pairs)) => group.add_to_index(cx.out, pairs),
                None => break,
            }
        }
        let ended = group.scrub.running.take_if(|running| running.round.end().is_some());
        if let Some(running) = ended {
            reports.request(cx.env.now);
            self.end(cx, peers, group, &running);
        }
        None
    }

    fn end(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        group: &mut Scrubbed<'_>,
        running: &Running,
    ) {
        let (pg, now) = (group.pg.pg_shard(), cx.env.now);
        self.own.remove(&pg);
        self.due = Some(now);
        let (objects, busy) = running.round.progress();
        match running.round.end().expect("the caller saw it") {
            End::Complete => tracing::debug!(%pg, objects, busy, "scrub ends"),
            end => {
                tracing::debug!(%pg, ?end, "scrub came to nothing");
                return self.retry(now, group, running);
            }
        }
        let mut stamps = group.scrub.stamps.unwrap_or_default();
        if running.is_recheck() {
            stamps.errors += running.count;
            return group.publish_stamps(cx, peers, stamps);
        }
        let next = group.scrub.wanted(group.pg).filter(|order| Some(*order) != running.order);
        // The clock of the primary that took the order may have been ahead of ours.
        let at = running.order.map_or(UTime::ZERO, |order| order.at);
        stamps.note(running.level(), at.max(now.wall()), running.count, running.omaps);
        // An order that came meanwhile is not done by a scrub that began before it.
        let next = next.map(|order| Order { at: stamps.after(order.at), ..order });
        group.pg.set_scrub_order(next);
        group.publish_stamps(cx, peers, stamps);
    }

    /// Takes out the groups that are scrubbed here, for [`Scrubs::keep_or_abort`] of each.
    pub fn take_own(&mut self) -> BTreeSet<PgShard> {
        std::mem::take(&mut self.own)
    }

    /// Keeps a group among those that are scrubbed here, unless the interval of its round is over, or
    /// it gets no answers: then the round is aborted.
    pub fn keep_or_abort(&mut self, cx: &mut Cx<'_>, peers: &mut Peers, group: &mut Scrubbed<'_>) {
        let (interval, is_clean) = (group.pg.interval(), group.pg.is_active());
        let is_kept = |running: &Running| {
            running.interval == interval && is_clean && cx.env.now < running.heard + PATIENCE
        };
        if group.scrub.running.as_ref().is_some_and(|running| is_kept(running)) {
            self.own.insert(group.pg.pg_shard());
            return;
        }
        let Some(mut running) = group.scrub.running.take() else { return };
        if running.interval == interval {
            running.round.stop(End::Failed(group.pg.whoami()));
            while let Some(output) = running.round.poll_output() {
                if let RoundOutput::Send(to, body) = output {
                    group.send(cx, peers, to, &body);
                }
            }
        }
        self.retry(cx.env.now, group, &running);
    }

    /// Schedules an aborted round again, with the objects it had to check.
    fn retry(&self, now: Time, group: &mut Scrubbed<'_>, running: &Running) {
        // Spread, so that aborted rounds do not collide again.
        let again = now + RETRY + RETRY_STEP * (self.rounds % RETRY_STEPS) as u32;
        group.scrub.not_before = Some(again);
        if group.pg.is_primary() {
            group.scrub.repaired.extend(running.recheck.clone());
        }
    }
}

impl Running {
    /// Counts the size of an omap that a deep scrub has read. Returns whether it exceeds a threshold.
    fn count_omap(&mut self, env: &Env, size: OmapSize) -> bool {
        // Repaired copies were counted by the earlier round.
        if self.is_recheck() {
            return false;
        }
        let options = &env.options;
        let is_large = size.keys > options.omap_keys_usual || size.bytes > options.omap_bytes_usual;
        self.omaps.size.keys += size.keys;
        self.omaps.size.bytes += size.bytes;
        self.omaps.large_objects += u64::from(is_large);
        is_large
    }
}

/// Handles an inconsistent object: it is repaired if a good copy is known.
fn handle_finding(env: &Env, group: &mut Scrubbed<'_>, finding: Finding) -> Found {
    let may_repair = env.options.scrub_auto_repair;
    // A premerge group takes no changes before it is merged.
    let is_premerge = group.premerge.check_premerge(group.pg);
    let GroupScrub { running, repaired, repairs, findings, .. } = &mut *group.scrub;
    let Some(running) = running else { return Found::Inconsistent };
    let wanted = may_repair && finding.is_certain() || running.may_repair();
    let object = finding.name.clone();
    tracing::error!(
        pg = %group.pg.id(), %object, authority = ?finding.authority, bad = ?finding.bad,
        "scrub: copies of an object differ or cannot be read"
    );
    // An object that is inconsistent again after a repair is not repaired again.
    let wanted = wanted && !running.is_recheck();
    if wanted && !is_premerge && group.pg.repair(env.now.wall(), &finding) {
        *repairs += 1;
        repaired.insert(object.clone(), running.level());
        return Found::Repaired(object, finding.bad.iter().map(|member| member.osd).collect());
    }
    running.count += finding.count();
    if findings.len() < FINDINGS_MAX {
        findings.insert(object, finding);
    }
    Found::Inconsistent
}

/// Handles an object whose clones do not match its snapset. Missing clones cannot be restored;
/// extra clones are removed if an administrator ordered a repair.
fn handle_snap_finding(now: Time, group: &mut Scrubbed<'_>, finding: SnapFinding) {
    let is_premerge = group.premerge.check_premerge(group.pg);
    let GroupScrub { running, snap_findings, .. } = &mut *group.scrub;
    let Some(running) = running else { return };
    tracing::error!(
        pg = %group.pg.id(), object = %finding.name, missing = ?finding.missing,
        extra = ?finding.extra, "scrub: an object and its clones do not belong together"
    );
    let superfluous: Vec<HObject> = finding.superfluous().collect();
    let is_all = finding.errors == pg::scrub::snapset::EXTRA_CLONES;
    let mut removed = running.may_repair() && !is_premerge && !superfluous.is_empty();
    if removed {
        for clone in &superfluous {
            removed &= group.pg.remove_superfluous(now.wall(), clone);
        }
    }
    if !(removed && is_all) {
        running.count += finding.count();
        if snap_findings.len() < FINDINGS_MAX {
            snap_findings.insert(finding.name.clone(), finding);
        }
    }
}

/// The state of a group that rounds need.
pub(super) fn view(pg: &Pg) -> View<'_> {
    pg.scrub_view()
}
