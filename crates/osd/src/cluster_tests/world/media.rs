//! Faults of the media that affect objects.

use super::World;
use store::Collection;
use types::{HObject, OsdId, SnapId};

impl World {
    /// Damages a clone.
    pub fn damage_clone(&mut self, osd: OsdId, name: &str, snap: SnapId) {
        let (pg, object) = self.object(name);
        self.machine(osd).store.damage(Collection::replicated(pg), &object.at(snap));
    }

    /// Makes the next read of a store fail, once.
    pub fn fail_read(&mut self, osd: OsdId) {
        self.machine(osd).store.fail_read(0);
    }

    /// Makes a store refuse the next change of an object for damage.
    pub fn refuse_change(&mut self, osd: OsdId, name: &str) {
        let (pg, object) = self.object(name);
        self.machine(osd).store.refuse_change(Collection::replicated(pg), &object);
    }

    pub fn damage(&mut self, osd: OsdId, name: &str) {
        let (pg, object) = self.object(name);
        self.machine(osd).store.damage(Collection::replicated(pg), &object);
    }

    pub fn mend(&mut self, osd: OsdId, name: &str) {
        let (pg, object) = self.object(name);
        self.machine(osd).store.undo_damage(Collection::replicated(pg), &object);
    }

    pub fn is_damaged(&self) -> bool {
        self.machines.iter().any(|machine| machine.store.is_damaged())
    }

    /// Changes an object in a store without its OSD.
    pub fn tamper(
        &mut self,
        name: &str,
        osd: OsdId,
        change: impl FnOnce(HObject) -> store::Change,
    ) {
        let (pg, object) = self.object(name);
        let changes = vec![(Collection::replicated(pg), change(object))];
        self.machine(osd).store.tamper(&store::Transaction { changes });
    }
}
