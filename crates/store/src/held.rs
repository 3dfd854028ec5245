//! Held changes: stored durably beside the objects of a collection, and not applied yet.
//!
//! This module defines their names, and which changes can be held.

use crate::Change;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use thiserror::Error;
use types::{EVersion, Epoch, HObject};

/// Held changes of a collection. Beyond it, holding fails with [`HoldFault::TooMany`] until some are
/// settled or dropped. A group has one for each of its writes in flight.
pub const HELD_MAX: usize = 1024;

/// Offsets and sizes of held changes are multiples of this number of bytes: settling only moves blocks. It
/// neither reads nor allocates any, and so neither damage nor a full device can refuse it.
pub const HELD_UNIT: u64 = 4096;

/// Above all versions, as a bound of those to settle or drop.
pub const VERSION_MAX: EVersion = EVersion { epoch: Epoch(u32::MAX), version: u64::MAX };

/// Name of a held change within its collection. Ordered by version. Two of one version have different
/// hashes, and the reversed hash orders them; they come from different collections that were merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeldChange {
    /// The version with which it was held.
    pub version: EVersion,
    /// Hash of all its objects.
    pub hash: u32,
}

/// Reason why changes cannot be held.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HoldFault {
    /// There are no changes.
    #[error("there are none")]
    Empty,
    /// A change of collections, one that holds, settles or drops others, or one that adds to an omap.
    #[error("changes of collections, held changes and omaps cannot be held")]
    Kind,
    /// An object without a name; groups keep their metadata there.
    #[error("an object has no name")]
    NoName,
    /// The objects have different hashes, so that a split might separate them.
    #[error("hashes {first:08x} and {other:08x} differ")]
    Hashes {
        /// Hash of the first object.
        first: u32,
        /// Another hash.
        other: u32,
    },
    /// A range or size is no multiple of [`HELD_UNIT`].
    #[error("offset or size {bytes} is no multiple of {HELD_UNIT}")]
    Unaligned {
        /// The offset, length or size.
        bytes: u64,
    },
    /// The name is not above that of the newest held change.
    #[error("version {newest} is held already")]
    Order {
        /// Version of the newest held change of the collection.
        newest: EVersion,
    },
    /// The collection holds [`HELD_MAX`] changes.
    #[error("the collection holds {HELD_MAX} changes already")]
    TooMany,
}

impl HeldChange {
    /// Of a hash of which the bits are reversed.
    pub fn of_reversed(version: EVersion, reversed_hash: u32) -> Self {
        HeldChange { version, hash: reversed_hash.reverse_bits() }
    }

    /// The hash with its bits reversed.
    pub fn reversed_hash(&self) -> u32 {
        self.hash.reverse_bits()
    }
}

impl Ord for HeldChange {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |held: &HeldChange| (held.version, held.reversed_hash());
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for HeldChange {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Hash of the objects of changes that can be held together.
pub fn check_held(changes: &[Change]) -> Result<u32, HoldFault> {
    let first = changes.first().ok_or(HoldFault::Empty)?;
    let first = first.object().ok_or(HoldFault::Kind)?.hash;
    for change in changes {
        check_change(change)?;
        let source = match change {
            Change::Clone { object, .. } => Some(object),
            _ => None,
        };
        for object in change.object().into_iter().chain(source) {
            if object.name.is_empty() {
                return Err(HoldFault::NoName);
            }
            if object.hash != first {
                return Err(HoldFault::Hashes { first, other: object.hash });
            }
        }
    }
    Ok(first)
}

fn check_change(change: &Change) -> Result<(), HoldFault> {
    let aligned = |bytes: &[u64]| match bytes.iter().find(|bytes| !bytes.is_multiple_of(HELD_UNIT))
    {
        Some(&bytes) => Err(HoldFault::Unaligned { bytes }),
        None => Ok(()),
    };
    match change {
        Change::Write { offset, data, .. } => aligned(&[*offset, data.len() as u64]),
        Change::Zero { offset, length, .. } => aligned(&[*offset, *length]),
        Change::Truncate { size, .. } => aligned(&[*size]),
        Change::Touch { .. }
        | Change::Remove { .. }
        | Change::SetAttrs { .. }
        | Change::RemoveAttr { .. }
        | Change::OmapClear { .. }
        | Change::Clone { .. } => Ok(()),
        Change::CreateCollection
        | Change::RemoveCollection
        | Change::MoveObjects { .. }
        | Change::OmapSetHeader { .. }
        | Change::OmapSet { .. }
        | Change::OmapRemove { .. }
        | Change::OmapRemoveRange { .. }
        | Change::Hold { .. }
        | Change::Settle { .. }
        | Change::Drop { .. } => Err(HoldFault::Kind),
    }
}

/// Sizes of objects while held changes are settled, as an upper bound: stores reserve space for the copies
/// that held clones will make.
#[derive(Debug)]
pub struct SettledSizes<F> {
    sizes: BTreeMap<HObject, u64>,
    stored: F,
}

impl<F, E> SettledSizes<F>
where
    F: FnMut(&HObject) -> Result<u64, E>,
{
    /// Before the first change. `stored` returns the size of a stored object in bytes, 0 if it is absent.
    pub fn new(stored: F) -> Self {
        SettledSizes { sizes: BTreeMap::new(), stored }
    }

    /// Follows the next change, of which `data_len` is the length if it is a write. Returns the size of the
    /// source if it is a clone.
    pub fn follow(&mut self, change: &Change, data_len: u64) -> Result<Option<u64>, E> {
        let (object, size) = match change {
            Change::Write { object, offset, .. } => (object, offset.saturating_add(data_len)),
            Change::Truncate { object, size } => (object, *size),
            Change::Clone { object, target } => {
                let size = self.size(object)?;
                self.grow(target, size)?;
                return Ok(Some(size));
            }
            // Removals and truncations may be dropped, so they make nothing smaller.
            _ => return Ok(None),
        };
        self.grow(object, size)?;
        Ok(None)
    }

    fn grow(&mut self, object: &HObject, size: u64) -> Result<(), E> {
        let size = size.max(self.size(object)?);
        self.sizes.insert(object.clone(), size);
        Ok(())
    }

    fn size(&mut self, object: &HObject) -> Result<u64, E> {
        match self.sizes.get(object) {
            Some(size) => Ok(*size),
            None => (self.stored)(object),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::convert::Infallible;

    #[test]
    fn sizes_of_cloned_objects_follow_held_changes() {
        let object = |hash| HObject { hash, ..HObject::default() };
        let stored = |object: &HObject| Ok::<u64, Infallible>(u64::from(object.hash) * 100);
        let mut sizes = SettledSizes::new(stored);
        let clone = |from, to| Change::Clone { object: object(from), target: object(to) };
        let write = |hash| Change::Write { object: object(hash), offset: 4096, data: Bytes::new() };
        assert_eq!(sizes.follow(&clone(3, 1), 0), Ok(Some(300)));
        assert_eq!(sizes.follow(&clone(1, 9), 0), Ok(Some(300)));
        assert_eq!(sizes.follow(&write(1), 8192), Ok(None));
        assert_eq!(sizes.follow(&Change::Truncate { object: object(1), size: 5 }, 0), Ok(None));
        assert_eq!(sizes.follow(&Change::Remove { object: object(1) }, 0), Ok(None));
        assert_eq!(sizes.follow(&clone(1, 2), 0), Ok(Some(12288)));
        assert_eq!(sizes.follow(&clone(9, 2), 0), Ok(Some(900)));
    }
}
