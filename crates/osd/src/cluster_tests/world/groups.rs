//! Placement groups: their placement, leases and states, and the final comparison of all copies.

use super::{Machine, Node, World};
use crate::cluster_tests::monitor::POOL;
use engine::Message;
use pg::is_meta_object;
use std::time::Duration;
use store::Collection;
use store::mem::MemObject;
use types::{EVersion, Epoch, HObject, OsdId, PgId, PgShard};

impl World {
    /// Splits all groups, with a small probability.
    pub fn divide_groups_sometimes(&mut self) {
        if self.prng.chance(1, 100) {
            self.divide_groups();
        }
    }

    pub fn divide_groups(&mut self) {
        let messages = self.monitor.divide_groups();
        self.send_all(Node::Monitor, messages);
        self.drain();
    }

    pub fn allow_snapshots(&mut self) {
        let messages = self.monitor.allow_snapshots();
        self.send_all(Node::Monitor, messages);
        self.drain();
    }

    /// The version of an object in the log of each of its members, and in the store.
    pub fn versions_of(&self, name: &str) -> Vec<(EVersion, EVersion)> {
        let (pg, object) = self.object(name);
        let version = |machine: &Machine| {
            let mut groups = machine.osd.as_ref()?.groups();
            let logged = groups.find(|group| group.id() == pg)?.logged_version(&object);
            let mut objects = machine.store.durable().objects(Collection::replicated(pg));
            let (_, stored) = objects.find(|(name, _)| **name == object)?;
            let info = stored.attrs.get(&pg::INFO_ATTR)?;
            let info = codec::decode_all::<pg::ObjectInfo>("info", info).ok()?;
            Some((logged, info.version))
        };
        self.machines.iter().filter_map(version).collect()
    }

    /// Clones of an object's group, by the count of its primary.
    pub fn clones_counted(&self, name: &str) -> u64 {
        let ((pg, _), primary) = (self.object(name), self.primary_of(name));
        let osd = self.machines[primary.0 as usize].osd.as_ref().expect("it runs");
        osd.groups().find(|group| group.id() == pg).expect("it has the group").info().clones
    }

    pub fn set_flags(&mut self, flags: maps::OsdMapFlags) {
        let messages = self.monitor.set_flags(flags);
        self.send_all(Node::Monitor, messages);
        self.drain();
    }

    /// Delivers a lease for a replica from its primary, whose map is `ahead` by so many epochs,
    /// with an echo of a grant at another time.
    pub fn lend(&mut self, from: OsdId, to: OsdId, ahead: i32, in_the_future: Duration) {
        let (now, epoch) = (self.now, self.monitor.map.epoch.0.saturating_add_signed(ahead));
        let epoch = Epoch(epoch);
        let mut w = codec::Writer::new();
        w.value(&epoch);
        w.u64(now.0);
        w.u64((now + in_the_future).0);
        w.u64(Duration::from_millis(500).as_nanos() as u64);
        let message = Message::new(crate::leases::REQUEST, 1, 1, w.into_bytes());
        let osd = self.machine(to).osd.as_mut().expect("it runs");
        osd.handle_lease(now, from, &message);
        self.drain();
    }

    /// Delivers grants of all replicas to a request for leases that the object's primary sent at
    /// another time. True if the primary may then answer reads `later`.
    pub fn grant_lease(&mut self, name: &str, in_the_future: Duration, later: Duration) -> bool {
        let (now, epoch, pg) = (self.now, self.monitor.map.epoch, self.object(name).0);
        let (asked_at, later) = (now + in_the_future, now + later);
        let (primary, replicas) = (self.primary_of(name), self.replicas_of(name));
        let osd = self.machine(primary).osd.as_mut().expect("it runs");
        for replica in replicas {
            let front = codec::encode_to_bytes(&(epoch, asked_at.0, now.0));
            let message = Message::new(crate::leases::GRANT, 1, 1, front);
            osd.handle_lease(now, replica, &message);
        }
        let (hosted, shared) = osd.parts();
        hosted.may_read(shared, PgShard::replicated(pg), later)
    }

    /// Maps an object's group to these OSDs.
    pub fn move_group(&mut self, name: &str, osds: &[OsdId]) {
        let (pg, _) = self.object(name);
        let messages = self.monitor.move_group(pg, osds);
        self.send_all(Node::Monitor, messages);
        self.drain();
    }

    /// Announces a merge of the last group, or withdraws it.
    pub fn announce_merge(&mut self, is_on: bool) {
        let messages = self.monitor.announce_merge(is_on);
        self.send_all(Node::Monitor, messages);
        self.drain();
    }

    /// An object of the group that is about to be merged.
    pub fn object_that_merges(&self) -> String {
        let pool = self.monitor.map.pool(POOL).expect("there is one pool");
        let names = (0..).map(|number| format!("object{number}"));
        let mut names = names.filter(|name| pool.is_merging(self.object(name).0.seed));
        names.next().expect("there is always one more")
    }

    /// Whether the object's group has reported the premerge state.
    pub fn has_reported_rest(&self, name: &str) -> bool {
        let states = self.monitor.reported.get(&self.object(name).0);
        states.is_some_and(|states| states & wire::internal::pg_state::PREMERGE != 0)
    }

    /// Waits until all groups are clean, and checks that all copies are equal.
    pub fn finish(&mut self) {
        for _ in 0..30 {
            self.settle();
            if self.is_clean() {
                return self.assert_equal();
            }
        }
        panic!("not all groups become clean: {:?}", self.states());
    }

    pub fn states(&self) -> Vec<(OsdId, PgId, pg::State)> {
        let osds = self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        osds.flat_map(|osd| osd.groups().map(|pg| (osd.id(), pg.id(), pg.state()))).collect()
    }

    /// Whether any group is being backfilled.
    pub fn is_filling_in(&self) -> bool {
        let osds = self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        osds.flat_map(|osd| osd.groups())
            .any(|pg| pg.backfill_state() == Some(pg::BackfillState::Running))
    }

    pub(super) fn is_clean(&self) -> bool {
        let osds = || self.machines.iter().filter_map(|machine| machine.osd.as_ref());
        let clean = osds().flat_map(|osd| osd.groups().filter(|pg| pg.is_clean())).count();
        clean == self.monitor.map.pgs(POOL).count()
    }

    pub(super) fn assert_equal(&self) {
        for pg in self.monitor.map.pgs(POOL) {
            let content = |machine: &Machine| {
                let objects = machine.store.durable().objects(Collection::replicated(pg));
                let objects = objects.filter(|(name, _)| !is_meta_object(name));
                objects.map(|(name, object)| (name.clone(), object.clone())).collect::<Vec<_>>()
            };
            let acting = self.monitor.map.pg_to_osds(pg).acting;
            let machines = acting.iter().map(|osd| &self.machines[osd.0 as usize]);
            let contents: Vec<_> = machines.map(content).collect();
            for pair in contents.windows(2) {
                let (ours, theirs) = (&pair[0], &pair[1]);
                let names = |content: &Vec<(HObject, _)>| {
                    content.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
                };
                assert_eq!(names(ours), names(theirs), "objects of {pg}");
                for ((name, ours), (_, theirs)) in ours.iter().zip(theirs) {
                    assert_eq!(ours.attrs, theirs.attrs, "attributes of {name} in {pg}");
                    let data = |object: &MemObject| object.read(0, u64::MAX).data;
                    assert_eq!(data(ours), data(theirs), "data of {name} in {pg}");
                    assert_eq!(ours.omap, theirs.omap, "omap of {name} in {pg}");
                }
            }
        }
    }
}
