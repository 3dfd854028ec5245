//! A process that is started again whenever it ends, until its owner drops it.
//!
//! It is asked to stop by the end of its standard input, whose other end is here: it needs no signal, and it
//! also stops when this process is killed.

use std::fmt;
use std::io;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pauses before new starts: doubled at each, up to a bound, and short again after a long run.
#[derive(Debug, Clone, Copy)]
pub struct Pauses {
    /// The first pause.
    pub min: Duration,
    /// The longest pause. A run of this length was no failed start.
    pub max: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Pauses { min: Duration::from_secs(1), max: Duration::from_secs(60) }
    }
}

impl Pauses {
    /// The pause after a run of that duration. `last` was the pause before it.
    fn next(self, last: Option<Duration>, run: Duration) -> Duration {
        match last {
            Some(last) if run < self.max => (last * 2).min(self.max),
            _ => self.min,
        }
    }
}

/// The end of a run, for those who read the log: `has ended (…) and is started again in …`.
pub struct Ended {
    status: io::Result<ExitStatus>,
    pause: Duration,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.status {
            Ok(status) => write!(f, "has ended ({status})")?,
            Err(error) => write!(f, "could not be started ({error})")?,
        }
        write!(f, " and is started again in {:?}", self.pause)
    }
}

/// A process that runs, or pauses before its next start; it ends with this.
pub struct KeptProcess {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    stopping: Condvar,
}

#[derive(Default)]
struct State {
    is_stopping: bool,
    has_ended: bool,
    /// The running process stops when this is dropped.
    input: Option<ChildStdin>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code that holds it panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the process unless it is to stop.
    fn spawn(&self, command: &mut Command) -> io::Result<Option<Child>> {
        let mut state = self.state();
        if state.is_stopping {
            return Ok(None);
        }
        let mut child = command.spawn()?;
        // Its `wait` closes an input that it has.
        state.input = child.stdin.take();
        Ok(Some(child))
    }

    /// Notes the end of a run; false if it was the last.
    fn ended(&self) -> bool {
        let mut state = self.state();
        state.input = None;
        state.has_ended |= !state.is_stopping;
        !state.is_stopping
    }

    fn pause(&self, pause: Duration) {
        let state = self.state();
        // Poison is no reason to go on early.
        let _ = self.stopping.wait_timeout_while(state, pause, |state| !state.is_stopping);
    }
}

impl KeptProcess {
    /// Starts it. `tell` hears of each end that was not asked for.
    ///
    /// # Errors
    ///
    /// If the first start fails.
    pub fn start(
        mut command: Command,
        pauses: Pauses,
        tell: impl Fn(Ended) + Send + 'static,
    ) -> io::Result<Self> {
        command.stdin(Stdio::piped());
        let shared = Arc::<Shared>::default();
        let child = shared.spawn(&mut command)?;
        let mut kept = KeptProcess { shared: shared.clone(), keeper: None };
        let keeper = std::thread::Builder::new().name("keeper".to_owned());
        kept.keeper = Some(keeper.spawn(move || keep(&shared, command, child, pauses, tell))?);
        Ok(kept)
    }

    /// True if it has ended at least once without being asked to.
    pub fn has_ended(&self) -> bool {
        self.shared.state().has_ended
    }
}

/// Waits for the end of each run and starts the next.
fn keep(
    shared: &Shared,
    mut command: Command,
    mut child: Option<Child>,
    pauses: Pauses,
    tell: impl Fn(Ended),
) {
    let (mut last, mut failed) = (None, None);
    loop {
        let start = Instant::now();
        let status = match (failed.take(), &mut child) {
            (Some(error), _) => Err(error),
            (None, Some(child)) => child.wait(),
            (None, None) => return,
        };
        if !shared.ended() {
            return;
        }
        let pause = pauses.next(last, start.elapsed());
        last = Some(pause);
        tell(Ended { status, pause });
        shared.pause(pause);
        match shared.spawn(&mut command) {
            Ok(next) => child = next,
            Err(error) => failed = Some(error),
        }
    }
}

impl Drop for KeptProcess {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state();
            state.is_stopping = true;
            state.input = None;
        }
        self.shared.stopping.notify_all();
        // A keeper that has panicked has said so.
        let _ = self.keeper.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    const NO_PAUSE: Pauses = Pauses { min: Duration::ZERO, max: Duration::ZERO };
    const LONG_PAUSE: Pauses =
        Pauses { min: Duration::from_secs(3600), max: Duration::from_secs(3600) };

    fn shell(script: &str, pauses: Pauses) -> (KeptProcess, Receiver<String>) {
        let (sender, ends) = channel();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let tell = move |ended: Ended| sender.send(ended.to_string()).unwrap();
        (KeptProcess::start(command, pauses, tell).unwrap(), ends)
    }

    #[test]
    fn a_process_that_ends_is_started_again_and_its_end_is_told() {
        let (kept, ends) = shell("exit 3", NO_PAUSE);
        for _ in 0..3 {
            let ended = ends.recv().unwrap();
            assert_eq!(ended, "has ended (exit status: 3) and is started again in 0ns");
        }
        assert!(kept.has_ended());
        drop(kept);
        assert!(ends.iter().all(|ended| ended.contains("exit status: 3")));
    }

    #[test]
    fn a_process_that_runs_is_asked_to_stop_by_the_end_of_its_input() {
        let (kept, ends) = shell("cat", NO_PAUSE);
        assert!(!kept.has_ended());
        drop(kept);
        assert_eq!(ends.recv().ok(), None, "the end was asked for");
    }

    #[test]
    fn a_stop_does_not_wait_for_the_end_of_a_pause() {
        let (kept, ends) = shell("exit 0", LONG_PAUSE);
        assert_eq!(
            ends.recv().unwrap(),
            "has ended (exit status: 0) and is started again in 3600s"
        );
        drop(kept);
        assert_eq!(ends.recv().ok(), None);
    }

    #[test]
    fn pauses_grow_up_to_a_bound_and_are_short_again_after_a_long_run() {
        let pauses = Pauses::default();
        let second = Duration::from_secs(1);
        let mut last = None;
        let mut seen = Vec::new();
        for _ in 0..8 {
            last = Some(pauses.next(last, second));
            seen.extend(last);
        }
        assert_eq!(seen, [1, 2, 4, 8, 16, 32, 60, 60].map(Duration::from_secs));
        assert_eq!(pauses.next(last, pauses.max), pauses.min);
    }
}
