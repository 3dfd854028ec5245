//! Watchdog of a process: reports progress to the service manager as long as every core makes some.
//!
//! Each core counts its turns. A thread compares the counts a few times in each interval of the watchdog,
//! and reports only if all have grown: one core that hangs, in a turn that does not end or in a call that
//! does not return, stops the reports, and the manager ends and restarts the process.

use crate::supervisor::Supervisor;
use anyhow::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Comparisons in an interval of the watchdog.
const COMPARISONS: u32 = 4;
/// Turns of an idle core between two comparisons.
const TURNS: u32 = 2;

/// Turns of each core.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turns(Arc<Vec<AtomicU64>>);

impl Turns {
    pub(crate) fn new(cores: usize) -> Self {
        Turns(Arc::new((0..cores).map(|_| AtomicU64::new(0)).collect()))
    }

    /// To be called by a core after each of its turns.
    pub(crate) fn count(&self, core: usize) {
        self.0[core].fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> Vec<u64> {
        self.0.iter().map(|turns| turns.load(Ordering::Relaxed)).collect()
    }
}

/// Comparison of the counts with those at the last report.
struct Comparison {
    turns: Turns,
    reported: Vec<u64>,
}

impl Comparison {
    fn new(turns: Turns) -> Self {
        let reported = turns.read();
        Comparison { turns, reported }
    }

    /// True if all cores have made progress since the last time that this was true.
    fn has_progress(&mut self) -> bool {
        let now = self.turns.read();
        let grown = now.iter().zip(&self.reported).all(|(now, reported)| now != reported);
        if grown {
            self.reported = now;
        }
        grown
    }
}

/// The longest turn of an idle core by which the watchdog still sees that it lives.
pub(crate) fn turn_time_max(watchdog: Duration) -> Duration {
    watchdog / (COMPARISONS * TURNS)
}

/// The thread that compares and reports; it ends with this.
pub(crate) struct Watchdog {
    /// Dropped first: the thread waits for its end.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Begins to report, if the service manager asked for it.
    pub(crate) fn start(supervisor: Arc<Supervisor>, turns: Turns) -> Result<Option<Self>> {
        let Some(interval) = supervisor.watchdog() else { return Ok(None) };
        let (stop, stopped) = channel();
        let mut comparison = Comparison::new(turns);
        let thread = std::thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            let pause = interval / COMPARISONS;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                if comparison.has_progress() {
                    supervisor.alive();
                }
            }
        })?;
        Ok(Some(Watchdog { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It does nothing that could panic, and nothing depends on it.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_reported_only_while_every_core_makes_some() {
        let turns = Turns::new(2);
        let mut comparison = Comparison::new(turns.clone());
        assert!(!comparison.has_progress(), "no core has made a turn");
        turns.count(0);
        assert!(!comparison.has_progress(), "core 1 hangs");
        turns.count(1);
        assert!(comparison.has_progress());
        assert!(!comparison.has_progress(), "both hang");
        turns.count(0);
        turns.count(0);
        assert!(!comparison.has_progress(), "core 1 hangs again");
        turns.count(1);
        assert!(comparison.has_progress());
    }

    #[test]
    fn an_idle_core_makes_several_turns_between_two_reports() {
        let watchdog = Duration::from_secs(40);
        assert_eq!(turn_time_max(watchdog), Duration::from_secs(5));
    }
}
