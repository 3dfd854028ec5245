//! The cluster log: entries of daemons, and their readers.

use crate::change::Change;
use crate::commands::log;
use crate::job::{Effects, Job, ServiceJob};
use crate::keys;
use crate::service::{Catalog, Cx, DecideCx, Family, Intake, Pattern, Reader, Service, Topic, Via};
use crate::sessions::Subscription;
use crate::settings::Settings;
use crate::state::{LOG_ENTRIES_KEPT, State};
use auth::Rwx;
use engine::{ConnId, Message};
use types::{EntityName, EntityType, ParticipantName};
use wire::{Log, LogAck, LogEntry, MessageBody, PeerFault, decode_from_peer};

pub(super) const CATALOG: Catalog = Catalog {
    topics: &[Topic {
        pattern: Pattern::Prefix("log-"),
        needs: Some("mon"),
        // Only entries from now on.
        first: |state, _| state.log.last_key_value().map_or(1, |(newest, _)| newest + 1),
        version: None,
        lingers: None,
        // The log is watched at one level only.
        excludes_others: true,
    }],
    messages: &[Intake { kind: Log::KIND, via: Via::LeaderOnce }],
    commands: &[Family(5, log::COMMANDS)],
    checks: &[],
};

/// `log-debug` to `log-error`, by severity.
const LOG_LEVELS: [&str; 5] = ["log-debug", "log-info", "log-sec", "log-warn", "log-error"];
/// Log entries that one transaction adds. It deletes at most twice as many.
const LOG_ENTRIES_AT_ONCE: usize = 400;

/// The service of the cluster log. The log is durable; it has no state of its own.
#[derive(Debug, Default)]
pub(crate) struct LogService;

impl Service for LogService {
    fn handle_message(
        &mut self,
        cx: &mut Cx<'_>,
        from: ConnId,
        message: &Message,
    ) -> Result<(), PeerFault> {
        let entries = decode_from_peer::<Log>(message)?.entries;
        let may_log = |session: &crate::sessions::Session| session.may("log", Rwx::WRITE);
        if !cx.sessions.get(from).is_some_and(may_log) {
            cx.log_dropped(from, &PeerFault::NotAllowed { kind: message.kind });
        } else if !entries.is_empty() {
            cx.enqueue(Job::Of(ServiceJob::Log { conn: from, entries }));
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
        log_entries(state, reader.features, topic, subscription, messages);
    }
}

/// Appends the entries of a session, and acknowledges them. The sender keeps them until then, so that is sent
/// only once they are durable.
pub(super) fn append_from(
    cx: &DecideCx<'_>,
    conn: ConnId,
    entries: &[LogEntry],
    change: &mut Change,
) -> Effects {
    append(cx.state, entries.to_vec(), change);
    let (Some(session), Some(last)) = (cx.sessions.get(conn), entries.last()) else {
        return Effects::default();
    };
    let (fsid, channel) = (cx.state.monmap.fsid, last.channel.clone());
    let ack = LogAck { fsid, last: last.sequence, channel };
    Effects::message(conn, ack.encode(session.peer().features))
}

/// Writes the notes of an operation into the log, as entries of this monitor.
pub(crate) fn append_notes(settings: &Settings, state: &State, change: &mut Change) {
    change.stamp_new_entries(state);
    let notes = change.take_notes();
    if notes.is_empty() {
        return;
    }
    let entry = |(severity, text)| LogEntry {
        name: EntityName::new(EntityType::MON, &settings.mon_name),
        rank: ParticipantName::new(EntityType::MON, 0),
        addrs: settings.mon_addrs.clone(),
        stamp: change.now(),
        sequence: change.now().as_nanos(),
        severity,
        text,
        channel: "cluster".to_owned(),
    };
    let entries = notes.into_iter().map(entry).collect();
    append(state, entries, change);
}

/// Appends entries to the log with the next numbers, and deletes the oldest ones. Of more than
/// [`LOG_ENTRIES_AT_ONCE`], the latest are kept.
fn append(state: &State, mut entries: Vec<LogEntry>, change: &mut Change) {
    entries.drain(..entries.len().saturating_sub(LOG_ENTRIES_AT_ONCE));
    change.append_log(state, entries);
    let newest = state.log.last_key_value().map(|(newest, _)| *newest);
    let kept_from = newest.map_or(0, |newest| newest.saturating_sub(LOG_ENTRIES_KEPT as u64));
    let old = state.log.range(..kept_from).map(|(sequence, _)| *sequence);
    for old in old.take(2 * LOG_ENTRIES_AT_ONCE) {
        change.delete(keys::log(old));
    }
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
