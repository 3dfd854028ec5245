//! Disks that fail, rot, and are repaired or replaced.

use super::asking::{PATIENCE, ask_unless_asked};
use crate::event::Event;
use crate::fault::{Fault, Kind};
use crate::node::NodeId;
use crate::process::StoreDisk;
use crate::world::{Replacement, World};
use engine::Duration;
use osd::Osd;
use types::{OsdId, Uuid};

/// Interval at which a delayed fault checks whether it is safe.
const MOMENT: Duration = Duration::from_millis(50);

/// Corrupts data of an OSD that does not run, at a time when it has no data alone: not even a write
/// that was not acknowledged, since no OSD knows that it was not. Later, it may be the only reachable
/// copy for a while.
pub(super) fn rot_soon(world: &mut World, node: NodeId) {
    if !world.nodes.is_up(node) {
        return;
    }
    if !world.is_clean() || !is_settled(world) {
        return world.agenda.after(MOMENT, Event::Fault(Fault::RotSoon(node)));
    }
    world.disks.begin_misread(world.now(), node, false);
    world.crash(node, false);
    rot(world, node);
    let away = world.injection.prng().below(world.scenario.faults.away_ms_max.max(1));
    world.agenda.after(Duration::from_millis(away), Event::Fault(Fault::Start(vec![node])));
    world.injection.count(Kind::Rot);
}

/// True if all members of each group have confirmed everything that it has.
fn is_settled(world: &World) -> bool {
    let groups = world.osds().filter_map(|osd| osd.daemon()).flat_map(Osd::groups);
    let mut primaries = groups.filter(|group| group.is_primary());
    primaries.all(|group| group.committed() == group.info().last_update)
}

/// Corrupts data of an OSD that does not run.
pub(super) fn rot(world: &mut World, node: NodeId) {
    world.with_store(node, |store, now| store.rot(now));
}

/// The disk fails all requests from now on.
pub(super) fn kill(world: &mut World, node: NodeId) {
    if world.is_removed(node) {
        return;
    }
    // Data on a dead disk that no other OSD has cannot be read as long as its OSD has not noticed.
    // Others have all acknowledged data, unless they are recovering, or their disks fail, too.
    let may_be_alone =
        world.scenario.cluster.min_size == 1 || !world.disks.bad().is_empty() || !world.is_clean();
    world.disks.note_bad(node);
    if may_be_alone {
        world.disks.begin_misread(world.now(), node, false);
    }
    world.with_store(node, |store, _| store.kill());
}

/// Reads of the disk fail, so many per million.
pub(super) fn misread(world: &mut World, node: NodeId, per_million: u64) {
    // Data that one OSD alone has is lost if the OSD cannot read it.
    if world.scenario.cluster.min_size > 1 {
        world.disks.note_bad(node);
        world.disks.begin_misread(world.now(), node, false);
        world.with_store(node, |store, _| store.misread(per_million));
    }
}

/// One read fails; a retry would succeed.
pub(super) fn fail_read(world: &mut World, node: NodeId, after: u64) {
    if world.is_removed(node) || world.disks.is_bad(node) {
        return;
    }
    world.disks.begin_misread(world.now(), node, true);
    world.disks.note_failing_read(node);
    world.with_store(node, |store, _| store.fail_read(after));
}

/// The read failure is cancelled; an OSD that shut down because of it is restarted.
pub(super) fn heal_reads(world: &mut World, node: NodeId) {
    if !world.disks.note_reads_heal(node) || world.disks.is_bad(node) {
        return;
    }
    world.disks.end_misread(world.now(), node);
    let Some(osd) = world.nodes.osd(node) else { return };
    let has_failed = osd.daemon().is_some_and(Osd::has_failed);
    world.with_store(node, |store, _| store.heal_reads());
    if has_failed {
        world.crash(node, false);
        world.with_store(node, |store, _| store.heal());
        world.start(node);
    }
}

/// Repairs the disk and restarts an OSD that gave up. The OSD stops first: otherwise the disk would
/// accept requests that follow those which it refused.
pub(super) fn heal(world: &mut World, node: NodeId) {
    world.disks.end_misread(world.now(), node);
    let restarts = world.disks.note_repaired(node) && world.nodes.is_up(node);
    if restarts {
        world.crash(node, false);
    }
    world.with_store(node, |store, _| store.heal());
    if restarts {
        world.start(node);
    }
}

/// One step of replacing an OSD's disk. Each is retried until it succeeds.
pub(super) fn replace(world: &mut World, node: NodeId) {
    // Replacements run one after the other.
    let is_other = world.disks.replacement().is_some() && !world.disks.is_being_replaced(node);
    if world.disks.is_being_replaced(node) || !is_other && give_disk(world, node) {
        ask_next(world);
    }
    if world.disks.is_being_replaced(node) || world.disks.is_bad(node) {
        world.agenda.after(PATIENCE, Event::Fault(Fault::Replace(node)));
    }
}

fn ask_next(world: &mut World) {
    let Some(replacement) = world.disks.replacement() else { return };
    let [destroy, new] = replacement.commands();
    let is_done = |what: &str| world.records.commands.has_succeeded(what);
    let next = match (is_done(&destroy), is_done(&new)) {
        (_, true) => return end_replacement(world),
        (true, false) => new,
        (false, false) => destroy,
    };
    ask_unless_asked(world, &next);
}

/// Replaces the disk, if no group needs the old one.
fn give_disk(world: &mut World, node: NodeId) -> bool {
    let Some(process) = world.nodes.osd(node) else { return false };
    let osd = process.id();
    if !world.disks.is_bad(node) {
        return false;
    }
    world.crash(node, false);
    if !does_without(world, osd) {
        return false;
    }
    let mut bytes = [0; 16];
    world.injection.prng().fill(&mut bytes);
    let (kind, seed) =
        (world.scenario.disks.stores[osd.0 as usize].clone(), world.injection.prng().next_u64());
    let uuid = Uuid(bytes);
    if let Some(process) = world.nodes.osd_mut(node) {
        process.replace_disk(StoreDisk::new(seed, kind), uuid);
    }
    world.disks.note_repaired(node);
    world.disks.end_misread(world.now(), node);
    world.injection.note_churned();
    world.records.commands.forget();
    world.disks.begin_replacement(Replacement { node, osd, uuid });
    true
}

/// True if the groups that serve without this OSD, which is down, find everything that was ever
/// acknowledged.
pub(super) fn does_without(world: &World, osd: OsdId) -> bool {
    let Some(map) = world.newest_map().filter(|map| map.exists(osd) && !map.is_up(osd)) else {
        return false;
    };
    let groups = map.pools.keys().flat_map(|pool| map.pgs(*pool));
    let serves = |pg| {
        let mut daemons = world.osds().filter_map(|osd| osd.daemon());
        daemons.any(|daemon| {
            daemon.map().epoch == map.epoch
                && daemon.groups().any(|group| {
                    group.id() == pg && group.is_active() && group.unfound().next().is_none()
                })
        })
    };
    groups.into_iter().all(serves)
}

/// Starts the OSD over its new disk, which is announced.
pub fn end_replacement(world: &mut World) {
    if let Some(replacement) = world.disks.end_replacement() {
        world.start(replacement.node);
    }
}
