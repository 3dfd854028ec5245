//! The recovery scheduler: how much is recovered at once, over all groups of this OSD.
//!
//! Clients come first: an object that a client waits for is recovered immediately (`operations/objects.rs`).
//! All other objects are started one by one, group after group, while at most
//! `osd_recovery_max_active` are in progress; while clients have requests in progress, a quarter of
//! that, and at least `osd_recovery_sleep` apart.

use crate::{Osd, limits};
use engine::Time;
use pg::Pg;
use std::collections::BTreeSet;
use types::PgId;

/// While clients have requests in progress, one in so many of the usual number of objects is recovered.
const BUSY_SHARE: usize = 4;

/// The groups with objects to recover.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// Groups that have objects to recover.
    queue: BTreeSet<PgId>,
    /// The group that was served last.
    last: Option<PgId>,
    /// Objects in recovery.
    active: usize,
    next_start: Option<Time>,
}

/// The values of one group that the scheduler knows.
#[derive(Debug, Default)]
pub(crate) struct GroupRecovery {
    active: usize,
    is_wanted: bool,
}

impl GroupRecovery {
    /// Whether the scheduler's values are outdated.
    pub fn is_outdated(&self, pg: &Pg) -> bool {
        pg.recovering() != self.active || pg.wants_recovery() != self.is_wanted
    }
}

impl Scheduler {
    /// Whether no group has objects to recover.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// When recovery continues after a pause.
    pub fn due(&self) -> Option<Time> {
        self.next_start.filter(|_| !self.queue.is_empty())
    }

    /// The group after the last one, in round-robin order.
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

    /// Forgets a group that is gone.
    pub fn forget(&mut self, pg: PgId, known: &GroupRecovery) {
        self.queue.remove(&pg);
        self.active -= known.active;
    }
}

impl Osd {
    /// Ends the pause.
    pub(crate) fn kick_recovery(&mut self, now: Time) {
        self.recovery.scheduler.next_start = None;
        self.schedule_recovery(now);
    }

    /// Updates the scheduler from the state of a group.
    pub(crate) fn note_recovery(&mut self, pg: PgId) {
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        let active = group.pg.recovering();
        if active != group.recovery.active {
            self.recovery.scheduler.active =
                self.recovery.scheduler.active + active - group.recovery.active;
            group.recovery.active = active;
        }
        let wants = group.pg.wants_recovery();
        if wants != group.recovery.is_wanted {
            group.recovery.is_wanted = wants;
            self.recovery.scheduler.note(pg, wants);
        }
    }

    fn recovery_limit(&self) -> usize {
        let limit = self.env.options.recovery_max_active;
        match self.operations.len() {
            0 => limit,
            _ => limit.div_ceil(BUSY_SHARE),
        }
    }

    /// Starts recovery of as many objects as the limit allows.
    pub(crate) fn schedule_recovery(&mut self, now: Time) {
        if self.recovery.scheduler.next_start.is_some_and(|next| next > now) {
            return;
        }
        self.recovery.scheduler.next_start = None;
        let mut fruitless = 0;
        while self.recovery.scheduler.active < self.recovery_limit() {
            let Some(pg) = self.recovery.scheduler.next() else { return };
            self.recovery.scheduler.last = Some(pg);
            let group = self.groups.by_id.get_mut(&pg).expect("only groups that exist are queued");
            let started = group.pg.recover_next();
            self.settle_group(pg);
            let pause = self.env.options.recovery_sleep;
            if started && !pause.is_zero() {
                self.recovery.scheduler.next_start = Some(now + pause);
                return;
            }
            fruitless += usize::from(!started);
            if fruitless == limits::FRUITLESS_SEARCHES_MAX {
                // The others are searched in the next turn.
                self.recovery.scheduler.next_start = Some(now);
                return;
            }
        }
    }

    /// Retries recovery that lacked space or a reservation.
    pub(crate) fn retry_recovery(&mut self) {
        let waiting = self.groups.by_id.iter().filter(|(_, group)| group.pg.wants_retry());
        let waiting: Vec<PgId> = waiting.map(|(pg, _)| *pg).collect();
        for pg in waiting {
            self.groups.by_id.get_mut(&pg).expect("it was just there").pg.retry_recovery();
            self.settle_group(pg);
        }
    }
}
