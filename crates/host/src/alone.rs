//! One daemon on the thread of its caller.

use crate::core::CoreConfig;
use crate::plan::{AnyCore, Member};
use crate::supervisor::Supervisor;
use crate::watchdog::{Turns, Watchdog, turn_time_max};
use anyhow::Result;
use rt::{Clock, StopSignals};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time for closing the daemon.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum duration of a turn.
const TURN_TIME_MAX: Duration = Duration::from_secs(60);

/// Runs a daemon until a signal comes or it cannot go on. `seed` comes from the system's entropy.
///
/// # Errors
///
/// If it does not start, or the reason why it cannot go on.
pub fn run_until_signal(member: &dyn Member, seed: u64, signals: StopSignals) -> Result<()> {
    let clock = Clock::start();
    let mut core = AnyCore::new(CoreConfig { index: 0, seed }, clock.clone())?;
    let make = member.prepare(&mut core, 0)?;
    let node = make(&mut core)?;
    core.add(node);
    let stop = stop_flag(&core, signals);
    let supervisor = Arc::new(Supervisor::of_process());
    let turn_time = supervisor.watchdog().map_or(TURN_TIME_MAX, turn_time_max);
    let turns = Turns::new(1);
    let watchdog = Watchdog::start(supervisor.clone(), turns.clone())?;
    supervisor.ready();
    let mut outcome = Ok(());
    while !stop.load(Ordering::Acquire) && outcome.is_ok() {
        core.turn(clock.now() + turn_time)?;
        turns.count(0);
        outcome = core.check();
    }
    supervisor.stopping();
    drop(watchdog);
    core.close(CLOSE_TIME_MAX)?;
    outcome
}

/// Set by the first signal, which also wakes the core.
fn stop_flag(core: &AnyCore, signals: StopSignals) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let (waker, flag) = (core.waker(), stop.clone());
    std::thread::spawn(move || {
        let _ = signals.wait();
        flag.store(true, Ordering::Release);
        waker.wake();
    });
    stop
}
