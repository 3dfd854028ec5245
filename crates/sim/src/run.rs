//! One run of a seed: construction, load, faults, healing, and checks.

pub(crate) mod admin;
pub(crate) mod boot;
pub(crate) mod clean;
mod file_calls;
mod filing;
mod full_pool;
mod looking;
pub(crate) mod repairs;
mod restored;
mod scaling;
pub(crate) mod scrub;
mod stall;
pub(crate) mod verdict;

use crate::check::watches;
use crate::cluster;
use crate::erasure;
use crate::events::{run_for, run_until};
use crate::files;
use crate::inject;
use crate::scenario::Scenario;
use crate::world::World;
use admin::{await_commands, command, restore};
use boot::{boot, prepare};
use clean::{
    become_clean, become_settled, fall_silent, is_filled_again, is_stuck_for_room, is_stuck_for_rot,
};
use looking::{look_at_everything, look_at_the_undamaged, make_room, remove_half};
use repairs::{finish_removal, finish_replacement, leave, purge, replace, rot};
use scrub::scrub;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use verdict::{check_history, check_stores};

/// One in so many seeds is scrubbed in the end.
const SCRUBBED_SEEDS: u64 = 3;
/// Number of kinds of faults in one seed from which the tally counts it as mixed.
const MANY_KINDS: usize = 6;

/// Options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Prints every line of the trace.
    pub trace: bool,
    /// So many percent of the seeds have an erasure-coded pool.
    pub erasure: u64,
    /// So many percent of the seeds have a file system.
    pub file_system: u64,
}

impl Default for Options {
    fn default() -> Self {
        let file_system = files::PERCENT_USUAL;
        Options { trace: false, erasure: erasure::PERCENT_USUAL, file_system }
    }
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Hash of the trace: equal for equal seeds.
    pub hash: u64,
    /// Digest of all outputs of all daemons.
    pub digest: u64,
    /// Number of events.
    pub events: u64,
    /// Number of requests in the history.
    pub requests: usize,
    /// Number of requests that have a response.
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
    /// The seed.
    pub seed: u64,
    /// The violation.
    pub what: String,
    /// The scenario.
    pub scenario: String,
    /// The end of the trace.
    pub last_lines: String,
}

/// Runs a seed to its end.
pub fn run(seed: u64, options: &Options) -> Result<Report, Box<Failure>> {
    let scenario = Scenario::draw_with(seed, options.erasure);
    let scenario = scenario.with_file_system(options.file_system);
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
    filing::prepare(world)?;
    inject::set_busy(world, true);
    restored::plan(world);
    run_until(world, world.scenario.load.duration, |world| world.records.history.is_full());
    inject::heal(world);
    if world.scenario.trials.pauses {
        await_commands(world)?;
        command(world, r#"{"prefix":"osd unset","key":"pause"}"#)?;
    }
    finish_replacement(world)?;
    finish_removal(world)?;
    if world.injection.has_churned() {
        restore(world)?;
    }
    if world.scenario.disks.is_tight {
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
    filing::finish(world)?;
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
    if let Some(osd) = world.scenario.disks.replaced {
        replace(world, osd)?;
    }
    if let Some(osd) = world.scenario.cluster.leaver {
        leave(world, osd)?;
    }
    purge(world)?;
    look_at_everything(world)?;
    fall_silent(world);
    if let Some(osd) = world.scenario.disks.rotten {
        rot(world, osd)?;
    } else if is_scrubbed(&world.scenario) {
        // The corrupted copy may be the only other one.
        if world.scenario.disks.rotting.is_none() && inject::omit(world)? {
            fall_silent(world);
        }
        scrub(world)?;
        fall_silent(world);
    }
    end_watches(world)?;
    Ok(Report { undecided: check_history(world)?, damaged: check_stores(world)?, ..report(world) })
}

/// Waits until the loss of watchers has been noticed. The end of a watch is a write.
fn end_watches(world: &mut World) -> Result<(), String> {
    run_for(world, watches::LOSS_NOTICED);
    watches::check_open(&world.records.watching, world.now())?;
    become_settled(world);
    Ok(())
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
    let is_damaged = scenario.disks.rotting.is_some() || scenario.trials.merges_repaired;
    is_damaged || scenario.seed.is_multiple_of(SCRUBBED_SEEDS) && !scenario.disks.is_tight
}

fn met(world: &World) -> BTreeMap<String, u64> {
    let kinds = world.injection.tally().iter().map(|(kind, times)| (format!("{kind:?}"), *times));
    let many = (world.injection.tally().len() >= MANY_KINDS)
        .then(|| (format!("{MANY_KINDS} kinds or more"), 1));
    let gap = world.checks.has_met_gap().then(|| ("a gap in the maps".to_owned(), 1));
    let files = (world.records.files.undecided() > 0)
        .then(|| ("an undecided search of the file system".to_owned(), 1));
    kinds
        .chain(many)
        .chain(gap)
        .chain(files)
        .chain(world.scenario.traits().map(|name| (name.to_owned(), 1)))
        .collect()
}

fn report(world: &mut World) -> Report {
    let digest = world.nodes.digest();
    let entries = world.records.history.entries();
    Report {
        seed: world.scenario.seed,
        hash: world.trace.hash(),
        digest,
        events: world.agenda.taken(),
        requests: entries.len(),
        answered: entries.iter().filter(|entry| entry.completed.is_some()).count(),
        undecided: 0,
        damaged: 0,
        is_stuck: false,
        met: met(world),
    }
}
