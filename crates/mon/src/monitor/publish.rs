//! Subscriptions, and sending updates to subscribers.

use super::Monitor;
use crate::keys::Group;
use crate::sessions::{Session, Subscription};
use crate::state::State;
use auth::{RequestType, Rwx, ServerContext};
use bytes::Bytes;
use engine::{ConnId, Message, Time};
use std::collections::BTreeMap;
use std::time::Duration;
use types::Epoch;
use wire::internal::RotatingSecrets;
use wire::{
    AuthReply, Config, Log, LogEntry, MessageBody, MgrMapMessage, MonMapMessage, MonSubscribe,
    MonSubscribeAck, OsdMapMessage, SubscribeItem,
};

/// Incrementals in one message; a subscriber that needs more gets several messages.
const INCREMENTALS_PER_MESSAGE: usize = 40;
/// Bound of the map messages that are cached, by start epoch and features of the subscriber.
const MAP_READERS_MAX: usize = 64;
/// Time for which a one-time subscriber to OSD maps gets further ones.
const MAPS_LINGER: Duration = Duration::from_secs(30);
/// Renewal interval announced to peers without stateful subscriptions.
const RENEW_INTERVAL_SECONDS: u32 = 300;
/// `log-debug` to `log-error`, by severity.
const LOG_LEVELS: [&str; 5] = ["log-debug", "log-info", "log-sec", "log-warn", "log-error"];

impl Monitor {
    /// Adds or replaces subscriptions, and serves them at once.
    pub(super) fn subscribe(&mut self, now: Time, conn: ConnId, message: MonSubscribe) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        for (what, item) in &message.what {
            if let Some(subscription) = subscription(&self.state, session, what, *item) {
                // The log is watched at one level only.
                if what.starts_with("log-") {
                    session.subscriptions.retain(|other, _| !other.starts_with("log-"));
                }
                session.subscriptions.insert(what.clone(), subscription);
            }
        }
        if !types::features::has(session.peer().features, types::features::MON_STATEFUL_SUB) {
            let fsid = self.state.monmap.fsid;
            let ack = MonSubscribeAck { interval_seconds: RENEW_INTERVAL_SECONDS, fsid };
            let message = ack.encode(session.peer().features);
            self.send(conn, message);
        }
        self.serve_subscriptions(now, conn);
    }

    /// Sends updates to all subscribers. Services get new secrets before any peer gets a map that shows them
    /// up: clients may connect at once.
    pub(super) fn publish(&mut self, now: Time) {
        let version = self.state.secrets.version();
        if self.secrets_pushed != version {
            self.secrets_pushed = version;
            self.push_secrets(now);
        }
        let conns: Vec<ConnId> = self.sessions.iter().map(|(conn, _)| conn).collect();
        for conn in conns {
            self.serve_subscriptions(now, conn);
        }
    }

    fn serve_subscriptions(&mut self, now: Time, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let mut messages = Vec::new();
        let mut subscriptions = std::mem::take(&mut session.subscriptions);
        subscriptions.retain(|what, subscription| {
            if subscription.lingers_until.is_some_and(|until| until <= now) {
                return false;
            }
            let before = messages.len();
            if what == "osdmap" {
                let features = session.peer().features;
                messages.extend(self.map_messages.serve(&self.state, features, subscription));
            } else {
                serve(&self.state, session, what, subscription, &mut messages);
            }
            stays(now, what, subscription, messages.len() > before)
        });
        session.subscriptions = subscriptions;
        for message in messages {
            self.send(conn, message);
        }
    }

    /// Subscribes an OSD to the maps from `from` on, unless it is subscribed already.
    pub(super) fn keep_informed(&mut self, now: Time, conn: ConnId, from: Epoch) {
        // The monitor that owns the session does that itself.
        if self.proxies.is_proxy(conn) {
            return;
        }
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let next = u64::from(from.0).max(1);
        let subscription = Subscription { next, onetime: false, lingers_until: None };
        session.subscriptions.entry("osdmap".to_owned()).or_insert(subscription);
        self.serve_subscriptions(now, conn);
    }

    /// Sends the rotating secrets to the services that requested them.
    pub(super) fn push_secrets(&mut self, now: Time) {
        let conns: Vec<ConnId> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.secrets_for.is_some())
            .map(|(conn, _)| conn)
            .collect();
        for conn in conns {
            self.send_secrets(now, conn);
        }
    }

    /// Sends a service its rotating secrets, sealed if the session is by cephx.
    pub(super) fn send_secrets(&mut self, now: Time, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let Some(service) = session.secrets_for else { return };
        let message = match &mut session.cephx {
            // Sealed as Ceph does it: an eavesdropper could impersonate any client.
            Some(server) => {
                let context = ServerContext {
                    now: now.wall(),
                    keys: &self.state.entities,
                    secrets: &self.state.secrets,
                    policy: &self.settings.cephx,
                    entropy: &mut self.entropy,
                };
                let asked = RequestType::RotatingKey.number().to_le_bytes();
                match server.handle_request(context, &asked, None) {
                    Ok(sealed) => {
                        let payload = sealed.payload.into();
                        AuthReply { payload, ..AuthReply::default() }
                            .encode(session.peer().features)
                    }
                    Err(error) => return tracing::warn!(%error, "secrets cannot be sealed"),
                }
            }
            None => {
                let Some(secrets) = self.state.secrets.service(service) else { return };
                let secrets = codec::encode_to_bytes(secrets);
                let message = RotatingSecrets { service: service.0.into(), secrets };
                message.encode(session.peer().features)
            }
        };
        self.send(conn, message);
    }
}

/// Whether a subscription continues after it was served. A client requests one map when an OSD does not
/// answer, and repeats that only seconds later. The first map often lacks the change that it waits for: when
/// several OSDs fail or boot together, their changes come in several maps.
fn stays(now: Time, what: &str, subscription: &mut Subscription, was_served: bool) -> bool {
    let is_done = subscription.onetime && was_served && subscription.lingers_until.is_none();
    if is_done && what == "osdmap" {
        subscription.lingers_until = Some(now + MAPS_LINGER);
    }
    !is_done || what == "osdmap"
}

/// The state of a new subscription to `what`; `None` if that is unknown or not allowed.
fn subscription(
    state: &State,
    session: &Session,
    what: &str,
    item: SubscribeItem,
) -> Option<Subscription> {
    let service = match what {
        "osdmap" => "osd",
        "monmap" | "mgrmap" | "config" => "mon",
        _ if what.starts_with("log-") => "mon",
        _ if what.starts_with("kv:") => "config-key",
        _ => return None,
    };
    // Every client needs these, whatever its capabilities.
    let is_open = matches!(what, "monmap" | "config" | "mgrmap");
    if !is_open && !session.may(service, Rwx::READ) {
        return None;
    }
    let next = match what {
        // Only entries from now on.
        _ if what.starts_with("log-") => {
            state.log.last_key_value().map_or(1, |(newest, _)| newest + 1)
        }
        _ => item.start,
    };
    Some(Subscription { next, onetime: item.is_onetime(), lingers_until: None })
}

fn serve(
    state: &State,
    session: &Session,
    what: &str,
    subscription: &mut Subscription,
    messages: &mut Vec<Message>,
) {
    let features = session.peer().features;
    let mut versioned = |version: u64, message: &dyn Fn() -> Message| {
        if subscription.next <= version {
            messages.push(message());
            subscription.next = version + 1;
        }
    };
    match what {
        "monmap" => versioned(state.monmap.epoch.0.into(), &|| monmap(state, features)),
        "mgrmap" => versioned(state.mgrmap.epoch.0.into(), &|| {
            let map = codec::encode_to_bytes(&state.mgrmap);
            MgrMapMessage { map }.encode(features)
        }),
        "config" => versioned(state.version(Group::CONFIG).0, &|| {
            let options = state.config_for(&session.peer().name);
            let options = options.into_iter().map(|(name, (value, _))| (name, value)).collect();
            Config { options }.encode(features)
        }),
        _ if what.starts_with("kv:") => {
            let prefix = &what["kv:".len()..];
            versioned(state.version(Group::CONFIG_KEY).0, &|| key_values(state, prefix));
        }
        _ => log_entries(state, features, what, subscription, messages),
    }
}

/// A message with the current mon map.
pub(super) fn monmap(state: &State, features: u64) -> Message {
    MonMapMessage { map: codec::encode_to_bytes(&state.monmap) }.encode(features)
}

/// `MKVData`: all configuration keys with a prefix.
fn key_values(state: &State, prefix: &str) -> Message {
    const KIND: u16 = 54;
    let mut w = codec::Writer::new();
    w.u64(state.version(Group::CONFIG_KEY).0);
    w.string(prefix);
    w.bool(false);
    let matching: Vec<_> =
        state.config_keys.iter().filter(|(key, _)| key.starts_with(prefix)).collect();
    w.count(matching.len());
    for (key, value) in matching {
        w.string(key);
        w.bool(true);
        w.blob(value);
    }
    Message::new(KIND, 1, 1, w.into_bytes())
}

/// Cache of messages with OSD maps. Thousands of sessions at the same epoch need the same ones.
#[derive(Debug, Default)]
pub(super) struct MapMessages {
    /// The epoch up to which they lead.
    newest: Epoch,
    /// By the first epoch, and the subscriber's features.
    messages: BTreeMap<(u64, u64), Vec<Message>>,
}

impl MapMessages {
    /// All maps from `subscription.next`: incrementals as far as they are kept, else the newest full map.
    fn serve(
        &mut self,
        state: &State,
        features: u64,
        subscription: &mut Subscription,
    ) -> Vec<Message> {
        let (newest, first) = (state.osdmap.epoch, subscription.next);
        if first > newest.0.into() {
            return Vec::new();
        }
        subscription.next = u64::from(newest.0) + 1;
        if self.newest != newest || self.messages.len() >= MAP_READERS_MAX {
            (self.newest, self.messages) = (newest, BTreeMap::new());
        }
        let messages = self.messages.entry((first, features));
        messages.or_insert_with(|| osdmaps(state, features, Epoch(first as u32))).clone()
    }
}

fn osdmaps(state: &State, features: u64, first: Epoch) -> Vec<Message> {
    let newest = state.osdmap.epoch;
    let oldest = state.history.incrementals.first_key_value().map(|(epoch, _)| *epoch);
    if first.0 == 0 || oldest.is_none_or(|oldest| first < oldest) {
        return full_map(state, features, newest).into_iter().collect();
    }
    let maps: Vec<(Epoch, Bytes)> = state
        .history
        .incrementals
        .range(first..)
        .map(|(epoch, bytes)| (*epoch, bytes.clone()))
        .collect();
    let message = |chunk: &[(Epoch, Bytes)]| {
        let reencode = |bytes: &Bytes| maps::reencode_incremental(bytes, features);
        let incrementals =
            chunk.iter().filter_map(|(epoch, bytes)| Some((*epoch, reencode(bytes).ok()?)));
        let message = OsdMapMessage {
            fsid: state.osdmap.fsid,
            incrementals: incrementals.collect(),
            full: BTreeMap::new(),
            oldest: oldest.unwrap_or(newest),
            newest,
        };
        message.encode(features)
    };
    maps.chunks(INCREMENTALS_PER_MESSAGE).map(message).collect()
}

/// A message with one full map; `None` if it is not kept.
pub(super) fn full_map(state: &State, features: u64, epoch: Epoch) -> Option<Message> {
    let map = if epoch == state.osdmap.epoch {
        state.osdmap.to_bytes(features)
    } else {
        maps::reencode_full(state.history.full.get(&epoch)?, features).ok()?
    };
    let message = OsdMapMessage {
        fsid: state.osdmap.fsid,
        incrementals: BTreeMap::new(),
        full: [(epoch, map)].into(),
        oldest: epoch,
        newest: state.osdmap.epoch,
    };
    Some(message.encode(features))
}

fn log_entries(
    state: &State,
    features: u64,
    what: &str,
    subscription: &mut Subscription,
    messages: &mut Vec<Message>,
) {
    let severity_min = LOG_LEVELS.iter().position(|level| *level == what).unwrap_or(0) as u16;
    let new = state.log.range(subscription.next..);
    let entries: Vec<LogEntry> = new
        .filter(|(_, entry)| entry.severity >= severity_min)
        .map(|(_, entry)| entry.clone())
        .collect();
    if let Some((newest, _)) = state.log.last_key_value() {
        subscription.next = subscription.next.max(newest + 1);
    }
    if !entries.is_empty() {
        let version = subscription.next - 1;
        messages.push(Log { version, fsid: state.monmap.fsid, entries }.encode(features));
    }
}
