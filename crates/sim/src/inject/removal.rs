//! Removal of an OSD from the cluster while everything else continues.

use super::asking::{PATIENCE, ask_unless_asked};
use crate::commands::{out_command, purge_command};
use crate::event::Event;
use crate::fault::{Fault, Kind};
use crate::groups::is_without;
use crate::node::NodeId;
use crate::world::{Removal, World};

/// One step: out, drained, stopped, purged. Each is retried until it succeeds.
pub(super) fn remove(world: &mut World, node: NodeId) {
    let now = world.agenda.now();
    let Some(process) = world.nodes.osd(node) else { return };
    let osd = process.id();
    if world.injection.removal().is_some_and(|removal| removal.not_before > now) {
        return; // it is under way
    }
    let Some(map) = world.newest_map() else { return };
    let is_stopped = world.is_removed(node);
    if is_stopped && !map.exists(osd) {
        return;
    }
    let (is_up, is_empty) = (map.is_up(osd), is_without(map, osd));
    let not_before = now + PATIENCE;
    world.injection.note_removal(Removal { not_before, is_stopped });
    world.injection.note_churned();
    world.agenda.after(PATIENCE, Event::Fault(Fault::Remove(node)));
    match is_stopped {
        true if is_up => {}
        true => ask_unless_asked(world, &purge_command(osd)),
        false if is_empty && world.is_clean() && is_intact(world, node) => {
            world.crash(node, false);
            world.injection.note_removal(Removal { not_before, is_stopped: true });
            world.injection.count(Kind::RemoveOsd);
        }
        false => ask_unless_asked(world, &out_command(osd)),
    }
}

fn is_intact(world: &World, node: NodeId) -> bool {
    !world.disks.is_bad(node) && !world.disks.is_being_replaced(node)
}
