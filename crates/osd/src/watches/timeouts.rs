//! The end of watches whose clients are silent or blocklisted.

use crate::operations::keys::ObjectKey;
use crate::operations::own::unwatching;
use crate::work::Work;
use crate::{Osd, limits};
use engine::Time;
use pg::WatcherKey;
use types::{Errno, HObject, PgId};

impl Osd {
    /// Ends notifications and watches whose time is up.
    pub(crate) fn tick(&mut self, now: Time) {
        if !self.watches.is_ticking() || now < self.watches.next_tick {
            return;
        }
        self.watches.next_tick = now + limits::TICK;
        let active = &self.watches.active;
        let late = active.iter().filter(|(_, notification)| notification.deadline <= now);
        let late: Vec<u64> = late.map(|(notify_id, _)| *notify_id).collect();
        for notify_id in late {
            self.complete_notification(notify_id, Errno::TIMEDOUT.negative());
        }
        let mut ended = Vec::new();
        for (pg, group) in &mut self.groups.by_id {
            let active = group.pg.is_active();
            let watches = group.watches.by_object.iter_mut().filter(|_| active);
            for (object, watches) in watches {
                for (key, watch) in watches {
                    if watch.deadline.is_some_and(|deadline| deadline <= now) {
                        // Should the removal be lost, it is tried again.
                        watch.deadline = Some(now + watch.timeout);
                        ended.push((*pg, object.clone(), *key));
                    }
                }
            }
        }
        for (pg, object, key) in ended {
            self.work.push(Work::Unwatch(Box::new((pg, object, key))));
        }
    }

    /// Ends watches of blocklisted clients immediately: the client that fenced them takes over what
    /// they held.
    pub(crate) fn end_blocklisted_watches(&mut self) {
        if self.maps.map().blocklist.is_empty() && self.maps.map().range_blocklist.is_empty() {
            return;
        }
        self.groups.ids().into_iter().for_each(|pg| self.end_blocklisted_watches_of(pg));
    }

    /// Likewise for the watches of one group, if it is active.
    pub(crate) fn end_blocklisted_watches_of(&mut self, pg: PgId) {
        let Some(group) = self.groups.by_id.get(&pg).filter(|group| group.pg.is_active()) else {
            return;
        };
        let watches = group.watches.by_object.iter().flat_map(|(object, watches)| {
            watches.iter().map(move |(key, watch)| (object.clone(), *key, watch.addr))
        });
        let ended = watches.filter(|(.., addr)| self.maps.map().is_blocklisted(addr));
        let ended: Vec<_> = ended.collect();
        for (object, key, _) in ended {
            self.work.push(Work::Unwatch(Box::new((pg, object, key))));
        }
    }

    /// Likewise for an object that was just loaded, before its waiting requests run.
    pub(super) fn end_blocklisted_watches_first(&mut self, object: ObjectKey) {
        let Some(context) = self.operations.context(object) else { return };
        let pg = context.pg;
        let group = self.groups.by_id.get(&pg);
        let Some(watches) = group.and_then(|group| group.watches.of(&context.name)) else { return };
        let ended = watches.iter().filter(|(_, watch)| self.maps.map().is_blocklisted(&watch.addr));
        let ended: Vec<WatcherKey> = ended.map(|(key, _)| *key).collect();
        if ended.is_empty() {
            return;
        }
        let name = context.name.clone();
        for key in ended {
            let removal = unwatching(pg, name.clone(), key, self.epoch());
            let removal = self.operations.insert(removal);
            self.operations.assign(removal, pg);
            let request = self.operations.get_mut(removal).expect("it was just made");
            request.nature.may_write = true;
            let context = self.operations.context_mut(object).expect("it was just there");
            context.queue.push_front(removal);
        }
    }

    /// Removes a watcher from its object, by a request of our own.
    pub(crate) fn remove_watcher(&mut self, now: Time, pg: PgId, object: HObject, key: WatcherKey) {
        let request = unwatching(pg, object, key, self.epoch());
        let request = self.operations.insert(request);
        self.admit(now, request);
    }
}
