//! The OSD map: membership of OSDs, their reports, pools, and placement.

mod balance;
mod boot;
mod boots;
mod liveness;
mod maps;
mod mark_down;
mod membership;
mod plan;
pub(crate) mod pool_ops;
mod requests;
mod usage;

use crate::change::Change;
use crate::commands::{
    autoscale, balancer, blocklist, crush, crush_classes, crush_edit, crush_rules, df,
    erasure_code, osd, osd_life, osd_mapping, osd_marks, osd_safety, osd_usage, pg,
    pool_application, pool_create, pool_quota, pool_settings, pools, progress, recovery, reweight,
    scrub, tiers,
};
use crate::health;
use crate::image_traffic::Note;
use crate::job::{Effects, Job, OsdJob, ServiceJob};
use crate::live::{BalancerStatus, OsdWatch};
use crate::service::{
    Act, Catalog, Cx, DecideCx, Family, Intake, Pattern, Reader, Role, Service, Topic, Via,
};
use crate::sessions::{Session, Sessions, Subscription};
use crate::state::State;
use crate::statistics::Statistics;
use auth::Rwx;
use engine::{ConnId, Message, Time};
use maps::MapMessages;
use membership::Membership;
use std::time::Duration;
use wire::internal::{StatsAck, StatsReport};
use wire::osd_map::MonGetOsdMap;
use wire::{
    GetPoolStats, MessageBody, OsdAlive, OsdBeacon, OsdBoot, OsdFailure, OsdMarkMeDown, OsdPgTemp,
    PeerFault, Statfs, decode_from_peer,
};

pub(super) const CATALOG: Catalog = Catalog {
    topics: &[Topic {
        pattern: Pattern::Exact("osdmap"),
        needs: Some("osd"),
        first: |_, item| item.start,
        version: Some(|state| {
            let oldest = state.history.incrementals.keys().next().map_or(0, |epoch| epoch.0);
            (state.osdmap.epoch.0.into(), oldest.into())
        }),
        // A client requests one map when an OSD does not answer, and repeats that only seconds later. The
        // first map often lacks the change that it waits for: when several OSDs fail or boot together, their
        // changes come in several maps.
        lingers: Some(Duration::from_secs(30)),
        excludes_others: false,
    }],
    messages: &[
        Intake { kind: MonGetOsdMap::KIND, via: Via::Here },
        Intake { kind: Statfs::KIND, via: Via::LeaderAnswers },
        Intake { kind: GetPoolStats::KIND, via: Via::LeaderAnswers },
        Intake { kind: StatsReport::KIND, via: Via::LeaderReported },
        Intake { kind: OsdBoot::KIND, via: Via::LeaderReported },
        Intake { kind: OsdAlive::KIND, via: Via::LeaderReported },
        Intake { kind: OsdFailure::KIND, via: Via::LeaderReported },
        Intake { kind: OsdPgTemp::KIND, via: Via::LeaderReported },
        Intake { kind: OsdBeacon::KIND, via: Via::LeaderReported },
        Intake { kind: OsdMarkMeDown::KIND, via: Via::LeaderOnce },
    ],
    commands: &[
        Family(3, df::COMMANDS),
        Family(9, osd::COMMANDS),
        Family(10, osd_usage::COMMANDS),
        Family(11, reweight::COMMANDS),
        Family(12, osd_marks::COMMANDS),
        Family(13, osd_life::COMMANDS),
        Family(14, osd_safety::COMMANDS),
        Family(15, osd_mapping::COMMANDS),
        Family(16, blocklist::COMMANDS),
        Family(17, pools::COMMANDS),
        Family(18, pool_create::COMMANDS),
        Family(19, pool_settings::COMMANDS),
        Family(20, pool_quota::COMMANDS),
        Family(21, pool_application::COMMANDS),
        Family(22, crush::COMMANDS),
        Family(23, crush_edit::COMMANDS),
        Family(24, crush_classes::COMMANDS),
        Family(25, crush_rules::COMMANDS),
        Family(26, erasure_code::COMMANDS),
        Family(27, pg::COMMANDS),
        Family(28, scrub::COMMANDS),
        Family(29, recovery::COMMANDS),
        Family(30, tiers::COMMANDS),
        Family(35, balancer::COMMANDS),
        Family(36, autoscale::COMMANDS),
        Family(37, progress::COMMANDS),
    ],
    checks: &[
        health::osds::check,
        health::groups::check,
        health::history::check,
        health::pools::check,
        health::scrubs::check,
    ],
};

/// The service of the OSD map.
#[derive(Debug, Default)]
pub(crate) struct OsdService {
    /// Reports of OSDs; only the leader's are complete.
    statistics: Statistics,
    membership: Membership,
    maps: MapMessages,
    watch: OsdWatch,
}

impl Service for OsdService {
    fn handle_message(
        &mut self,
        cx: &mut Cx<'_>,
        from: ConnId,
        message: &Message,
    ) -> Result<(), PeerFault> {
        let tid = message.tid;
        match message.kind {
            MonGetOsdMap::KIND => send_maps(cx, from, &decode_from_peer::<MonGetOsdMap>(message)?),
            Statfs::KIND => {
                usage::tell(cx, &self.statistics, from, tid, decode_from_peer::<Statfs>(message)?);
            }
            GetPoolStats::KIND => {
                usage::tell_pools(
                    cx,
                    &self.statistics,
                    from,
                    tid,
                    decode_from_peer::<GetPoolStats>(message)?,
                );
            }
            StatsReport::KIND => {
                self.handle_stats(cx, from, tid, decode_from_peer::<StatsReport>(message)?)
            }
            _ => requests::take(&mut self.membership, cx, from, message)?,
        }
        Ok(())
    }

    /// This monitor sends the maps to its OSDs, whichever one marks them up.
    fn forwarded(
        &mut self,
        cx: &mut Cx<'_>,
        from: ConnId,
        message: &Message,
    ) -> Result<(), PeerFault> {
        if message.kind == OsdBoot::KIND {
            let known = decode_from_peer::<OsdBoot>(message)?.superblock.newest_map;
            cx.out.push_back(Act::Inform(from, known.next()));
        }
        Ok(())
    }

    fn session_opened(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        if let Some(osd) = cx.sessions.osd(conn) {
            self.membership.arrived(cx.now, conn, osd);
        }
    }

    /// The last session of an OSD starts its grace.
    fn session_closed(&mut self, cx: &mut Cx<'_>, _conn: ConnId, was: &Session) {
        if let Some(osd) = was.osd()
            && !cx.sessions.has_osd(osd)
        {
            self.membership.lost(osd, cx.now);
        }
    }

    fn publish(
        &mut self,
        state: &State,
        reader: Reader<'_>,
        _topic: &str,
        subscription: &mut Subscription,
        messages: &mut Vec<Message>,
    ) {
        messages.extend(self.maps.serve(state, reader.features, subscription));
    }

    fn tick(&mut self, cx: &mut Cx<'_>, role: Role) {
        match role {
            Role::Any if cx.leads => self.watch.silent = self.membership.look(cx),
            Role::Any => {}
            Role::Owner => {
                self.watch.kept_down = self.membership.kept_down(cx);
                self.watch.progress.observe(cx.now, &cx.state.osdmap, &self.statistics);
                self.sample(cx);
            }
        }
    }

    fn plan(&mut self, cx: &DecideCx<'_>, change: &mut Change) {
        self.membership.plan(cx, change);
        plan::plan(cx, &self.statistics, change);
    }

    fn follow(&mut self, state: &State) {
        self.statistics.retain(&state.osdmap);
    }

    fn leadership(&mut self, cx: &mut Cx<'_>, leads: bool) {
        if leads {
            self.statistics = Statistics::default();
            self.membership.lead(cx);
        }
    }

    fn check_invariants(&self, state: &State, _sessions: &Sessions) {
        self.membership.check_invariants();
        self.statistics.check_invariants(&state.osdmap);
    }
}

impl OsdService {
    /// Ends a step of the history if it is over.
    fn sample(&mut self, cx: &Cx<'_>) {
        let mut history = std::mem::take(&mut self.statistics.history);
        history.sample(cx.now, || self.statistics.usage(&cx.state.osdmap));
        self.statistics.history = history;
    }

    /// The reports of OSDs.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Conclusions about OSDs.
    pub fn watch(&self) -> &OsdWatch {
        &self.watch
    }

    /// Runs an operation of OSDs.
    pub fn run(&mut self, cx: &DecideCx<'_>, job: &OsdJob, change: &mut Change) -> Effects {
        requests::run(&mut self.membership, cx, job, change)
    }

    /// Runs a step of the balancer.
    pub fn balance(&mut self, cx: &mut DecideCx<'_>, change: &mut Change) {
        let status: &mut BalancerStatus = &mut self.watch.balancer;
        balance::run(cx, &self.statistics, status, change);
    }

    /// Queues a step of the balancer if one is due.
    pub fn balance_if_due(&mut self, cx: &mut Cx<'_>) {
        if balance::is_due(cx.now, cx.state, &self.watch.balancer) {
            self.watch.balancer.last = Some(cx.now);
            cx.enqueue(Job::Of(ServiceJob::Balance));
        }
    }

    /// Updates the traffic of images.
    pub fn note_images(&mut self, now: Time, notes: Vec<Note>) {
        notes.into_iter().for_each(|note| self.statistics.images.take_note(now, note));
    }

    /// The time at which boots are queued at the latest.
    pub fn boots_due(&self) -> Option<Time> {
        self.membership.boots_due()
    }

    /// Takes the boots that are to be decided now.
    pub fn release_boots(&mut self, now: Time, state: &State, sessions: &Sessions) -> Vec<OsdJob> {
        self.membership.release_boots(now, state, sessions)
    }

    fn handle_stats(&mut self, cx: &mut Cx<'_>, conn: ConnId, tid: u64, report: StatsReport) {
        if cx.sessions.osd(conn) != Some(report.osd) {
            return;
        }
        let (now, osd) = (cx.now, report.osd);
        self.membership.heard(osd, now);
        if let Some(newest) = report.pgs.values().map(|stat| stat.reported_epoch).max() {
            cx.out.push_back(Act::Claimed(osd, newest));
        }
        self.statistics.record(now, &cx.state.osdmap, report);
        self.statistics.note_sequence(osd, tid);
        let count_images = self.statistics.images.wanted_for(now);
        cx.reply(conn, |features| StatsAck { count_images }.encode(features).with_tid(tid));
    }
}

/// Sends full maps of a range of epochs.
fn send_maps(cx: &mut Cx<'_>, conn: ConnId, asked: &MonGetOsdMap) {
    let state = cx.state;
    if !cx.sessions.get(conn).is_some_and(|session| session.may("osd", Rwx::READ)) {
        return;
    }
    let features = cx.sessions.features(conn);
    for epoch in
        state.history.full.range(asked.full_first..=asked.full_last).map(|(epoch, _)| epoch)
    {
        if let Some(message) = maps::full_map(state, features, *epoch) {
            cx.send(conn, message);
        }
    }
}
