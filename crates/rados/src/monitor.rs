//! The session with a monitor: hunting, subscriptions, commands, version requests.

use crate::effects::{Effects, retry_time};
use crate::operation::{CommandOutput, PoolRequest, check};
use crate::{OpId, Reply};
use bytes::Bytes;
use engine::{ConnId, Duration, Time};
use maps::MonMap;
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityAddrVec, EntityType, Epoch, Errno, ParticipantName, SnapId, Uuid, features};
use wire::{
    Auth, MessageBody, MonCommand, MonCommandAck, MonGetVersion, MonGetVersionReply, MonSubscribe,
    PoolOpReply, SubscribeItem,
};

/// A monitor that has not authenticated this client by then is given up.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// A request to a monitor.
#[derive(Debug)]
pub(crate) enum Task {
    Command { command: String, input: Bytes },
    PoolOp(PoolRequest),
}

#[derive(Debug)]
struct Command {
    task: Task,
    deadline: Option<Time>,
}

#[derive(Debug)]
enum Link {
    /// Waits until this time before the next attempt.
    Waiting(Time),
    Opening {
        conn: ConnId,
        deadline: Time,
    },
    Open(ConnId),
}

#[derive(Debug)]
pub(crate) struct MonitorLink {
    seeds: Vec<EntityAddrVec>,
    map: Option<MonMap>,
    link: Link,
    /// Number of attempts; selects the next monitor.
    attempts: u32,
    failures: u32,
    /// First epoch of the OSD map subscription; 0 is the current one.
    osd_map_start: u64,
    commands: BTreeMap<OpId, Command>,
    /// Pending requests for the newest epoch of the OSD map.
    questions: BTreeSet<OpId>,
}

impl MonitorLink {
    /// A link that connects at the first timeout. `seeds` are the monitors known without a map.
    pub fn new(seeds: Vec<EntityAddrVec>) -> Self {
        MonitorLink {
            seeds,
            map: None,
            link: Link::Waiting(Time::ZERO),
            attempts: 0,
            failures: 0,
            osd_map_start: 0,
            commands: BTreeMap::new(),
            questions: BTreeSet::new(),
        }
    }

    /// True for the session with the current monitor, also before it is open.
    pub fn owns(&self, conn: ConnId) -> bool {
        match self.link {
            Link::Opening { conn: own, .. } | Link::Open(own) => own == conn,
            Link::Waiting(_) => false,
        }
    }

    /// Id of the cluster; `None` before the first monitor map.
    pub fn fsid(&self) -> Option<Uuid> {
        self.map.as_ref().map(|map| map.fsid)
    }

    fn open_conn(&self) -> Option<ConnId> {
        match self.link {
            Link::Open(conn) => Some(conn),
            _ => None,
        }
    }

    fn candidates(&self) -> Vec<EntityAddrVec> {
        let known = self.map.iter().flat_map(|map| map.mon_info.values());
        let known: Vec<_> = known.map(|info| info.public_addrs.clone()).collect();
        if known.is_empty() { self.seeds.clone() } else { known }
    }

    fn connect(&mut self, now: Time, fx: &mut Effects) {
        assert!(self.open_conn().is_none(), "one monitor at a time");
        let candidates = self.candidates();
        let Some(count) = u32::try_from(candidates.len()).ok().filter(|count| *count > 0) else {
            self.link = Link::Waiting(Time::FAR_FUTURE);
            return;
        };
        let rank = self.attempts % count;
        self.attempts = self.attempts.wrapping_add(1);
        let name = ParticipantName::new(EntityType::MON, rank.into());
        let conn = fx.connect(name, candidates[rank as usize].clone());
        self.link = Link::Opening { conn, deadline: now + OPEN_TIMEOUT };
    }

    /// Subscribes, and repeats all requests that have no reply.
    pub fn handle_opened(&mut self, conn: ConnId, fx: &mut Effects) {
        assert!(self.owns(conn), "{conn:?} is not the session with the monitor");
        self.link = Link::Open(conn);
        self.failures = 0;
        self.subscribe(fx);
        self.questions.iter().for_each(|id| self.send_question(*id, fx));
        self.send_commands(fx);
    }

    /// The next monitor is tried after a delay.
    pub fn handle_closed(&mut self, now: Time) {
        self.link = Link::Waiting(retry_time(now, self.failures));
        self.failures += 1;
    }

    /// Subscribes to OSD maps from `start` on.
    pub fn want_osd_maps(&mut self, start: Epoch) {
        self.osd_map_start = start.0.into();
    }

    /// Sends the subscription if a session is open.
    pub fn subscribe(&mut self, fx: &mut Effects) {
        let Some(conn) = self.open_conn() else { return };
        let monmap_start = self.map.as_ref().map_or(0, |map| u64::from(map.epoch.0) + 1);
        let item = |start| SubscribeItem { start, flags: 0 };
        let what = [
            ("monmap".to_owned(), item(monmap_start)),
            ("osdmap".to_owned(), item(self.osd_map_start)),
        ];
        let subscribe = MonSubscribe { what: what.into(), hostname: String::new() };
        fx.send(conn, subscribe.encode(features::SUPPORTED));
    }

    /// Takes a monitor map; the first one releases commands.
    pub fn handle_map(&mut self, map: MonMap, fx: &mut Effects) {
        let is_first = self.map.is_none();
        self.map = Some(map);
        if is_first {
            self.send_commands(fx);
        }
    }

    /// Sends a request and repeats it on every new session until a reply comes or `deadline` has passed.
    pub fn command(&mut self, id: OpId, task: Task, deadline: Option<Time>, fx: &mut Effects) {
        let former = self.commands.insert(id, Command { task, deadline });
        assert!(former.is_none(), "{id:?} was used before");
        self.send_command(id, fx);
    }

    /// Commands carry the cluster's fsid, so none is sent before the monitor map has arrived.
    fn send_command(&self, id: OpId, fx: &mut Effects) {
        let (Some(conn), Some(fsid)) = (self.open_conn(), self.fsid()) else { return };
        let Some(command) = self.commands.get(&id) else { return };
        let message = match &command.task {
            Task::Command { command, input } => {
                let (command, input) = (vec![command.clone()], input.clone());
                MonCommand { version: 0, fsid, command, input }.encode(features::SUPPORTED)
            }
            Task::PoolOp(request) => request.message(fsid).encode(features::SUPPORTED),
        };
        fx.send(conn, message.with_tid(id.0));
    }

    fn send_commands(&self, fx: &mut Effects) {
        self.commands.keys().for_each(|id| self.send_command(*id, fx));
    }

    /// Completes a command; an unknown `tid` is ignored, since a repeated command may be answered twice.
    pub fn handle_command_ack(&mut self, tid: u64, ack: MonCommandAck, fx: &mut Effects) {
        let id = OpId(tid);
        if self.commands.remove(&id).is_some() {
            let MonCommandAck { result, text, output, .. } = ack;
            fx.complete(id, Ok(Reply::Command(CommandOutput { result, text, output })));
        }
    }

    /// Completes a pool operation; an unknown `tid` is ignored.
    pub fn handle_pool_op_reply(&mut self, tid: u64, reply: PoolOpReply, fx: &mut Effects) {
        let id = OpId(tid);
        if self.commands.remove(&id).is_some() {
            let snap = reply.response.as_deref();
            let snap = snap.and_then(|snap| codec::decode_all::<SnapId>("snapshot", snap).ok());
            let outcome = check(reply.result);
            fx.complete(id, outcome.map(|_| Reply::Pool { epoch: Epoch(reply.epoch), snap }));
        }
    }

    /// Requests the newest epoch of the OSD map.
    pub fn ask_newest(&mut self, id: OpId, fx: &mut Effects) {
        let is_new = self.questions.insert(id);
        assert!(is_new, "{id:?} was used before");
        self.send_question(id, fx);
    }

    fn send_question(&self, id: OpId, fx: &mut Effects) {
        let Some(conn) = self.open_conn() else { return };
        let question = MonGetVersion { handle: id.0, what: "osdmap".to_owned() };
        fx.send(conn, question.encode(features::SUPPORTED).with_tid(id.0));
    }

    /// True if the reply to a request for the newest epoch has not arrived.
    pub fn awaits_newest(&self, id: OpId) -> bool {
        self.questions.contains(&id)
    }

    /// The request that a reply belongs to.
    pub fn handle_version(&mut self, reply: &MonGetVersionReply) -> Option<OpId> {
        let id = OpId(reply.handle);
        self.questions.remove(&id).then_some(id)
    }

    /// Sends a request for tickets; it is lost if no session is open.
    pub fn renew_tickets(&self, protocol: u32, payload: Bytes, fx: &mut Effects) {
        let Some(conn) = self.open_conn() else { return };
        let monmap_epoch = self.map.as_ref().map_or(0, |map| map.epoch.0);
        let message = Auth { version: 0, protocol, payload, monmap_epoch };
        fx.send(conn, message.encode(features::SUPPORTED));
    }

    /// Connects if it is time, and fails requests whose deadline has passed.
    pub fn handle_timeout(&mut self, now: Time, fx: &mut Effects) {
        match self.link {
            Link::Waiting(until) if until <= now => self.connect(now, fx),
            Link::Opening { conn, deadline } if deadline <= now => {
                fx.close(conn);
                self.connect(now, fx);
            }
            _ => {}
        }
        let is_late = |command: &Command| command.deadline.is_some_and(|at| at <= now);
        let late: Vec<OpId> =
            self.commands.iter().filter(|(_, c)| is_late(c)).map(|(id, _)| *id).collect();
        for id in late {
            self.commands.remove(&id);
            fx.complete(id, Err(Errno::TIMEDOUT));
        }
    }

    /// Time of the next call of `handle_timeout`.
    pub fn poll_timeout(&self) -> Option<Time> {
        let link = match self.link {
            Link::Waiting(until) => Some(until),
            Link::Opening { deadline, .. } => Some(deadline),
            Link::Open(_) => None,
        };
        let commands = self.commands.values().filter_map(|command| command.deadline);
        commands.chain(link).min()
    }
}
