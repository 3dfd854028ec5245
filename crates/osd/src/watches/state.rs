//! The watches and notifications that are in memory.

use crate::execute::Effect;
use crate::limits;
use bytes::Bytes;
use engine::{ConnId, Duration, Time};
use pg::{WatcherInfo, WatcherKey};
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityAddr, Epoch, HObject, PgShard};

/// One watch of an object.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(super) conn: Option<ConnId>,
    /// The address of its client, which may be blocklisted.
    pub(super) addr: EntityAddr,
    pub(super) timeout: Duration,
    /// The client pings; otherwise only its session shows that it is alive.
    pub(super) will_ping: bool,
    pub(super) last_ping: Time,
    /// When it times out, unless the client pings or reconnects.
    pub(super) deadline: Option<Time>,
    /// Ids of notifications that it has not acknowledged.
    pub(super) notifications: BTreeSet<u64>,
}

impl Watch {
    /// A watch that waits for its client to connect.
    pub(super) fn new(now: Time, info: WatcherInfo) -> Self {
        let timeout = Duration::from_secs(info.timeout_seconds.into());
        Watch {
            conn: None,
            addr: info.addr,
            timeout,
            will_ping: true,
            last_ping: now,
            deadline: Some(now + timeout),
            notifications: BTreeSet::new(),
        }
    }

    /// The session over which it is connected.
    pub fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    pub fn is_connected(&self) -> bool {
        self.conn.is_some()
    }

    /// How long its client may be silent.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }
}

/// The watches of one group, by object.
#[derive(Debug, Default)]
pub(crate) struct GroupWatches {
    pub(super) by_object: BTreeMap<HObject, BTreeMap<WatcherKey, Watch>>,
}

impl GroupWatches {
    /// The watches of one object.
    pub fn of(&self, object: &HObject) -> Option<&BTreeMap<WatcherKey, Watch>> {
        self.by_object.get(object)
    }

    /// Whether an object has a watch.
    pub fn contains(&self, object: &HObject) -> bool {
        self.by_object.contains_key(object)
    }

    /// All watches, by object and watcher.
    pub fn iter(&self) -> impl Iterator<Item = (&HObject, &WatcherKey, &Watch)> {
        let watches = self.by_object.iter();
        watches.flat_map(|(object, watches)| {
            watches.iter().map(move |(key, watch)| (object, key, watch))
        })
    }

    pub(super) fn get_mut(&mut self, object: &HObject, key: &WatcherKey) -> Option<&mut Watch> {
        self.by_object.get_mut(object)?.get_mut(key)
    }
}

/// The watches of one group, with its name.
pub(crate) struct Watched<'a> {
    pub pg: PgShard,
    pub watches: &'a mut GroupWatches,
}

/// One notification in progress.
#[derive(Debug)]
pub(super) struct Notification {
    pub pg: PgShard,
    pub object: HObject,
    pub notifier: ConnId,
    pub notifier_id: u64,
    pub cookie: u64,
    pub version: u64,
    pub payload: Bytes,
    pub deadline: Time,
    /// Watchers that have not acknowledged it.
    pub waiting: BTreeSet<WatcherKey>,
    /// Acknowledgements, by global id and cookie.
    pub replies: BTreeMap<(u64, u64), Bytes>,
}

/// The notifications in progress, and the number of watches.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    last_notification: u64,
    pub(super) active: BTreeMap<u64, Notification>,
    /// Number of watches of all groups.
    pub(super) count: usize,
    next_tick: Time,
}

impl Watches {
    /// The id of the next notification.
    pub fn next_id(&self, epoch: Epoch) -> u64 {
        u64::from(epoch.0) << 32 | (self.last_notification + 1) & u64::from(u32::MAX)
    }

    /// Uses up the ids of the notifications among these effects.
    pub fn reserve(&mut self, effects: &[Effect]) {
        let sent = effects.iter().filter(|effect| matches!(effect, Effect::Notify { .. }));
        self.last_notification += sent.count() as u64;
    }

    /// Whether there is anything that can time out.
    fn is_ticking(&self) -> bool {
        self.count > 0 || !self.active.is_empty()
    }

    /// When to look for what has timed out.
    pub fn due(&self) -> Option<Time> {
        self.is_ticking().then_some(self.next_tick)
    }

    /// Whether it is time to look for what has timed out; if so, the look begins now.
    pub fn begin_tick(&mut self, now: Time) -> bool {
        let is_due = self.due().is_some_and(|due| due <= now);
        if is_due {
            self.next_tick = now + limits::TICK;
        }
        is_due
    }

    /// Something was added that can time out.
    pub(super) fn start_ticking(&mut self, now: Time) {
        if self.next_tick <= now {
            self.next_tick = now + limits::TICK;
        }
    }

    /// The notifications whose time is up, with the groups of their objects.
    pub fn late(&self, now: Time) -> Vec<(u64, PgShard)> {
        let late = self.active.iter().filter(|(_, notification)| notification.deadline <= now);
        late.map(|(notify_id, notification)| (*notify_id, notification.pg)).collect()
    }

    /// Forgets the notifications of a session that has ended.
    pub fn forget_notifier(&mut self, conn: ConnId) {
        self.active.retain(|_, notification| notification.notifier != conn);
    }

    /// Panics unless these are all watches, and each notification waits for watches of them that know it.
    pub fn check_invariants<'a>(
        &self,
        groups: impl Iterator<Item = (PgShard, &'a GroupWatches)>,
        has_session: impl Fn(ConnId, &(PgShard, HObject, WatcherKey)) -> bool,
    ) {
        let (mut count, mut awaited) = (0, 0);
        for (pg, group) in groups {
            assert!(group.by_object.values().all(|watches| !watches.is_empty()));
            for (object, key, watch) in group.iter() {
                count += 1;
                if let Some(conn) = watch.conn {
                    assert!(has_session(conn, &(pg, object.clone(), *key)), "its session knows it");
                }
                for notify_id in &watch.notifications {
                    let Some(notification) = self.active.get(notify_id) else { continue };
                    assert_eq!((notification.pg, &notification.object), (pg, object));
                    assert!(
                        notification.waiting.contains(key),
                        "what is awaited is not acknowledged"
                    );
                    awaited += 1;
                }
            }
        }
        assert_eq!(count, self.count, "each watch is counted");
        let waiting: usize = self.active.values().map(|of| of.waiting.len()).sum();
        assert_eq!(waiting, awaited, "a notification waits for watches that know it");
    }
}
