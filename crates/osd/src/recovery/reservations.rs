//! Backfill reservations: the number of groups that are backfilled at the same time, as primary and
//! as target (`osd_max_backfills`).
//!
//! A primary first takes a local reservation and then requests one at the target. So the holder of
//! a target's reservation waits for no other one, which excludes deadlock. A target whose disk is
//! too full refuses.

use crate::Osd;
use crate::work::Work;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use stdx::FastMap;
use types::{OsdId, PgId};

/// Reservations of one kind, and the groups that wait for one.
#[derive(Debug, Default)]
struct Places {
    taken: BTreeSet<PgId>,
    /// Groups that wait, in order of their requests, with the remote primary; and the number of each.
    waiting: BTreeMap<u64, (PgId, Option<OsdId>)>,
    numbers: FastMap<PgId, u64>,
    next: u64,
}

impl Places {
    fn ask(&mut self, pg: PgId, primary: Option<OsdId>) {
        self.give_up(pg);
        self.waiting.insert(self.next, (pg, primary));
        self.numbers.insert(pg, self.next);
        self.next += 1;
    }

    fn give_up(&mut self, pg: PgId) {
        if let Some(number) = self.numbers.remove(&pg) {
            self.waiting.remove(&number);
        }
    }

    fn release(&mut self, pg: PgId) {
        self.taken.remove(&pg);
        self.give_up(pg);
    }

    fn grant(&mut self, places: usize) -> Option<(PgId, Option<OsdId>)> {
        if self.taken.len() >= places.max(1) {
            return None;
        }
        let (_, (pg, primary)) = self.waiting.pop_first()?;
        self.numbers.remove(&pg);
        self.taken.insert(pg);
        Some((pg, primary))
    }
}

impl Places {
    fn json(&self, places: usize) -> Value {
        let item = |pg: &PgId| json!({ "item": pg.to_string(), "prio": 0, "can_preempt": false });
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

impl Osd {
    pub(crate) fn dump_reservations(&self) -> Value {
        let places = self.env.options.max_backfills;
        json!({
            "local_reservations": self.recovery.reservations.own.json(places),
            "remote_reservations": self.recovery.reservations.targets.json(places),
        })
    }

    /// Requests a reservation for a group: a local one, or one for a remote `primary`. The group is
    /// informed by [`pg::Pg::reserved`].
    pub(crate) fn reserve(&mut self, pg: PgId, primary: Option<OsdId>) {
        if primary.is_some() && self.usage.is_backfill_full() {
            let group = self.groups.by_id.get_mut(&pg).expect("it has just asked");
            return group.pg.reserved(primary, false);
        }
        match primary {
            None => self.recovery.reservations.own.ask(pg, None),
            Some(_) => self.recovery.reservations.targets.ask(pg, primary),
        }
        self.work.push(Work::GrantBackfill);
    }

    /// Releases all reservations of a group, and its requests for any.
    pub(crate) fn release(&mut self, pg: PgId) {
        self.recovery.reservations.own.release(pg);
        self.recovery.reservations.targets.release(pg);
        self.work.push(Work::GrantBackfill);
    }

    /// Grants one reservation, if one is free; the next one follows when this group has got it.
    pub(crate) fn grant_reservation(&mut self) {
        let places = self.env.options.max_backfills;
        let Reservations { own, targets } = &mut self.recovery.reservations;
        let granted = own.grant(places).or_else(|| targets.grant(places));
        let Some((pg, primary)) = granted else { return };
        if let Some(group) = self.groups.by_id.get_mut(&pg) {
            group.pg.reserved(primary, true);
            self.work.push(Work::Group(pg));
        }
        self.work.push(Work::GrantBackfill);
    }
}
