//! File systems: their map, the beacons of metadata servers, and the maps that servers and clients are sent.
//!
//! The map is committed state. Times of beacons and complaints of servers are known to the leader only, and
//! begin anew with its term: a server is silent at the earliest one grace after that. Time in which the
//! leader did not run counts against no server.

mod beacons;
mod plan;
mod publish;
mod snaps;

pub(crate) use plan::assign as assign_ranks;
pub(crate) use snaps::may_remove_snapshots;

use crate::change::Change;
use crate::commands::{file_system, fs_pools, fs_set, fs_status, mds};
use crate::health::file_systems;
use crate::job::{Effects, FsJob};
use crate::live::MdsWatch;
use crate::service::{
    Catalog, Cx, DecideCx, Family, Intake, Pattern, Reader, Role, Service, Ticks, Topic, Via,
};
use crate::sessions::{Sessions, Subscription};
use crate::state::State;
use engine::{ConnId, Message};
use wire::{
    MdsBeacon, MdsReport, MessageBody, PeerFault, RemoveSnaps, SubscribeItem, decode_from_peer,
};

pub(super) const CATALOG: Catalog = Catalog {
    topics: &[
        topic(Pattern::Exact("mdsmap")),
        topic(Pattern::Prefix("mdsmap.")),
        topic(Pattern::Exact("fsmap")),
        topic(Pattern::Exact("fsmap.user")),
    ],
    messages: &[
        Intake { kind: MdsBeacon::KIND, via: Via::LeaderReported },
        Intake { kind: MdsReport::KIND, via: Via::LeaderReported },
        Intake { kind: RemoveSnaps::KIND, via: Via::LeaderReported },
    ],
    commands: &[
        Family(43, file_system::COMMANDS),
        Family(45, fs_set::COMMANDS),
        Family(46, fs_pools::COMMANDS),
        Family(47, fs_status::COMMANDS),
        Family(48, mds::COMMANDS),
    ],
    checks: &[file_systems::check],
};

const fn topic(pattern: Pattern) -> Topic {
    Topic {
        pattern,
        needs: Some("mds"),
        first: |_: &State, item: SubscribeItem| item.start,
        version: Some(|state| (state.fs.map.epoch.0.into(), 1)),
        lingers: None,
        excludes_others: false,
    }
}

/// The service of file systems.
#[derive(Debug, Default)]
pub(crate) struct FsService {
    watch: MdsWatch,
    /// Those in which this monitor led.
    ticks: Ticks,
}

impl Service for FsService {
    fn handle_message(
        &mut self,
        cx: &mut Cx<'_>,
        from: ConnId,
        message: &Message,
    ) -> Result<(), PeerFault> {
        match message.kind {
            MdsBeacon::KIND => {
                beacons::take(&mut self.watch, cx, from, decode_from_peer::<MdsBeacon>(message)?);
            }
            MdsReport::KIND => {
                beacons::take_report(&mut self.watch, cx, from, &decode_from_peer(message)?);
            }
            _ => snaps::take(cx, from, decode_from_peer::<RemoveSnaps>(message)?),
        }
        Ok(())
    }

    fn publish(
        &mut self,
        state: &State,
        reader: Reader<'_>,
        topic: &str,
        subscription: &mut Subscription,
        messages: &mut Vec<Message>,
    ) {
        messages.extend(publish::due(state, reader, topic, subscription));
    }

    fn tick(&mut self, cx: &mut Cx<'_>, role: Role) {
        if role == Role::Any && cx.leads {
            self.watch.postpone(cx.now, self.ticks.note(cx.now));
        }
    }

    fn plan(&mut self, cx: &DecideCx<'_>, change: &mut Change) {
        plan::plan(cx, &self.watch, change);
    }

    fn follow(&mut self, state: &State) {
        self.watch.retain(|gid| state.fs.map.roles.contains_key(&gid));
    }

    fn state_changed(&mut self, cx: &mut Cx<'_>) {
        self.watch.expect(cx.now, cx.state.fs.map.roles.keys().copied());
    }

    fn leadership(&mut self, cx: &mut Cx<'_>, _leads: bool) {
        (self.watch, self.ticks) = (MdsWatch::default(), Ticks::default());
        self.watch.expect(cx.now, cx.state.fs.map.roles.keys().copied());
    }

    fn check_invariants(&self, state: &State, _sessions: &Sessions) {
        let known = |gid: u64| state.fs.map.roles.contains_key(&gid);
        assert!(self.watch.gids().all(known), "reports are those of servers in the map");
    }
}

impl FsService {
    /// Reports of metadata servers.
    pub fn watch(&self) -> &MdsWatch {
        &self.watch
    }
}

/// Runs an operation of file systems.
pub(super) fn run(cx: &DecideCx<'_>, job: &FsJob, change: &mut Change) -> Effects {
    match job {
        FsJob::Beacon { conn, beacon } => beacons::run(cx, *conn, beacon, change),
        FsJob::RemoveSnaps { snaps, .. } => {
            snaps::run(cx, snaps, change);
            Effects::default()
        }
    }
}
