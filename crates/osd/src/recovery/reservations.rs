//! Backfill reservations: the number of groups that are backfilled at the same time, as primary and
//! as target (`osd_max_backfills`).
//!
//! A primary first takes a local reservation and then requests one at the target. So the holder of
//! a target's reservation waits for no other one, which excludes deadlock. A target whose disk is
//! too full refuses.

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use stdx::FastMap;
use types::{OsdId, PgShard};

/// Reservations of one kind, and the groups that wait for one.
#[derive(Debug, Default)]
struct Places {
    taken: BTreeSet<PgShard>,
    /// Groups that wait, in order of their requests, with the remote primary; and the number of each.
    waiting: BTreeMap<u64, (PgShard, Option<OsdId>)>,
    numbers: FastMap<PgShard, u64>,
    next: u64,
}

impl Places {
    fn ask(&mut self, pg: PgShard, primary: Option<OsdId>) {
        self.give_up(pg);
        self.waiting.insert(self.next, (pg, primary));
        self.numbers.insert(pg, self.next);
        self.next += 1;
    }

    fn give_up(&mut self, pg: PgShard) {
        if let Some(number) = self.numbers.remove(&pg) {
            self.waiting.remove(&number);
        }
    }

    fn release(&mut self, pg: PgShard) {
        self.taken.remove(&pg);
        self.give_up(pg);
    }

    fn grant(&mut self, places: usize) -> Option<(PgShard, Option<OsdId>)> {
        if self.taken.len() >= places.max(1) {
            return None;
        }
        let (_, (pg, primary)) = self.waiting.pop_first()?;
        self.numbers.remove(&pg);
        self.taken.insert(pg);
        Some((pg, primary))
    }

    fn check_invariants(&self, exists: impl Fn(PgShard) -> bool) {
        assert_eq!(self.numbers.len(), self.waiting.len(), "a group waits once");
        for (number, (pg, _)) in &self.waiting {
            assert_eq!(self.numbers.get(pg), Some(number), "{pg}: its request is found");
            assert!(*number < self.next && exists(*pg), "{pg}: only groups that exist wait");
        }
        for pg in &self.taken {
            assert!(exists(*pg), "{pg}: a group that is gone has no reservation");
        }
    }

    fn json(&self, places: usize) -> Value {
        let item =
            |pg: &PgShard| json!({ "item": pg.to_string(), "prio": 0, "can_preempt": false });
        let waiting: Vec<Value> = self.waiting.values().map(|(pg, _)| item(pg)).collect();
        let queues = match waiting.is_empty() {
            true => json!([]),
            false => json!([{ "priority": 0, "items": waiting }]),
        };
        json!({
            "max_allowed": places,
            "min_priority": 0,
            "queues": queues,
            "in_progress": self.taken.iter().map(item).collect::<Vec<_>>(),
        })
    }
}

/// Local and remote reservations.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    own: Places,
    targets: Places,
}

impl Reservations {
    /// `dump_recovery_reservations`; `places` is `osd_max_backfills`.
    pub fn dump(&self, places: usize) -> Value {
        json!({
            "local_reservations": self.own.json(places),
            "remote_reservations": self.targets.json(places),
        })
    }

    /// Requests a reservation for a group: a local one, or one for a remote `primary`.
    pub fn ask(&mut self, pg: PgShard, primary: Option<OsdId>) {
        match primary {
            None => self.own.ask(pg, None),
            Some(_) => self.targets.ask(pg, primary),
        }
    }

    /// Releases all reservations of a group, and its requests for any.
    pub fn release(&mut self, pg: PgShard) {
        self.own.release(pg);
        self.targets.release(pg);
    }

    /// Panics unless groups that exist have all reservations and requests for them, of a kind once each.
    pub fn check_invariants(&self, exists: impl Fn(PgShard) -> bool) {
        self.own.check_invariants(&exists);
        self.targets.check_invariants(&exists);
    }

    /// Grants one reservation, if one is free: the group that gets it, and the primary it is for.
    pub fn grant(&mut self, places: usize) -> Option<(PgShard, Option<OsdId>)> {
        self.own.grant(places).or_else(|| self.targets.grant(places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a group that is gone has no reservation")]
    fn a_reservation_of_a_group_that_is_gone_is_seen() {
        let (mut reservations, pg) = (Reservations::default(), PgShard::default());
        reservations.ask(pg, None);
        reservations.ask(pg, None);
        reservations.check_invariants(|_| true);
        assert_eq!(reservations.grant(1), Some((pg, None)));
        reservations.check_invariants(|_| true);
        reservations.check_invariants(|_| false);
    }
}
