//! Ordered listing of the objects of a collection: one key range per pool and slice.
//!
//! Keys order the pool before the hash, and the pools under an id are not known in advance. When
//! all slices of a pool have been listed, the next pool with any object under one of the ids is
//! searched for; it may have none in the slices.

use super::effects::Interrupt;
use super::meta::Meta;
use crate::keys;
use crate::slices::{Slice, Slices};
use bytes::Bytes;
use std::ops::Bound;
use types::{HObject, PoolId};

impl Meta {
    /// At most `entries_max` names in order, from `from` on.
    pub fn objects(
        &mut self,
        slices: &Slices,
        from: &HObject,
        entries_max: usize,
    ) -> Result<Vec<HObject>, Interrupt> {
        let mut names = Vec::new();
        if from.max {
            return Ok(names);
        }
        if let Slices::Whole(id) = slices {
            let (first, end) = (keys::object(*id, from), keys::object_range(*id).end);
            self.push_names(&first, &end, entries_max, &mut names)?;
            return Ok(names);
        }
        let parts: Vec<Slice> = slices.iter().collect();
        let mut first = Some(from);
        let mut pool = Some(from.pool);
        while let Some(at) = pool {
            self.objects_of_pool(&parts, at, first.take(), entries_max, &mut names)?;
            pool = match names.len() < entries_max {
                true => self.pool_behind(&parts, at)?,
                false => None,
            };
        }
        Ok(names)
    }

    /// At most `entries_max` names within a slice.
    pub fn objects_within(
        &mut self,
        slice: Slice,
        entries_max: usize,
    ) -> Result<Vec<HObject>, Interrupt> {
        let mut names = Vec::new();
        let mut pool = self.pool_from(&[slice], |id| keys::object_range(id).start)?;
        while let Some(at) = pool {
            self.objects_of_pool(&[slice], at, None, entries_max, &mut names)?;
            pool = match names.len() < entries_max {
                true => self.pool_behind(&[slice], at)?,
                false => None,
            };
        }
        Ok(names)
    }

    fn objects_of_pool(
        &mut self,
        parts: &[Slice],
        pool: PoolId,
        from: Option<&HObject>,
        entries_max: usize,
        names: &mut Vec<HObject>,
    ) -> Result<(), Interrupt> {
        for part in parts {
            let first = match from {
                Some(from) if part.last < from.reversed_hash() => continue,
                Some(from) if part.first <= from.reversed_hash() => keys::object(part.id, from),
                _ => keys::object_hash_start(part.id, pool, part.first),
            };
            let end = keys::object_hash_end(part.id, pool, part.last);
            self.push_names(&first, &end, entries_max, names)?;
            if names.len() >= entries_max {
                break;
            }
        }
        Ok(())
    }

    fn push_names(
        &mut self,
        first: &[u8],
        end: &[u8],
        entries_max: usize,
        names: &mut Vec<HObject>,
    ) -> Result<(), Interrupt> {
        let wanted = entries_max - names.len();
        let page = self.search(Bound::Included(first), end, wanted, usize::MAX)?;
        for (key, _) in page.pairs {
            names.push(keys::read_object(&key).map_err(Interrupt::decoding("object key"))?.1);
        }
        Ok(())
    }

    fn pool_behind(&mut self, parts: &[Slice], pool: PoolId) -> Result<Option<PoolId>, Interrupt> {
        self.pool_from(parts, |id| keys::object_pool_end(id, pool))
    }

    /// First pool with objects under one of the ids, from a key on.
    fn pool_from(
        &mut self,
        parts: &[Slice],
        first: impl Fn(u64) -> Bytes,
    ) -> Result<Option<PoolId>, Interrupt> {
        let mut ids: Vec<u64> = parts.iter().map(|part| part.id).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut pools = Vec::new();
        for id in ids {
            let end = keys::object_range(id).end;
            let page = self.search(Bound::Included(&first(id)), &end, 1, usize::MAX)?;
            if let Some((key, _)) = page.pairs.first() {
                let read = keys::read_object(key).map_err(Interrupt::decoding("object key"))?;
                pools.push(read.1.pool);
            }
        }
        Ok(pools.into_iter().min())
    }
}
