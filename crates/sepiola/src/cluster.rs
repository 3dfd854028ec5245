//! The daemons of one process: their creation, their threads, their end.

mod create;
mod daemons;
mod node;

pub use create::{admin_args, create};

use crate::cli::{AuthMode, UpArgs};
use crate::datadir::DataDir;
use crate::host::{Core, CoreConfig, Directory, NodeAddress, Parcel};
use anyhow::{Context, Result, anyhow, bail};
use create::Settings;
use daemons::Plan;
use engine::Time;
use node::Node;
use rt::{Clock, Sender, Waker};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use types::Uuid;

/// A cluster whose threads run until it is stopped.
pub struct RunningCluster {
    settings: Settings,
    stop: Arc<AtomicBool>,
    cores: Vec<RunningCore>,
}

struct RunningCore {
    waker: Waker,
    thread: JoinHandle<Result<()>>,
}

/// What a core tells when its sockets are open.
struct Ready {
    sender: Sender<Parcel>,
    waker: Waker,
    mon_addr: Option<SocketAddr>,
    mgr_addr: Option<SocketAddr>,
}

/// What it is told then.
#[derive(Clone)]
struct Go {
    directory: Directory,
    senders: Vec<Sender<Parcel>>,
    mgr_addr: SocketAddr,
}

impl RunningCluster {
    pub fn start(dir: &DataDir, args: &UpArgs) -> Result<Self> {
        let settings = Settings::load(dir)?;
        let plan = Arc::new(Plan::new(dir, &settings, args.cores)?);
        let stop = Arc::new(AtomicBool::new(false));
        let clock = Clock::start();
        let mut starting = Vec::new();
        for index in 0..plan.cores() {
            starting.push(StartingCore::spawn(index, plan.clone(), stop.clone(), clock)?);
        }
        let ready: Vec<Ready> =
            starting.iter_mut().map(StartingCore::wait).collect::<Result<_>>()?;
        let mgr_addr = ready.iter().find_map(|core| core.mgr_addr).context("no manager")?;
        debug_assert!(ready.iter().any(|core| core.mon_addr == Some(settings.mon_addr)));
        let senders = ready.iter().map(|core| core.sender.clone()).collect();
        let go = Go { directory: plan.directory(), senders, mgr_addr };
        let mut cores = Vec::new();
        for (core, ready) in starting.into_iter().zip(ready) {
            core.go.send(go.clone()).context("a core ended while starting")?;
            cores.push(RunningCore { waker: ready.waker, thread: core.thread });
        }
        Ok(RunningCluster { settings, stop, cores })
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

    /// Fails if a core has ended by itself.
    pub fn check(&self) -> Result<()> {
        if self.cores.iter().any(|core| core.thread.is_finished()) {
            bail!("a core has ended; its reason is above");
        }
        Ok(())
    }

    /// Lets every core finish its turn and flush its stores.
    pub fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Release);
        self.cores.iter().for_each(|core| core.waker.wake());
        for core in self.cores {
            core.thread.join().map_err(|_| anyhow!("a core panicked"))??;
        }
        Ok(())
    }
}

struct StartingCore {
    ready: Receiver<Ready>,
    go: SyncSender<Go>,
    thread: JoinHandle<Result<()>>,
}

impl StartingCore {
    fn spawn(
        index: usize,
        plan: Arc<Plan>,
        stop: Arc<AtomicBool>,
        clock: Clock,
    ) -> Result<StartingCore> {
        let (tell_ready, ready) = sync_channel(1);
        let (go, wait_go) = sync_channel(1);
        let thread =
            std::thread::Builder::new().name(format!("core {index}")).spawn(move || {
                let result = run_core(index, &plan, &stop, clock, &tell_ready, &wait_go);
                if let Err(error) = &result {
                    tracing::error!("core {index} ends: {error:#}");
                }
                result
            })?;
        Ok(StartingCore { ready, go, thread })
    }

    fn wait(&mut self) -> Result<Ready> {
        self.ready.recv().map_err(|_| anyhow!("a core could not start; its reason is above"))
    }
}

fn run_core(
    index: usize,
    plan: &Plan,
    stop: &AtomicBool,
    clock: Clock,
    tell_ready: &SyncSender<Ready>,
    wait_go: &Receiver<Go>,
) -> Result<()> {
    let config = CoreConfig { index, seed: daemons::random_seed()? };
    let mut core: Core<Node> = Core::new(config, clock)?;
    let sockets = plan.open_sockets(index, &mut core)?;
    let ready = Ready {
        sender: core.sender(),
        waker: core.waker(),
        mon_addr: sockets.mon,
        mgr_addr: sockets.mgr,
    };
    tell_ready.send(ready).context("nobody waits for this core")?;
    let go = wait_go.recv().context("the other cores did not start")?;
    core.introduce(go.directory, go.senders);
    plan.add_daemons(index, &mut core, &sockets, go.mgr_addr)?;
    while !stop.load(Ordering::Acquire) {
        core.turn(Time::FAR_FUTURE)?;
    }
    Ok(())
}

/// Which daemon lives where.
fn address(core: usize, node: usize) -> NodeAddress {
    NodeAddress { core, node }
}
