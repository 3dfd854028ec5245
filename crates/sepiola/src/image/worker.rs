//! Who does what `ceph rbd task` orders: a thread beside a monitor, with clients of its own.
//!
//! It asks for work again and again, does one task at a time, and says meanwhile that it is still at it.
//! What it leaves unfinished when it is stopped is taken over, by another one or by itself later.

use super::clerk::Clerk;
use super::{Desk, new_id};
use crate::cli::{ClusterArgs, PoolName};
use crate::connection::{Connection, client_config};
use anyhow::{Context, Result, bail};
use rbd::{ImageSpec, Migration, Pool, Progress, Task};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use types::UTime;

/// Between two questions for work.
pub const PAUSE: Duration = Duration::from_secs(1);
/// Between two words about a task.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// Threads that work until it is dropped.
pub struct Worker {
    is_stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Worker {
    /// Nothing is started where there is no administrator's key.
    pub fn start(args: ClusterArgs) -> Result<Worker> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        if let Err(reason) = client_config(&args) {
            tracing::info!(%reason, "no images are worked on from here");
            return Ok(Worker { is_stopping, threads: Vec::new() });
        }
        let clerk = Clerk { args: args.clone(), is_stopping: is_stopping.clone() };
        let bench = Bench { args, name: new_id()?, is_stopping: is_stopping.clone() };
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let mut worker = Worker { is_stopping, threads: Vec::new() };
        worker.threads.push(thread("images").spawn(move || bench.work())?);
        worker.threads.push(thread("image names").spawn(move || clerk.work())?);
        Ok(worker)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic has been shown already.
            let _ = thread.join();
        }
    }
}

struct Bench {
    args: ClusterArgs,
    /// By which the monitors know who is at a task.
    name: String,
    is_stopping: Arc<AtomicBool>,
}

/// How a task ended.
enum End {
    Done,
    /// Nobody wants it any more, or not from here.
    Given,
}

impl Bench {
    fn work(&self) {
        while !self.is_stopping() {
            if let Err(error) = self.attend() {
                tracing::info!(error = format!("{error:#}"), "asking for work on images");
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Asks and works as long as the connection lasts.
    fn attend(&self) -> Result<()> {
        let mut office = Connection::open(&self.args)?;
        let take = json!({ "prefix": "rbd task take", "worker": self.name, "format": "json" });
        let list = json!({ "prefix": "rbd task list", "format": "json" });
        while !self.is_stopping() {
            // Whoever only reads costs the control store nothing.
            if ask(&mut office, &list)?.as_array().is_none_or(Vec::is_empty) {
                self.rest(&mut office)?;
                continue;
            }
            let task = ask(&mut office, &take)?;
            match task["id"].as_str() {
                Some(id) => self.do_task(&mut office, id, &task["refs"])?,
                None => self.rest(&mut office)?,
            }
        }
        Ok(())
    }

    fn rest(&self, office: &mut Connection) -> Result<()> {
        let start = Instant::now();
        while !self.is_stopping() && start.elapsed() < PAUSE {
            office.turn()?;
        }
        Ok(())
    }

    fn do_task(&self, office: &mut Connection, id: &str, refs: &Value) -> Result<()> {
        let report = |state: &str| json!({ "prefix": "rbd task report", "worker": self.name, "task_id": id, "state": state, "format": "json" });
        let mut last = Instant::now();
        let end = self.perform(refs, |progress| {
            if self.is_stopping() {
                return Ok(false);
            }
            if last.elapsed() < REPORT_EVERY {
                return Ok(true);
            }
            last = Instant::now();
            let mut going = report("going");
            going["progress"] = json!(fraction(progress));
            Ok(ask(office, &going)?["go_on"] == true)
        });
        let last = match end {
            Ok(End::Given) => return Ok(()),
            Ok(End::Done) => report("done"),
            // Somebody else removed it.
            Err(error) if is_missing(&error) => report("done"),
            Err(error) => {
                let mut failed = report("failed");
                failed["reason"] = json!(format!("{error:#}"));
                failed
            }
        };
        // Somebody else may have it by now.
        if let Err(error) = office.command(&last) {
            tracing::info!(id, error = format!("{error:#}"), "the end of a task on an image");
        }
        Ok(())
    }

    /// `go_on` is asked at every turn.
    fn perform(
        &self,
        refs: &Value,
        go_on: impl FnMut(Option<Progress>) -> Result<bool>,
    ) -> Result<End> {
        let mut desk = Desk::open(&self.args)?;
        if desk.pool(refs["pool_name"].as_str().unwrap_or_default()).is_err() {
            return Ok(End::Done); // with all that was in it
        }
        let task = task(&mut desk, refs)?;
        Ok(match desk.run_while(task, go_on)? {
            Some(()) => End::Done,
            None => End::Given,
        })
    }
}

fn ask(office: &mut Connection, command: &Value) -> Result<Value> {
    let output = office.command(command)?.output;
    serde_json::from_slice(&output).context("reading what was said of tasks")
}

fn task(desk: &mut Desk, refs: &Value) -> Result<Task<()>> {
    let text = |key: &str| refs[key].as_str().unwrap_or_default().to_owned();
    let pool = PoolName { pool: text("pool_name"), namespace: text("pool_namespace") };
    let pool: Pool = super::pool(desk, &pool)?;
    let mut migrate = |pool: Pool, action| {
        let mut pools = desk.pools();
        if !pool.namespace.is_empty() {
            let spaces = pools.clone().into_iter();
            pools.extend(spaces.map(|other| Pool { namespace: pool.namespace.clone(), ..other }));
        }
        rbd::migrate(ImageSpec { pool, name: text("image_name") }, action, pools)
    };
    Ok(match text("action").as_str() {
        "flatten" => rbd::flatten(ImageSpec { pool, name: text("image_name") }),
        "remove" => rbd::remove(ImageSpec { pool, name: text("image_name") }),
        "trash remove" => rbd::remove_from_trash(pool, text("image_id"), now()),
        "migrate execute" => migrate(pool, Migration::Execute),
        "migrate commit" => migrate(pool, Migration::Commit),
        "migrate abort" => migrate(pool, Migration::Abort),
        other => bail!("this release does not know how to {other} an image"),
    })
}

/// The image itself: what else is missing, an ancestor say, is damage that somebody has to know of.
fn is_missing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(rbd::Error::Missing { .. }))
}

pub fn now() -> UTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UTime::from_nanos(since.as_nanos() as u64)
}

fn fraction(progress: Option<Progress>) -> f64 {
    progress.map_or(0.0, |progress| progress.done as f64 / progress.total.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::Errno;

    #[test]
    fn only_a_missing_image_counts_as_done() {
        assert!(is_missing(&rbd::Error::missing("there is no image a").into()));
        let ancestor = rbd::Error::cluster("reading the header of the parent", Errno::NOENT);
        assert!(!is_missing(&ancestor.into()) && !is_missing(&anyhow::anyhow!("other")));
    }
}
