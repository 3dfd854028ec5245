//! `sepiola bench age`: brings the stores of a cluster to a fill and a fragmentation, reproducibly.
//!
//! Objects of mixed sizes are made until the target is filled, then overwritten, appended to,
//! truncated, deleted and made again in passes that keep the fill. The seed decides every step, so
//! two clusters of the same size (or, with a fill in bytes, any two) get the same sequence. What was
//! done is noted in the pool: `--verify` works right after ageing and, with `--verify-only`, at any
//! later time, for instance after a crash.
//!
//! It deliberately does not know how a store lays out anything: fragmentation comes from what clients
//! can do.

mod ager;
mod capacity;
mod contents;
mod mix;
mod pattern;
mod plan;
mod population;
mod report;
mod target;
mod verify;

use crate::BenchArgs;
use access::Connection;
use ager::{Ager, Tally};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use capacity::Capacity;
pub use capacity::Fill;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
pub use mix::Mix;
use plan::{Phase, Plan};
use report::Summary;
use target::{Note, Target};

/// Ages a pool or verifies an aged one, and prints a summary.
pub fn age(args: &BenchArgs) -> Result<()> {
    let mut connection = Connection::open(&args.pool.cluster)?;
    let pool = connection.pool(&args.pool.pool)?;
    let target = Target { pool, namespace: Bytes::from(args.pool.namespace.clone()) };
    let noted = target.note(&mut connection)?;
    let summary = match (args.age.verify_only, noted) {
        (true, Some(note)) => verify_noted(&mut connection, &target, args, &note)?,
        (true, None) => bail!("the pool has not been aged: there is nothing to compare with"),
        (false, Some(note)) => bail!(
            "the pool has been aged already (seed {}); take a new one, or compare it with --verify-only",
            note.seed
        ),
        (false, None) => age_pool(&mut connection, &target, args)?,
    };
    summary.print(args.json)?;
    summary.check()
}

fn age_pool(connection: &mut Connection, target: &Target, args: &BenchArgs) -> Result<Summary> {
    let before = Capacity::ask_settled(connection, target.pool)?;
    let mut note = Note {
        seed: args.seed,
        sizes: args.age.sizes.to_string(),
        target_bytes: before.target(args.age.fill),
        passes: args.age.passes,
        is_complete: false,
    };
    target.set_note(connection, &note)?;
    let plan = plan_of(&note)?;
    let progress = progress(args.json, note.target_bytes);
    let ager = Ager::new(target, note.seed, args.threads, plan);
    let (plan, tally) = ager.run(connection, |plan| show(&progress, plan))?;
    if plan.population().names() == 0 {
        bail!("there is no space for a single object: {} bytes", note.target_bytes);
    }
    if tally.refused + tally.failed == 0 {
        note.is_complete = true;
        target.set_note(connection, &note)?;
    }
    let mut summary = Summary::new(&note, &plan, &tally);
    if args.age.verify {
        compare(connection, target, args, &note, &plan, &mut summary, &progress)?;
    }
    progress.finish_and_clear();
    summary.set_capacity(&before, &Capacity::ask_settled(connection, target.pool)?);
    Ok(summary)
}

/// The expected content follows from the note.
fn verify_noted(
    connection: &mut Connection,
    target: &Target,
    args: &BenchArgs,
    note: &Note,
) -> Result<Summary> {
    if !note.is_complete {
        bail!("ageing did not come to its end undisturbed, so only --verify could have told");
    }
    let mut plan = plan_of(note)?;
    while plan.next_step().is_some() {}
    let progress = progress(args.json, plan.population().bytes());
    let mut summary = Summary::new(note, &plan, &Tally::default());
    compare(connection, target, args, note, &plan, &mut summary, &progress)?;
    progress.finish_and_clear();
    Ok(summary)
}

fn compare(
    connection: &mut Connection,
    target: &Target,
    args: &BenchArgs,
    note: &Note,
    plan: &Plan,
    summary: &mut Summary,
    progress: &ProgressBar,
) -> Result<()> {
    progress.set_message("verify");
    progress.set_length(plan.population().bytes());
    let show = |bytes| progress.set_position(bytes);
    let found = verify::verify(connection, target, note.seed, plan, args.threads, show)?;
    summary.set_verification(found);
    Ok(())
}

fn plan_of(note: &Note) -> Result<Plan> {
    let mix = note.mix().context("reading the sizes of objects")?;
    Ok(Plan::new(note.seed, mix, note.target_bytes, note.passes))
}

fn progress(is_hidden: bool, length: u64) -> ProgressBar {
    let target =
        if is_hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let template = "{msg} {bar:40} {bytes}/{total_bytes} {bytes_per_sec} {elapsed}";
    let style = ProgressStyle::with_template(template).expect("a constant template");
    ProgressBar::with_draw_target(Some(length), target).with_style(style)
}

fn show(progress: &ProgressBar, plan: &Plan) {
    match plan.phase() {
        Phase::Fill => progress.set_message("fill"),
        Phase::Pass(number) => progress.set_message(format!("pass {number}")),
        Phase::Done => {}
    }
    progress.set_length(plan.target());
    progress.set_position(plan.written());
}
