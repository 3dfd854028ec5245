//! Background threads beside a monitor that work on images for it, with RBD clients of their own.

mod image_service;
mod polling;
mod tasks;

use access::{ClusterArgs, client_config, new_id};
use anyhow::Result;
use image_service::ImageService;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tasks::TaskExecutor;

/// Worker threads, which end when this is dropped.
pub struct Worker {
    is_stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Worker {
    /// Starts the threads, unless there is no administrator's key.
    pub fn start(args: ClusterArgs) -> Result<Worker> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        if let Err(reason) = client_config(&args) {
            tracing::info!(%reason, "no images are worked on from here");
            return Ok(Worker { is_stopping, threads: Vec::new() });
        }
        let image_service = ImageService { args: args.clone(), is_stopping: is_stopping.clone() };
        let task_executor =
            TaskExecutor { args, name: new_id()?, is_stopping: is_stopping.clone() };
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let mut worker = Worker { is_stopping, threads: Vec::new() };
        worker.threads.push(thread("images").spawn(move || task_executor.work())?);
        worker.threads.push(thread("image names").spawn(move || image_service.work())?);
        Ok(worker)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The panic was reported already.
            let _ = thread.join();
        }
    }
}
