//! Work in the background of volumes: clones are copied and the trash is emptied, one job at a time.

use super::connection::VolumeConnection;
use super::inputs::{PAUSE, inputs};
use access::{ClusterArgs, Connection};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use types::Errno;
use volumes::{Job, Volume, scan};

/// Interval of reports of progress.
const REPORT_EVERY: Duration = Duration::from_secs(2);
/// Time without an answer of a leader after which a job is given up: another worker may have it.
const UNHEARD_MAX: Duration = Duration::from_secs(30);
/// Pause before a volume with a job that has failed is looked at again.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Deletions pause after so long, so that clones do not wait for them.
const PURGE_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest wait for a search for jobs: the volume may have no server.
const SCAN_TIME_MAX: Duration = Duration::from_secs(30);

/// The job executor of one worker.
pub struct JobExecutor {
    /// How it reaches the cluster.
    pub args: ClusterArgs,
    /// Identity of the worker towards the monitors.
    pub name: String,
    /// Held by the procedure that changes metadata of subvolumes.
    pub metadata: Arc<Mutex<()>>,
    /// Set when the process ends.
    pub is_stopping: Arc<AtomicBool>,
}

/// State of a volume, as it was seen last.
#[derive(Debug, Default)]
struct Seen {
    /// The generation of its work when it was last looked at.
    generation: Option<u64>,
    /// When it is looked at in any case.
    again: Option<Instant>,
}

impl JobExecutor {
    /// Works until it is to stop.
    pub fn work(&self) {
        while !self.is_stopping() {
            if let Err(error) = self.attend() {
                tracing::info!(error = format!("{error:#}"), "asking for work on volumes");
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    fn attend(&self) -> Result<()> {
        let mut control = Connection::open(&self.args)?;
        let mut seen: BTreeMap<i32, Seen> = BTreeMap::new();
        while !self.is_stopping() {
            let told = self.ask(&mut control, &json!([]))?;
            for told in told.as_array().into_iter().flatten() {
                let volume: Volume =
                    serde_json::from_value(told.clone()).context("reading a volume")?;
                self.look_at(&mut control, &mut seen, volume, told["generation"].as_u64())?;
            }
            let start = Instant::now();
            while !self.is_stopping() && start.elapsed() < PAUSE {
                control.turn()?;
            }
        }
        Ok(())
    }

    /// Asks which volumes there are, and tells how far clones are.
    fn ask(&self, control: &mut Connection, clones: &Value) -> Result<Value> {
        let clones = clones.to_string();
        let jobs = json!({
            "prefix": "fs volume orders jobs",
            "worker": self.name,
            "clones": clones,
            "format": "json",
        });
        control.ask_json(&jobs)
    }

    fn look_at(
        &self,
        control: &mut Connection,
        seen: &mut BTreeMap<i32, Seen>,
        volume: Volume,
        generation: Option<u64>,
    ) -> Result<()> {
        let known = seen.entry(volume.id).or_default();
        let is_due = known.again.is_some_and(|again| again <= Instant::now());
        if known.generation == generation && !is_due {
            return Ok(());
        }
        *known = Seen { generation, again: None };
        let mut connection = VolumeConnection::open(&self.args, volume.id)?;
        let is_done = match self.do_jobs(control, &mut connection, &volume) {
            Ok(is_done) => is_done,
            Err(error) => {
                let error = format!("{error:#}");
                tracing::info!(volume = volume.name, error, "working on a volume");
                false
            }
        };
        if !is_done {
            known.again = Some(Instant::now() + RETRY_AFTER);
        }
        connection.leave();
        Ok(())
    }

    /// Does jobs until there are none; false if some are left.
    fn do_jobs(
        &self,
        control: &mut Connection,
        connection: &mut VolumeConnection,
        volume: &Volume,
    ) -> Result<bool> {
        let mut has_failed = false;
        loop {
            let start = Instant::now();
            let goes_on = || !self.is_stopping() && start.elapsed() < SCAN_TIME_MAX;
            let found =
                connection.run(&self.metadata, scan(inputs()?), no_command, |_| goes_on())?;
            let Some(found) = found else { return Ok(false) };
            let jobs = found.map_err(|failure| anyhow::anyhow!("{}", failure.text))?;
            if jobs.is_empty() || has_failed {
                return Ok(jobs.is_empty());
            }
            for job in jobs {
                has_failed |= !self.perform(control, connection, volume, job)?;
                if self.is_stopping() {
                    return Ok(false);
                }
            }
        }
    }

    /// Performs a job, or a part of it; false if it has failed.
    fn perform(
        &self,
        control: &mut Connection,
        connection: &mut VolumeConnection,
        volume: &Volume,
        job: Job,
    ) -> Result<bool> {
        let (start, mut reported) = (Instant::now(), None::<Instant>);
        let (mut heard, mut is_replaced) = (start, false);
        let message = job.message(&volume.name);
        let (id, name) = (job.id().to_owned(), format!("{job:?}"));
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let procedure = job.procedure(volume.clone(), inputs()?);
        let ran = connection.run(&self.metadata, procedure, no_command, |procedure| {
            let is_over = message.is_none() && start.elapsed() >= PURGE_TIME_MAX;
            if self.is_stopping() || is_over {
                procedure.cancel();
            }
            let is_due = reported.is_none_or(|reported| reported.elapsed() >= REPORT_EVERY);
            if let Some(message) = message.as_ref().filter(|_| is_due) {
                reported = Some(Instant::now());
                let progress = procedure.progress().unwrap_or(0.0);
                let clone =
                    json!({ "id": id, "message": message, "progress": progress, "started": began });
                if self.is_replaced(control, &clone, &mut heard) {
                    is_replaced = true;
                    procedure.cancel();
                }
            }
            // A job that is cancelled ends soon, unless the server is gone.
            !self.is_stopping() || start.elapsed() < PURGE_TIME_MAX
        })?;
        if is_replaced {
            anyhow::bail!("another worker may have this job");
        }
        match ran {
            Some(Ok(())) => Ok(true),
            Some(Err(failure)) if failure.errno == Errno::CANCELED => Ok(true),
            Some(Err(failure)) => {
                tracing::warn!(job = name, reason = failure.text, "a job of a volume has failed");
                Ok(false)
            }
            None => anyhow::bail!("the process ends"),
        }
    }
}

impl JobExecutor {
    /// Reports a clone. True if the leader has volumes for another worker now, or may have: two that copy the
    /// same clone would disturb each other.
    fn is_replaced(&self, control: &mut Connection, clone: &Value, heard: &mut Instant) -> bool {
        match self.ask(control, &json!([clone])) {
            Ok(told) => {
                *heard = Instant::now();
                told.as_array().is_none_or(Vec::is_empty)
            }
            Err(_) => heard.elapsed() >= UNHEARD_MAX,
        }
    }
}

fn no_command(_: &Value) -> super::connection::CommandOutcome {
    Err((Errno::NOTSUPP, "jobs ask the monitors nothing".to_owned()))
}
