//! The threads of a process: one core each, with the daemons that a plan puts there.

use crate::{Core, CoreConfig, Directory, Hosted, LocalMessage, NodeAddress};
use anyhow::{Context, Result, anyhow, bail};
use engine::Time;
use rt::{Clock, Sender, Waker};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use types::ParticipantName;

/// A core that runs daemons of any kind.
pub type AnyCore = Core<Box<dyn Hosted>>;

/// Makes a daemon, once all sockets of the process are open.
pub type Prepared<'a> = Box<dyn FnOnce(&mut AnyCore) -> Result<Box<dyn Hosted>> + 'a>;

/// A daemon that a process is to run. A kind of daemon is added by another implementation.
pub trait Member: Send + Sync {
    /// Name towards its peers.
    fn participant(&self) -> ParticipantName;

    /// Whether it takes little of a core: it runs on the first, beside others. The rest is spread evenly.
    fn is_light(&self) -> bool {
        false
    }

    /// Registers it where other daemons of the process look for their peers.
    fn register(&self, directory: &mut Directory, address: NodeAddress) {
        directory.insert(self.participant(), address);
    }

    /// Opens its sockets; it will be the node of this number on this core.
    ///
    /// # Errors
    ///
    /// If a socket cannot be opened. The function that it returns fails if the storage cannot.
    fn prepare<'a>(&'a self, core: &mut AnyCore, node: usize) -> Result<Prepared<'a>>;
}

/// The daemons of this process and their cores.
pub struct Plan {
    places: Vec<(Box<dyn Member>, NodeAddress)>,
    cores: usize,
    seed: u64,
}

impl Plan {
    /// Spreads daemons over cores: over half of the machine's unless told otherwise, the other half being
    /// for the clients that run on the same machine. `seed` comes from the system's entropy.
    pub fn new(members: Vec<Box<dyn Member>>, cores: Option<usize>, seed: u64) -> Self {
        let heavy = members.iter().filter(|member| !member.is_light()).count();
        let available = std::thread::available_parallelism().map_or(1, |n| n.get());
        let cores = cores.unwrap_or(available / 2).clamp(1, heavy.max(1));
        let (mut counts, mut next) = (vec![0; cores], 0);
        let places = members.into_iter().map(|member| {
            let core = if member.is_light() { 0 } else { next % cores };
            next += usize::from(!member.is_light());
            let place = NodeAddress { core, node: counts[core] };
            counts[core] += 1;
            (member, place)
        });
        Plan { places: places.collect(), cores, seed }
    }

    fn directory(&self) -> Directory {
        let mut directory = Directory::default();
        self.places.iter().for_each(|(member, place)| member.register(&mut directory, *place));
        directory
    }

    fn of_core(&self, core: usize) -> impl Iterator<Item = &(Box<dyn Member>, NodeAddress)> {
        self.places.iter().filter(move |(_, place)| place.core == core)
    }
}

/// An event for the thread that runs daemons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// A stop was requested.
    StopRequested,
    /// A core has ended by itself; `stop` returns the reason.
    CoreEnded,
}

/// Daemons of this process, which run until they are stopped.
pub struct RunningDaemons(Threads);

impl RunningDaemons {
    /// Returns when all daemons run. Afterwards, `notices` is told when a core ends.
    ///
    /// # Errors
    ///
    /// The reason why a daemon does not run; the others were stopped.
    pub fn start(plan: Plan, notices: &mpsc::Sender<Notice>) -> Result<Self> {
        let plan = Arc::new(plan);
        let mut threads = Threads::new();
        for index in 0..plan.cores {
            threads.spawn(index, plan.clone(), notices.clone())?;
        }
        match threads.start(&plan) {
            Ok(()) => Ok(RunningDaemons(threads)),
            Err(NotStarted { core }) => Err(threads.abort(core)),
        }
    }

    /// Lets every core finish its turn and flush its storage.
    ///
    /// # Errors
    ///
    /// If a core had ended before.
    pub fn stop(self) -> Result<()> {
        self.0.stop().into_iter().collect()
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
    cores: Vec<CoreThread>,
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
    fn new() -> Self {
        Threads { clock: Clock::start(), stop: Arc::default(), cores: Vec::new() }
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
        let (clock, stop) = (self.clock.clone(), self.stop.clone());
        let thread = std::thread::Builder::new().name(format!("core {index}"));
        let handle = thread.spawn(move || {
            let _end = TellEnd(notices);
            let start = Start { index, plan: &plan, clock, tell_ready, wait_go, tell_running };
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

fn panic_text(panic: &(dyn Any + Send)) -> &str {
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
    tell_ready: SyncSender<Ready>,
    wait_go: Receiver<Go>,
    tell_running: SyncSender<()>,
}

fn run_core(start: &Start<'_>, stop: &AtomicBool) -> Result<()> {
    let (index, plan) = (start.index, start.plan);
    let config = CoreConfig { index, seed: plan.seed.wrapping_add(index as u64) };
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
    while !stop.load(Ordering::Acquire) && !core.is_open()? {
        core.turn(Time::FAR_FUTURE)?;
    }
    start.tell_running.send(()).context("the process is ending")?;
    while !stop.load(Ordering::Acquire) {
        core.turn(Time::FAR_FUTURE)?;
    }
    core.close_storage()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_panics_is_noticed_and_its_reason_told() {
        let (notify, notices) = mpsc::channel();
        let (_, ready) = sync_channel(1);
        let (_, running) = sync_channel(1);
        let handle = std::thread::spawn(move || {
            let _end = TellEnd(notify);
            panic!("osd.{} lost its mind", 3)
        });
        let mut threads = Threads::new();
        threads.cores.push(CoreThread { ready, go: None, running, waker: None, handle });
        assert_eq!(notices.recv(), Ok(Notice::CoreEnded));
        let reason = threads.stop().pop().unwrap().unwrap_err();
        assert_eq!(reason.to_string(), "core 0 panicked: osd.3 lost its mind");
    }
}
