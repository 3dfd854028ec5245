//! Consistency of a placement group's log: the last entry of each object names the version of the object,
//! or its deletion; versions ascend without a gap; no request is in the log twice, and none was executed
//! again after it was trimmed.

use super::stores::Stores;
use crate::groups::{all_groups, copies};
use crate::world::World;
use pg::{DupBatch, EntryKind, INFO_ATTR, LogDup, LogEntry, ObjectInfo, meta_object};
use std::collections::{BTreeMap, BTreeSet};
use store::Collection;
use store::mem::MemStore;

/// Checks the log of every copy of every group.
pub fn check(world: &World, stores: &Stores) -> Result<(), String> {
    let map = world.newest_map().expect("all is healed");
    for pg in all_groups(map) {
        for (osd, copy) in copies(map, pg) {
            check_copy(stores.of(osd), copy)
                .map_err(|why| format!("{copy} on osd.{osd}: {why}"))?;
        }
    }
    Ok(())
}

fn check_copy(store: &MemStore, collection: Collection) -> Result<(), String> {
    let Some(meta) = store.object(collection, &meta_object(collection.0.pg)) else { return Ok(()) };
    let (mut entries, mut dups): (Vec<LogEntry>, Vec<LogDup>) = Default::default();
    for (key, value) in &meta.omap {
        if pg::is_log_key(key) {
            entries.push(codec::decode_all("log entry", value).map_err(|e| e.to_string())?);
        } else if let Some(through) = pg::decode_dups_key(key) {
            dups.extend(DupBatch::decode(through, value).map_err(|e| e.to_string())?.1);
        }
    }
    check_order(&entries)?;
    check_requests(&entries, &dups)?;
    let changes = entries.iter().filter(|entry| entry.changes_object());
    let last: BTreeMap<_, _> = changes.map(|entry| (&entry.object, entry)).collect();
    for (object, entry) in last {
        let stored = store.object(collection, object).map(|object| &object.attrs);
        let info = stored.and_then(|attrs| attrs.get(&INFO_ATTR));
        let info = info.map(|info| codec::decode_all::<ObjectInfo>("object info", info));
        match (entry.kind, info) {
            (EntryKind::Delete, None) => {}
            (EntryKind::Modify, Some(Ok(info))) if info.version == entry.version => {}
            (kind, info) => {
                let version = entry.version;
                return Err(format!("{object} is {info:?}, the log says {kind:?} at {version}"));
            }
        }
    }
    Ok(())
}

fn check_order(entries: &[LogEntry]) -> Result<(), String> {
    let follows = |pair: &[LogEntry]| {
        pair[0].version < pair[1].version && pair[0].version.version + 1 == pair[1].version.version
    };
    match entries.windows(2).find(|pair| !follows(pair)) {
        Some(pair) => Err(format!("{} follows {}", pair[1].version, pair[0].version)),
        None => Ok(()),
    }
}

fn check_requests(entries: &[LogEntry], dups: &[LogDup]) -> Result<(), String> {
    let mut trimmed = BTreeMap::new();
    let entry = entries.iter().filter(|entry| entry.has_request()).map(LogDup::from);
    for LogDup { request, version, .. } in dups.iter().cloned().chain(entry) {
        if *trimmed.entry(request).or_insert(version) != version {
            return Err(format!("request {request} was executed again after the log was trimmed"));
        }
    }
    let mut seen = BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry.has_request()) {
        if !seen.insert(entry.request) {
            return Err(format!("request {} was executed twice", entry.request));
        }
    }
    Ok(())
}
