//! Process of a client: the native client and the requests of its user.

use super::crashable::Crashable;
use super::disk::Disk;
use super::image_user::ImageUser;
use crate::history::ObjectId;
use crate::model::{Action, ActorId};
use crate::snapshots::SnapshotAction;
use auth::Entropy;
use bytes::Bytes;
use engine::{Duration, Node, NodeOutput, Storage, Time, sessions_go_to};
use rados::{
    Client, CommandOutput, CommandTarget, Completion, Config, OpId, Operation, OperationReply,
    Place, PoolRequest, Reply, WatchEvent, WatchId,
};
use std::collections::{BTreeMap, VecDeque};
use types::{Errno, PoolId, SnapId};
use wire::SnapContext;
use wire::op::request_flags;
use wire::watch::{NotifyRequest, NotifyResult};

/// Time in seconds in which watchers must acknowledge.
const NOTIFY_TIMEOUT_SECONDS: u32 = 10;

/// A request of the user that has no response yet.
#[derive(Debug, Clone)]
pub enum Submitted {
    /// The index of the request in the history.
    Request(usize),
    Command(String),
    Map,
    Watch(ObjectId),
    /// Index of the notification.
    Notify(usize),
    Unwatch,
    Snapshot(SnapshotAction),
}

/// An event for the user.
#[derive(Debug)]
pub enum ClientEvent {
    Request(usize, Result<OperationReply, Errno>),
    Command(String, Result<CommandOutput, Errno>),
    Map,
    Watching(ObjectId, Result<WatchId, Errno>),
    Notified(usize, Result<NotifyResult, Errno>),
    Unwatched,
    Snapshot(SnapshotAction, Result<Option<SnapId>, Errno>),
    Event(WatchEvent),
}

/// Clients have no durable state.
#[derive(Debug, Default)]
pub struct NoDisk;

impl Storage for NoDisk {
    type Request = ();
    type Completion = ();

    fn submit(&mut self, _now: Time, (): ()) {}

    fn poll_completion(&mut self) -> Option<()> {
        None
    }
}

impl Disk for NoDisk {
    fn crash(&mut self) {}
}

/// A client with the requests of its user.
pub struct ClientProcess {
    crashable: Crashable<Client, NoDisk>,
    config: Config,
    /// Changes with each start.
    actor: ActorId,
    submitted: BTreeMap<OpId, Submitted>,
    /// Any member of a group may serve reads.
    balances_reads: bool,
    /// User of an image instead of single objects.
    image_user: Option<Box<dyn ImageUser>>,
    /// Completions that belong to the user's own requests.
    of_others: VecDeque<Completion>,
}

impl ClientProcess {
    /// A client that does not run yet.
    pub fn new(config: Config) -> Self {
        let crashable = Crashable::new(NoDisk);
        let (submitted, image_user) = (BTreeMap::new(), None);
        let (of_others, balances_reads) = (VecDeque::new(), false);
        ClientProcess {
            crashable,
            config,
            actor: 0,
            submitted,
            balances_reads,
            image_user,
            of_others,
        }
    }

    /// The same, with reads from any member of a group.
    pub fn with_balanced_reads(mut self) -> Self {
        self.balances_reads = true;
        self
    }

    /// The same, as the user of an image.
    pub fn with_image_user(mut self, user: Box<dyn ImageUser>) -> Self {
        self.image_user = Some(user);
        self
    }

    /// The name of this life in the history.
    pub fn actor(&self) -> ActorId {
        self.actor
    }

    /// The user of an image, if there is one.
    pub fn image_user(&self) -> Option<&dyn ImageUser> {
        self.image_user.as_deref()
    }

    /// Lets the user of an image read all of it.
    pub fn look_at_image(&mut self) {
        self.image_user.iter_mut().for_each(|user| user.look());
    }

    /// Starts the client under a new name.
    pub fn start(&mut self, now: Time, actor: ActorId, seed: [u8; 32]) {
        let mut client = Client::new(self.config.clone(), Entropy::from_seed(seed));
        client.start(now);
        self.crashable.start(client);
        self.actor = actor;
        self.submitted.clear();
        self.of_others.clear();
    }

    /// Loses the client and its requests; the user of an image goes on after the next start.
    pub fn crash(&mut self) {
        self.crashable.crash();
        self.image_user.iter_mut().for_each(|user| user.crash());
    }

    /// The client, if it runs.
    pub fn daemon(&self) -> Option<&Client> {
        self.crashable.daemon()
    }

    /// Panics if the state of the client or of the image's user contradicts itself.
    pub fn check_invariants(&self) {
        if let Some(client) = self.daemon() {
            client.check_invariants();
        }
        self.image_user.iter().for_each(|user| user.check_invariants());
    }

    /// Digest of all outputs of all lives so far.
    pub fn digest(&self) -> u64 {
        self.crashable.digest()
    }

    /// Number of requests without a response.
    pub fn in_flight(&self) -> usize {
        let on_image = self.image_user.as_ref().map_or(0, |user| user.in_flight());
        self.submitted.len() + on_image
    }

    /// True if the message with that tid carries a request of the history.
    pub fn waits_for_request(&self, tid: u64) -> bool {
        matches!(self.submitted.get(&OpId(tid)), Some(Submitted::Request(_)))
    }

    /// True while a command has no response.
    pub fn has_commands(&self) -> bool {
        self.submitted.values().any(|what| matches!(what, Submitted::Command(_)))
    }

    /// Requests outside of the history that have no response.
    pub fn waits_for(&self) -> impl Iterator<Item = String> + '_ {
        let others = self.submitted.iter();
        let others = others.filter(|(_, what)| !matches!(what, Submitted::Request(_)));
        let others = others.map(|(id, what)| format!("actor {}: {id:?} {what:?}", self.actor));
        let user = self.image_user.iter().filter(|user| user.in_flight() > 0);
        others.chain(user.map(|user| user.describe()))
    }

    /// Requests the newest map.
    pub fn fetch_map(&mut self) {
        if let Some(client) = self.crashable.daemon_mut() {
            let id = client.fetch_map();
            self.submitted.insert(id, Submitted::Map);
        }
    }

    /// Age of the newest confirmed request about a watch.
    pub fn watch_age(&self, now: Time, watch: WatchId) -> Option<Duration> {
        Some(now.since(self.crashable.daemon()?.watch_confirmed(watch)?))
    }

    /// True if the client's map has that pool.
    pub fn knows_pool(&self, pool: &str) -> bool {
        self.crashable.daemon().is_some_and(|client| client.pool_id(pool).is_some())
    }

    /// Submits a request; `request` is its index in the history.
    pub fn submit(
        &mut self,
        now: Time,
        request: usize,
        pool: &str,
        name: &str,
        action: &Action,
        context: SnapContext,
    ) {
        let Some(client) = self.crashable.daemon_mut() else { return };
        let pool = client.pool_id(pool).expect("the caller has asked whether it is known");
        let place = Place::new(pool, Bytes::copy_from_slice(name.as_bytes()));
        let mut operation = Operation::new(place, action.to_ops());
        operation.snap_context = context;
        operation.snap = action.snapshot().unwrap_or(SnapId::HEAD);
        if action.calls_writing_class() {
            operation.flags |= request_flags::WRITE;
        }
        if self.balances_reads && !action.is_write() {
            operation.flags |= request_flags::BALANCE_READS;
        }
        if action.is_let_through() {
            operation.flags |= request_flags::FULL_FORCE;
        }
        let id = client.submit(now, operation);
        self.submitted.insert(id, Submitted::Request(request));
    }

    /// Sends a command to the monitors.
    pub fn command(&mut self, now: Time, command: &str) {
        let Some(client) = self.crashable.daemon_mut() else { return };
        let id = client.command(now, CommandTarget::Monitor, command, Bytes::new());
        self.submitted.insert(id, Submitted::Command(command.to_owned()));
    }

    /// True if that command was sent and has no response yet.
    pub fn is_asking(&self, command: &str) -> bool {
        let mut others = self.submitted.values();
        others.any(|what| matches!(what, Submitted::Command(asked) if asked == command))
    }

    /// Sends an operation on the snapshots of a pool.
    pub fn pool_op(
        &mut self,
        now: Time,
        pool: &str,
        request: impl FnOnce(PoolId) -> PoolRequest,
        action: SnapshotAction,
    ) {
        let Some(client) = self.crashable.daemon_mut() else { return };
        let pool = client.pool_id(pool).expect("the caller has asked whether it is known");
        let id = client.pool_op(now, request(pool));
        self.submitted.insert(id, Submitted::Snapshot(action));
    }

    /// Watches an object.
    pub fn watch(&mut self, now: Time, object: ObjectId, pool: &str, name: &str) {
        let Some((client, place)) = self.place(pool, name) else { return };
        let id = client.watch(now, place, None);
        self.submitted.insert(id, Submitted::Watch(object));
    }

    /// Ends a watch.
    pub fn unwatch(&mut self, now: Time, watch: WatchId) {
        let Some(client) = self.crashable.daemon_mut() else { return };
        let id = client.unwatch(now, watch);
        self.submitted.insert(id, Submitted::Unwatch);
    }

    /// Sends a number to all watchers.
    pub fn notify(&mut self, now: Time, number: usize, pool: &str, name: &str) {
        let Some((client, place)) = self.place(pool, name) else { return };
        let payload = number.to_string().into();
        let request = NotifyRequest { timeout_seconds: NOTIFY_TIMEOUT_SECONDS, payload };
        let id = client.notify(now, place, &request);
        self.submitted.insert(id, Submitted::Notify(number));
    }

    /// Acknowledges a notification with the client's identity.
    pub fn acknowledge(&mut self, now: Time, watch: WatchId, notify_id: u64) {
        let reply = format!("{}.{}", self.actor, watch.0).into();
        if let Some(client) = self.crashable.daemon_mut() {
            client.acknowledge(now, watch, notify_id, reply);
        }
    }

    fn place(&mut self, pool: &str, name: &str) -> Option<(&mut Client, Place)> {
        let client = self.crashable.daemon_mut()?;
        let pool = client.pool_id(pool).expect("the caller has asked whether it is known");
        Some((client, Place::new(pool, Bytes::copy_from_slice(name.as_bytes()))))
    }

    /// Lets the user of an image make a request.
    pub fn think_of_image(&mut self) {
        if let (Some(client), Some(user)) = (self.crashable.daemon(), &mut self.image_user) {
            user.think(client);
        }
    }

    /// Sends the requests of the image's user; returns true if there were any.
    pub fn send_for_image(&mut self, now: Time) -> bool {
        match (self.crashable.daemon_mut(), &mut self.image_user) {
            (Some(client), Some(user)) => user.send(client, now),
            _ => false,
        }
    }

    /// Passes completions to the image's user; returns true if there were any.
    fn tell_image_user(&mut self) -> bool {
        let (Some(client), Some(user)) = (self.crashable.daemon_mut(), &mut self.image_user) else {
            return false;
        };
        // The user must know of a watch before it receives events of it.
        if let Some((id, outcome)) = client.poll_completion() {
            if !user.handle_completion(client, id, &outcome) {
                self.of_others.push_back((id, outcome));
            }
            return true;
        }
        let Some(event) = client.poll_watch_event() else { return false };
        user.handle_watch_event(&event);
        true
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        let first = self.of_others.pop_front();
        first.or_else(|| self.crashable.daemon_mut()?.poll_completion())
    }

    /// Takes the next event for the user.
    pub fn poll_event(&mut self) -> Option<ClientEvent> {
        while self.tell_image_user() {}
        if let Some(event) = self.crashable.daemon_mut()?.poll_watch_event() {
            return Some(ClientEvent::Event(event));
        }
        let (id, outcome) = self.poll_completion()?;
        let submitted = self.submitted.remove(&id).expect("what completes was submitted, once");
        Some(match submitted {
            Submitted::Request(request) => ClientEvent::Request(
                request,
                outcome.map(|reply| match reply {
                    Reply::Operation(reply) => reply,
                    other => panic!("an operation was answered by {other:?}"),
                }),
            ),
            Submitted::Command(command) => ClientEvent::Command(
                command,
                outcome.map(|reply| match reply {
                    Reply::Command(output) => output,
                    other => panic!("a command was answered by {other:?}"),
                }),
            ),
            Submitted::Map => ClientEvent::Map,
            Submitted::Unwatch => ClientEvent::Unwatched,
            Submitted::Snapshot(action) => ClientEvent::Snapshot(
                action,
                outcome.map(|reply| match reply {
                    Reply::Pool { snap, .. } => snap,
                    other => panic!("a change of snapshots was answered by {other:?}"),
                }),
            ),
            Submitted::Watch(object) => ClientEvent::Watching(
                object,
                outcome.map(|reply| match reply {
                    Reply::Watching(watch) => watch,
                    other => panic!("a watch was answered by {other:?}"),
                }),
            ),
            Submitted::Notify(number) => ClientEvent::Notified(
                number,
                outcome.map(|reply| match reply {
                    Reply::Notified(result) => result,
                    other => panic!("a notification was answered by {other:?}"),
                }),
            ),
        })
    }
}

impl Node for ClientProcess {
    sessions_go_to!(crashable);

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        self.crashable.poll_output(now)
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.crashable.poll_timeout().is_some_and(|due| due <= now) {
            self.crashable.handle_timeout(now);
        }
        if let (Some(client), Some(user)) = (self.crashable.daemon(), &mut self.image_user) {
            user.handle_timeout(client, now);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let of_image = self.image_user.as_ref().and_then(|user| user.poll_timeout());
        self.crashable.poll_timeout().into_iter().chain(of_image).min()
    }
}
