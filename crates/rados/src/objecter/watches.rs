//! The watches of a client: each is registered, waits for its registration, or is lost.

use crate::effects::Effects;
use crate::locate::{Located, Locator, Target};
use crate::names::{OpId, Place, WatchId};
use crate::session::Sessions;
use crate::watch::{Watch, WatchEvent};
use engine::{ConnId, Duration, Time};
use maps::OsdMap;
use std::collections::BTreeMap;
use types::Errno;
use wire::op::request_flags;

#[derive(Debug, Default)]
pub(super) struct Watches {
    watches: BTreeMap<WatchId, Watch>,
}

impl Watches {
    /// Adds a watch; its registration follows.
    pub fn insert(&mut self, id: WatchId, place: Place, timeout: Duration) {
        let former = self.watches.insert(id, Watch::new(place, timeout));
        assert!(former.is_none(), "{id:?} was used before");
    }

    /// `None` for a watch that was lost or ended.
    pub fn get(&self, id: WatchId) -> Option<&Watch> {
        self.watches.get(&id)
    }

    /// False for a watch that was lost or ended.
    pub fn contains(&self, id: WatchId) -> bool {
        self.watches.contains_key(&id)
    }

    /// Ends a watch without an event.
    pub fn remove(&mut self, id: WatchId) -> Option<Watch> {
        self.watches.remove(&id)
    }

    /// In order; a copy, since watches are lost while they are tended.
    pub fn ids(&self) -> Vec<WatchId> {
        self.watches.keys().copied().collect()
    }

    /// Ends a watch; its user gets an event.
    pub fn lose(&mut self, watch: WatchId, error: Errno, fx: &mut Effects) {
        if self.watches.remove(&watch).is_some() {
            fx.watch_events.push_back(WatchEvent::Lost { watch, error });
        }
    }

    /// `operation` registers or pings the watch and was submitted at `now`.
    pub fn asked(&mut self, id: WatchId, operation: OpId, now: Time) {
        if let Some(watch) = self.watches.get_mut(&id) {
            watch.operation = Some(operation);
            watch.asked = now;
        }
    }

    /// The operation in flight has a new id.
    pub fn renamed(&mut self, id: WatchId, operation: OpId) {
        let watch = self.watches.get_mut(&id).expect("an operation of a watch is renamed");
        assert!(watch.operation.is_some(), "an operation in flight is renamed");
        watch.operation = Some(operation);
    }

    /// A registration was answered. The error of the first one is reported by its completion.
    pub fn registered(
        &mut self,
        now: Time,
        id: WatchId,
        registered: Option<(Target, ConnId)>,
        result: Result<i32, Errno>,
        fx: &mut Effects,
    ) {
        let Some(watch) = self.watches.get_mut(&id) else { return };
        let was_registered = watch.generation > 0;
        match result {
            Ok(_) => {
                watch.registered = registered;
                watch.generation += 1;
                watch.confirm(now);
            }
            Err(error) if was_registered => self.lose(id, error, fx),
            Err(_) => {
                self.watches.remove(&id);
            }
        }
    }

    /// A ping was answered.
    pub fn pinged(&mut self, now: Time, id: WatchId, result: Result<i32, Errno>, fx: &mut Effects) {
        match (result, self.watches.get_mut(&id)) {
            (Ok(_), Some(watch)) => watch.confirm(now),
            (Err(error), _) => self.lose(id, error, fx),
            (Ok(_), None) => {}
        }
    }

    /// True if the watch is to be registered at another target or on another session.
    pub fn is_misplaced(
        &self,
        id: WatchId,
        map: &OsdMap,
        locator: &mut Locator,
        sessions: &Sessions,
    ) -> bool {
        let Some(watch) = self.watches.get(&id) else { return false };
        let located = locator.locate(map, &watch.place, None, request_flags::WRITE);
        let Located::At(_, target) = located else { return false };
        let registered = watch.registered.as_ref();
        !registered.is_some_and(|(at, conn)| *at == target && sessions.is_open(*conn))
    }

    /// Time of the next ping. A watch with an operation in flight is examined when that is answered.
    pub fn next_ping(&self) -> Option<Time> {
        let resting = self.watches.values().filter(|watch| watch.operation.is_none());
        resting.map(|watch| watch.next_ping).min()
    }

    /// # Panics
    /// If a watch waits for an operation that `is_of` does not confirm to be in flight for it.
    pub fn check_invariants(&self, is_of: impl Fn(OpId, WatchId) -> bool) {
        for (id, watch) in &self.watches {
            let is_there = watch.operation.is_none_or(|operation| is_of(operation, *id));
            assert!(is_there, "{id:?} waits for {:?}, which is not in flight", watch.operation);
            let is_at_rest = watch.operation.is_none();
            assert!(!is_at_rest || watch.generation > 0, "{id:?} was never registered");
        }
    }
}
