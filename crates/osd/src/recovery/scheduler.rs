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

    /// Panics unless it knows the values of these groups, all that there are.
    pub fn check_invariants<'a>(&self, groups: impl Iterator<Item = (&'a Pg, &'a GroupRecovery)>) {
        let (mut active, mut wanted) = (0, 0);
        for (pg, known) in groups {
            assert_eq!(known.active, pg.recovering(), "{}: objects in recovery", pg.id());
            assert_eq!(known.is_wanted, pg.wants_recovery(), "{}: wants recovery", pg.id());
            assert_eq!(self.queue.contains(&pg.pg_shard()), known.is_wanted, "it is queued");
            (active, wanted) = (active + known.active, wanted + usize::from(known.is_wanted));
        }
        assert_eq!(active, self.active, "each object in recovery is counted once");
        assert_eq!(wanted, self.queue.len(), "groups that are gone are not queued");
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

#[cfg(test)]
mod tests {
    use super::*;
    use types::OsdId;

    #[test]
    #[should_panic(expected = "groups that are gone are not queued")]
    fn a_group_that_is_gone_and_still_queued_is_seen() {
        let (mut scheduler, known) = (Scheduler::default(), GroupRecovery::default());
        let pg = Pg::new(PgShard::default(), OsdId(0));
        scheduler.check_invariants([(&pg, &known)].into_iter());
        scheduler.note(PgShard::default(), true);
        scheduler.check_invariants(std::iter::empty());
    }

    #[test]
    #[should_panic(expected = "objects in recovery")]
    fn a_count_that_is_not_the_groups_is_seen() {
        let known = GroupRecovery { active: 1, is_wanted: false };
        let pg = Pg::new(PgShard::default(), OsdId(0));
        Scheduler { active: 1, ..Scheduler::default() }
            .check_invariants([(&pg, &known)].into_iter());
    }
}
