//! Listing the objects of a pool, page by page, through its placement groups in hash order.

use bytes::Bytes;
use maps::Pool;
use types::{HObject, PoolId};
use wire::OsdOp;
use wire::listing::{ListedObject, PgListing};

/// A request for one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    /// The pool that is listed.
    pub pool: PoolId,
    /// `None`: all namespaces.
    pub namespace: Option<Bytes>,
    /// The cursor of the previous page; `None` at first.
    pub cursor: Option<HObject>,
    /// Bound for the objects of the page.
    pub entries_max: u64,
}

/// One page of a pool's objects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListPage {
    /// May be empty although more pages follow.
    pub objects: Vec<ListedObject>,
    /// Position of the next page; `None` after the last.
    pub cursor: Option<HObject>,
}

/// The namespace that stands for all (`LIBRADOS_ALL_NSPACES`).
const ALL_NAMESPACES: &[u8] = b"\x01";

impl ListRequest {
    pub(crate) fn start(&self) -> HObject {
        self.cursor.clone().unwrap_or_else(|| HObject::hash_start(self.pool, 0))
    }

    pub(crate) fn wire_namespace(&self) -> Bytes {
        self.namespace.clone().unwrap_or_else(|| Bytes::from_static(ALL_NAMESPACES))
    }

    pub(crate) fn op(&self) -> OsdOp {
        OsdOp::list(self.entries_max, 0, &self.start())
    }
}

/// The page in a reply. `hash` is the position of the request, which names its placement group.
pub(crate) fn page(pool: Option<&Pool>, id: PoolId, hash: u32, listing: PgListing) -> ListPage {
    let cursor = match listing.handle.max {
        false => Some(listing.handle),
        // An OSD may return the end of its placement group; the client finds the next one.
        true => pool.and_then(|pool| behind(pool.pg_of_hash(id, hash).seed, pool.pg_num)),
    };
    let cursor = cursor.map(|object| HObject { pool: id, ..object });
    ListPage { objects: listing.entries, cursor }
}

/// The first position behind placement group `seed` of `pg_num`, in listing order.
fn behind(seed: u32, pg_num: u32) -> Option<HObject> {
    let bits = maps::stable_bits(seed, pg_num).into();
    let first = seed.reverse_bits();
    let last = if bits == 0 { u32::MAX } else { first | (u32::MAX.checked_shr(bits).unwrap_or(0)) };
    let next = last.checked_add(1)?;
    Some(HObject { hash: next.reverse_bits(), ..HObject::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_groups_are_visited_once_each_in_hash_order() {
        for pg_num in 1..70 {
            let mut seeds = Vec::new();
            let mut position = Some(HObject::hash_start(PoolId(1), 0));
            while let Some(at) = position {
                let seed = maps::stable_mod(at.hash, pg_num);
                assert_eq!(seed.reverse_bits(), at.reversed_hash(), "{seed} of {pg_num}");
                seeds.push(seed);
                position = behind(seed, pg_num);
            }
            seeds.sort_unstable();
            assert_eq!(seeds, (0..pg_num).collect::<Vec<_>>());
        }
    }
}
