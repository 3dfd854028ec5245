//! The threads of a process: one core each, with the daemons that a plan puts there.

use crate::core::CoreConfig;
use crate::links::{Directory, LocalMessage};
use crate::notices::{Notice, Notices};
use crate::plan::{AnyCore, Plan};
use crate::supervisor::Supervisor;
use crate::watchdog::{Turns, Watchdog, turn_time_max};
use anyhow::{Context, Result, anyhow, bail};
use engine::Time;
use rt::{Clock, Sender, Waker};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time that an ending core waits for its storage.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(1);

/// Daemons of this process, which run until they are stopped. The service manager that started the process is
/// told the stages of their life.
pub struct RunningDaemons {
    threads: Threads,
    supervisor: Arc<Supervisor>,
    watchdog: Option<Watchdog>,
}

impl RunningDaemons {
    /// Returns when all daemons run. Afterwards, `notices` is told when a core ends.
    ///
    /// # Errors
    ///
    /// The reason why a daemon does not run; the others were stopped.
    pub fn start(plan: Plan, notices: &Notices) -> Result<Self> {
        RunningDaemons::start_under(Supervisor::of_process(), plan, notices)
    }

    fn start_under(supervisor: Supervisor, plan: Plan, notices: &Notices) -> Result<Self> {
        let (plan, supervisor) = (Arc::new(plan), Arc::new(supervisor));
        let mut threads = Threads::new(plan.cores(), supervisor.watchdog().map(turn_time_max));
        for index in 0..plan.cores() {
            threads.spawn(index, plan.clone(), notices.sender())?;
        }
        if let Err(NotStarted { core }) = threads.start(&plan) {
            return Err(threads.abort(core));
        }
        let watchdog = Watchdog::start(supervisor.clone(), threads.pace.turns.clone())?;
        supervisor.ready();
        Ok(RunningDaemons { threads, supervisor, watchdog })
    }

    /// Lets every core finish its turn and flush its storage.
    ///
    /// # Errors
    ///
    /// If a core had ended before.
    pub fn stop(self) -> Result<()> {
        self.supervisor.stopping();
        self.end()
    }

    /// As `stop`, after a core has ended by itself. The service manager is not told of a stop, so that the
    /// process may begin again: a service that said that it stops is killed if it goes on.
    ///
    /// # Errors
    ///
    /// The reason why the core has ended.
    pub fn end(self) -> Result<()> {
        drop(self.watchdog);
        self.threads.stop().into_iter().collect()
    }
}

/// A core that ended before all ran.
struct NotStarted {
    core: usize,
}

/// Reply of a core whose sockets are open.
struct Ready {
    sender: Sender<LocalMessage>,
    waker: Waker,
}

/// Message to a core when all are ready.
#[derive(Clone)]
struct Go {
    directory: Directory,
    senders: Vec<Sender<LocalMessage>>,
}

/// The threads of all cores.
struct Threads {
    /// One for all, so that their times agree.
    clock: Clock,
    stop: Arc<AtomicBool>,
    pace: Pace,
    cores: Vec<CoreThread>,
}

/// Proof of each core's progress, for the watchdog.
#[derive(Clone)]
struct Pace {
    turns: Turns,
    /// The longest turn of an idle core, if there is a watchdog.
    turn_time_max: Option<Duration>,
}

impl Pace {
    /// Runs a core until `is_done`.
    fn run(
        &self,
        core: &mut AnyCore,
        index: usize,
        is_done: impl Fn(&AnyCore) -> Result<bool>,
    ) -> Result<()> {
        while !is_done(core)? {
            let deadline = self.turn_time_max.map_or(Time::FAR_FUTURE, |max| core.now() + max);
            core.turn(deadline)?;
            self.turns.count(index);
            core.check()?;
        }
        Ok(())
    }
}

struct CoreThread {
    ready: Receiver<Ready>,
    /// Dropped at the end, so that a core that waits for it stops waiting.
    go: Option<SyncSender<Go>>,
    running: Receiver<()>,
    waker: Option<Waker>,
    handle: JoinHandle<Result<()>>,
}

impl Threads {
    fn new(cores: usize, turn_time_max: Option<Duration>) -> Self {
        let pace = Pace { turns: Turns::new(cores), turn_time_max };
        Threads { clock: Clock::start(), stop: Arc::default(), pace, cores: Vec::new() }
    }

    fn spawn(
        &mut self,
        index: usize,
        plan: Arc<Plan>,
        notices: mpsc::Sender<Notice>,
    ) -> Result<()> {
        let (tell_ready, ready) = sync_channel(1);
        let (go, wait_go) = sync_channel(1);
        let (tell_running, running) = sync_channel(1);
        let (clock, stop, pace) = (self.clock.clone(), self.stop.clone(), self.pace.clone());
        let thread = std::thread::Builder::new().name(format!("core {index}"));
        let handle = thread.spawn(move || {
            let _end = TellEnd(notices);
            let start =
                Start { index, plan: &plan, clock, pace, tell_ready, wait_go, tell_running };
            run_core(&start, &stop).with_context(|| format!("core {index}"))
        })?;
        self.cores.push(CoreThread { ready, go: Some(go), running, waker: None, handle });
        Ok(())
    }

    /// In three steps: all open their sockets, all learn of each other, all run.
    fn start(&mut self, plan: &Plan) -> Result<(), NotStarted> {
        let mut senders = Vec::new();
        for (core, thread) in self.cores.iter_mut().enumerate() {
            let ready = thread.ready.recv().map_err(|_| NotStarted { core })?;
            thread.waker = Some(ready.waker);
            senders.push(ready.sender);
        }
        let go = Go { directory: plan.directory(), senders };
        for (core, thread) in self.cores.iter().enumerate() {
            let sender = thread.go.as_ref().expect("taken at the end only");
            sender.send(go.clone()).map_err(|_| NotStarted { core })?;
        }
        for (core, thread) in self.cores.iter().enumerate() {
            thread.running.recv().map_err(|_| NotStarted { core })?;
        }
        Ok(())
    }

    fn stop(mut self) -> Vec<Result<()>> {
        self.stop.store(true, Ordering::Release);
        for core in &mut self.cores {
            core.go = None;
            if let Some(waker) = &core.waker {
                waker.wake();
            }
        }
        let join = |(index, core): (usize, CoreThread)| match core.handle.join() {
            Ok(result) => result,
            Err(panic) => Err(anyhow!("core {index} panicked: {}", panic_text(&*panic))),
        };
        self.cores.into_iter().enumerate().map(join).collect()
    }

    /// Stops the cores that run, because `core` does not: its reason is the one that counts.
    fn abort(self, core: usize) -> anyhow::Error {
        let reason = self.stop().swap_remove(core).err();
        reason.unwrap_or_else(|| anyhow!("core {core} has ended while starting"))
    }
}

/// The message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for an unknown reason")
}

/// Sends a notice when its thread ends, also by a panic.
struct TellEnd(mpsc::Sender<Notice>);

impl Drop for TellEnd {
    fn drop(&mut self) {
        // The receiver is gone when the daemons are being stopped.
        let _ = self.0.send(Notice::CoreEnded);
    }
}

struct Start<'a> {
    index: usize,
    plan: &'a Plan,
    clock: Clock,
    pace: Pace,
    tell_ready: SyncSender<Ready>,
    wait_go: Receiver<Go>,
    tell_running: SyncSender<()>,
}

fn run_core(start: &Start<'_>, stop: &AtomicBool) -> Result<()> {
    let (index, plan) = (start.index, start.plan);
    let config = CoreConfig { index, seed: plan.seed_of_core(index) };
    let mut core = AnyCore::new(config, start.clock.clone())?;
    let mut prepared = Vec::new();
    for (member, place) in plan.of_core(index) {
        prepared.push((member.prepare(&mut core, place.node)?, *place));
    }
    let ready = Ready { sender: core.sender(), waker: core.waker() };
    start.tell_ready.send(ready).context("the process is ending")?;
    let Ok(go) = start.wait_go.recv() else { bail!("the other cores did not start") };
    core.introduce(go.directory, go.senders);
    for (make, place) in prepared {
        let node = make(&mut core)?;
        assert_eq!(core.add(node), place, "daemons are added in the order of the plan");
    }
    let is_stopped = || stop.load(Ordering::Acquire);
    start.pace.run(&mut core, index, |core| Ok(is_stopped() || core.is_open()?))?;
    start.tell_running.send(()).context("the process is ending")?;
    start.pace.run(&mut core, index, |_| Ok(is_stopped()))?;
    core.close(CLOSE_TIME_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Hosted;
    use crate::plan::{Member, Prepared};
    use crate::supervisor::tests::{manager, received, supervisor_at};
    use engine::{
        AuthRequest, ConnId, ConnectingAnswer, ConnectingStep, Message, Node, NodeOutput, Peer,
    };
    use std::fmt;
    use std::os::unix::net::UnixDatagram;
    use types::{EntityType, ParticipantName};

    /// Turns within which a core asks its daemons whether they can go on.
    const TURNS_MAX: u32 = 100;

    #[derive(Debug)]
    struct Replaced;

    impl fmt::Display for Replaced {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("another one has its place")
        }
    }

    impl std::error::Error for Replaced {}

    /// A daemon that turns without pause, and cannot go on from a moment that the test chooses.
    struct Fragile {
        is_replaced: Arc<AtomicBool>,
        turns: u32,
    }

    impl Member for Arc<AtomicBool> {
        fn participant(&self) -> ParticipantName {
            ParticipantName::new(EntityType::MDS, 0)
        }

        fn prepare<'a>(&'a self, _: &mut AnyCore, _: usize) -> Result<Prepared<'a>> {
            let node = Fragile { is_replaced: self.clone(), turns: 0 };
            Ok(Box::new(move |_| Ok(Box::new(node))))
        }
    }

    impl Node for Fragile {
        fn handle_auth(&mut self, _: Time, _: ConnId, _: AuthRequest) {}
        fn authenticate(&mut self, _: Time, _: ConnId, _: ConnectingStep) -> ConnectingAnswer {
            ConnectingAnswer::Refuse
        }
        fn handle_refused(&mut self, _: Time, _: ConnId) {}
        fn handle_opened(&mut self, _: Time, _: ConnId, _: Peer) {}
        fn handle_message(&mut self, _: Time, _: ConnId, _: Message) {}
        fn handle_closed(&mut self, _: Time, _: ConnId) {}
        fn handle_timeout(&mut self, _: Time) {
            self.turns += u32::from(self.is_replaced.load(Ordering::Acquire));
            assert!(self.turns < TURNS_MAX, "the core does not ask whether it can go on");
        }
        fn poll_timeout(&self) -> Option<Time> {
            Some(Time::ZERO)
        }
        fn poll_output(&mut self, _: Time) -> Option<NodeOutput> {
            None
        }
    }

    impl Hosted for Fragile {
        fn participant(&self) -> ParticipantName {
            ParticipantName::new(EntityType::MDS, 0)
        }
        fn pump_storage(&mut self, _: Time) -> bool {
            false
        }
        fn check(&mut self) -> Result<()> {
            if self.is_replaced.load(Ordering::Acquire) { bail!(Replaced) } else { Ok(()) }
        }
    }

    /// A process whose only daemon runs; the flag makes it unable to go on.
    fn fragile(name: &str) -> (RunningDaemons, Notices, Arc<AtomicBool>, UnixDatagram) {
        let (socket, path) = manager(name);
        let (notices, is_replaced) = (Notices::without_signals(), Arc::<AtomicBool>::default());
        let plan = Plan::new(vec![Box::new(is_replaced.clone())], None, 1);
        let running = RunningDaemons::start_under(supervisor_at(&path), plan, &notices).unwrap();
        assert_eq!(received(&socket), "READY=1");
        (running, notices, is_replaced, socket)
    }

    #[test]
    fn a_daemon_that_cannot_go_on_ends_its_core_and_the_service_manager_hears_of_no_stop() {
        let (running, notices, is_replaced, socket) = fragile("replaced");
        is_replaced.store(true, Ordering::Release);
        assert_eq!(notices.wait().unwrap(), Notice::CoreEnded);
        let reason = running.end().unwrap_err();
        assert!(reason.is::<Replaced>(), "{reason:#}");
        socket.set_nonblocking(true).unwrap();
        assert!(socket.recv(&mut [0; 100]).is_err(), "the service manager was told something");
    }

    #[test]
    fn a_requested_stop_is_told_to_the_service_manager() {
        let (running, _notices, _, socket) = fragile("stopped");
        running.stop().unwrap();
        assert_eq!(received(&socket), "STOPPING=1");
    }

    #[test]
    fn a_core_that_panics_is_noticed_and_its_reason_told() {
        let (notify, notices) = mpsc::channel();
        let (_, ready) = sync_channel(1);
        let (_, running) = sync_channel(1);
        let handle = std::thread::spawn(move || {
            let _end = TellEnd(notify);
            panic!("osd.{} lost its mind", 3)
        });
        let mut threads = Threads::new(1, None);
        threads.cores.push(CoreThread { ready, go: None, running, waker: None, handle });
        assert_eq!(notices.recv(), Ok(Notice::CoreEnded));
        let reason = threads.stop().pop().unwrap().unwrap_err();
        assert_eq!(reason.to_string(), "core 0 panicked: osd.3 lost its mind");
    }
}
