//! One run of a seed: construction, load, faults, healing, and checks.

use crate::check::{
    image, linearizable, log, media, once, order, quiet, replicas, snapshots, stores, watches,
};
use crate::cluster;
use crate::faults::Fault;
use crate::history::{Entry, ObjectId};
use crate::model::Action;
use crate::process::{Contents, OsdProcess};
use crate::restored;
use crate::scaling;
use crate::scenario::Scenario;
use crate::stall;
use crate::trace::Brief;
use crate::world::{
    START, World, create_pool_command, out_command, purge_command, set_pool_command,
};
use engine::{Duration, Time};
use maps::{OsdMap, Pool, PoolFlags};
use osd::Osd;
use pg::scrub::Stamps;
use pg::{Pg, State};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use store::Collection;
use types::{Errno, OsdId, PgId, UTime};

/// Attempts for a command that may not have been executed.
const COMMAND_ATTEMPTS: usize = 5;
/// Groups of the pool that has a quota.
const QUOTA_GROUPS: u32 = 16;
/// Time for a new cluster to create its pool.
const BOOT_LIMIT: Duration = Duration::from_secs(120);
/// One in so many seeds is scrubbed in the end.
const SCRUBBED_SEEDS: u64 = 3;
/// Scrubs of all groups that changes of their numbers may interrupt.
const SCRUB_ROUNDS_MAX: usize = 50;
/// Time for a healed cluster to answer every request.
const LIVENESS_LIMIT: Duration = Duration::from_secs(400);
/// Time for a run whose recovery makes progress.
const PATIENCE: Duration = Duration::from_secs(20_000);
/// Like [`LIVENESS_LIMIT`], without any other work.
const REPLY_LIMIT: Duration = Duration::from_secs(120);
/// Interval of checks that examine all groups.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Longer than the interval at which OSDs report their usage.
const ROOM_NOTICED_WITHIN: Duration = Duration::from_secs(20);
/// Longer than the interval at which work that found no space is retried.
const ROOM_TRIED_WITHIN: Duration = Duration::from_secs(20);
/// Number of kinds of faults in one seed from which the tally counts it as mixed.
const MANY_KINDS: usize = 6;
/// Time for acknowledged data to reach all copies.
const QUIET: Duration = Duration::from_secs(15);
/// Time for the slowest disk to finish.
const DISKS_LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Prints every line of the trace.
    pub trace: bool,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub seed: u64,
    /// Hash of the trace: equal for equal seeds.
    pub hash: u64,
    /// Digest of all outputs of all daemons.
    pub digest: u64,
    pub events: u64,
    pub requests: usize,
    pub answered: usize,
    /// Objects whose history the checker could not decide.
    pub undecided: usize,
    /// Reads that failed because a device had lost the data.
    pub damaged: usize,
    /// A group is blocked for lack of space or of an object, so that its copies cannot be checked.
    pub is_stuck: bool,
    /// Number of faults by kind, and special traits of the seed.
    pub met: BTreeMap<String, u64>,
}

/// A seed that violates a check.
#[derive(Debug, Clone)]
pub struct Failure {
    pub seed: u64,
    pub what: String,
    pub scenario: String,
    pub last_lines: String,
}

pub fn run(seed: u64, options: &Options) -> Result<Report, Box<Failure>> {
    let scenario = Scenario::draw(seed);
    let mut world = cluster::build(scenario, options.trace);
    let verdict = catch_unwind(AssertUnwindSafe(|| play(&mut world)));
    let verdict = verdict.unwrap_or_else(|panic| Err(format!("panic: {}", panic_text(&*panic))));
    verdict.map_err(|what| {
        Box::new(Failure {
            seed,
            what,
            scenario: format!("{:?}", world.scenario),
            last_lines: world.trace.last_lines(),
        })
    })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "of an unknown kind".to_owned())
}

fn play(world: &mut World) -> Result<Report, String> {
    boot(world)?;
    prepare(world)?;
    world.set_busy(true);
    restored::plan(world);
    world.run_until(world.scenario.duration, |world| world.history.is_full());
    world.heal();
    if world.scenario.trials.pauses {
        await_commands(world)?;
        command(world, r#"{"prefix":"osd unset","key":"pause"}"#)?;
    }
    finish_replacement(world)?;
    finish_removal(world)?;
    if world.has_churned {
        restore(world)?;
    }
    if world.scenario.is_tight {
        make_room(world)?;
    }
    match become_clean(world) {
        Err(_) if is_stuck_for_room(world) => return check_stuck(world),
        Err(_) if is_stuck_for_rot(world)? => {
            look_at_the_undamaged(world)?;
            return check_stuck(world);
        }
        Err(_) if is_filled_again(world) => {
            remove_half(world, 1)?;
            become_clean(world)?;
        }
        outcome => outcome?,
    }
    if let Some(restore) = world.scenario.control.restore {
        restored::play(world, restore);
        return check_clients(world);
    }
    if let Some(stall) = world.scenario.stall {
        stall::play(world, stall)?;
        match become_clean(world) {
            Err(_) if is_stuck_for_rot(world)? => {
                look_at_the_undamaged(world)?;
                return check_stuck(world);
            }
            outcome => outcome.map_err(|why| format!("after {stall:?}: {why}"))?,
        }
    }
    if let Some(osd) = world.scenario.replaced {
        replace(world, osd)?;
    }
    if let Some(osd) = world.scenario.leaver {
        leave(world, osd)?;
    }
    purge(world)?;
    look_at_everything(world)?;
    fall_silent(world);
    if let Some(osd) = world.scenario.rotten {
        rot(world, osd)?;
    } else if is_scrubbed(&world.scenario) {
        // The corrupted copy may be the only other one.
        if world.scenario.rotting.is_none() && world.omit()? {
            fall_silent(world);
        }
        scrub(world)?;
        fall_silent(world);
    }
    world.run_until(watches::LOSS_NOTICED, |_| false);
    watches::check_open(&world.watching, world.agenda.now())?;
    let undecided = check_history(world)?;
    let damaged = check_stores(world)?;
    Ok(Report { undecided, damaged, ..report(world) })
}

/// Checks the history only: copies cannot be checked, because needed maps cannot be made.
fn check_clients(world: &mut World) -> Result<Report, String> {
    let undecided = check_history(world)?;
    Ok(Report { undecided, ..report(world) })
}

fn check_stuck(world: &mut World) -> Result<Report, String> {
    let undecided = check_history(world)?;
    Ok(Report { undecided, is_stuck: true, ..report(world) })
}

fn is_scrubbed(scenario: &Scenario) -> bool {
    let is_damaged = scenario.rotting.is_some() || scenario.trials.merges_repaired;
    is_damaged || scenario.seed.is_multiple_of(SCRUBBED_SEEDS) && !scenario.is_tight
}

/// Waits until all confirmed removals of snapshots are complete.
pub(crate) fn purge(world: &mut World) -> Result<(), String> {
    match world.run_until(LIVENESS_LIMIT, |world| snapshots::are_purged(world)) {
        true => Ok(()),
        false => {
            let queue = map(world).map(|map| map.removed_snaps_queue.clone());
            Err(format!("removed snapshots are never purged: {queue:?}\n{}", world.groups()))
        }
    }
}

pub(crate) fn become_clean(world: &mut World) -> Result<(), String> {
    if !world.run_until(LIVENESS_LIMIT, |world| world.in_flight() == 0) {
        return Err(unanswered(world));
    }
    // Large objects in small pieces take long: as long as there is progress, it is waited for.
    let mut groups = String::new();
    loop {
        if world.run_until(LIVENESS_LIMIT, now_and_then(World::is_clean)) {
            return Ok(());
        }
        let before = std::mem::replace(&mut groups, world.groups());
        if groups == before || world.agenda.now() > START + PATIENCE {
            return Err(format!("groups are never clean:\n{groups}"));
        }
    }
}

/// Groups that may be blocked for lack of space: those whose copies do not fit their devices during
/// recovery, those without space to be split, and those whose only member refused a write and accepted a
/// later one.
fn without_room(world: &World) -> impl Iterator<Item = PgId> {
    let groups = world.osds().flat_map(|osd| osd.hosted.daemon.iter().flat_map(Osd::groups));
    let stalled = |pg: &&Pg| {
        matches!(pg.state(), State::Stalled | State::Refused | State::Incomplete)
            || pg.is_recovery_toofull()
            || pg.is_reshaping_toofull()
    };
    groups.filter(stalled).map(Pg::id)
}

/// True if each group that is not clean lacks space now or at a later look: a retry in progress lacks it a
/// moment later.
fn is_stuck_for_room(world: &mut World) -> bool {
    let mut found = BTreeSet::new();
    world.scenario.is_tight
        && world.run_until(ROOM_TRIED_WITHIN, |world| {
            found.extend(without_room(world));
            !found.is_empty() && world.unclean().iter().all(|pg| found.contains(pg))
        })
}

/// True if each group that is not clean misses objects, and the OSD with rotten data has damaged copies of
/// objects of it. Requests that change no data are executed on a damaged object, too; those that change
/// data are refused there, and may be written to the other copies only. If those copies die before all have
/// the write, no copy has the version that the group continues with, and no OSD knows that the write was
/// not acknowledged.
fn is_stuck_for_rot(world: &World) -> Result<bool, String> {
    let Some(found) = rotten_contents(world)? else { return Ok(false) };
    let is_damaged = |pg| {
        found
            .store
            .objects(Collection::replicated(pg))
            .any(|(object, _)| found.damaged.contains(object))
    };
    let misses = |pg| {
        let mut groups =
            world.osds().flat_map(|osd| osd.hosted.daemon.iter().flat_map(Osd::groups));
        groups.any(|group| group.id() == pg && group.is_primary() && group.objects_missing() > 0)
    };
    let unclean = world.unclean();
    Ok(!unclean.is_empty() && unclean.into_iter().all(|pg| misses(pg) && is_damaged(pg)))
}

/// Content of the OSD whose data rots.
fn rotten_contents(world: &World) -> Result<Option<Contents>, String> {
    let Some(node) = world.cast.rotting else { return Ok(None) };
    let of_node = |osd: &&OsdProcess| Some(osd.config.id) == world.scenario.rotting;
    let osd = world.osds().find(of_node).expect("the cast knows it");
    osd.hosted.disk.durable(world.clock(node)).map(Some)
}

/// A group that misses objects serves all others: only requests to damaged objects may stay without a
/// response.
fn look_at_the_undamaged(world: &mut World) -> Result<(), String> {
    let damaged = rotten_contents(world)?.unwrap_or_default().damaged;
    let is_damaged = |name: &str| damaged.iter().any(|object| object.name == name.as_bytes());
    let targets = &world.workload.targets;
    let damaged: Vec<bool> = targets.iter().map(|target| is_damaged(&target.name)).collect();
    let first = world.history.entries().len();
    for object in 0..damaged.len() {
        ask_to_look(world, object, |_| true)?;
    }
    let is_done = |entry: &Entry| entry.completed.is_some() || damaged[entry.object];
    let are_done = |world: &mut World| world.history.entries()[first..].iter().all(is_done);
    match world.run_until(REPLY_LIMIT, are_done) {
        true => Ok(()),
        false => Err(unanswered(world)),
    }
}

/// The device of one OSD loses data that is certainly stored, and everything is read once more.
fn rot(world: &mut World, osd: OsdId) -> Result<(), String> {
    let node = world.cast.osds[osd.0 as usize];
    // The OSD's memory would hide damage.
    world.fault(Fault::Crash(vec![node]));
    world.fault(Fault::Rot(node));
    world.fault(Fault::Start(vec![node]));
    fall_silent(world);
    become_clean(world)?;
    // Half of the seeds read before they scrub.
    let looks_first = world.scenario.seed.is_multiple_of(2);
    if looks_first {
        look_at_everything(world)?;
    }
    scrub(world)?;
    if !looks_first {
        look_at_everything(world)?;
    }
    fall_silent(world);
    Ok(())
}

/// A disk of a healthy cluster dies for good, and its OSD gets an empty one.
fn replace(world: &mut World, osd: OsdId) -> Result<(), String> {
    let node = world.cast.osds[osd.0 as usize];
    world.fault(Fault::DiskDies(node));
    world.run_until(QUIET, |_| false);
    for _ in 0..COMMAND_ATTEMPTS {
        world.fault(Fault::Replace(node));
        if world.replacement.is_some() {
            finish_replacement(world)?;
            restore(world)?;
            return become_clean(world).map_err(|why| format!("osd.{osd} was replaced: {why}"));
        }
        world.run_until(QUIET, |_| false);
    }
    Err(format!("osd.{osd} is not up, and cannot be done without:\n{}", world.groups()))
}

/// Announces the new disk of an OSD whose old disk is gone.
fn finish_replacement(world: &mut World) -> Result<(), String> {
    let Some(replacement) = world.replacement.clone() else { return Ok(()) };
    await_commands(world)?;
    await_down(world, replacement.osd)?;
    for next in replacement.commands() {
        command(world, &next)?;
    }
    world.end_replacement();
    Ok(())
}

/// Waits for earlier commands: they must not be executed later, nor their responses be mistaken for others.
fn await_commands(world: &mut World) -> Result<(), String> {
    match world.run_until(BOOT_LIMIT, |world| !world.has_commands()) {
        true => Ok(()),
        false => Err(format!("commands are never answered: {:?}", world.waiting_for())),
    }
}

/// Gives every OSD its normal weight again.
pub(crate) fn restore(world: &mut World) -> Result<(), String> {
    let removed = world.removed();
    let all = world.cast.osds.len() - usize::from(removed.is_some());
    if !world.run_until(BOOT_LIMIT, |world| map(world).is_some_and(|map| map.up_count() == all)) {
        let osds = map(world).into_iter().flat_map(|map| map.existing_osds());
        let down: Vec<OsdId> = osds.filter(|(_, osd)| !osd.is_up()).map(|(osd, _)| osd).collect();
        return Err(format!("not all OSDs come up again: {down:?} are down"));
    }
    await_commands(world)?;
    let ids = (0..world.cast.osds.len() as i32).map(OsdId).filter(|osd| Some(*osd) != removed);
    for osd in ids {
        for restoring in crate::faults::restore(osd.0 as u64) {
            command(world, &restoring)?;
        }
    }
    Ok(())
}

/// Removes an OSD from the cluster; the others take over its data.
fn leave(world: &mut World, osd: OsdId) -> Result<(), String> {
    command(world, &out_command(osd))?;
    become_clean(world).map_err(|why| format!("osd.{osd} is out: {why}"))?;
    world.fault(Fault::Crash(vec![world.cast.osds[osd.0 as usize]]));
    purge_osd(world, osd)?;
    become_clean(world).map_err(|why| format!("osd.{osd} has left: {why}"))
}

/// Purges an OSD that was stopped while faults happened, if it is not purged yet.
fn finish_removal(world: &mut World) -> Result<(), String> {
    let Some(osd) = world.removed() else { return Ok(()) };
    await_commands(world)?;
    purge_osd(world, osd)
}

/// Purges an OSD that was stopped for good.
fn purge_osd(world: &mut World, osd: OsdId) -> Result<(), String> {
    await_down(world, osd)?;
    command(world, &purge_command(osd))
}

fn await_down(world: &mut World, osd: OsdId) -> Result<(), String> {
    // Earlier messages of the OSD are handled first: it may just have booted.
    world.run_until(QUIET, |_| false);
    let is_down = |world: &mut World| map(world).is_some_and(|map| !map.is_up(osd));
    match world.run_until(BOOT_LIMIT, is_down) {
        true => Ok(()),
        false => Err(format!("osd.{osd} is gone and never marked down")),
    }
}

/// The newest map of a running monitor: one may have answered before another learned of the change.
fn map(world: &World) -> Option<&OsdMap> {
    world.newest_map()
}

/// Deep-scrubs all groups. Damage with another copy is repaired, and no error may remain.
pub(crate) fn scrub(world: &mut World) -> Result<(), String> {
    for _ in 0..SCRUB_ROUNDS_MAX {
        let groups = steady_groups(world);
        if scrub_all(world, &groups)? {
            return Ok(());
        }
    }
    Err("numbers of groups change for ever".to_owned())
}

/// `pg_num` and `pgp_num` of each pool, as soon as the autoscaler is changing none.
fn steady_groups(world: &mut World) -> Vec<(u32, u32)> {
    let is_steady =
        |pool: &Pool| pool.pg_num == pool.pg_num_target && pool.pgp_num == pool.pgp_num_target;
    world.run_until(LIVENESS_LIMIT, |world| {
        map(world).is_some_and(|map| map.pools.values().all(is_steady))
    });
    numbers_of_groups(world)
}

fn numbers_of_groups(world: &World) -> Vec<(u32, u32)> {
    let numbers = |pool: &Pool| (pool.pg_num, pool.pgp_num);
    map(world).map(|map| map.pools.values().map(numbers).collect()).unwrap_or_default()
}

/// False if numbers of groups changed before the end: a group that is split off a scrubbed one has no
/// order, and one that moves before it is clean loses its order.
fn scrub_all(world: &mut World, groups: &[(u32, u32)]) -> Result<bool, String> {
    // The response to an earlier command like this must not be mistaken for that to this one.
    await_commands(world)?;
    let before: BTreeMap<PgId, UTime> = primaries(world).map(last_deep).collect();
    command(world, r#"{"prefix":"osd deep-scrub","who":"all"}"#)?;
    let is_other = |world: &World| numbers_of_groups(world) != groups;
    let is_done = |world: &World| world.is_clean() && are_scrubbed(world, &before);
    let done = world
        .run_until(LIVENESS_LIMIT, now_and_then(|world: &World| is_other(world) || is_done(world)));
    if done && is_other(world) {
        return Ok(false);
    }
    let states: Vec<_> = primaries(world).collect();
    if !done {
        return Err(format!("scrubs never end: {states:?}\n{}", world.groups()));
    }
    let stamps = states.iter().filter_map(|(_, stamps, _)| *stamps);
    let errors: u64 = stamps.map(|stamps| stamps.errors.total()).sum();
    let is_hopeless = world.scenario.rotten.is_some() && world.scenario.size == 1;
    match errors == 0 || is_hopeless {
        true => Ok(true),
        false => Err(format!("a scrub finds {errors} errors that it does not repair: {states:?}")),
    }
}

/// True if the scrub stamps of all groups have changed. Clocks differ, so stamps cannot be ordered.
fn are_scrubbed(world: &World, before: &BTreeMap<PgId, UTime>) -> bool {
    primaries(world).all(|(pg, stamps, is_busy)| {
        !is_busy && before.get(&pg).is_none_or(|before| last_deep((pg, stamps, false)).1 != *before)
    })
}

fn last_deep((pg, stamps, _): (PgId, Option<Stamps>, bool)) -> (PgId, UTime) {
    (pg, stamps.unwrap_or_default().last_deep)
}

fn primaries(world: &World) -> impl Iterator<Item = (PgId, Option<Stamps>, bool)> {
    world.osds().flat_map(|osd| osd.hosted.daemon.iter().flat_map(Osd::scrubs))
}

pub(crate) fn boot(world: &mut World) -> Result<(), String> {
    let spares = world.cast.spares.clone();
    let nodes = (0..world.nodes.len()).filter(|node| !spares.contains(node));
    nodes.for_each(|node| world.start(node));
    let osds = world.scenario.osds;
    if !world.run_until(BOOT_LIMIT, |world| map(world).is_some_and(|map| map.up_count() == osds)) {
        return Err("not all OSDs come up".to_owned());
    }
    let (pg_num, size, min_size) =
        (world.scenario.pg_num, world.scenario.size, world.scenario.min_size);
    command(world, &create_pool_command(cluster::POOL, pg_num, size))?;
    command(world, &set_pool_command(cluster::POOL, "min_size", &min_size.to_string()))
}

/// Writes the objects that do not change afterwards.
fn prepare(world: &mut World) -> Result<(), String> {
    let (size, has_quota) = (world.scenario.size, world.scenario.trials.has_quota);
    if has_quota {
        command(world, &create_pool_command(cluster::QUOTA_POOL, QUOTA_GROUPS, size))?;
    }
    let client = world.cast.clients[0];
    for (object, action) in world.workload.preparation() {
        let ask = |world: &mut World| {
            world.in_flight() == 0 && world.request(client, object, action.clone())
        };
        if !world.run_until(BOOT_LIMIT, ask) {
            return Err(format!("object {object} cannot be made\n{}", world.groups()));
        }
    }
    if !world.run_until(BOOT_LIMIT, |world| world.in_flight() == 0) {
        return Err(unanswered(world));
    }
    if has_quota {
        await_quota(world)?;
    }
    if world.scenario.trials.scales { scaling::prepare(world) } else { Ok(()) }
}

/// Waits until a pool exceeds its quota.
fn await_quota(world: &mut World) -> Result<(), String> {
    let (pool, most) = (cluster::QUOTA_POOL, cluster::QUOTA_OBJECTS - 1);
    let set = format!(
        r#"{{"prefix":"osd pool set-quota","pool":"{pool}","field":"max_objects","val":"{most}"}}"#
    );
    command(world, &set)?;
    let is_over = |world: &mut World| {
        let Some(map) = map(world) else { return false };
        let of_name = map.pool_id(pool).and_then(|id| Some((id, map.pool(id)?)));
        let over = of_name.filter(|(_, pool)| pool.flags.contains(PoolFlags::FULL_QUOTA));
        world.over_quota = over.map(|(id, _)| (id, map.epoch));
        world.over_quota.is_some()
    };
    match world.run_until(BOOT_LIMIT, is_over) {
        true => Ok(()),
        false => Err("a pool over its quota takes more".to_owned()),
    }
}

/// Runs a command of an administrator, with retries, since the OSD that it concerns may be out of reach.
/// The monitor itself waits for the control store.
pub fn command(world: &mut World, command: &str) -> Result<(), String> {
    let mut outcome = None;
    for _ in 0..COMMAND_ATTEMPTS {
        outcome = answer(world, command);
        match outcome {
            Some(Ok(0)) => return Ok(()),
            Some(Ok(result)) if result == -Errno::AGAIN.0 => {}
            _ => break,
        }
        world.run_until(QUIET, |_| false);
    }
    Err(format!("{command}: {outcome:?}"))
}

/// Runs a command at the monitors and returns its output.
pub fn command_output(world: &mut World, asked: &str) -> Result<String, String> {
    command(world, asked)?;
    Ok(String::from_utf8_lossy(&world.output).into_owned())
}

fn answer(world: &mut World, command: &str) -> Option<Result<i32, Errno>> {
    let client = world.cast.clients[0];
    world.commands_done.clear();
    world.command(client, command);
    // Responses to earlier commands may come late.
    let is_answer = |(of, _): &&(String, _)| of == command;
    world.run_until(BOOT_LIMIT, |world| world.commands_done.iter().any(|done| is_answer(&done)));
    world.commands_done.iter().find(is_answer).map(|(_, outcome)| *outcome)
}

fn unanswered(world: &World) -> String {
    let entries = world.history.entries().iter().enumerate();
    let waiting = entries.filter(|(_, entry)| entry.completed.is_none());
    let waiting: Vec<String> =
        waiting.take(5).map(|(index, entry)| format!("{index}: {}", Brief(entry))).collect();
    let others = world.waiting_for().join(", ");
    let (count, waiting) = (world.in_flight(), waiting.join("\n"));
    let groups = world.groups();
    format!("{count} requests are never answered, among them:\n{waiting}\n{others}\n{groups}")
}

/// Evaluates a condition over all groups at intervals, not after each event.
fn now_and_then(is_done: impl Fn(&World) -> bool) -> impl FnMut(&mut World) -> bool {
    let mut next = Time::ZERO;
    move |world| {
        let now = world.agenda.now();
        if now < next {
            return false;
        }
        next = now + LOOK_INTERVAL;
        is_done(world)
    }
}

/// Recovery needs space: clients remove objects from a full cluster. The remaining data may still fill a
/// device that never had the removed objects; then the rest is removed, too.
fn make_room(world: &mut World) -> Result<(), String> {
    remove_half(world, 0)?;
    match world.run_until(ROOM_NOTICED_WITHIN, |world| !is_full(world)) {
        true => Ok(()),
        false => remove_half(world, 1),
    }
}

/// True if waiting writes filled the space again before other clients learned of it, and only these writes
/// remain: they wait as long as the pool is full.
fn is_filled_again(world: &World) -> bool {
    let is_held = |action: &Action| action.is_write() && !action.is_let_through();
    world.scenario.is_tight
        && is_full(world)
        && world.is_clean()
        && world.in_flight() > 0
        && world.waiting_for().is_empty()
        && world.unanswered().all(|entry| is_held(&entry.action))
}

/// True if clients hold writes back.
fn is_full(world: &World) -> bool {
    map(world)
        .is_some_and(|map| map.pools.values().any(|pool| pool.flags.contains(PoolFlags::FULL)))
}

fn remove_half(world: &mut World, first: usize) -> Result<(), String> {
    let client = world.cast.clients[0];
    for object in (first..world.workload.targets.len()).step_by(2) {
        if !world.run_until(REPLY_LIMIT, |world| world.request(client, object, Action::Remove)) {
            return Err(format!("object {object} could not be removed"));
        }
    }
    Ok(())
}

/// Reads every object in the end, so that acknowledged data must be visible.
fn look_at_everything(world: &mut World) -> Result<(), String> {
    let client = world.cast.clients[0];
    for object in 0..world.workload.targets.len() {
        ask_to_look(world, object, |world| world.in_flight() == 0)?;
        for snap in world.snapshots.sharp_for(object) {
            world.run_until(REPLY_LIMIT, |world| {
                world.in_flight() == 0 && world.request(client, object, Action::LookAt(snap))
            });
        }
    }
    if !world.run_until(REPLY_LIMIT, World::image_users_are_ready) {
        let users = world.describe_image_users();
        return Err(format!("the users of an image do not find out what is in it:\n{users}"));
    }
    world.look_at_images();
    match world.run_until(REPLY_LIMIT, |world| world.in_flight() == 0) {
        true => Ok(()),
        false => Err(unanswered(world)),
    }
}

fn ask_to_look(
    world: &mut World,
    object: ObjectId,
    may_ask: impl Fn(&World) -> bool,
) -> Result<(), String> {
    let client = world.cast.clients[0];
    let asked = world.run_until(REPLY_LIMIT, |world| {
        may_ask(world) && world.request(client, object, Action::Look)
    });
    match asked {
        true => Ok(()),
        false => Err(format!("object {object} could not be looked at")),
    }
}

/// Waits until all copies have the acknowledged data, and disks have no background work.
pub(crate) fn fall_silent(world: &mut World) {
    world.run_until(QUIET, |_| false);
    world.run_until(DISKS_LIMIT, |world| quiet::check(world).is_ok());
}

/// Checks the history of clients; returns the number of undecided objects.
fn check_history(world: &World) -> Result<usize, String> {
    image::check(world)?;
    once::check_seen(&world.history)?;
    watches::check(&world.watching)?;
    for (object, target) in world.workload.targets.iter().enumerate() {
        if target.is_journal {
            once::check_journal(&world.history, object)?;
        }
    }
    let mut undecided = 0;
    for object in 0..world.workload.targets.len() {
        let may_overtake = |before: &Entry, _: &Entry| {
            world.scenario.may_lack_room() && before.action.is_overtaken_when_full()
        };
        order::check(world.history.of_object(object), may_overtake)?;
        linearizable::check_client_order(world.history.of_object(object), may_overtake)?;
        match linearizable::check(world.history.of_object(object)) {
            linearizable::Verdict::Linearizable => {}
            linearizable::Verdict::Undecided => undecided += 1,
            linearizable::Verdict::Violated(why) => {
                let name = &world.workload.targets[object].name;
                return Err(format!("{name} is not linearizable:\n{why}"));
            }
        }
    }
    Ok(undecided)
}

/// Checks the content of OSDs; returns the number of reads that met damage.
fn check_stores(world: &World) -> Result<usize, String> {
    quiet::check(world)?;
    let stores = stores::read(world)?;
    replicas::check(world, &stores)?;
    log::check(world, &stores)?;
    image::check_maps(world, &stores)?;
    snapshots::check(world, &stores)?;
    media::check(world, &stores)
}

fn met(world: &World) -> BTreeMap<String, u64> {
    let kinds = world.tally.iter().map(|(kind, times)| (format!("{kind:?}"), *times));
    let many =
        (world.tally.len() >= MANY_KINDS).then(|| (format!("{MANY_KINDS} kinds or more"), 1));
    kinds.chain(many).chain(world.scenario.traits().map(|name| (name.to_owned(), 1))).collect()
}

fn report(world: &mut World) -> Report {
    let digest = world.digest();
    let entries = world.history.entries();
    Report {
        seed: world.scenario.seed,
        hash: world.trace.hash(),
        digest,
        events: world.events,
        requests: entries.len(),
        answered: entries.iter().filter(|entry| entry.completed.is_some()).count(),
        undecided: 0,
        damaged: 0,
        is_stuck: false,
        met: met(world),
    }
}
