//! How much is recovered at once, over all groups of this OSD.
//!
//! Clients come first: an object that a client waits for is recovered at once, whatever else goes on
//! (`objects.rs`). All other objects are started one by one, group after group, as long as no more than
//! `osd_recovery_max_active` are in work; while clients have requests in work, a quarter of that, and
//! not sooner than `osd_recovery_sleep` after the one before.

use crate::{Osd, limits};
use engine::Time;
use std::collections::BTreeSet;
use types::PgId;

/// While clients are at work, one in so many of the objects that could be recovered at once.
const BUSY_SHARE: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// Groups that have something to recover.
    queue: BTreeSet<PgId>,
    /// The one that was served last.
    last: Option<PgId>,
    /// Objects in work.
    active: usize,
    next_start: Option<Time>,
}

impl Scheduler {
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// When something can be started that had to pause.
    pub fn due(&self) -> Option<Time> {
        self.next_start.filter(|_| !self.queue.is_empty())
    }

    /// The group after the last one, in a circle.
    fn next(&self) -> Option<PgId> {
        let after = self.last.and_then(|last| self.queue.range(last..).find(|pg| **pg != last));
        after.or(self.queue.first()).copied()
    }

    fn note(&mut self, pg: PgId, wants: bool) {
        match wants {
            true => self.queue.insert(pg),
            false => self.queue.remove(&pg),
        };
    }

    pub fn forget(&mut self, pg: PgId, active: usize) {
        self.queue.remove(&pg);
        self.active -= active;
    }
}

impl Osd {
    /// Goes on with what pauses.
    pub(crate) fn kick_recovery(&mut self, now: Time) {
        self.scheduler.next_start = None;
        self.schedule_recovery(now);
    }

    /// A group may have begun or ended something.
    pub(crate) fn note_recovery(&mut self, pg: PgId) {
        let Some(group) = self.groups.get_mut(&pg) else { return };
        let active = group.pg.recovering();
        if active != group.recovering {
            self.scheduler.active = self.scheduler.active + active - group.recovering;
            group.recovering = active;
        }
        let wants = group.pg.wants_recovery();
        if wants != group.wants_recovery {
            group.wants_recovery = wants;
            self.scheduler.note(pg, wants);
        }
    }

    fn recovery_limit(&self) -> usize {
        let limit = self.options.recovery_max_active;
        match self.requests.len() {
            0 => limit,
            _ => limit.div_ceil(BUSY_SHARE),
        }
    }

    /// Starts what may be started.
    pub(crate) fn schedule_recovery(&mut self, now: Time) {
        if self.scheduler.next_start.is_some_and(|next| next > now) {
            return;
        }
        self.scheduler.next_start = None;
        let mut fruitless = 0;
        while self.scheduler.active < self.recovery_limit() {
            let Some(pg) = self.scheduler.next() else { return };
            self.scheduler.last = Some(pg);
            let group = self.groups.get_mut(&pg).expect("only groups that exist are queued");
            let started = group.pg.recover_next();
            self.pump_group(now, pg);
            let pause = self.options.recovery_sleep;
            if started && !pause.is_zero() {
                self.scheduler.next_start = Some(now + pause);
                return;
            }
            fruitless += usize::from(!started);
            if fruitless == limits::FRUITLESS_SEARCHES_MAX {
                // The rest comes in the next turn.
                self.scheduler.next_start = Some(now);
                return;
            }
        }
    }

    /// Tries again what found no room, or no permission.
    pub(crate) fn retry_recovery(&mut self, now: Time) {
        let waiting = self.groups.iter().filter(|(_, group)| group.pg.wants_retry());
        let waiting: Vec<PgId> = waiting.map(|(pg, _)| *pg).collect();
        for pg in waiting {
            self.groups.get_mut(&pg).expect("it was just there").pg.retry_recovery();
            self.pump_group(now, pg);
        }
    }
}
