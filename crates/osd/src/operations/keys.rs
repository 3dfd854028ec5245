//! Keys of what operations keep in slabs.

/// The key of an object's context. It has a generation, so that it finds nothing once the context is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ObjectKey(pub(super) u64);
