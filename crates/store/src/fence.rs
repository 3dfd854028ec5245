//! Which collections take no commits because one was refused ([`crate::RequestKind::Append`]).
//!
//! Kept in memory: whoever is started again has nothing on its way.

use crate::{Collection, StoreError, Transaction};
use std::collections::BTreeSet;

#[derive(Debug, Clone, Default)]
pub struct Fence(BTreeSet<Collection>);

impl Fence {
    /// Whether a commit may be tried. Usually there is no fence at all.
    pub fn check(&self, transaction: &Transaction) -> Result<(), StoreError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let closed = transaction.collections().find(|named| self.0.contains(named));
        closed.map_or(Ok(()), |closed| Err(StoreError::Behind(closed)))
    }

    /// A commit to these that others build on was refused.
    pub fn close(&mut self, collections: impl IntoIterator<Item = Collection>) {
        self.0.extend(collections);
    }

    pub fn open(&mut self, collection: Collection) {
        self.0.remove(&collection);
    }
}
