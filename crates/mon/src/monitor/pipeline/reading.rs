//! Gives up the lease of a monitor that cannot read the control store, although the store renews it.
//!
//! Such a monitor decides nothing and learns of no change. As the leader it holds up all changes; as a
//! follower it sends no new maps. If another monitor is there, it stops renewing the lease and closes its
//! sessions, so that their clients turn to the others. It requests a new lease after the next successful
//! read.

use crate::live::StoreTrouble;
use control::SILENCE_MAX;
use engine::Time;
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

/// The sessions that a monitor closes because it cannot read the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// Those of daemons and of other monitors.
    Daemons,
    /// Those of clients too, so that a client that reaches no other monitor gets an answer.
    All,
}

impl Reading {
    /// Whether the monitor has given up its lease.
    pub fn yields(&self) -> bool {
        matches!(self.stage, Stage::Yields { .. })
    }

    /// Notes why a read failed.
    pub fn failed(&mut self, reason: String) {
        self.reason = Some(reason);
    }

    /// The failure, if it lasts longer than other monitors take to notice.
    pub fn trouble(&self, now: Time) -> Option<StoreTrouble> {
        let since = self.since.filter(|since| now.since(*since) > SILENCE_MAX)?;
        let reason = self.reason.clone().unwrap_or_else(|| "it does not answer".to_owned());
        Some(StoreTrouble { since, reason })
    }

    /// Called in every tick in which the store has not been read since the tick before.
    pub fn fails(&mut self, now: Time, holds_lease: bool) {
        if self.stage != Stage::Holds || holds_lease {
            self.since.get_or_insert(now);
        } else {
            // The store cannot be reached for writes either.
            self.since = None;
        }
    }

    /// Decides whether to leave to other monitors what this one cannot do. The lease is given up from the
    /// first call on that returns sessions to close.
    pub fn leaves(&mut self, now: Time, is_alone: bool) -> Option<Leaving> {
        let since = self.since?;
        match self.stage {
            Stage::Holds if now.since(since) >= PATIENCE && is_alone => {
                self.stage = Stage::Alone;
                None
            }
            Stage::Holds if now.since(since) >= PATIENCE => {
                let seconds = PATIENCE.as_secs();
                tracing::error!(
                    "this monitor could not read the control store for {seconds} s, although that renews its lease: \
                     it gives the lease up, so that others lead, and ends its sessions"
                );
                Some(self.send_away(now, Time::ZERO))
            }
            Stage::Yields { .. } if is_alone => {
                self.stage = Stage::Alone;
                None
            }
            Stage::Yields { sent_away } => Some(self.send_away(now, sent_away)),
            Stage::Holds | Stage::Alone => None,
        }
    }

    /// Daemons leave in each tick, clients at intervals.
    fn send_away(&mut self, now: Time, last: Time) -> Leaving {
        let all = now.since(last) >= CLIENTS_LEAVE;
        self.stage = Stage::Yields { sent_away: if all { now } else { last } };
        if all { Leaving::All } else { Leaving::Daemons }
    }
}
