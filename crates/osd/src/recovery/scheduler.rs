//! The recovery scheduler: how much is recovered at once, over all groups of this OSD.
//!
//! Clients come first: an object that a client waits for is recovered immediately (`operations/objects.rs`).
//! All other objects are started one by one, group after group, while at most
//! `osd_recovery_max_active` are in progress; while clients have requests in progress, a quarter of
//! that, and at least `osd_recovery_sleep` apart.

use crate::env::Env;
use crate::limits;
use engine::Time;
use pg::Pg;
use std::collections::BTreeSet;
use types::PgShard;

/// While clients have requests in progress, one in so many of the usual number of objects is recovered.
const BUSY_SHARE: usize = 4;

/// The groups with objects to recover.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    /// Groups that have objects to recover.
    queue: BTreeSet<PgShard>,
    /// The group that was served last.
    last: Option<PgShard>,
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
    fn next(&self) -> Option<PgShard> {
        let after = self.last.and_then(|last| self.queue.range(last..).find(|pg| **pg != last));
        after.or(self.queue.first()).copied()
    }

    fn note(&mut self, pg: PgShard, wants: bool) {
        match wants {
            true => self.queue.insert(pg),
            false => self.queue.remove(&pg),
        };
    }

    /// Forgets a group that is gone.
    pub fn forget(&mut self, pg: PgShard, known: &GroupRecovery) {
        self.queue.remove(&pg);
        self.active -= known.active;
    }

    /// Ends the pause.
    pub fn kick(&mut self) {
        self.next_start = None;
    }

    /// Takes over the values of a group.
    pub fn update(&mut self, pg: &Pg, known: &mut GroupRecovery) {
        let active = pg.recovering();
        self.active = self.active + active - known.active;
        known.active = active;
        let wants = pg.wants_recovery();
        if wants != known.is_wanted {
            known.is_wanted = wants;
            self.note(pg.pg_shard(), wants);
        }
    }

    /// Whether objects may be recovered now; ends a pause that is over.
    pub fn begin_turn(&mut self, now: Time) -> bool {
        let may_start = self.next_start.is_none_or(|next| next <= now);
        self.next_start.take_if(|_| may_start);
        may_start
    }

    /// The next group to recover an object, as far as the limit allows, which is lower while there
    /// are `requests` of clients in progress.
    pub fn take_next(&mut self, env: &Env, requests: usize) -> Option<PgShard> {
        let limit = env.options.recovery_max_active;
        let limit = if requests == 0 { limit } else { limit.div_ceil(BUSY_SHARE) };
        let next = if self.active < limit { self.next() } else { None };
        self.last = next.or(self.last);
        next
    }

    /// Notes whether the group began to recover an object, after so many `fruitless` searches in
    /// this turn. Returns whether the turn goes on.
    pub fn note_start(&mut self, env: &Env, started: bool, fruitless: &mut usize) -> bool {
        let pause = env.options.recovery_sleep;
        if started && !pause.is_zero() {
            self.next_start = Some(env.now + pause);
            return false;
        }
        *fruitless += usize::from(!started);
        if *fruitless == limits::FRUITLESS_SEARCHES_MAX {
            // The others are searched in the next turn.
            self.next_start = Some(env.now);
            return false;
        }
        true
    }
}
