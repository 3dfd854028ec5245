//! The contract between the monitor and its services.
//!
//! A service is one part of the monitor, such as the OSD map or the log: messages, topics of subscriptions,
//! periodic work, commands and health checks. It reads the committed state, owns the state of the running
//! monitor that belongs to it, and changes the committed state by [`Change`]s alone. What it wants done, it
//! adds to [`Cx::out`]; the monitor performs that before anything else happens.

use crate::change::Change;
use crate::command::Command;
use crate::health::{Health, View};
use crate::high_water::HighWater;
use crate::job::Job;
use crate::sessions::{Session, Sessions, Subscription};
use crate::settings::Settings;
use crate::state::{Overrides, State};
use auth::{Entropy, ServerContext};
use engine::{AuthVerdict, ConnId, Message, Time};
use maps::RawTable;
use std::collections::VecDeque;
use std::time::Duration;
use types::{EntityName, Epoch, OsdId};
use wire::{PeerFault, SubscribeItem};

/// Interval of periodic work.
pub(crate) const TICK: Duration = Duration::from_secs(1);

/// One part of the monitor.
pub(crate) trait Service {
    /// Handles a message of a kind in its catalog. An error ends the session.
    fn handle_message(
        &mut self,
        _cx: &mut Cx<'_>,
        _from: ConnId,
        _message: &Message,
    ) -> Result<(), PeerFault> {
        Ok(())
    }

    /// Handles a message of its catalog that is about to be forwarded to the leader.
    fn forwarded(
        &mut self,
        _cx: &mut Cx<'_>,
        _from: ConnId,
        _message: &Message,
    ) -> Result<(), PeerFault> {
        Ok(())
    }

    /// Handles a new session.
    fn session_opened(&mut self, _cx: &mut Cx<'_>, _conn: ConnId) {}

    /// Handles the end of a session, which is not among [`Cx::sessions`] any more.
    fn session_closed(&mut self, _cx: &mut Cx<'_>, _conn: ConnId, _was: &Session) {}

    /// Adds what a subscription to one of its topics has not been sent yet, and advances it.
    fn publish(
        &mut self,
        _state: &State,
        _reader: Reader<'_>,
        _topic: &str,
        _subscription: &mut Subscription,
        _messages: &mut Vec<Message>,
    ) {
    }

    /// Periodic work, each second.
    fn tick(&mut self, _cx: &mut Cx<'_>, _role: Role) {}

    /// Adds changes that are due because of time and reports. Called on a draft, and again when the change is
    /// decided: only the changes count.
    fn plan(&mut self, _cx: &DecideCx<'_>, _change: &mut Change) {}

    /// Updates what follows from the committed state. Called before anything is decided on it.
    fn follow(&mut self, _state: &State) {}

    /// The committed state has changed. Called before subscribers are served.
    fn state_changed(&mut self, _cx: &mut Cx<'_>) {}

    /// This monitor begins to lead, or was succeeded.
    fn leadership(&mut self, _cx: &mut Cx<'_>, _leads: bool) {}

    /// Panics if its state contradicts itself or the committed state.
    fn check_invariants(&self, _state: &State, _sessions: &Sessions) {}
}

/// The ticks of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// On every monitor.
    Any,
    /// After that, on the monitor that owns the timers.
    Owner,
}

/// The ticks of a leader, by which it notices that it did not run for a while.
#[derive(Debug, Default)]
pub(crate) struct Ticks {
    last: Option<Time>,
}

impl Ticks {
    /// Notes a tick. Returns by how much it is late: a time that counts against no daemon, as its messages
    /// could not be received.
    pub fn note(&mut self, now: Time) -> Duration {
        let last = self.last.replace(now).unwrap_or(now);
        now.since(last).saturating_sub(2 * TICK)
    }
}

/// The inputs of a service, and its effects.
pub(crate) struct Cx<'a> {
    pub now: Time,
    /// The committed state.
    pub state: &'a State,
    pub sessions: &'a Sessions,
    pub settings: &'a Settings,
    /// Options that are set on this monitor only.
    pub running: &'a Overrides,
    pub entropy: &'a mut Entropy,
    /// Whether this monitor leads, as far as is known.
    pub leads: bool,
    /// Effects, performed in this order.
    pub out: &'a mut VecDeque<Act>,
}

impl Cx<'_> {
    pub fn send(&mut self, conn: ConnId, message: Message) {
        self.out.push_back(Act::Send(conn, message));
    }

    /// Sends a message that depends on the peer's features.
    pub fn reply(&mut self, conn: ConnId, message: impl FnOnce(u64) -> Message) {
        let message = message(self.sessions.features(conn));
        self.send(conn, message);
    }

    /// Ends a session because its peer misbehaved, or must turn to another monitor.
    pub fn close(&mut self, conn: ConnId) {
        self.out.push_back(Act::Close(conn));
    }

    /// Logs that a message has no effect because of a fault of its sender, which keeps its session.
    pub fn log_dropped(&self, from: ConnId, error: &PeerFault) {
        let peer = self.sessions.get(from).map(|session| &session.peer().name);
        tracing::debug!(?peer, fault = %error.kind(), %error, "a message is dropped");
    }

    /// The inputs of the cephx protocol.
    pub fn cephx(&mut self) -> ServerContext<'_> {
        ServerContext {
            now: self.now.wall(),
            keys: &self.state.entities,
            secrets: &self.state.secrets,
            policy: &self.settings.cephx,
            entropy: self.entropy,
        }
    }

    /// Queues an operation.
    pub fn enqueue(&mut self, job: Job) {
        self.out.push_back(Act::Enqueue(job));
    }
}

/// The inputs of a decision: it has no effects but its change.
pub(crate) struct DecideCx<'a> {
    pub now: Time,
    pub state: &'a State,
    pub sessions: &'a Sessions,
    pub settings: &'a Settings,
    pub running: &'a Overrides,
    pub entropy: &'a mut Entropy,
    /// The newest state of the store that this monitor has seen.
    pub high_water: &'a HighWater,
    /// CRUSH results as of the map of the last balancer step.
    pub placement: &'a mut RawTable,
}

/// An effect of a service.
#[derive(Debug)]
pub(crate) enum Act {
    Send(ConnId, Message),
    Close(ConnId),
    Auth(ConnId, AuthVerdict),
    Enqueue(Job),
    /// Queues an operation unless one that does the same waits already.
    EnqueueOnce(Job),
    /// Subscribes an OSD to the maps from this epoch on.
    Inform(ConnId, Epoch),
    /// An OSD has a map that may be newer than the store's.
    Claimed(OsdId, Epoch),
}

/// The subscriber of a topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub name: &'a EntityName,
    pub features: u64,
    pub session: &'a Session,
}

/// The static facts of a service, by which messages and subscriptions find it.
pub(crate) struct Catalog {
    pub topics: &'static [Topic],
    pub messages: &'static [Intake],
    pub commands: &'static [Family],
    pub checks: &'static [fn(&mut Health, &View<'_>)],
}

/// A family of commands, and its place among all: commands are described in this order, and of two with the
/// same prefix the earlier one is tried first.
#[derive(Clone, Copy)]
pub(crate) struct Family(pub u8, pub &'static [Command]);

/// A kind of versioned objects that peers subscribe to.
pub(crate) struct Topic {
    pub pattern: Pattern,
    /// The service whose capability `r` a subscriber needs; `None`: every peer may subscribe.
    pub needs: Option<&'static str>,
    /// The first version that a new subscriber is sent.
    pub first: fn(&State, SubscribeItem) -> u64,
    /// The newest version and the oldest one, as peers may ask for them.
    pub version: Option<fn(&State) -> (u64, u64)>,
    /// For how long a subscription to one version gets further ones.
    pub lingers: Option<Duration>,
    /// Whether a new subscription ends others that match the pattern.
    pub excludes_others: bool,
}

/// The names of a topic.
pub(crate) enum Pattern {
    Exact(&'static str),
    Prefix(&'static str),
}

impl Pattern {
    pub fn matches(&self, what: &str) -> bool {
        match self {
            Pattern::Exact(name) => what == *name,
            Pattern::Prefix(prefix) => what.starts_with(prefix),
        }
    }
}

/// A kind of messages, and the monitor that handles it.
pub(crate) struct Intake {
    pub kind: u16,
    pub via: Via,
}

/// The monitor that handles a message. A follower forwards all but those for any monitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    /// Any monitor.
    Here,
    /// The leader. A follower keeps the message until it is answered, and forwards it again to the next
    /// leader.
    LeaderAnswers,
    /// The leader. A follower keeps the message until there is a leader to forward it to.
    LeaderOnce,
    /// The leader. A follower without one drops the message: the next leader asks the sender again.
    LeaderReported,
}
