//! End of a seed whose control store is restored from a backup.
//!
//! All monitors stop, the store goes back to an earlier state, and the monitors restart. Clients come and
//! go and continue with requests. OSDs and clients may be stuck from then on, because no map can be made
//! any more; but no client id and no epoch of a map is issued twice ([`crate::check::issued`]), and the
//! history of clients stays consistent.

use crate::control_trials::Restore;
use crate::event::Event;
use crate::events::{run_for, run_until};
use crate::fault::Fault;
use crate::inject;
use crate::load;
use crate::model::Action;
use crate::node::NodeId;
use crate::world::World;
use engine::Duration;

/// Time for requests to monitors to complete, and for changes to propagate.
const SETTLED: Duration = Duration::from_secs(8);
/// Longer than an OSD may be silent before it is marked down.
const AFTERWARDS: Duration = Duration::from_secs(40);
/// Time for the read of one object, which may never complete.
const LOOK: Duration = Duration::from_secs(10);
const LOOKS: Duration = Duration::from_secs(60);
const MONITORS_AWAY_MS_MAX: u64 = 5_000;

/// Schedules the backup when the load begins.
pub fn plan(world: &mut World) {
    let Some(Restore { made_at: Some(percent), .. }) = world.scenario.control.restore else {
        return;
    };
    let at = world.scenario.load.duration.as_millis() as u64 * percent / 100;
    world.agenda.after(Duration::from_millis(at), Event::Fault(Fault::BackUpControl));
}

/// Restores the store of a healthy cluster.
pub fn play(world: &mut World, restore: Restore) {
    if !world.control().borrow().has_backup() {
        inject::apply(world, Fault::BackUpControl);
    }
    make_history(world, restore);
    go_back(world, restore);
    go_on(world);
    look_at_everything(world);
}

/// Makes history that the backup lacks: maps, and ids that monitors reserved since.
fn make_history(world: &mut World, restore: Restore) {
    for _ in 0..restore.maps {
        inject::apply(world, Fault::CreatePool);
        run_for(world, SETTLED);
    }
    let monitors = world.cast.monitors.clone();
    inject::apply(world, Fault::Crash(monitors.clone()));
    inject::apply(world, Fault::Start(monitors));
    run_for(world, SETTLED);
    renew_clients(world);
    run_for(world, SETTLED);
    // Clocks of monitors may differ by this much from one start to the next.
    run_until(world, Duration::from_millis(world.scenario.network.skew_ms_max), |_| false);
}

fn go_back(world: &mut World, restore: Restore) {
    let monitors = world.cast.monitors.clone();
    inject::apply(world, Fault::Crash(monitors.clone()));
    let osds = world.cast.osds.len() as u64;
    let lost = world.cast.osds[world.injection.prng().below(osds) as usize];
    if restore.loses_osd {
        inject::apply(world, Fault::Crash(vec![lost]));
    }
    let loses_maps = world.control().borrow().backup_epoch() < world.checks.newest_epoch();
    world.records.commands.note_restored_control();
    inject::apply(world, Fault::RestoreControl { with_marks: restore.loses_marks && !loses_maps });
    let away = Duration::from_millis(world.injection.prng().below(MONITORS_AWAY_MS_MAX));
    run_for(world, away);
    inject::apply(world, Fault::Start(monitors));
}

/// Clients continue with requests, an administrator changes the map, and an OSD comes back late.
fn go_on(world: &mut World) {
    world.scenario.faults.weights.clear();
    inject::set_busy(world, true);
    run_with_clients(world, SETTLED);
    inject::apply(world, Fault::CreatePool);
    renew_clients(world);
    run_with_clients(world, AFTERWARDS);
    inject::apply(world, Fault::CreatePool);
    renew_clients(world);
    inject::heal(world);
    run_with_clients(world, AFTERWARDS);
}

/// Time passes. Clients rest once the history is large enough for the checkers: objects that have grown are
/// read as a whole.
fn run_with_clients(world: &mut World, duration: Duration) {
    let until = world.now() + duration;
    if run_until(world, duration, |world| world.records.history.is_full()) {
        inject::set_busy(world, false);
        run_for(world, until.since(world.now()));
    }
}

/// Some clients end, and new ones get ids of their own.
fn renew_clients(world: &mut World) {
    let clients: Vec<NodeId> = world.cast.clients.clone();
    let clients: Vec<NodeId> =
        clients.into_iter().filter(|_| world.injection.prng().chance(2, 3)).collect();
    inject::apply(world, Fault::Crash(clients.clone()));
    inject::apply(world, Fault::Start(clients));
}

/// Reads all objects, as far as there are responses.
fn look_at_everything(world: &mut World) {
    let client = world.cast.clients[0];
    for object in 0..world.records.workload.targets.len() {
        run_until(world, LOOK, |world| load::request(world, client, object, Action::Look));
    }
    run_until(world, LOOKS, |world| world.in_flight() == 0);
}
