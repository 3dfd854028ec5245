//! Generators and histories of clients' requests. Responses enter the histories.

use super::commands::Commands;
use crate::file_history::FileHistory;
use crate::file_strikes::Strikes;
use crate::history::History;
use crate::model::Observation;
use crate::node::NodeId;
use crate::process::{ClientEvent, ClientProcess};
use crate::scenario::Scenario;
use crate::snapshots::{SnapshotAction, Snapshots};
use crate::trace::Trace;
use crate::watching::{Completed, Watching};
use crate::workload::Workload;
use engine::Time;
use rados::{OperationReply, WatchEvent};
use std::fmt::Arguments;
use types::{EVersion, Errno, SnapId};
use wire::watch::NotifyResult;

/// All that clients have asked for and been told. Each part owns its state.
pub struct Records {
    /// Requests to objects.
    pub history: History,
    /// Watches and notifications.
    pub watching: Watching,
    /// Generator of requests.
    pub workload: Workload,
    /// Snapshots of the pool, and requests that use them.
    pub snapshots: Snapshots,
    /// Commands of administrators.
    pub commands: Commands,
    /// Calls to the file system.
    pub files: FileHistory,
    /// Deaths of its server that follow from answers.
    pub strikes: Strikes,
}

/// The moment at which a client receives something, and the trace that tells of it.
pub struct Moment<'a> {
    /// True time.
    pub now: Time,
    /// The clock of the client.
    pub clock: Time,
    /// The trace of the run.
    pub trace: &'a mut Trace,
}

impl Moment<'_> {
    fn line(&mut self, what: Arguments<'_>) {
        self.trace.line(self.now, what);
    }
}

impl Records {
    /// Nothing has been asked yet.
    pub fn new(workload: Workload, snapshots: Snapshots, scenario: &Scenario) -> Self {
        let strikes = scenario.file_system.map_or(0, |shape| shape.strikes);
        Records {
            history: History::default(),
            watching: Watching::default(),
            workload,
            snapshots,
            commands: Commands::default(),
            files: FileHistory::new(scenario.seed, scenario.file_system),
            strikes: Strikes::new(scenario.seed, strikes),
        }
    }

    /// Handles an event for the user of a client.
    pub fn handle_client_event(
        &mut self,
        mut at: Moment<'_>,
        node: NodeId,
        client: &mut ClientProcess,
        event: ClientEvent,
    ) {
        match event {
            ClientEvent::Map | ClientEvent::Unwatched => {}
            ClientEvent::Command(command, outcome) => {
                at.line(format_args!("client {node} command {command}: {outcome:?}"));
                self.commands.note(command, outcome);
            }
            ClientEvent::Request(request, outcome) => self.handle_reply(at, request, outcome),
            ClientEvent::Snapshot(action, outcome) => {
                self.handle_snapshot_event(at, action, outcome);
            }
            about => {
                at.line(format_args!("client {node}: {about:?}"));
                self.handle_watch_event(&at, client, about);
            }
        }
    }

    fn handle_reply(
        &mut self,
        mut at: Moment<'_>,
        request: usize,
        reply: Result<OperationReply, Errno>,
    ) {
        let version = reply.as_ref().map_or(EVersion::ZERO, |reply| reply.version);
        let entry = self.history.entry(request);
        let outcome =
            reply.map(|reply| entry.action.observe(&reply.ops).expect("replies to reads decode"));
        let object = entry.object;
        match &outcome {
            Ok(Observation { data: Some(data), .. }) => {
                let length = data.len();
                at.line(format_args!("request {request} saw {length} bytes"));
            }
            Ok(_) => at.line(format_args!("request {request} done at {version}")),
            Err(errno) => at.line(format_args!("request {request} failed: {errno:?}")),
        }
        if let Ok(observation) = &outcome
            && let Some(guard) = &observation.guard
        {
            self.workload.saw_guard(object, guard);
        }
        self.history.complete(request, at.now, outcome, version);
    }

    fn handle_snapshot_event(
        &mut self,
        mut at: Moment<'_>,
        action: SnapshotAction,
        outcome: Result<Option<SnapId>, Errno>,
    ) {
        at.line(format_args!("{action:?}: {outcome:?}"));
        match (action, outcome) {
            (SnapshotAction::Take, Ok(Some(snap))) => {
                let objects = self.workload.targets.len();
                self.snapshots.taken(at.now, snap, objects, &self.history);
            }
            (SnapshotAction::Remove(snap), Ok(_)) => self.snapshots.confirm_removal(snap),
            _ => {}
        }
    }

    fn handle_watch_event(
        &mut self,
        at: &Moment<'_>,
        client: &mut ClientProcess,
        event: ClientEvent,
    ) {
        let actor = client.actor();
        match event {
            ClientEvent::Watching(object, Ok(watch)) => {
                self.watching.begin(at.now, actor, object, watch)
            }
            ClientEvent::Notified(number, Ok(result)) => {
                self.watching.complete(number, completed(at.now, &result));
            }
            ClientEvent::Event(WatchEvent::Lost { watch, .. }) => {
                self.watching.ended(at.now, actor, watch)
            }
            ClientEvent::Event(WatchEvent::Notified { watch, notify_id, payload, .. }) => {
                let number = std::str::from_utf8(&payload).ok().and_then(|text| text.parse().ok());
                self.watching.heard(actor, watch, number.expect("only we notify"));
                client.acknowledge(at.clock, watch, notify_id);
            }
            _ => {}
        }
    }

    /// Notes that watches exist. Clocks jump forward only, so a request was made no earlier than its age
    /// says.
    pub fn note_confirmed_watches(&mut self, now: Time, clock: Time, client: &ClientProcess) {
        self.watching.confirm(now, client.actor(), |watch| client.watch_age(clock, watch));
    }
}

/// The result of a notification: each watcher acknowledged with its identity.
fn completed(at: Time, result: &NotifyResult) -> Completed {
    let answer = |reply: &bytes::Bytes| {
        let text = std::str::from_utf8(reply).ok()?;
        let (actor, watch) = text.split_once('.')?;
        Some((actor.parse().ok()?, rados::WatchId(watch.parse().ok()?)))
    };
    let answers = result.replies.values();
    let answers = answers.map(|reply| answer(reply).expect("only we answer")).collect();
    let missed = result.missed.iter().map(|key| rados::WatchId(key.1)).collect();
    Completed { at, answers, missed }
}
