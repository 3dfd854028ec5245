//! Collections that accept no commits, because one was refused ([`crate::RequestKind::Append`]).
//!
//! Kept in memory: after a restart no commit is in flight.

use crate::{Collection, StoreError, Transaction};
use std::collections::BTreeSet;

/// Aborted collections.
#[derive(Debug, Clone, Default)]
pub struct Fence(BTreeSet<Collection>);

impl Fence {
    /// Fails if the transaction names an aborted collection. Usually there are none.
    pub fn check(&self, transaction: &Transaction) -> Result<(), StoreError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let closed = transaction.collections().find(|named| self.0.contains(named));
        closed.map_or(Ok(()), |closed| Err(StoreError::Behind(closed)))
    }

    /// Aborts collections, since a commit to them on which others build was refused.
    pub fn close(&mut self, collections: impl IntoIterator<Item = Collection>) {
        self.0.extend(collections);
    }

    /// Accepts commits of the collection again.
    pub fn open(&mut self, collection: Collection) {
        self.0.remove(&collection);
    }
}
