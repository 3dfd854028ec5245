//! Names of held changes, as they are looked up.

use std::collections::BTreeMap;
use store::HeldChange;

/// Held changes under one id of collections, with the ids of their data.
pub(crate) type HeldIndex = BTreeMap<HeldChange, u64>;

/// Place of a held change among the pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldEntry {
    /// Id of the collection's slice.
    pub slice: u64,
    /// Name within the collection.
    pub name: HeldChange,
    /// Id of its data.
    pub id: u64,
}

/// A held change that the transaction adds or removes.
#[derive(Debug)]
pub(crate) struct HeldEdit {
    /// Its place.
    pub entry: HeldEntry,
    /// Set if it is added.
    pub is_added: bool,
}
