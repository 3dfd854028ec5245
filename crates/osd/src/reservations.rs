//! How many groups are filled in at the same time, as primary and as target (`osd_max_backfills`).
//!
//! A primary first takes a place of its own and then asks for one at the target, so whoever holds a
//! target's place waits for nobody, and nobody waits in a circle. A target whose disk is too full for
//! more refuses.

use crate::Osd;
use engine::Time;
use std::collections::{BTreeSet, VecDeque};
use types::{OsdId, PgId};

/// Places of one kind, and who waits for one.
#[derive(Debug, Default)]
struct Places {
    taken: BTreeSet<PgId>,
    waiting: VecDeque<(PgId, Option<OsdId>)>,
}

impl Places {
    fn ask(&mut self, pg: PgId, primary: Option<OsdId>) {
        self.waiting.retain(|(waiting, _)| *waiting != pg);
        self.waiting.push_back((pg, primary));
    }

    fn release(&mut self, pg: PgId) {
        self.taken.remove(&pg);
        self.waiting.retain(|(waiting, _)| *waiting != pg);
    }

    fn grant(&mut self, places: usize) -> Option<(PgId, Option<OsdId>)> {
        if self.taken.len() >= places.max(1) {
            return None;
        }
        let (pg, primary) = self.waiting.pop_front()?;
        self.taken.insert(pg);
        Some((pg, primary))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Reservations {
    own: Places,
    targets: Places,
}

impl Osd {
    pub(crate) fn reserve(&mut self, now: Time, pg: PgId, primary: Option<OsdId>) {
        if primary.is_some() && self.reporting.is_backfill_full() {
            let group = self.groups.get_mut(&pg).expect("it has just asked");
            return group.pg.reserved(primary, false);
        }
        match primary {
            None => self.reservations.own.ask(pg, None),
            Some(_) => self.reservations.targets.ask(pg, primary),
        }
        self.grant_reservations(now);
    }

    pub(crate) fn release(&mut self, now: Time, pg: PgId) {
        self.reservations.own.release(pg);
        self.reservations.targets.release(pg);
        self.grant_reservations(now);
    }

    fn grant_reservations(&mut self, now: Time) {
        let places = self.options.max_backfills;
        loop {
            let Reservations { own, targets } = &mut self.reservations;
            let Some((pg, primary)) = own.grant(places).or_else(|| targets.grant(places)) else {
                return;
            };
            let Some(group) = self.groups.get_mut(&pg) else { continue };
            group.pg.reserved(primary, true);
            self.pump_group(now, pg);
        }
    }
}
