//! OSDs that an administrator declares lost although they return, and logs of shards that cannot be read.

use super::disks::does_without;
use crate::commands::lost_command;
use crate::fault::Kind;
use crate::node::NodeId;
use crate::world::World;
use pg::Pg;
use store::Collection;

/// An administrator declares an OSD lost, if it is down and no group needs it: then nothing that was
/// acknowledged may be missing afterwards, nor when the OSD returns with all that it had.
pub(super) fn lose(world: &mut World, node: NodeId) {
    let Some(osd) = world.nodes.osd(node).map(|process| process.id()) else { return };
    let is_gone = !world.nodes.is_up(node) && !world.is_removed(node);
    if is_gone && !world.disks.is_being_replaced(node) && does_without(world, osd) {
        world.command(world.cast.clients[0], &lost_command(osd));
        world.injection.count(Kind::LoseOsd);
    }
}

/// The log of one of the OSD's shards cannot be read from now on. The OSD restarts and meets that.
pub(super) fn fail_copy(world: &mut World, node: NodeId) {
    let Some(osd) = world.nodes.osd(node) else { return };
    let is_shard = |copy: &Collection| copy.0.shard.position().is_some();
    let shards: Vec<Collection> = osd.groups().map(Pg::collection).filter(is_shard).collect();
    let is_fit = !world.is_removed(node) && !world.disks.is_bad(node);
    if shards.is_empty() || !is_fit || !world.disks.note_failing_copy(node) {
        return;
    }
    let shard = *world.injection.prng().choose(&shards);
    world.line(format_args!("the log of {shard} cannot be read"));
    world.crash(node, false);
    world.with_store(node, |store, _| store.fail_copy(shard));
    world.start(node);
}

/// All logs of the OSD can be read again. The OSD restarts: a copy that failed stays so until then. The fault
/// counts if the OSD met it.
pub(super) fn heal_copy(world: &mut World, node: NodeId) {
    if !world.disks.note_copy_heals(node) {
        return;
    }
    let was_up = world.nodes.is_up(node);
    world.crash(node, false);
    let mut was_met = false;
    world.with_store(node, |store, _| was_met = store.heal_copy());
    if was_met {
        world.injection.count(Kind::FailCopy);
    }
    if was_up {
        world.start(node);
    }
}
