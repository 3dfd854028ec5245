//! Faults of disks that objects meet.

use super::World;
use store::Collection;
use types::{HObject, OsdId, SnapId};

impl World {
    /// The medium loses a clone.
    pub fn damage_clone(&mut self, osd: OsdId, name: &str, snap: SnapId) {
        let (pg, object) = self.object(name);
        self.machine(osd).store.damage(Collection(pg), &object.at(snap));
    }

    /// The next read of its store fails, once.
    pub fn fail_read(&mut self, osd: OsdId) {
        self.machine(osd).store.fail_read(0);
    }

    pub fn damage(&mut self, osd: OsdId, name: &str) {
        let (pg, object) = self.object(name);
        self.machine(osd).store.damage(Collection(pg), &object);
    }

    pub fn mend(&mut self, osd: OsdId, name: &str) {
        let (pg, object) = self.object(name);
        self.machine(osd).store.undo_damage(Collection(pg), &object);
    }

    pub fn is_damaged(&self) -> bool {
        self.machines.iter().any(|machine| machine.store.is_damaged())
    }

    /// Something changes an object behind everybody's back.
    pub fn tamper(
        &mut self,
        name: &str,
        osd: OsdId,
        change: impl FnOnce(HObject) -> store::Change,
    ) {
        let (pg, object) = self.object(name);
        let changes = vec![(Collection(pg), change(object))];
        self.machine(osd).store.tamper(&store::Transaction { changes });
    }
}
