//! Collections that own the ids of objects, by hash.

use crate::slices::Slice;
use std::collections::BTreeMap;
use store::Collection;

/// Slices that do not overlap, each owned by a collection or garbage.
#[derive(Debug, Default)]
pub(crate) struct Owners(BTreeMap<(u64, u32), (u32, Option<Collection>)>);

impl Owners {
    /// Adds a slice; false if a part of it has an owner already.
    pub fn insert(&mut self, slice: Slice, owner: Option<Collection>) -> bool {
        let Slice { id, first, last } = slice;
        let before = self.0.range(..=(id, last)).next_back();
        let is_free = before.is_none_or(|((other, _), (end, _))| *other != id || *end < first);
        if is_free {
            self.0.insert((id, first), (last, owner));
        }
        is_free
    }

    /// Owner of the objects with this id and reversed hash: none, garbage (`Some(None)`), or a
    /// collection.
    pub fn get(&self, id: u64, reversed_hash: u32) -> Option<Option<Collection>> {
        let ((other, _), (last, owner)) = self.0.range(..=(id, reversed_hash)).next_back()?;
        (*other == id && reversed_hash <= *last).then_some(*owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_one_id_have_owners_of_their_own() {
        let mut owners = Owners::default();
        let pg = Some(Collection::default());
        let slice = |first, last| Slice { id: 5, first, last };
        assert!(owners.insert(slice(10, 19), pg));
        assert!(owners.insert(slice(20, 29), None));
        assert!(!owners.insert(slice(29, 40), None));
        assert!(!owners.insert(Slice::whole(5), None));
        assert!(owners.insert(Slice::whole(4), None) && owners.insert(Slice::whole(6), None));
        assert_eq!((owners.get(5, 9), owners.get(5, 19)), (None, Some(pg)));
        assert_eq!((owners.get(5, 25), owners.get(5, 30)), (Some(None), None));
    }
}
