//! Gives up the lease of a monitor that cannot read the control store, although the store renews it.
//!
//! Such a monitor decides nothing and learns of no change. As the leader it holds up all changes; as a
//! follower it sends no new maps. If another monitor is there, it stops renewing the lease and closes its
//! sessions, so that their clients turn to the others. It requests a new lease after the next successful
//! read.

use super::{Monitor, Phase, Sync};
use crate::control::SILENCE_MAX;
use crate::live::StoreTrouble;
use engine::{ConnId, Time};
use std::time::Duration;

/// How long a monitor may keep its lease without being able to read.
const PATIENCE: Duration = Duration::from_secs(15);
/// Interval at which a monitor without a lease closes the sessions of clients. Those of daemons are closed at
/// once.
const CLIENTS_LEAVE: Duration = Duration::from_secs(10);

/// The monitor's ability to read the store.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Time since which the store renews the lease but cannot be read.
    since: Option<Time>,
    /// The last failure of a load.
    reason: Option<String>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Holds,
    /// The lease was given up; sessions of clients were last closed at this time.
    Yields { sent_away: Time },
    /// No other monitor is alive: serving the known state is better than nothing.
    Alone,
}

impl Reading {
    /// Whether the monitor has given up its lease.
    pub fn yields(&self) -> bool {
        matches!(self.stage, Stage::Yields { .. })
    }

    fn trouble(&self, now: Time) -> Option<StoreTrouble> {
        let since = self.since.filter(|since| now.since(*since) > SILENCE_MAX)?;
        let reason = self.reason.clone().unwrap_or_else(|| "it does not answer".to_owned());
        Some(StoreTrouble { since, reason })
    }
}

impl Monitor {
    /// Handles a load that was refused or not answered, or the store's inability to report changes, in which
    /// case the state is loaded at intervals. Either is logged.
    pub(super) fn unread(&mut self, now: Time, reason: String) {
        let subject = if self.sync == Sync::Loading { "load" } else { "watch" };
        if self.complaints.is_due(now, subject, &reason) {
            tracing::error!(
                reason,
                "the control store cannot be read as it should; it is tried again"
            );
        }
        self.reading.reason = Some(reason);
    }

    /// Handles a successful read.
    pub(super) fn note_read(&mut self) {
        if self.complaints.is_over("load") {
            tracing::warn!("the control store can be read again");
        }
        if self.reading.yields() {
            tracing::warn!("this monitor asks for a lease again");
        }
        self.reading = Reading::default();
        self.overview.store.unread = None;
    }

    /// Watches for failed reads. Called in every tick, before the lease is renewed.
    pub(super) fn watch_reading(&mut self, now: Time) {
        if !matches!(self.phase, Phase::Serving) {
            return;
        }
        let reads = matches!(self.sync, Sync::Current | Sync::Behind { .. });
        let stage = self.reading.stage;
        if reads {
            self.note_read();
        } else if stage != Stage::Holds || self.holds_lease(now) {
            self.reading.since.get_or_insert(now);
        } else {
            // The store cannot be reached for writes either.
            self.reading.since = None;
        }
        self.overview.store.unread = self.reading.trouble(now);
        let Some(since) = self.reading.since else { return };
        let is_alone =
            self.state.members.present.keys().all(|name| *name == self.settings.mon_name);
        match self.reading.stage {
            Stage::Holds if now.since(since) >= PATIENCE && is_alone => {
                self.reading.stage = Stage::Alone;
            }
            Stage::Holds if now.since(since) >= PATIENCE => self.yield_lease(now),
            Stage::Yields { .. } if is_alone => self.reading.stage = Stage::Alone,
            Stage::Yields { sent_away } => self.send_away(now, sent_away),
            Stage::Holds | Stage::Alone => {}
        }
    }

    fn yield_lease(&mut self, now: Time) {
        let seconds = PATIENCE.as_secs();
        tracing::error!(
            "this monitor could not read the control store for {seconds} s, although that renews its lease: it gives \
             the lease up, so that others lead, and ends its sessions"
        );
        self.give_up_lease();
        self.send_away(now, Time::ZERO);
    }

    /// Closes sessions: of daemons in each tick, of clients at intervals, so that a client that reaches no
    /// other monitor gets an answer.
    fn send_away(&mut self, now: Time, last: Time) {
        let all = now.since(last) >= CLIENTS_LEAVE;
        self.reading.stage = Stage::Yields { sent_away: if all { now } else { last } };
        let accepted = self.sessions.iter().filter(|(conn, session)| {
            conn.is_accepted() && (all || session.osd().is_some() || session.is_monitor())
        });
        let accepted: Vec<ConnId> = accepted.map(|(conn, _)| conn).collect();
        accepted.into_iter().for_each(|conn| self.close(now, conn));
    }
}
