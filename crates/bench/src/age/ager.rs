//! Executes a plan with a bounded number of operations in flight, at most one per object.

use super::pattern::PatternKey;
use super::plan::{Action, ActionKind, Phase, Plan, Step};
use super::target::Target;
use access::Connection;
use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use engine::Time;
use rados::{OpId, Operation};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::Errno;
use wire::OsdOp;
use wire::op::request_flags;

/// Failed operations after which the run ends.
const FAILED_MAX: u64 = 32;
/// Pause after ENOSPC, so that daemons can process deletions.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);

/// Counts of operations.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Completed operations.
    pub operations: BTreeMap<ActionKind, u64>,
    /// Bytes of completed writes.
    pub bytes_written: u64,
    /// Operations refused for lack of space.
    pub refused: u64,
    /// Operations that failed for another reason.
    pub failed: u64,
    /// Error of the first of them.
    pub first_failure: Option<String>,
    /// Space of one copy at which the fill found the store full.
    pub full_at: Option<u64>,
    /// Duration of the fill.
    pub fill_time: Duration,
    /// Duration of all passes.
    pub passes_time: Duration,
}

/// The plan, its operations in flight, and their counts.
pub struct Ager<'a> {
    target: &'a Target,
    seed: u64,
    in_flight_max: usize,
    plan: Plan,
    in_flight: BTreeMap<OpId, Step>,
    busy: BTreeSet<u32>,
    /// The next step, if it has to wait for its object.
    held: Option<Step>,
    resume_at: Time,
    tally: Tally,
}

impl<'a> Ager<'a> {
    /// Executes `plan` on `target` with at most `in_flight_max` operations in flight; `seed` determines the
    /// bytes.
    pub fn new(target: &'a Target, seed: u64, in_flight_max: usize, plan: Plan) -> Self {
        Ager {
            target,
            seed,
            in_flight_max,
            plan,
            in_flight: BTreeMap::new(),
            busy: BTreeSet::new(),
            held: None,
            resume_at: Time::ZERO,
            tally: Tally::default(),
        }
    }

    /// Executes all steps; calls `progress` with the plan now and then.
    pub fn run(
        mut self,
        connection: &mut Connection,
        progress: impl Fn(&Plan),
    ) -> Result<(Plan, Tally)> {
        let start = connection.now();
        let mut fill_end = None;
        loop {
            self.submit(connection);
            if self.plan.phase() != Phase::Fill {
                fill_end.get_or_insert(connection.now());
            }
            if self.in_flight.is_empty() && self.plan.phase() == Phase::Done {
                break;
            }
            connection.turn()?;
            self.collect(connection)?;
            progress(&self.plan);
        }
        let fill_end = fill_end.unwrap_or(start);
        self.tally.fill_time = fill_end.since(start);
        self.tally.passes_time = connection.now().since(fill_end);
        Ok((self.plan, self.tally))
    }

    fn submit(&mut self, connection: &mut Connection) {
        let now = connection.now();
        while now >= self.resume_at && self.in_flight.len() < self.in_flight_max {
            let Some(step) = self.held.take().or_else(|| self.plan.next_step()) else { return };
            if self.busy.contains(&step.object) {
                self.held = Some(step);
                return;
            }
            let id = connection.client().submit(now, self.operation(&step));
            self.busy.insert(step.object);
            self.in_flight.insert(id, step);
        }
    }

    fn operation(&self, step: &Step) -> Operation {
        let data = || self.data(step);
        let op = match step.action {
            Action::Create { .. } | Action::Rewrite { .. } => OsdOp::write_full(data()),
            Action::Overwrite { offset, .. } => OsdOp::write(offset.into(), data()),
            Action::Append { .. } => OsdOp::append(data()),
            Action::Truncate { size } => OsdOp::truncate(size.into()),
            Action::Delete => OsdOp::remove(),
        };
        let mut operation = Operation::new(self.target.object(self.seed, step.object), vec![op]);
        // A full cluster must report ENOSPC instead of making the client wait.
        operation.flags |= request_flags::FULL_TRY;
        operation
    }

    fn data(&self, step: &Step) -> Bytes {
        let Some((offset, length)) = step.action.written() else { return Bytes::new() };
        let mut data = vec![0; length as usize];
        PatternKey::new(self.seed, step.object, step.generation).fill(offset.into(), &mut data);
        data.into()
    }

    fn collect(&mut self, connection: &mut Connection) -> Result<()> {
        while let Some((id, answer)) = connection.client().poll_completion() {
            let Some(step) = self.in_flight.remove(&id) else { continue };
            self.busy.remove(&step.object);
            match answer {
                Ok(_) => self.handle_done(&step),
                Err(Errno::NOSPC | Errno::DQUOT) if step.action.written().is_some() => {
                    self.handle_refused(step, connection.now());
                }
                Err(errno) => self.handle_failed(&step, errno)?,
            }
        }
        Ok(())
    }

    fn handle_done(&mut self, step: &Step) {
        *self.tally.operations.entry(step.action.kind()).or_default() += 1;
        self.tally.bytes_written +=
            step.action.written().map_or(0, |(_, length)| u64::from(length));
    }

    fn handle_refused(&mut self, step: Step, now: Time) {
        self.tally.refused += 1;
        self.drop_held(step.object);
        self.plan.take_back(step);
        if self.plan.phase() == Phase::Fill {
            self.tally.full_at = Some(self.plan.population().space());
            self.plan.end_fill();
        }
        self.resume_at = now + REFUSED_PAUSE;
    }

    fn handle_failed(&mut self, step: &Step, errno: Errno) -> Result<()> {
        let what = format!("{:?} of object {}: {errno}", step.action.kind(), step.object);
        self.tally.failed += 1;
        self.drop_held(step.object);
        self.plan.forget(step.object);
        if self.tally.failed >= FAILED_MAX {
            let first = self.tally.first_failure.take().unwrap_or(what);
            return Err(anyhow!(first))
                .with_context(|| format!("{FAILED_MAX} operations failed, the first"));
        }
        self.tally.first_failure.get_or_insert(what);
        Ok(())
    }

    /// The held step depends on the one before it.
    fn drop_held(&mut self, object: u32) {
        if self.held.take_if(|held| held.object == object).is_some() {
            self.tally.refused += 1;
        }
    }
}
