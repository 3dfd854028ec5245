//! Execution of the tasks of `ceph rbd task`, one at a time, with an RBD client for each.
//!
//! It polls for tasks and reports progress meanwhile. An unfinished task is taken over by another worker or
//! resumed later.

use super::polling::{PAUSE, now};
use access::{BlockingClient, ClusterArgs, Connection, PoolName};
use anyhow::{Context, Result, bail};
use rbd::{ImageSpec, Migration, Pool, Progress, Task};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval of progress reports.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// One worker towards the monitors.
pub struct TaskExecutor {
    /// How it reaches the cluster.
    pub args: ClusterArgs,
    /// Identity of the worker towards the monitors.
    pub name: String,
    /// Set when the process ends.
    pub is_stopping: Arc<AtomicBool>,
}

/// End of a task.
enum End {
    Done,
    /// The task was cancelled, or assigned to another worker.
    Abandoned,
}

impl TaskExecutor {
    /// Works until it is to stop.
    pub fn work(&self) {
        while !self.is_stopping() {
            if let Err(error) = self.poll_tasks() {
                tracing::info!(error = format!("{error:#}"), "asking for work on images");
                std::thread::sleep(PAUSE);
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Polls and works as long as the connection lasts.
    fn poll_tasks(&self) -> Result<()> {
        let mut connection = Connection::open(&self.args)?;
        let take = json!({ "prefix": "rbd task take", "worker": self.name, "format": "json" });
        let list = json!({ "prefix": "rbd task list", "format": "json" });
        while !self.is_stopping() {
            // Reading first avoids needless writes to the control store.
            if ask(&mut connection, &list)?.as_array().is_none_or(Vec::is_empty) {
                self.rest(&mut connection)?;
                continue;
            }
            let task = ask(&mut connection, &take)?;
            match task["id"].as_str() {
                Some(id) => self.execute(&mut connection, id, &task["refs"])?,
                None => self.rest(&mut connection)?,
            }
        }
        Ok(())
    }

    fn rest(&self, connection: &mut Connection) -> Result<()> {
        let start = Instant::now();
        while !self.is_stopping() && start.elapsed() < PAUSE {
            connection.turn()?;
        }
        Ok(())
    }

    fn execute(&self, connection: &mut Connection, id: &str, refs: &Value) -> Result<()> {
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
            Ok(ask(connection, &going)?["go_on"] == true)
        });
        let last = match end {
            Ok(End::Abandoned) => return Ok(()),
            Ok(End::Done) => report("done"),
            // Another client removed it.
            Err(error) if is_missing(&error) => report("done"),
            Err(error) => {
                let mut failed = report("failed");
                failed["reason"] = json!(format!("{error:#}"));
                failed
            }
        };
        // Another worker may have it by now.
        if let Err(error) = connection.command(&last) {
            tracing::info!(id, error = format!("{error:#}"), "the end of a task on an image");
        }
        Ok(())
    }

    /// `go_on` is called in every turn.
    fn perform(
        &self,
        refs: &Value,
        go_on: impl FnMut(Option<Progress>) -> Result<bool>,
    ) -> Result<End> {
        let mut client = BlockingClient::open(&self.args)?;
        if client.pool(refs["pool_name"].as_str().unwrap_or_default()).is_err() {
            return Ok(End::Done); // with all that was in it
        }
        let task = task(&mut client, refs)?;
        Ok(match client.run_while(task, go_on)? {
            Some(()) => End::Done,
            None => End::Abandoned,
        })
    }
}

fn ask(connection: &mut Connection, command: &Value) -> Result<Value> {
    let output = connection.command(command)?.output;
    serde_json::from_slice(&output).context("reading what was said of tasks")
}

fn task(client: &mut BlockingClient, refs: &Value) -> Result<Task<()>> {
    let text = |key: &str| refs[key].as_str().unwrap_or_default().to_owned();
    let pool = PoolName { pool: text("pool_name"), namespace: text("pool_namespace") };
    let pool: Pool = access::pool_of(client, &pool)?;
    let mut migrate = |pool: Pool, action| {
        let mut pools = client.pools();
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

/// True if the image itself is missing. Another missing part, an ancestor for example, is damage and must be
/// reported.
fn is_missing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(rbd::Error::Missing { .. }))
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
