//! The client: dispatches inputs to its components.

use crate::effects::Effects;
use crate::monitor::{MonitorLink, Task};
use crate::objecter::{MapProgress, Objecter};
use crate::operation::PoolRequest;
use crate::{
    CommandTarget, Completion, Config, Credentials, ListRequest, OpId, Operation, Place, Reply,
    WatchEvent, WatchId,
};
use auth::{
    CephxClient, ConnectFailure, Connector, Entropy, Identity, MODE_CRC, MODE_SECURE, Towards,
};
use bytes::Bytes;
use engine::{
    AuthRequest, ConnId, ConnectingAnswer, ConnectingStep, Daemon, Duration, Message, Output, Peer,
    Time,
};
use maps::{MonMap, OsdMap};
use std::collections::BTreeMap;
use types::{EntityType, Epoch, PoolId};
use wire::watch::NotifyRequest;
use wire::{
    AuthReply, CommandReply, MessageBody, MonCommandAck, MonGetVersionReply, MonMapMessage,
    OsdBackoff, OsdMapMessage, OsdReply, PeerFault, PoolOpReply, WatchNotify, decode_from_peer,
};

/// Default watch timeout (Ceph's `osd_client_watch_timeout`).
const WATCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Delay between requests for new tickets that are not answered.
const RENEWAL_RETRY: Duration = Duration::from_secs(10);

/// Reason for a request for the newest epoch.
#[derive(Debug)]
enum EpochRequester {
    /// [`Client::fetch_map`]; holds the epoch that is waited for, once it is known.
    Fetch(Option<Epoch>),
    /// An operation whose pool is unknown.
    Operation(OpId),
}

/// A RADOS client. See the crate's description for the order of calls.
#[derive(Debug)]
pub struct Client {
    connector: Connector,
    connect_failure: Option<ConnectFailure>,
    entropy: Entropy,
    monitor: MonitorLink,
    objecter: Objecter,
    requesters: BTreeMap<OpId, EpochRequester>,
    timeout: Option<Duration>,
    next_renewal: Option<Time>,
    effects: Effects,
}

impl Client {
    /// A client without a session; [`Client::start`] comes next. `entropy` makes challenges and keys.
    pub fn new(config: Config, entropy: Entropy) -> Self {
        Client {
            monitor: MonitorLink::new(config.monitors.clone()),
            objecter: Objecter::new(config.timeout),
            requesters: BTreeMap::new(),
            timeout: config.timeout,
            next_renewal: None,
            effects: Effects::new(config.first_conn),
            connector: connector(config),
            connect_failure: None,
            entropy,
        }
    }

    /// Begins to connect to a monitor.
    pub fn start(&mut self, now: Time) {
        self.handle_timeout(now);
    }

    /// Global id that the monitors assigned; zero at first.
    pub fn global_id(&self) -> u64 {
        self.connector.global_id()
    }

    /// The newest map received; `None` at first.
    pub fn osd_map(&self) -> Option<&OsdMap> {
        self.objecter.map()
    }

    /// Id of a pool in the newest map received; `None` also before the first map.
    pub fn pool_id(&self, name: &str) -> Option<PoolId> {
        self.osd_map()?.pool_id(name)
    }

    /// Number of operations that have not completed.
    pub fn in_flight(&self) -> usize {
        self.objecter.in_flight()
    }

    /// Completes when the client has the map that is the newest at the monitor now.
    pub fn fetch_map(&mut self) -> OpId {
        let id = self.effects.next_id();
        self.requesters.insert(id, EpochRequester::Fetch(None));
        self.monitor.ask_newest(id, &mut self.effects);
        id
    }

    /// Completes at once with the global id of this client; zero before a monitor has assigned it.
    pub fn identify(&mut self) -> OpId {
        let id = self.effects.next_id();
        let global_id = self.connector.global_id();
        self.effects.complete(id, Ok(Reply::Identity { global_id }));
        id
    }

    /// Submits operations on one object. Completes with [`Reply::Operation`], or with the error of the
    /// first operation that failed. If the pool is unknown, the newest map is awaited first, and then the
    /// error is ENOENT.
    pub fn submit(&mut self, now: Time, operation: Operation) -> OpId {
        let id = self.objecter.submit(now, operation, &mut self.effects);
        self.ask_about_pools();
        id
    }

    /// Lists one page of a pool's objects. Completes with [`Reply::Page`].
    pub fn list(&mut self, now: Time, request: ListRequest) -> OpId {
        let id = self.objecter.list(now, request, &mut self.effects);
        self.ask_about_pools();
        id
    }

    /// Executes a command (`{"prefix": …}`).
    pub fn command(
        &mut self,
        now: Time,
        target: CommandTarget,
        command: impl Into<String>,
        input: Bytes,
    ) -> OpId {
        let fx = &mut self.effects;
        match target {
            CommandTarget::Osd(osd) => self.objecter.command(now, osd, command.into(), input, fx),
            CommandTarget::Monitor => {
                let id = fx.next_id();
                let deadline = self.timeout.map(|timeout| now + timeout);
                let task = Task::Command { command: command.into(), input };
                self.monitor.command(id, task, deadline, fx);
                id
            }
        }
    }

    /// Changes a pool's snapshots. The request is repeated until a reply arrives, so it may be executed
    /// twice.
    pub fn pool_op(&mut self, now: Time, request: PoolRequest) -> OpId {
        let fx = &mut self.effects;
        let id = fx.next_id();
        let deadline = self.timeout.map(|timeout| now + timeout);
        self.monitor.command(id, Task::PoolOp(request), deadline, fx);
        id
    }

    /// Watches an object until [`Client::unwatch`] or [`WatchEvent::Lost`].
    pub fn watch(&mut self, now: Time, place: Place, timeout: Option<Duration>) -> OpId {
        let timeout = timeout.unwrap_or(WATCH_TIMEOUT);
        let id = self.objecter.watch(now, place, timeout, &mut self.effects);
        self.ask_about_pools();
        id
    }

    /// Latest time at which a watch existed for certain: when the newest request was sent that the OSD has
    /// confirmed. `None` before the watch has begun and after it has ended. `rados_watch_check` returns the
    /// time since.
    pub fn watch_confirmed(&self, watch: WatchId) -> Option<Time> {
        self.objecter.watch_confirmed(watch)
    }

    /// Ends a watch; no event of it follows. Completes with ENOENT if there is no such watch.
    pub fn unwatch(&mut self, now: Time, watch: WatchId) -> OpId {
        self.objecter.unwatch(now, watch, &mut self.effects)
    }

    /// Notifies all watchers of an object and waits for their replies.
    pub fn notify(&mut self, now: Time, place: Place, request: &NotifyRequest) -> OpId {
        let id = self.objecter.notify(now, place, request, &mut self.effects);
        self.ask_about_pools();
        id
    }

    /// Answers a notification.
    pub fn acknowledge(&mut self, now: Time, watch: WatchId, notify_id: u64, reply: Bytes) {
        self.objecter.acknowledge(now, watch, notify_id, reply, &mut self.effects);
    }

    /// The next completed request, in the order of completion. The host drains it after every input.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.effects.completions.pop_front()
    }

    /// The next event of a watch. The host drains it after every input.
    pub fn poll_watch_event(&mut self) -> Option<WatchEvent> {
        self.effects.watch_events.pop_front()
    }

    /// Reason why the last session could not be authenticated, once. A key that was refused will be
    /// refused again.
    pub fn take_auth_failure(&mut self) -> Option<ConnectFailure> {
        self.connect_failure.take()
    }

    /// For tests and the simulator; takes time in proportion to the operations in flight.
    ///
    /// # Panics
    /// If the state of the client contradicts itself.
    pub fn check_invariants(&self) {
        self.objecter.check_invariants();
        let epoch = self.objecter.epoch();
        for (id, requester) in &self.requesters {
            let known = match requester {
                EpochRequester::Fetch(known) => *known,
                EpochRequester::Operation(_) => None,
            };
            assert!(known.is_none_or(|at| at > epoch), "{id:?} waits for a map that is here");
            let is_asked = self.monitor.awaits_newest(*id);
            assert_eq!(is_asked, known.is_none(), "{id:?} waits for a reply of the monitor");
        }
    }

    fn try_authenticate(
        &mut self,
        now: Time,
        conn: ConnId,
        step: ConnectingStep,
    ) -> Result<ConnectingAnswer, ConnectFailure> {
        let to = match self.monitor.owns(conn) {
            true => Towards::Monitor,
            false => Towards::Service(EntityType::OSD),
        };
        let answer = self.connector.step(now, conn, to, step, &mut self.entropy)?;
        if matches!(answer, ConnectingAnswer::Finish { .. }) {
            self.next_renewal = self.connector.next_renewal();
        }
        Ok(answer)
    }

    fn ask_about_pools(&mut self) {
        for operation in self.objecter.take_unknown_pools() {
            let id = self.effects.next_id();
            self.requesters.insert(id, EpochRequester::Operation(operation));
            self.monitor.ask_newest(id, &mut self.effects);
        }
    }

    fn handle_maps(&mut self, now: Time, maps: &OsdMapMessage) {
        let progress = self.objecter.handle_maps(maps, &mut self.effects);
        match progress {
            MapProgress::Nothing => return,
            MapProgress::Newer => self.monitor.want_osd_maps(self.objecter.epoch().next()),
            MapProgress::Gap => {
                // A full map bridges every gap.
                self.monitor.want_osd_maps(Epoch(0));
                self.monitor.subscribe(&mut self.effects);
            }
        }
        self.objecter.tend_watches(now, &mut self.effects);
        self.complete_fetches();
        self.ask_about_pools();
    }

    fn handle_version(&mut self, reply: &MonGetVersionReply) {
        let Some(question) = self.monitor.handle_version(reply) else { return };
        let newest = Epoch(u32::try_from(reply.version).unwrap_or(u32::MAX));
        match self.requesters.get_mut(&question) {
            Some(EpochRequester::Fetch(epoch)) => {
                *epoch = Some(newest);
                self.complete_fetches();
            }
            Some(EpochRequester::Operation(operation)) => {
                let operation = *operation;
                self.requesters.remove(&question);
                self.objecter.handle_newest(operation, newest, &mut self.effects);
            }
            None => {}
        }
    }

    fn complete_fetches(&mut self) {
        let epoch = self.objecter.epoch();
        let is_here = |requester: &EpochRequester| matches!(requester, EpochRequester::Fetch(Some(at)) if *at <= epoch);
        let done: Vec<OpId> =
            self.requesters.iter().filter(|(_, a)| is_here(a)).map(|(id, _)| *id).collect();
        for id in done {
            self.requesters.remove(&id);
            self.effects.complete(id, Ok(Reply::Map(epoch)));
        }
    }

    fn handle_from_monitor(&mut self, now: Time, message: &Message) -> Result<(), PeerFault> {
        let fx = &mut self.effects;
        match message.kind {
            MonMapMessage::KIND => self.handle_monitor_map(&decode_from_peer(message)?),
            OsdMapMessage::KIND => self.handle_maps(now, &decode_from_peer(message)?),
            PoolOpReply::KIND => {
                self.monitor.handle_pool_op_reply(message.tid, decode_from_peer(message)?, fx);
            }
            MonCommandAck::KIND => {
                self.monitor.handle_command_ack(message.tid, decode_from_peer(message)?, fx);
            }
            MonGetVersionReply::KIND => self.handle_version(&decode_from_peer(message)?),
            AuthReply::KIND => self.handle_tickets(now, &decode_from_peer(message)?),
            kind => return Err(PeerFault::NotExpected { kind }),
        }
        Ok(())
    }

    fn handle_monitor_map(&mut self, body: &MonMapMessage) {
        match codec::decode_all::<MonMap>("monmap", &body.map) {
            Ok(map) => self.monitor.handle_map(map, &mut self.effects),
            Err(error) => tracing::warn!(%error, "the monitor map does not decode"),
        }
    }

    fn handle_tickets(&mut self, now: Time, reply: &AuthReply) {
        if let Err(error) = self.connector.handle_renewal(now, &reply.payload) {
            tracing::warn!(%error, "tickets were not renewed");
        }
        self.next_renewal = self.connector.next_renewal();
        self.renew_tickets(now);
    }

    fn renew_tickets(&mut self, now: Time) {
        let due = self.next_renewal.is_some_and(|at| at <= now);
        if !due {
            return;
        }
        if let Some((protocol, payload)) = self.connector.renewal(now, &mut self.entropy) {
            self.monitor.renew_tickets(protocol, payload, &mut self.effects);
        }
        // The request is repeated if no reply comes.
        self.next_renewal = Some(now + RENEWAL_RETRY);
    }

    fn handle_from_osd(
        &mut self,
        now: Time,
        conn: ConnId,
        message: &Message,
    ) -> Result<(), PeerFault> {
        let fx = &mut self.effects;
        match message.kind {
            OsdReply::KIND => {
                let reply = decode_from_peer(message)?;
                self.objecter.handle_reply(now, conn, message.tid, reply, fx);
            }
            OsdBackoff::KIND => {
                self.objecter.handle_backoff(conn, decode_from_peer(message)?, fx);
            }
            WatchNotify::KIND => {
                self.objecter.handle_watch_notify(decode_from_peer(message)?, fx);
            }
            CommandReply::KIND => {
                self.objecter.handle_command_reply(message.tid, decode_from_peer(message)?, fx);
            }
            OsdMapMessage::KIND => self.handle_maps(now, &decode_from_peer(message)?),
            kind => return Err(PeerFault::NotExpected { kind }),
        }
        Ok(())
    }
}

/// Drops a message that cannot be used. The session goes on; an operation whose reply is dropped waits for
/// its timeout, or for the next session.
fn drop_faulty(conn: ConnId, fault: &PeerFault) {
    match fault {
        // Newer monitors and OSDs may send more.
        PeerFault::NotExpected { .. } => tracing::debug!(?conn, %fault, "a message is dropped"),
        _ => tracing::warn!(?conn, %fault, "a message is dropped"),
    }
}

fn connector(config: Config) -> Connector {
    let wanted = [EntityType::MON, EntityType::OSD, EntityType::MGR];
    let identity = match config.credentials {
        Credentials::Key(key) => {
            Identity::Key(Box::new(CephxClient::new(config.name, key, &wanted)))
        }
        Credentials::None => Identity::Asserted { name: config.name, keeps_global_id: true },
    };
    let modes = match config.prefers_secure {
        true => vec![MODE_SECURE, MODE_CRC],
        false => vec![MODE_CRC, MODE_SECURE],
    };
    Connector::new(identity, modes)
}

impl Daemon for Client {
    type Request = ();
    type Completion = ();

    /// A client accepts no sessions.
    fn handle_auth(&mut self, _now: Time, conn: ConnId, _request: AuthRequest) {
        self.effects.close(conn);
    }

    fn authenticate(&mut self, now: Time, conn: ConnId, step: ConnectingStep) -> ConnectingAnswer {
        self.try_authenticate(now, conn, step).unwrap_or_else(|failure| {
            self.connect_failure = Some(failure);
            ConnectingAnswer::Refuse
        })
    }

    fn handle_opened(&mut self, now: Time, conn: ConnId, _peer: Peer) {
        if self.monitor.owns(conn) {
            self.monitor.handle_opened(conn, &mut self.effects);
        } else {
            self.objecter.handle_opened(conn, &mut self.effects);
            self.objecter.tend_watches(now, &mut self.effects);
        }
    }

    fn handle_message(&mut self, now: Time, conn: ConnId, message: Message) {
        let handled = if self.monitor.owns(conn) {
            self.handle_from_monitor(now, &message)
        } else if self.objecter.osd_of(conn).is_some() {
            self.handle_from_osd(now, conn, &message)
        } else {
            Ok(())
        };
        if let Err(fault) = handled {
            drop_faulty(conn, &fault);
        }
    }

    fn handle_closed(&mut self, now: Time, conn: ConnId) {
        self.connector.forget(conn);
        if self.monitor.owns(conn) {
            self.monitor.handle_closed(now);
        } else {
            self.objecter.handle_closed(now, conn);
            self.objecter.tend_watches(now, &mut self.effects);
        }
    }

    fn handle_completion(&mut self, _now: Time, (): ()) {}

    fn handle_timeout(&mut self, now: Time) {
        self.monitor.handle_timeout(now, &mut self.effects);
        self.objecter.handle_timeout(now, &mut self.effects);
        self.objecter.tend_watches(now, &mut self.effects);
        self.renew_tickets(now);
    }

    fn poll_output(&mut self) -> Option<Output<()>> {
        let output = self.effects.outputs.pop_front();
        if let Some(Output::Close { conn }) = &output {
            self.connector.forget(*conn);
        }
        output
    }

    fn poll_timeout(&self) -> Option<Time> {
        let parts = [self.monitor.poll_timeout(), self.objecter.poll_timeout(), self.next_renewal];
        parts.into_iter().flatten().min()
    }
}
