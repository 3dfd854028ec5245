//! The daemons of one process: their creation, their threads, their end.

mod create;
mod daemons;
mod disk;
mod node;
mod osd;

pub use create::{MGR_NAME, MON_NAME, SIZE_DEFAULT, Settings, admin_args, create};
pub use daemons::{MonMember, Plan};
pub use osd::{OsdMember, default_memory, machine_memory};

use crate::cli::{AuthMode, UpArgs};
use crate::datadir::DataDir;
use crate::host::{Core, CoreConfig, Directory, LocalMessage, NodeAddress};
use anyhow::{Context, Result, anyhow, bail};
use engine::Time;
use node::Node;
use rt::{Clock, Sender, Waker};
use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use types::Uuid;

/// Why whoever runs a cluster is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// A stop of the cluster was requested.
    StopRequested,
    /// A core has ended by itself; `stop` tells why.
    CoreEnded,
}

/// A cluster whose threads run until it is stopped.
pub struct RunningCluster {
    settings: Settings,
    daemons: RunningDaemons,
}

/// Daemons of this process, which run until they are stopped.
pub struct RunningDaemons(Threads);

/// Reply of a core whose sockets are open.
struct Ready {
    sender: Sender<LocalMessage>,
    waker: Waker,
    mgr_addr: Option<SocketAddr>,
}

/// Message to a core when all are ready.
#[derive(Clone)]
struct Go {
    directory: Directory,
    senders: Vec<Sender<LocalMessage>>,
    mgr_addr: Option<SocketAddr>,
}

impl RunningDaemons {
    /// Returns when all daemons run, or with the reason why one does not. Afterwards, `notices` is
    /// told when a core ends.
    pub fn start(plan: Plan, notices: &mpsc::Sender<Notice>) -> Result<Self> {
        let plan = Arc::new(plan);
        let mut threads = Threads::new();
        for index in 0..plan.cores() {
            threads.spawn(index, plan.clone(), notices.clone())?;
        }
        match threads.start(&plan) {
            Ok(()) => Ok(RunningDaemons(threads)),
            Err(NotStarted { core }) => Err(threads.abort(core)),
        }
    }

    /// Lets every core finish its turn and flush its stores. Fails if one had ended before.
    pub fn stop(self) -> Result<()> {
        self.0.stop().into_iter().collect()
    }
}

impl RunningCluster {
    /// As [`RunningDaemons::start`].
    pub fn start(dir: &DataDir, args: &UpArgs, notices: &mpsc::Sender<Notice>) -> Result<Self> {
        let settings = Settings::load(dir)?;
        let daemons = RunningDaemons::start(Plan::whole(dir, &settings, args), notices)?;
        Ok(RunningCluster { settings, daemons })
    }

    pub fn fsid(&self) -> Uuid {
        self.settings.fsid
    }

    pub fn mon_addr(&self) -> SocketAddr {
        self.settings.mon_addr
    }

    pub fn auth(&self) -> AuthMode {
        self.settings.auth
    }

    pub fn stop(self) -> Result<()> {
        self.daemons.stop()
    }
}

/// A core that ended before the cluster ran.
struct NotStarted {
    core: usize,
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
    /// Taken away from cores that wait for it in vain.
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
        let mut ready = Vec::new();
        for (core, thread) in self.cores.iter_mut().enumerate() {
            let told = thread.ready.recv().map_err(|_| NotStarted { core })?;
            thread.waker = Some(told.waker.clone());
            ready.push(told);
        }
        let mgr_addr = ready.iter().find_map(|core| core.mgr_addr);
        let senders = ready.into_iter().map(|core| core.sender).collect();
        let go = Go { directory: plan.directory(), senders, mgr_addr };
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

    /// Stops what runs, because `core` does not: its reason is the one that counts.
    fn abort(self, core: usize) -> anyhow::Error {
        let reason = self.stop().swap_remove(core).err();
        reason.unwrap_or_else(|| anyhow!("core {core} has ended while starting"))
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for an unknown reason")
}

/// Tells that a thread has ended, whichever way.
struct TellEnd(mpsc::Sender<Notice>);

impl Drop for TellEnd {
    fn drop(&mut self) {
        // The receiver is gone when the cluster is being stopped.
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
    let config = CoreConfig { index, seed: daemons::random_seed()? };
    let mut core: Core<Node> = Core::new(config, start.clock.clone())?;
    let sockets = plan.open_sockets(index, &mut core)?;
    let ready = Ready { sender: core.sender(), waker: core.waker(), mgr_addr: sockets.mgr };
    start.tell_ready.send(ready).context("nobody waits for it")?;
    let Ok(go) = start.wait_go.recv() else { bail!("the other cores did not start") };
    core.introduce(go.directory, go.senders);
    plan.add_daemons(index, &mut core, &sockets, go.mgr_addr)?;
    while !stop.load(Ordering::Acquire) && !core.is_open()? {
        core.turn(Time::FAR_FUTURE)?;
    }
    start.tell_running.send(()).context("nobody waits for it")?;
    while !stop.load(Ordering::Acquire) {
        core.turn(Time::FAR_FUTURE)?;
    }
    core.close_storage()
}

/// Which daemon lives where.
fn address(core: usize, node: usize) -> NodeAddress {
    NodeAddress { core, node }
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
