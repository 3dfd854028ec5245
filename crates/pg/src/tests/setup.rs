//! Starting points that several tests share.

use super::World;
use crate::LOG_ENTRIES_MAX;

impl World {
    /// A group of two with `min_size` 1, with an object.
    pub fn pair(nodes: i32) -> World {
        let mut world = World::new(nodes);
        world.run_script("size 2\n min 1\n map 20 0 1\n run\n write a one\n run");
        world
    }

    /// A clean group of three, with two objects.
    pub fn trio() -> World {
        let mut world = World::new(3);
        world.run_script("map 20 0 1 2\n run\n write a one\n write b two\n run\n clean => yes");
        world
    }

    /// Writes these objects until the log has no entry of earlier writes.
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
