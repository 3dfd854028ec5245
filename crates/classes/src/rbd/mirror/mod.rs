//! The object `rbd_mirroring` of a pool: mode, peers, images and status of mirroring. Mirroring daemons keep
//! their state here; the class itself mirrors nothing.

pub(super) mod images;
pub(super) mod instances;
mod keys;
pub(super) mod pool;
pub(super) mod status;
