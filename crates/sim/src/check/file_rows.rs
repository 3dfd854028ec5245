//! Journal and rows of the file system do not contradict each other, at two moments at the end of a run.
//!
//! The check of `sepiola fs fsck` reads what the first members of clean groups would have after a power loss.

use super::stores;
use crate::groups::all_groups;
use crate::world::World;
use bytes::Bytes;
use mds::fsck::{FsckError, NAMESPACE, Reader};
use pg::is_meta_object;
use std::collections::BTreeMap;
use store::Collection;
use types::HObject;

/// An object: its data and its pairs.
#[derive(Debug, Default)]
struct Object {
    data: Bytes,
    pairs: BTreeMap<Bytes, Bytes>,
}

/// Checks the rank in a pool. Nothing is known while groups are not clean, or devices have lost data.
pub fn check(world: &World, pool: &str) -> Result<(), String> {
    let Some(objects) = objects(world, pool)? else { return Ok(()) };
    let error = |error: FsckError| format!("the file system is damaged: {error}");
    let head = objects.get("rank.0".as_bytes()).ok_or("the file system has no head")?;
    let mut reader = Reader::new(0, &head.data, false).map_err(error)?;
    while let Some(segment) = reader.next_segment() {
        let data = objects.get(segment.as_bytes()).map(|object| &object.data);
        reader.segment(data).map_err(error)?;
    }
    for (name, object) in &objects {
        if reader.object(name) {
            let name = String::from_utf8_lossy(name);
            object.pairs.iter().for_each(|(key, value)| reader.row(&name, key, value));
        }
    }
    let mut findings = reader.finish().checked.report.findings;
    // A server that dies leaves parts of its journal behind that no head names.
    findings.retain(|finding| !finding.object.starts_with("journal."));
    match findings.is_empty() {
        true => Ok(()),
        false => Err(format!("the rows of the file system contradict each other: {findings:#?}")),
    }
}

fn objects(world: &World, pool: &str) -> Result<Option<BTreeMap<Bytes, Object>>, String> {
    let Some(map) = world.newest_map().filter(|_| world.is_clean()) else { return Ok(None) };
    let Some(pool) = map.pool_id(pool) else { return Ok(None) };
    let stores = stores::read(world)?;
    let mut found = BTreeMap::new();
    for pg in all_groups(map).into_iter().filter(|pg| pg.pool == pool) {
        let Some(osd) = map.pg_to_osds(pg).acting.first().copied() else { return Ok(None) };
        let is_ours = |name: &HObject| !is_meta_object(name) && name.namespace == NAMESPACE;
        let objects = stores.of(osd).objects(Collection::replicated(pg));
        for (name, object) in objects.filter(|(name, _)| is_ours(name)) {
            if stores.is_damaged(osd, name) {
                return Ok(None);
            }
            let data = object.data.read(0, object.data.size()).data;
            found.insert(name.name.clone(), Object { data, pairs: object.omap.clone() });
        }
    }
    Ok(Some(found))
}
