//! The shards of each object of an erasure-coded group fit together: names and attributes are equal, parity
//! is that of the data, nothing is behind the end of the object, and no change is held.
//!
//! As the codes are systematic and any k shards determine the others, all choices of k shards decode to the
//! same bytes exactly if parity is right. Clients have read these bytes last, and another checker compares
//! them with the model.

use super::snapshots::info;
use super::stores::Stores;
use crate::groups::copies;
use crate::world::World;
use erasure::Code;
use maps::{ErasureCode, OsdMap};
use pg::is_meta_object;
use std::collections::BTreeMap;
use store::Collection;
use store::mem::MemObject;
use types::{HObject, OsdId, PgId};

/// Bytes of a row of a shard; shards are stored in whole rows.
const ROW: u64 = 4096;

/// One member's objects, without that of the group itself.
struct Shard<'a> {
    osd: OsdId,
    copy: Collection,
    objects: BTreeMap<&'a HObject, &'a MemObject>,
}

/// Checks the groups of all erasure-coded pools.
pub fn check(world: &World, stores: &Stores) -> Result<(), String> {
    let map = world.newest_map().expect("all is healed");
    for (id, pool) in map.pools.iter().filter(|(_, pool)| pool.is_erasure()) {
        let code = ErasureCode::of_pool(map, pool).map_err(|error| error.to_string())?;
        let (k, m) = (usize::from(code.data), usize::from(code.parity));
        let coder = Code::new(code.technique, k, m).map_err(|error| error.to_string())?;
        let geometry = Geometry { k: k as u64, unit: code.stripe_unit.into() };
        for pg in map.pgs(*id) {
            let shards = shards_of(map, pg, stores, k + m)?;
            check_held(&shards, stores)?;
            check_group(&shards, stores, geometry, &coder).map_err(|why| format!("{pg}: {why}"))?;
        }
    }
    Ok(())
}

fn shards_of<'a>(
    map: &OsdMap,
    pg: PgId,
    stores: &'a Stores,
    count: usize,
) -> Result<Vec<Shard<'a>>, String> {
    let copies = copies(map, pg);
    if copies.len() != count {
        return Err(format!("{pg} has only {copies:?} although all OSDs run"));
    }
    let shard = |(osd, copy)| {
        let objects = stores.of(osd).objects(copy);
        let objects = objects.filter(|(name, _)| !is_meta_object(name)).collect();
        Shard { osd, copy, objects }
    };
    Ok(copies.into_iter().map(shard).collect())
}

fn check_held(shards: &[Shard<'_>], stores: &Stores) -> Result<(), String> {
    for Shard { osd, copy, .. } in shards {
        if let Some((held, changes)) = stores.of(*osd).held().of(*copy).next() {
            return Err(format!("{copy} on osd.{osd} still holds {held:?}: {changes:?}"));
        }
    }
    Ok(())
}

fn check_group(
    shards: &[Shard<'_>],
    stores: &Stores,
    geometry: Geometry,
    code: &Code,
) -> Result<(), String> {
    let first = &shards[0];
    for other in &shards[1..] {
        if !first.objects.keys().eq(other.objects.keys()) {
            let (a, b) = (first.objects.keys(), other.objects.keys());
            let (a, b): (Vec<_>, Vec<_>) = (a.collect(), b.collect());
            return Err(format!("{} has {a:?}, {} has {b:?}", first.copy, other.copy));
        }
    }
    for (name, object) in &first.objects {
        let all: Vec<&MemObject> = shards.iter().map(|shard| shard.objects[*name]).collect();
        let differs = |shard: &&Shard<'_>| shard.objects[*name].attrs != object.attrs;
        if let Some(other) = shards.iter().find(differs) {
            let (a, b) = (&object.attrs, &other.objects[*name].attrs);
            let (osds, shards) = ((first.osd, other.osd), (first.copy, other.copy));
            return Err(format!("{name} has {a:?} and {b:?} in {shards:?} on {osds:?}"));
        }
        if all.iter().any(|object| !object.omap.is_empty()) {
            return Err(format!("{name} has an omap"));
        }
        let size = info(object)?.size;
        let is_damaged: Vec<bool> =
            shards.iter().map(|shard| stores.is_damaged(shard.osd, name)).collect();
        check_object(&all, &is_damaged, size, geometry, code)
            .map_err(|why| format!("{name} of {size} bytes: {why}"))?;
    }
    Ok(())
}

/// Checks the data of one object. The data of damaged shards is unknown.
fn check_object(
    shards: &[&MemObject],
    is_damaged: &[bool],
    size: u64,
    geometry: Geometry,
    code: &Code,
) -> Result<(), String> {
    let length = geometry.shard_len(size);
    for (position, shard) in shards.iter().enumerate() {
        let stored = shard.data.size();
        if stored > length || !stored.is_multiple_of(ROW) {
            return Err(format!("shard {position} has {stored} bytes, the longest may {length}"));
        }
    }
    if is_damaged.contains(&true) {
        return Ok(());
    }
    let padded = |shard: &&MemObject| {
        let mut bytes = shard.data.read(0, length).data.to_vec();
        bytes.resize(length as usize, 0);
        bytes
    };
    let all: Vec<Vec<u8>> = shards.iter().map(padded).collect();
    let (data, parities) = all.split_at(geometry.k as usize);
    if let Some(offset) = geometry.first_behind(data, size) {
        return Err(format!("byte {offset} is behind the end, and not zero"));
    }
    let mut computed = vec![vec![0; length as usize]; parities.len()];
    let slices: Vec<&[u8]> = data.iter().map(|shard| &shard[..]).collect();
    let mut outputs: Vec<&mut [u8]> = computed.iter_mut().map(|shard| &mut shard[..]).collect();
    code.encode(&slices, &mut outputs);
    for (index, (stored, computed)) in parities.iter().zip(&computed).enumerate() {
        let differs = |(a, b): (&u8, &u8)| a != b;
        if let Some(offset) = stored.iter().zip(computed).position(differs) {
            return Err(format!("parity {index} is not that of the data at {offset}"));
        }
    }
    Ok(())
}

/// The places of an object's bytes, computed apart from the code under test.
#[derive(Debug, Clone, Copy)]
struct Geometry {
    k: u64,
    unit: u64,
}

impl Geometry {
    /// Bytes of the longest shard.
    fn shard_len(self, size: u64) -> u64 {
        let stripe = self.k * self.unit;
        let last = (size % stripe).min(self.unit).next_multiple_of(ROW);
        size / stripe * self.unit + last
    }

    /// The offset in the object of the first byte behind its end that is not zero.
    fn first_behind(self, data: &[Vec<u8>], size: u64) -> Option<u64> {
        let place = |(position, shard): (usize, &Vec<u8>)| {
            let at = |offset: usize| {
                let (stripe, within) = (offset as u64 / self.unit, offset as u64 % self.unit);
                (stripe * self.k + position as u64) * self.unit + within
            };
            let used = shard.iter().enumerate().filter(|(_, byte)| **byte != 0);
            used.map(|(offset, _)| at(offset)).find(|offset| *offset >= size)
        };
        data.iter().enumerate().filter_map(place).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use erasure::Technique;
    use store::Change;
    use store::mem::MemStore;
    use types::PgShard;

    const GEOMETRY: Geometry = Geometry { k: 2, unit: ROW };

    /// Two shards of data and their parity, each of one row of these bytes.
    fn stored(bytes: [u8; 3]) -> MemStore {
        let mut store = MemStore::new();
        let mut transaction = store::Transaction::new();
        let at = Collection(PgShard::default());
        transaction.push(at, Change::CreateCollection);
        for (index, byte) in bytes.into_iter().enumerate() {
            let object = HObject::hash_start(Default::default(), index as u32);
            let data = Bytes::from(vec![byte; ROW as usize]);
            transaction.push(at, Change::Write { object, offset: 0, data });
        }
        store.apply(&transaction).unwrap();
        store
    }

    fn check(bytes: [u8; 3], size: u64) -> Result<(), String> {
        let store = stored(bytes);
        let objects: Vec<&MemObject> =
            store.objects(Collection(PgShard::default())).map(|(_, object)| object).collect();
        let code = Code::new(Technique::IsaVandermonde, 2, 1).unwrap();
        // In the order of hashes, which is not that of positions.
        let objects: Vec<&MemObject> = bytes
            .iter()
            .map(|byte| *objects.iter().find(|o| o.data.read(0, 1).data[0] == *byte).unwrap())
            .collect();
        check_object(&objects, &[false; 3], size, GEOMETRY, &code)
    }

    #[test]
    fn wrong_parity_and_bytes_behind_the_end_are_seen() {
        assert_eq!(check([5, 3, 6], 2 * ROW), Ok(()));
        assert!(check([5, 3, 7], 2 * ROW).is_err_and(|why| why.contains("parity")));
        assert!(check([5, 3, 6], 2 * ROW - 1).is_err_and(|why| why.contains("behind")));
        assert!(check([5, 3, 6], 0).is_err_and(|why| why.contains("longest")));
    }
}
