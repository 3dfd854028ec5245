//! Membership of OSDs in the map: failure detection, and the batching of boots.
//!
//! An OSD is marked up when it boots. It is marked down on its own request, by the reports of others
//! ([`Failures`]), or when its session or its reports have been missing for too long ([`Liveness`]).

use super::boots::Boots;
use super::liveness::{Liveness, report_timeout};
use super::mark_down::{describe, hold_of, may_mark_down, plan_outs};
use crate::change::Change;
use crate::failures::{Failures, Reported, Verdict};
use crate::flapping::Flapping;
use crate::job::{Boot, OsdJob};
use crate::live::SilentOsd;
use crate::service::{Cx, DecideCx};
use crate::sessions::Sessions;
use crate::state::State;
use engine::{ConnId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::OsdId;
use wire::OsdFailure;

/// Silence of an OSD (which should report every five seconds) after which health names it.
const SILENCE_NAMED: Duration = Duration::from_secs(30);
/// Time beyond the grace after which health names an OSD that failure reports have not marked down.
const REPORTED_NAMED: Duration = Duration::from_secs(5);

/// Severity of the cluster log, as [`Change::note`] takes it.
const INFO: u16 = 1;

/// The knowledge by which OSDs are marked up and down.
#[derive(Debug, Default)]
pub(super) struct Membership {
    liveness: Liveness,
    boots: Boots,
    failures: Failures,
    flapping: Flapping,
}

impl Membership {
    /// Handles a report of an OSD.
    pub fn heard(&mut self, osd: OsdId, now: Time) {
        self.liveness.heard(osd, now);
    }

    /// Handles a new session of an OSD.
    pub fn arrived(&mut self, now: Time, conn: ConnId, osd: OsdId) {
        self.liveness.heard(osd, now);
        self.boots.arrived(conn, osd);
    }

    /// Handles the loss of an OSD's last session.
    pub fn lost(&mut self, osd: OsdId, now: Time) {
        self.liveness.lost(osd, now);
    }

    /// Begins to lead, without any reports yet.
    pub fn lead(&mut self, cx: &Cx<'_>) {
        self.liveness.restart();
        // OSDs report failures that persist again, and may have cancelled others at the former leader.
        self.failures = Failures::default();
        for (osd, known) in cx.state.osdmap.existing_osds() {
            // An OSD that does not come back is to be marked down.
            if known.is_up() && !cx.sessions.has_osd(osd) {
                self.liveness.lost(osd, cx.now);
            }
        }
    }

    /// Adds a boot to the batch.
    pub fn gather_boot(&mut self, now: Time, osd: OsdId, boot: Boot) {
        self.boots.gather(now, osd, boot);
    }

    /// The time at which the batch of boots is queued at the latest.
    pub fn boots_due(&self) -> Option<Time> {
        self.boots.due()
    }

    /// Takes the batch of boots if it is due, or if no other boot is expected.
    pub fn release_boots(&mut self, now: Time, state: &State, sessions: &Sessions) -> Vec<OsdJob> {
        let without_session = self.liveness.without_session();
        self.boots.release(now, &state.osdmap, sessions, without_session)
    }

    /// Whether a booting OSD must wait because it flaps. `lived`: its process has run since it was marked
    /// down.
    pub fn delays_boot(&mut self, cx: &DecideCx<'_>, osd: OsdId, lived: bool) -> bool {
        self.flapping.boots(cx.state, cx.running, cx.now, osd, lived)
    }

    /// OSDs that are kept down for a while because they flap.
    pub fn kept_down(&self, cx: &Cx<'_>) -> Vec<OsdId> {
        self.flapping.held(cx.state, cx.running, cx.now)
    }

    /// Called in every tick of the leader: OSDs that are up, and that health names for their silence or for
    /// failure reports.
    pub fn look(&mut self, cx: &Cx<'_>) -> Vec<SilentOsd> {
        let (state, now) = (cx.state, cx.now);
        self.liveness.look(now, &state.osdmap);
        let mut silences: BTreeMap<OsdId, Duration> =
            self.liveness.silent(now, SILENCE_NAMED).collect();
        let grace = state.osd_options(cx.running).duration("osd_heartbeat_grace");
        let mut reports = BTreeMap::new();
        for osd in self.failures.targets().collect::<Vec<_>>() {
            let reported = self.failures.reported(state, cx.running, now, osd);
            let is_old = |reported: &Reported| reported.failed_for >= grace + REPORTED_NAMED;
            reports.extend(reported.filter(is_old).map(|reported| (osd, reported)));
        }
        let osds: BTreeSet<OsdId> = silences.keys().chain(reports.keys()).copied().collect();
        let up = osds.into_iter().filter(|osd| state.osdmap.is_up(*osd));
        up.map(|osd| SilentOsd {
            osd,
            silent_for: silences.remove(&osd),
            reported: reports.remove(&osd),
            hold: hold_of(state, cx.running, osd),
        })
        .collect()
    }

    /// Records a failure report, and decides whether its target is marked down.
    pub fn handle_failure(
        &mut self,
        cx: &DecideCx<'_>,
        from: OsdId,
        failure: &OsdFailure,
        change: &mut Change,
    ) {
        let map = &cx.state.osdmap;
        self.failures.retain(map);
        if self.failures.record(map, cx.now, from, failure) {
            self.judge(cx, failure.target, change);
        }
    }

    /// Marks an OSD down if the reports suffice.
    fn judge(&mut self, cx: &DecideCx<'_>, osd: OsdId, change: &mut Change) {
        let Some(verdict) = self.failures.verdict(cx.state, cx.running, cx.now, osd) else {
            return;
        };
        if !may_mark_down(cx.state, cx.running, change, osd) {
            return;
        }
        if let Verdict::Silent { .. } = verdict {
            self.flapping.judged(&cx.state.osdmap, osd);
        }
        match verdict {
            Verdict::Certain { is_dead: true, .. } => change.mark_dead(cx.state, osd),
            _ => change.mark_down(cx.state, osd),
        }
        let text = format!("osd.{osd} {}", describe(&cx.state.osdmap, osd, &verdict));
        change.note(INFO, text);
    }

    /// Marks OSDs down for which the grace is over by now, and marks OSDs out that have been down for too
    /// long.
    pub fn plan(&mut self, cx: &DecideCx<'_>, change: &mut Change) {
        self.failures.retain(&cx.state.osdmap);
        self.flapping.expire(cx.state, cx.running, cx.now);
        let reported: Vec<OsdId> = self.failures.targets().collect();
        for osd in reported {
            self.judge(cx, osd, change);
        }
        let overdue: Vec<OsdId> = self.liveness.overdue(cx.now).collect();
        for osd in overdue {
            if may_mark_down(cx.state, cx.running, change, osd) {
                change.mark_down(cx.state, osd);
                change.note(INFO, format!("osd.{osd} marked down: it has no session"));
            }
        }
        let timeout = report_timeout(cx.state, cx.running).unwrap_or(Duration::MAX);
        let silent: Vec<(OsdId, Duration)> = self.liveness.silent(cx.now, timeout).collect();
        for (osd, silent) in silent {
            if may_mark_down(cx.state, cx.running, change, osd) {
                change.mark_down(cx.state, osd);
                let seconds = silent.as_secs();
                change.note(
                    INFO,
                    format!("osd.{osd} marked down after no report for {seconds} seconds"),
                );
            }
        }
        plan_outs(cx, change);
    }

    /// Panics if boots wait although none is due.
    pub fn check_invariants(&self) {
        assert_eq!(self.boots.is_empty(), self.boots.due().is_none(), "boots wait until a time");
    }
}
