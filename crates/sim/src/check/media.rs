//! Clients receive errors for lost data and full devices only where a device lost data or was full.
//!
//! Other checkers detect wrong data.

use super::stores::Stores;
use crate::history::Entry;
use crate::model::Action;
use crate::world::{Misread, World};
use types::Errno;

/// Returns the number of requests that met damage.
pub fn check(world: &World, stores: &Stores) -> Result<usize, String> {
    let met: Vec<&Entry> =
        world.records.history.entries().iter().filter(|entry| met_damage(entry)).collect();
    if world.scenario.cluster.size > 1 {
        if let Some(entry) = met.iter().find(|entry| !was_misread(world, entry)) {
            return Err(format!("an error although there are other copies: {entry:?}"));
        }
        // Scrubs do not reach the store of a purged OSD.
        let map = world.newest_map().expect("all is healed");
        if let Some((osd, object)) = stores.damaged().find(|(osd, _)| map.exists(*osd)) {
            return Err(format!(
                "{object} is still damaged on osd.{osd}, and there are other copies"
            ));
        }
    }
    for entry in met.iter().filter(|entry| !was_misread(world, entry)) {
        let read = match &entry.action {
            Action::CopyFrom { source, .. } => Some(&source[..]),
            action if action.is_write() => None,
            _ => Some(world.records.workload.targets[entry.object].name.as_bytes()),
        };
        let is_damaged = |name: &[u8]| stores.damaged().any(|(_, object)| object.name[..] == *name);
        if !read.is_some_and(is_damaged) {
            return Err(format!("an error although no device has one: {entry:?}"));
        }
    }
    let refused = world.records.history.entries().iter().find(|entry| found_no_room(entry));
    if let Some(entry) =
        refused.filter(|entry| !world.scenario.may_lack_room() || !entry.action.is_write())
    {
        return Err(format!("no room although there is: {entry:?}"));
    }
    Ok(met.len())
}

/// True for a request during which a disk could not read data of which it may have had the only copy. A write
/// is refused as well then, if its object is to be recovered from that copy.
fn was_misread(world: &World, entry: &Entry) -> bool {
    let answered = entry.completed.as_ref().map_or(entry.invoked, |completed| completed.at);
    let reads = !entry.action.is_write() || matches!(entry.action, Action::CopyFrom { .. });
    let overlaps = |misread: &Misread| {
        let began = misread.since <= answered && (reads || !misread.is_once);
        began && misread.until.is_none_or(|until| entry.invoked <= until)
    };
    world.disks.misreads().iter().any(overlaps)
}

/// True for a request that changed nothing and returned nothing about its object.
pub fn is_void(entry: &Entry) -> bool {
    met_damage(entry) || found_no_room(entry) || entry.is_blurred || was_watched(entry)
}

/// Rollback to a snapshot before its creation does not remove a watched object, and the model does not
/// cover watches.
fn was_watched(entry: &Entry) -> bool {
    let is_busy =
        entry.completed.as_ref().is_some_and(|completed| completed.outcome == Err(Errno::BUSY));
    is_busy && matches!(entry.action, Action::Rollback(_))
}

fn found_no_room(entry: &Entry) -> bool {
    entry.completed.as_ref().is_some_and(|completed| completed.outcome == Err(Errno::NOSPC))
}

fn met_damage(entry: &Entry) -> bool {
    entry.completed.as_ref().is_some_and(|completed| completed.outcome == Err(Errno::IO))
}
