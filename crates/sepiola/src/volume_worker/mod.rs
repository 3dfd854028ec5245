//! Background threads beside a monitor that serve volumes for it, with clients of file systems of their own:
//! one carries out commands on subvolumes, the other copies clones and empties the trash.

mod connection;
mod inputs;
mod jobs;
mod orders;

pub use connection::VolumeConnection;

use access::{ClusterArgs, client_config, new_id};
use anyhow::Result;
use jobs::JobExecutor;
use orders::OrderExecutor;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Worker threads, which end when this is dropped.
pub struct VolumeWorker {
    is_stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl VolumeWorker {
    /// Starts the threads, unless there is no administrator's key.
    pub fn start(args: ClusterArgs) -> Result<VolumeWorker> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let mut worker = VolumeWorker { is_stopping: is_stopping.clone(), threads: Vec::new() };
        if let Err(reason) = client_config(&args) {
            tracing::info!(%reason, "no volumes are served from here");
            return Ok(worker);
        }
        let (name, metadata) = (new_id()?, Arc::new(Mutex::new(())));
        let orders = OrderExecutor {
            args: args.clone(),
            name: name.clone(),
            metadata: metadata.clone(),
            is_stopping: is_stopping.clone(),
        };
        let jobs = JobExecutor { args, name, metadata, is_stopping };
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        worker.threads.push(thread("volumes").spawn(move || orders.work())?);
        worker.threads.push(thread("volume jobs").spawn(move || jobs.work())?);
        Ok(worker)
    }
}

impl Drop for VolumeWorker {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The panic was reported already.
            let _ = thread.join();
        }
    }
}
