//! Operations that may change the state, as data: they wait in the pipeline, and run one after the other.

use crate::image_traffic::Note;
use crate::live::Operation;
use crate::volume_work;
use auth::CryptoKey;
use bytes::Bytes;
use engine::{ConnId, Message, Time};
use std::collections::BTreeMap;
use std::ops::Range;
use types::{EntityAddrVec, EntityName, Epoch, OsdId, PgId, SnapId};
use wire::{LogEntry, MdsBeacon, OsdBoot, OsdFailure, OsdMarkMeDown, PoolOp};

/// Characters of a command's text that its description shows.
const DESCRIPTION_MAX: usize = 400;

/// One operation.
#[derive(Debug, Clone)]
pub(crate) enum Job {
    /// The first operation of a run: publishes addresses, rotates secrets, reserves global ids.
    Start,
    /// A small write that finds out whether the store takes writes again.
    Probe,
    Command(Box<CommandJob>),
    PoolOp {
        conn: ConnId,
        tid: u64,
        op: PoolOp,
        asked: Time,
    },
    /// Periodic changes of the leader; they are planned anew when it runs.
    Plan,
    /// An operation of one service.
    Of(ServiceJob),
    /// Entries for the cluster log: severity and text.
    Notes(Vec<(u16, String)>),
}

/// An operation of one service.
#[derive(Debug, Clone)]
pub(crate) enum ServiceJob {
    Auth(AuthJob),
    Log {
        conn: ConnId,
        entries: Vec<LogEntry>,
    },
    Osd(OsdJob),
    Fs(FsJob),
    /// A step of the balancer.
    Balance,
}

/// An operation of file systems.
#[derive(Debug, Clone)]
pub(crate) enum FsJob {
    /// A beacon of a metadata server that changes the map.
    Beacon { conn: ConnId, beacon: Box<MdsBeacon> },
    /// A metadata server has removed snapshots, by pool.
    RemoveSnaps { conn: ConnId, snaps: BTreeMap<i32, Vec<SnapId>> },
}

/// An operation on entities and secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AuthJob {
    ReserveGlobalIds,
    RotateSecrets,
    /// The entity has proved that it has this key, which was to replace its former one.
    PromotePendingKey(EntityName, CryptoKey),
}

impl Job {
    /// Whether it does what another operation does, so that only one of them is queued.
    pub fn covers(&self, other: &Job) -> bool {
        match (self, other) {
            (Job::Plan, Job::Plan) => true,
            (Job::Of(ServiceJob::Auth(own)), Job::Of(ServiceJob::Auth(other))) => own == other,
            (Job::Start, Job::Of(ServiceJob::Auth(other))) => {
                matches!(other, AuthJob::ReserveGlobalIds | AuthJob::RotateSecrets)
            }
            _ => false,
        }
    }

    /// Whether a client waits for its outcome.
    pub fn is_answered(&self) -> bool {
        self.asked().is_some()
    }

    /// The time of the request, if a client waits for an answer.
    pub fn asked(&self) -> Option<Time> {
        match self {
            Job::Command(command) => Some(command.asked),
            Job::PoolOp { asked, .. } => Some(*asked),
            _ => None,
        }
    }

    /// The session that it counts against; `None` for operations of the cluster itself.
    pub fn client(&self) -> Option<ConnId> {
        match self {
            Job::Command(command) => Some(command.conn),
            Job::PoolOp { conn, .. } | Job::Of(ServiceJob::Log { conn, .. }) => Some(*conn),
            Job::Of(ServiceJob::Fs(
                FsJob::Beacon { conn, .. } | FsJob::RemoveSnaps { conn, .. },
            )) => Some(*conn),
            _ => None,
        }
    }

    /// Its description for `dump_ops_in_flight`, if a client sent it.
    pub fn summary(&self) -> Option<Operation> {
        let (conn, asked) = (self.client()?, self.asked()?);
        let description = match self {
            Job::Command(command) => {
                let text: String = command.command.concat();
                format!("mon_command({})", text.chars().take(DESCRIPTION_MAX).collect::<String>())
            }
            Job::PoolOp { op, .. } => format!("poolop({:?}, pool {})", op.op, op.pool),
            _ => return None,
        };
        let source = format!("session {}", conn.0);
        Some(Operation { sequence: 0, description, source, asked, done: None })
    }

    /// Its approximate size while it waits, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Job::Command(command) => {
                command.input.len() + command.command.iter().map(String::len).sum::<usize>()
            }
            Job::Of(ServiceJob::Log { entries, .. }) => {
                entries.iter().map(|entry| entry.text.len()).sum()
            }
            _ => 0,
        }
    }
}

impl ServiceJob {
    /// Whether only the leader decides it, and soon: it follows from the state of OSDs as they told it, and
    /// they tell it again.
    pub fn is_report(&self) -> bool {
        match self {
            ServiceJob::Osd(job) => !matches!(job, OsdJob::MarkMeDown { .. }),
            ServiceJob::Balance => true,
            _ => false,
        }
    }
}

/// A command, and the session that its answer goes to.
#[derive(Debug, Clone)]
pub(crate) struct CommandJob {
    pub conn: ConnId,
    pub tid: u64,
    pub channel: Channel,
    pub command: Vec<String>,
    pub input: Bytes,
    pub asked: Time,
}

/// The kinds of messages that carry commands: `MonCommand`, `MgrCommand`, `Command`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    Monitor,
    Manager,
    Tell,
}

/// Actions that follow once a change is durable.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub messages: Vec<(ConnId, Message)>,
    /// OSDs that are sent maps from an epoch on, at once: the maps are durable.
    pub informs: Vec<(ConnId, Epoch)>,
    /// Updates of the image traffic.
    pub image_notes: Vec<Note>,
    /// The change of the orders to workers.
    pub order_note: Option<volume_work::Note>,
    /// The command that is answered later.
    pub deferred: Option<Box<CommandJob>>,
    /// Ids that this operation reserves.
    pub global_ids: Option<Range<u64>>,
    /// The operation takes several steps, and must run again.
    pub again: bool,
}

impl Effects {
    /// The reply to a command, or the command itself if it is answered later.
    pub fn of_command(
        job: &CommandJob,
        note: Option<volume_work::Note>,
        reply: impl FnOnce() -> Message,
    ) -> Self {
        let effects = match note.as_ref().is_some_and(volume_work::Note::is_awaited) {
            true => Effects { deferred: Some(Box::new(job.clone())), ..Effects::default() },
            false => Effects::message(job.conn, reply()),
        };
        Effects { order_note: note, ..effects }
    }

    /// Only one message to send.
    pub fn message(conn: ConnId, message: Message) -> Self {
        Effects { messages: vec![(conn, message)], ..Effects::default() }
    }
}

/// An operation for one or several OSDs that is committed in one map.
#[derive(Debug, Clone)]
pub(crate) enum OsdJob {
    /// Boots that were batched, such as those of one host.
    Boots(Vec<Boot>),
    /// Requests for `up_thru` by OSD: the wanted epoch, and the OSD's newest one. Several OSDs send them at
    /// once when a map has changed many groups.
    Alive(BTreeMap<OsdId, (Epoch, Epoch)>),
    /// Failure reports with their reporters. Each OSD of a failed host is reported by many.
    Failures(Vec<(OsdId, OsdFailure)>),
    MarkMeDown {
        conn: ConnId,
        message: OsdMarkMeDown,
    },
    /// Requested acting sets.
    PgTemp(BTreeMap<PgId, PgTempRequest>),
}

/// A requested acting set.
#[derive(Debug, Clone)]
pub(crate) struct PgTempRequest {
    /// An empty one removes the entry.
    pub osds: Vec<OsdId>,
    /// The OSD that asks, and its newest map.
    pub from: OsdId,
    pub epoch: Epoch,
}

/// A boot message with its session, and the addresses of the session's peer.
#[derive(Debug, Clone)]
pub(crate) struct Boot {
    pub conn: ConnId,
    pub addrs: EntityAddrVec,
    pub message: Box<OsdBoot>,
}

/// Boots or failure reports that share a map, at most: each may write metadata, delete a stored refusal, and
/// add a log entry, all in one transaction.
pub(crate) const SHARED_MAX: usize = 300;

impl OsdJob {
    /// Merges another operation that can be committed in the same map; returns it if it cannot.
    pub fn absorb(&mut self, other: OsdJob) -> Option<OsdJob> {
        match (self, other) {
            (OsdJob::Alive(all), OsdJob::Alive(more)) => all.extend(more),
            // A request of a former primary may come later.
            (OsdJob::PgTemp(all), OsdJob::PgTemp(more)) => {
                for (pg, request) in more {
                    if all.get(&pg).is_none_or(|known| known.epoch <= request.epoch) {
                        all.insert(pg, request);
                    }
                }
            }
            (OsdJob::Boots(all), OsdJob::Boots(more)) if all.len() < SHARED_MAX => all.extend(more),
            (OsdJob::Failures(all), OsdJob::Failures(more)) if all.len() < SHARED_MAX => {
                all.extend(more);
            }
            // A repeated request of the same session.
            (
                OsdJob::MarkMeDown { conn, message },
                OsdJob::MarkMeDown { conn: again, message: newer },
            ) if *conn == again => *message = newer,
            (_, other) => return Some(other),
        }
        None
    }
}
