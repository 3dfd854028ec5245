//! `sepiola down`: stops the cluster of a data directory.

use access::{DataArgs, DataDir};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// A graceful stop flushes what is in flight; it takes well under a second.
const STOP_TIME_MAX: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// `sepiola down`
pub fn down(args: &DataArgs) -> Result<()> {
    let dir = DataDir::new(&args.data);
    let Some(pid) = dir.running() else {
        bail!("no cluster is running on {}", dir.path().display());
    };
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).context("reading its pid")?;
    kill_process(process, Signal::TERM).with_context(|| format!("stopping process {pid}"))?;
    let start = Instant::now();
    while dir.running().is_some() {
        if start.elapsed() > STOP_TIME_MAX {
            bail!(
                "process {pid} has not stopped within {STOP_TIME_MAX:?}; its data is safe, `kill -9 {pid}` ends it"
            );
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    println!("the cluster in {} has stopped", dir.path().display());
    Ok(())
}
