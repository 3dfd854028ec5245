//! Beginnings that several tests share.

use super::World;
use crate::LOG_ENTRIES_MAX;

impl World {
    /// A group of two, of whom one suffices, with an object.
    pub fn pair(nodes: i32) -> World {
        let mut world = World::new(nodes);
        world.run_script("size 2\n min 1\n map 20 0 1\n run\n write a one\n run");
        world
    }

    /// A group of three that is clean, with two objects.
    pub fn trio() -> World {
        let mut world = World::new(3);
        world.run_script("map 20 0 1 2\n run\n write a one\n write b two\n run\n clean => yes");
        world
    }

    /// Writes so much of these objects that the log says nothing of what was written before.
    pub fn outgrow_log(&mut self, name: impl Fn(usize) -> String, writes: usize) {
        assert!(writes > LOG_ENTRIES_MAX);
        for number in 0..writes {
            self.write(&name(number), Some(&number.to_string()));
            if number % 100 == 0 {
                self.run();
            }
        }
        self.run();
    }
}
