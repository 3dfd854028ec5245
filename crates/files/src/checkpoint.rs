//! The checkpoint thread: makes a frozen state durable while commits continue.
//!
//! Files are made durable first, then the database, whose commit completes the checkpoint. Only then are dead
//! files unlinked, and the log and the frozen layers released.

use crate::apply::{Frozen, thaw_objects};
use crate::cache::Store;
use crate::error::FilesError;
use crate::log::LogPosition;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The committing thread's end.
pub struct Checkpointer {
    jobs: Option<Sender<Frozen>>,
    /// Log positions before which the log is no longer needed.
    finished: Receiver<LogPosition>,
    running: bool,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts the thread, which waits for a frozen state.
    pub fn start(store: Arc<Store>) -> std::io::Result<Checkpointer> {
        let (jobs, queue) = channel::<Frozen>();
        let (reports, finished) = channel();
        let run = move || {
            for frozen in queue {
                match checkpoint(&store, &frozen) {
                    Ok(()) => reports.send(frozen.update.state.log).unwrap_or(()),
                    Err(error) => return store.fail(error),
                }
            }
        };
        let thread = std::thread::Builder::new().name("store-checkpoint".into()).spawn(run)?;
        Ok(Checkpointer { jobs: Some(jobs), finished, running: false, thread: Some(thread) })
    }

    /// True from `begin` until the result was taken.
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// Starts a checkpoint of a frozen state; the previous one must have finished.
    pub fn begin(&mut self, frozen: Frozen) -> Result<(), FilesError> {
        debug_assert!(!self.running, "one checkpoint at a time");
        let jobs = self.jobs.as_ref().expect("there until it is dropped");
        jobs.send(frozen).map_err(|_| FilesError::CheckpointFailed)?;
        self.running = true;
        Ok(())
    }

    /// The log position of a checkpoint that has finished since the last call.
    pub fn poll(&mut self) -> Option<LogPosition> {
        let position = self.finished.try_recv().ok()?;
        self.running = false;
        Some(position)
    }

    /// Waits for the running checkpoint.
    pub fn wait(&mut self) -> Result<LogPosition, FilesError> {
        let position = self.finished.recv().map_err(|_| FilesError::CheckpointFailed)?;
        self.running = false;
        Ok(position)
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was noticed when its channel closed.
            let _ = thread.join();
        }
    }
}

fn checkpoint(store: &Store, frozen: &Frozen) -> Result<(), FilesError> {
    let io = |what| move |error| FilesError::Io { what, error };
    store.media.sync(&frozen.dirty_files).map_err(io("syncing object data"))?;
    store.base.write(&frozen.update)?;
    let changed = store.thaw();
    thaw_objects(&changed);
    drop(changed);
    store.evict();
    for id in &frozen.update.dead_files {
        store.media.remove(*id).map_err(io("removing an object's file"))?;
    }
    Ok(())
}
