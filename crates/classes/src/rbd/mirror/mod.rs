//! The object `rbd_mirroring` of a pool: how it is mirrored, with whom, which images, and how it
//! goes. Nothing here mirrors; daemons that do keep their state here.

pub(super) mod images;
pub(super) mod instances;
pub(super) mod pool;
pub(super) mod status;
