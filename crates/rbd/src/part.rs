//! Components of this crate's request sources, by which responses find them.

use rados::Part;

/// A task, or the task that an image has in flight.
pub(crate) const TASK: Part = Part::STEP;
/// The response is dropped.
pub(crate) const DROPPED: Part = Part::DROPPED;
/// The exclusive lock of an image.
pub(crate) const LOCK: Part = own(0);
/// An access to one object of an image.
pub(crate) const ACCESS: Part = own(1);
/// An update of an image's object map.
pub(crate) const MAP: Part = own(2);
/// An update of the object maps of snapshots.
pub(crate) const SNAPSHOT_MAPS: Part = own(3);
pub(crate) const WATCH: Part = own(4);
pub(crate) const UNWATCH: Part = own(5);

const fn own(number: u8) -> Part {
    Part(Part::FIRST_OWN + number)
}
