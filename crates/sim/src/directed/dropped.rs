//! A removal that does not happen, of an object that one shard misses.
//!
//! The last shard, a parity, is away while the object is overwritten. It returns, and holds the removal of
//! the object before it is recovered. Not all others hold that, so it is dropped when the power fails: the
//! object is missing there again, and must not be taken for a present one with its old content.

use super::{
    ANSWERED_WITHIN, Case, HELD_WITHIN, OBJECT, UNIT, ask, change, members, read, restart, scenario,
};
use crate::cluster;
use crate::commands::set_option_command;
use crate::events::{run_for, run_until};
use crate::fault::Fault;
use crate::history::ObjectId;
use crate::inject;
use crate::model::Action;
use crate::names::POOL_ID;
use crate::node::NodeId;
use crate::run::admin::command;
use crate::run::boot::boot;
use crate::run::clean::{become_clean, fall_silent};
use crate::run::verdict::check_stores;
use crate::world::World;
use bytes::Bytes;
use pg::{EntryKind, Pg};

/// Is recovered before [`OBJECT`], which waits for that.
const FIRST: ObjectId = 1;

/// One case, on 2+2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// Positions whose members hold the removal; not all.
    pub held_by: u32,
    /// The member that misses the object keeps its power.
    pub stays: bool,
}

impl Dropped {
    /// Each set with the primary, which must read the object, and with the member that misses it, but for
    /// that of all.
    pub fn all() -> impl Iterator<Item = Dropped> {
        let sets = [0b1001, 0b1011, 0b1101];
        sets.into_iter().flat_map(|held_by| [false, true].map(|stays| Dropped { held_by, stays }))
    }

    fn as_case(self) -> Case {
        let held_by = self.held_by;
        Case { data: 2, parity: 2, held_by, dead: 0, settles: false, offset: 0 }
    }
}

/// Plays a case. `Err` says what went wrong.
pub fn play(of: Dropped) -> Result<(), String> {
    let case = of.as_case();
    let mut scenario = scenario(case);
    scenario.load.objects = 2;
    let world = &mut cluster::build(scenario, false);
    boot(world)?;
    command(world, &set_option_command("osd", "osd_recovery_max_active", 1))?;
    let writer = world.cast.clients[0];
    let old = Bytes::from(vec![b'a'; 3 * UNIT as usize + 100]);
    for object in [FIRST, OBJECT] {
        ask(world, writer, object, Action::WriteFull { data: old.clone() })?;
    }
    run_for(world, HELD_WITHIN);
    let nodes = members(world);
    let behind = nodes[3];
    inject::apply(world, Fault::Crash(vec![behind]));
    let new = Bytes::from(vec![b'b'; 3 * UNIT as usize + 100]);
    for object in [FIRST, OBJECT] {
        ask(world, writer, object, Action::WriteFull { data: new.clone() })?;
    }
    inject::apply(world, Fault::Start(vec![behind]));
    if !run_until(world, ANSWERED_WITHIN, |world| misses_both(world, nodes[0], behind)) {
        return Err(format!("the objects do not wait for recovery:\n{}", world.groups()));
    }
    // The first object is not stored there before the removal of the other one.
    inject::apply(world, Fault::DiskStops(behind));
    let is_answered = change(world, case, &nodes, Action::Remove);
    inject::apply(world, Fault::DiskGoesOn(behind));
    run_for(world, HELD_WITHIN);
    if !holds_a_removal(world, behind) {
        return Err(format!("the removal is not held:\n{}", world.groups()));
    }
    if is_answered {
        return Err(String::from("the removal was acknowledged, and not all hold it"));
    }
    let fallen: Vec<NodeId> = nodes.iter().copied().filter(|node| *node != behind).collect();
    restart(world, case, &nodes, if of.stays { &fallen } else { &nodes });
    let first = read(world)?;
    if first != new {
        return Err(String::from("the object has lost an acknowledged overwrite"));
    }
    inject::apply(world, Fault::Start([nodes, vec![writer]].concat()));
    become_clean(world)?;
    if read(world)? != new {
        return Err(String::from("the object reads as another version later"));
    }
    fall_silent(world);
    check_stores(world).map(|_| ())
}

fn group_on(world: &World, node: NodeId) -> Option<&Pg> {
    let mut groups = world.nodes.osd(node).into_iter().flat_map(|osd| osd.groups());
    groups.find(|group| group.id().pool == POOL_ID)
}

/// True once the group serves with all members, and one of them misses both objects.
fn misses_both(world: &World, primary: NodeId, behind: NodeId) -> bool {
    let is_whole = |group: &Pg| group.is_active() && group.members().acting_members().count() == 4;
    group_on(world, primary).is_some_and(is_whole)
        && group_on(world, behind).is_some_and(|group| group.missing().len() == 2)
}

/// True if the newest entry of a copy removes an object, which counts as not missing.
fn holds_a_removal(world: &World, node: NodeId) -> bool {
    let is_held = |group: &Pg| {
        let newest = group.log().entries().next_back();
        newest.is_some_and(|entry| {
            entry.kind == EntryKind::Delete && !group.missing().contains(&entry.object)
        })
    };
    group_on(world, node).is_some_and(is_held)
}
