//! One seed from beginning to end: build, load, faults, healing, and the judgement.

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
use crate::world::{World, create_pool_command, out_command, purge_command, set_pool_command};
use engine::{Duration, Time};
use maps::{OsdMap, PoolFlags};
use osd::Osd;
use pg::scrub::Stamps;
use pg::{Pg, State};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use store::Collection;
use types::{Errno, OsdId, PgId, UTime};

/// How often a command is given again that may not have been done.
const COMMAND_ATTEMPTS: usize = 5;
/// Groups of the pool that has a quota.
const QUOTA_GROUPS: u32 = 16;
/// How long a new cluster may take until its pool is made.
const BOOT_LIMIT: Duration = Duration::from_secs(120);
/// One in so many seeds is scrubbed in the end.
const SCRUBBED_SEEDS: u64 = 3;
/// How long a healed cluster may take until every request is answered.
const LIVENESS_LIMIT: Duration = Duration::from_secs(400);
/// The same for one that has nothing else to do than to answer.
const REPLY_LIMIT: Duration = Duration::from_secs(120);
/// How often all groups are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// OSDs tell how full they are more often than this.
const ROOM_NOTICED_WITHIN: Duration = Duration::from_secs(20);
/// What finds no room is tried again more often than this.
const ROOM_TRIED_WITHIN: Duration = Duration::from_secs(20);
/// So many kinds of faults in one seed are worth being counted.
const MANY_KINDS: usize = 6;
/// For what was acknowledged to become what all copies hold.
const QUIET: Duration = Duration::from_secs(15);
/// For the slowest of disks to be done.
const DISKS_LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Print every line of the log.
    pub trace: bool,
}

/// What became of a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub seed: u64,
    /// The same for the same seed.
    pub hash: u64,
    pub events: u64,
    pub requests: usize,
    pub answered: usize,
    /// Objects whose history was too entangled to judge.
    pub undecided: usize,
    /// Reads that failed because a device had lost the data.
    pub damaged: usize,
    /// Some group stands still for want of room or of an object, so that nothing can be said of its copies.
    pub is_stuck: bool,
    /// How often each kind of fault happened, and what else makes the seed special.
    pub met: BTreeMap<String, u64>,
}

/// A seed that shows something wrong.
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
        Err(_) if is_stuck_for_room(world) => return judge_stuck(world),
        Err(_) if is_stuck_for_rot(world)? => {
            look_at_the_undamaged(world)?;
            return judge_stuck(world);
        }
        Err(_) if is_filled_again(world) => {
            remove_half(world, 1)?;
            become_clean(world)?;
        }
        outcome => outcome?,
    }
    if let Some(restore) = world.scenario.control.restore {
        restored::play(world, restore);
        return judge_clients(world);
    }
    if let Some(stall) = world.scenario.stall {
        stall::play(world, stall)?;
        become_clean(world).map_err(|why| format!("after {stall:?}: {why}"))?;
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
        // What rots may be the only other copy.
        if world.scenario.rotting.is_none() && world.omit()? {
            fall_silent(world);
        }
        scrub(world)?;
        fall_silent(world);
    }
    world.run_until(watches::LOSS_NOTICED, |_| false);
    watches::check_open(&world.watching, world.agenda.now())?;
    let undecided = judge_history(world)?;
    let damaged = judge_stores(world)?;
    Ok(Report { undecided, damaged, ..report(world) })
}

/// Nothing can be said of copies: maps that are needed cannot be made.
fn judge_clients(world: &World) -> Result<Report, String> {
    let undecided = judge_history(world)?;
    Ok(Report { undecided, ..report(world) })
}

fn judge_stuck(world: &World) -> Result<Report, String> {
    let undecided = judge_history(world)?;
    Ok(Report { undecided, is_stuck: true, ..report(world) })
}

fn is_scrubbed(scenario: &Scenario) -> bool {
    let is_damaged = scenario.rotting.is_some() || scenario.trials.merges_repaired;
    is_damaged || scenario.seed.is_multiple_of(SCRUBBED_SEEDS) && !scenario.is_tight
}

/// Of snapshots whose removal was confirmed nothing is left.
fn purge(world: &mut World) -> Result<(), String> {
    match world.run_until(LIVENESS_LIMIT, |world| snapshots::are_purged(world)) {
        true => Ok(()),
        false => {
            let queue = map(world).map(|map| map.removed_snaps_queue.clone());
            Err(format!("removed snapshots are never purged: {queue:?}\n{}", world.groups()))
        }
    }
}

fn become_clean(world: &mut World) -> Result<(), String> {
    if !world.run_until(LIVENESS_LIMIT, |world| world.in_flight() == 0) {
        return Err(unanswered(world));
    }
    match world.run_until(LIVENESS_LIMIT, now_and_then(World::is_clean)) {
        true => Ok(()),
        false => Err(format!("groups are never clean:\n{}", world.groups())),
    }
}

/// A group whose copies do not fit their devices while they are being made equal may stand still; so
/// may one that finds no room to be divided, and one whose only member refused a write and took a later one.
fn without_room(world: &World) -> impl Iterator<Item = PgId> {
    let groups = world.osds().flat_map(|osd| osd.hosted.daemon.iter().flat_map(Osd::groups));
    let stalled = |pg: &&Pg| {
        matches!(pg.state(), State::Stalled | State::Refused | State::Incomplete)
            || pg.is_recovery_toofull()
            || pg.is_reshaping_toofull()
    };
    groups.filter(stalled).map(Pg::id)
}

/// Whether each group that is not clean lacks room now and then: what is being tried again just now lacks it a
/// moment later.
fn is_stuck_for_room(world: &mut World) -> bool {
    let mut found = BTreeSet::new();
    world.scenario.is_tight
        && world.run_until(ROOM_TRIED_WITHIN, |world| {
            found.extend(without_room(world));
            !found.is_empty() && world.unclean().iter().all(|pg| found.contains(pg))
        })
}

/// Whether each group that is not clean misses objects, and the OSD whose data rots has damaged ones of it. What
/// changes no data is written to a damaged object, too; what changes some is refused there, and may be written to
/// the other copies alone. If those who have it die before all do, nobody has the object in the version that the
/// others go on with, and nobody knows that the write was not acknowledged.
fn is_stuck_for_rot(world: &World) -> Result<bool, String> {
    let Some(found) = what_rots(world)? else { return Ok(false) };
    let is_damaged =
        |pg| found.store.objects(Collection(pg)).any(|(object, _)| found.damaged.contains(object));
    let misses = |pg| {
        let mut groups =
            world.osds().flat_map(|osd| osd.hosted.daemon.iter().flat_map(Osd::groups));
        groups.any(|group| group.id() == pg && group.is_primary() && group.objects_missing() > 0)
    };
    let unclean = world.unclean();
    Ok(!unclean.is_empty() && unclean.into_iter().all(|pg| misses(pg) && is_damaged(pg)))
}

/// What the OSD has whose data rots.
fn what_rots(world: &World) -> Result<Option<Contents>, String> {
    let Some(node) = world.cast.rotting else { return Ok(None) };
    let of_node = |osd: &&OsdProcess| Some(osd.config.id) == world.scenario.rotting;
    let osd = world.osds().find(of_node).expect("the cast knows it");
    osd.hosted.disk.durable(world.clock(node)).map(Some)
}

/// A group that misses objects serves all others: only what is damaged may stay without an answer.
fn look_at_the_undamaged(world: &mut World) -> Result<(), String> {
    let damaged = what_rots(world)?.unwrap_or_default().damaged;
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

/// One OSD's device loses data, of what is certain to be there, and everything is read once more.
fn rot(world: &mut World, osd: OsdId) -> Result<(), String> {
    let node = world.cast.osds[osd.0 as usize];
    // What it has in memory hides damage.
    world.fault(Fault::Crash(vec![node]));
    world.fault(Fault::Rot(node));
    world.fault(Fault::Start(vec![node]));
    fall_silent(world);
    become_clean(world)?;
    // Either who reads or a scrub comes first.
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

/// A disk dies for good when all is well, and its OSD gets an empty one.
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

/// An OSD whose old disk is gone becomes known with its new one.
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

/// What was asked for before must not be done afterwards, nor its answer pass for another one.
fn await_commands(world: &mut World) -> Result<(), String> {
    match world.run_until(BOOT_LIMIT, |world| !world.has_commands()) {
        true => Ok(()),
        false => Err(format!("commands are never answered: {:?}", world.waiting_for())),
    }
}

/// Every OSD counts as much as any other again.
fn restore(world: &mut World) -> Result<(), String> {
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

/// An OSD is taken out of the cluster for good, the others take over what it has.
fn leave(world: &mut World, osd: OsdId) -> Result<(), String> {
    command(world, &out_command(osd))?;
    become_clean(world).map_err(|why| format!("osd.{osd} is out: {why}"))?;
    world.fault(Fault::Crash(vec![world.cast.osds[osd.0 as usize]]));
    purge_osd(world, osd)?;
    become_clean(world).map_err(|why| format!("osd.{osd} has left: {why}"))
}

/// One that was stopped while faults happened is forgotten, if it is not yet.
fn finish_removal(world: &mut World) -> Result<(), String> {
    let Some(osd) = world.removed() else { return Ok(()) };
    await_commands(world)?;
    purge_osd(world, osd)
}

/// An OSD that was stopped for good.
fn purge_osd(world: &mut World, osd: OsdId) -> Result<(), String> {
    await_down(world, osd)?;
    command(world, &purge_command(osd))
}

fn await_down(world: &mut World, osd: OsdId) -> Result<(), String> {
    // What it said before is heard first: it may just have come up.
    world.run_until(QUIET, |_| false);
    let is_down = |world: &mut World| map(world).is_some_and(|map| !map.is_up(osd));
    match world.run_until(BOOT_LIMIT, is_down) {
        true => Ok(()),
        false => Err(format!("osd.{osd} is gone and never marked down")),
    }
}

/// The newest that a running monitor has: one may have answered before another has heard.
fn map(world: &World) -> Option<&OsdMap> {
    world.newest_map()
}

/// All groups are scrubbed thoroughly. What has another copy is repaired, and then nothing is wrong.
fn scrub(world: &mut World) -> Result<(), String> {
    // The answer to an earlier order like this is not the answer to this one.
    await_commands(world)?;
    let before: BTreeMap<PgId, UTime> = primaries(world).map(last_deep).collect();
    command(world, r#"{"prefix":"osd deep-scrub","who":"all"}"#)?;
    let is_done = |world: &World| world.is_clean() && are_scrubbed(world, &before);
    let done = world.run_until(LIVENESS_LIMIT, now_and_then(is_done));
    let states: Vec<_> = primaries(world).collect();
    if !done {
        return Err(format!("scrubs never end: {states:?}\n{}", world.groups()));
    }
    let stamps = states.iter().filter_map(|(_, stamps, _)| *stamps);
    let errors: u64 = stamps.map(|stamps| stamps.errors.total()).sum();
    let is_hopeless = world.scenario.rotten.is_some() && world.scenario.size == 1;
    match errors == 0 || is_hopeless {
        true => Ok(()),
        false => Err(format!("a scrub finds {errors} errors that it does not repair: {states:?}")),
    }
}

/// Whether all groups have other stamps than before. Clocks differ, and cannot be compared.
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

fn boot(world: &mut World) -> Result<(), String> {
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

/// Makes what does not change afterwards.
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

/// A pool has more objects than it may.
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

/// A person's command. An OSD that it is about may be out of reach: then a person asks again. For the control
/// store the monitor waits by itself.
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

/// What a person is told who asks the monitors for something.
pub fn command_output(world: &mut World, asked: &str) -> Result<String, String> {
    command(world, asked)?;
    Ok(String::from_utf8_lossy(&world.output).into_owned())
}

fn answer(world: &mut World, command: &str) -> Option<Result<i32, Errno>> {
    let client = world.cast.clients[0];
    world.commands_done.clear();
    world.command(client, command);
    // Answers to what was asked before may come late.
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

/// What takes a look at all groups is not asked after each event, but when some time has passed.
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

/// Recovery needs room: whoever sees a full cluster removes something. What is left may fill a device all the
/// same, one that never had what was removed; then the rest goes, too.
fn make_room(world: &mut World) -> Result<(), String> {
    remove_half(world, 0)?;
    match world.run_until(ROOM_NOTICED_WITHIN, |world| !is_full(world)) {
        true => Ok(()),
        false => remove_half(world, 1),
    }
}

/// Whether writes that had waited took the room that was made before others heard of it, and these are all that is
/// left to be done: they wait for as long as the pool is full.
fn is_filled_again(world: &World) -> bool {
    let is_held = |action: &Action| action.is_write() && !action.is_let_through();
    world.scenario.is_tight
        && is_full(world)
        && world.is_clean()
        && world.in_flight() > 0
        && world.waiting_for().is_empty()
        && world.unanswered().all(|entry| is_held(&entry.action))
}

/// Whether clients hold writes back.
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

/// Every object is read once all is over, so that what was acknowledged must show.
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
        return Err("the users of an image do not find out what is in it".to_owned());
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

/// What was acknowledged becomes what all copies hold, and disks finish what they do besides.
fn fall_silent(world: &mut World) {
    world.run_until(QUIET, |_| false);
    world.run_until(DISKS_LIMIT, |world| quiet::check(world).is_ok());
}

/// Whether clients saw what they may see; how many objects could not be decided.
fn judge_history(world: &World) -> Result<usize, String> {
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
        let may_overtake = |before: &Entry, after: &Entry| {
            world.scenario.may_lack_room() && before.action.is_overtaken_when_full(&after.action)
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

/// Whether OSDs hold what they must; how many reads met damage.
fn judge_stores(world: &World) -> Result<usize, String> {
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

fn report(world: &World) -> Report {
    let entries = world.history.entries();
    Report {
        seed: world.scenario.seed,
        hash: world.trace.hash(),
        events: world.events,
        requests: entries.len(),
        answered: entries.iter().filter(|entry| entry.completed.is_some()).count(),
        undecided: 0,
        damaged: 0,
        is_stuck: false,
        met: met(world),
    }
}
