//! The control store on etcd, on a thread of its own.
//!
//! The thread runs an asynchronous loop; the monitor hands it requests and takes completions by two
//! queues. Transactions and leases are asked for independently of each other. A load ends the watch
//! that was, and begins one behind the revision that it shows, so that changes follow without a gap.
//!
//! It does not know what the keys mean.

mod client;
mod follow;
mod marks;
mod options;
mod proto;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;
mod txn;
mod values;

pub use options::{EtcdOptions, FILE_MODE, PREFIX_DEFAULT};

use super::mark::MarkKeeper;
use access::fill_random;
use anyhow::{Context, Result, anyhow};
use client::{COMMIT_PATIENCE, Client};
use engine::Storage;
use engine::Time;
use mon::control::{CommitError, Completion, Entry, LeaseId, Request, Revision, Transaction};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, LocalSet, spawn_local};

/// Requests and completions under way; the monitor has a handful.
const QUEUE_CAPACITY: usize = 4096;
/// How long commands wait for an etcd that does not answer.
const TOOL_PATIENCE: Duration = Duration::from_secs(10);

/// The monitor's storage: a thread that speaks to etcd.
pub struct EtcdControl {
    /// Both are there until the end.
    requests: Option<mpsc::Sender<Request>>,
    completions: Option<Receiver<Completion>>,
    thread: Option<JoinHandle<()>>,
}

/// Where completions go.
#[derive(Clone)]
struct Outbox {
    completions: SyncSender<Completion>,
    wake: Rc<dyn Fn()>,
    mark: Rc<RefCell<Option<MarkKeeper>>>,
}

impl Outbox {
    fn asked(&self, request: &Request) {
        self.mark.borrow_mut().iter_mut().for_each(|mark| mark.asked(request));
    }

    fn tell(&self, completion: Completion) {
        self.mark.borrow_mut().iter_mut().for_each(|mark| mark.told(&completion));
        // The receiver is gone when the store is being closed.
        if self.completions.send(completion).is_ok() {
            (self.wake)();
        }
    }
}

impl EtcdControl {
    /// `writer` names this monitor among those that share the store. `wake` is called when there is
    /// something to poll.
    pub fn open(
        options: &EtcdOptions,
        writer: &str,
        mark: Option<MarkKeeper>,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self> {
        options.check()?;
        let nonce = nonce()?;
        let runtime = runtime()?;
        let (options, writer) = (options.clone(), writer.to_owned());
        let (requests, to_do) = mpsc::channel(QUEUE_CAPACITY);
        let (done, completions) = sync_channel(QUEUE_CAPACITY);
        let (tell_open, open) = sync_channel(1);
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            let client = {
                let _within = runtime.enter();
                Client::new(&options, &writer, nonce).map(Client::fenced)
            };
            let (client, told) = match client {
                Ok(client) => (Some(client), Ok(())),
                Err(error) => (None, Err(error)),
            };
            let is_heard = tell_open.send(told).is_ok();
            if let Some(client) = client.filter(|_| is_heard) {
                let mark = Rc::new(RefCell::new(mark));
                let out = Outbox { completions: done, wake: Rc::new(wake), mark };
                LocalSet::new().block_on(&runtime, serve(Rc::new(client), to_do, out));
            }
        })?;
        open.recv().context("the control thread has ended")??;
        let (requests, completions) = (Some(requests), Some(completions));
        Ok(EtcdControl { requests, completions, thread: Some(thread) })
    }
}

async fn serve(client: Rc<Client>, mut requests: mpsc::Receiver<Request>, out: Outbox) {
    let leases: Rc<RefCell<Vec<LeaseId>>> = Rc::default();
    let mut following: Option<AbortHandle> = None;
    while let Some(request) = requests.recv().await {
        let (client, out) = (client.clone(), out.clone());
        out.asked(&request);
        match request {
            Request::Range { token, prefix } => {
                following.take().inspect(AbortHandle::abort);
                let follow = async move {
                    follow::load_and_follow(&client, &out, token, &prefix).await;
                };
                following = Some(spawn_local(follow).abort_handle());
            }
            Request::Commit { token, transaction } => {
                spawn_local(async move {
                    let outcome = client.commit(token, &transaction, COMMIT_PATIENCE).await;
                    out.tell(Completion::Committed { token, outcome });
                });
            }
            Request::Grant { token, ttl } => {
                let leases = leases.clone();
                spawn_local(async move {
                    let outcome = client.grant(ttl).await;
                    leases.borrow_mut().extend(outcome.as_ref().ok());
                    out.tell(Completion::Leased { token, outcome });
                });
            }
            Request::Renew { token, lease } => {
                spawn_local(async move {
                    let outcome = client.renew(lease).await;
                    out.tell(Completion::Leased { token, outcome });
                });
            }
        }
    }
    following.take().inspect(AbortHandle::abort);
    // Others need not wait for what we no longer want.
    let leases = leases.take();
    for lease in leases {
        client.revoke(lease).await;
    }
}

impl Storage for EtcdControl {
    type Request = Request;
    type Completion = Completion;

    fn submit(&mut self, _now: Time, request: Request) {
        let requests = self.requests.as_ref().expect("open until dropped");
        requests.try_send(request).expect("the control thread takes what it is given");
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.as_ref()?.try_recv().ok()
    }
}

impl Drop for EtcdControl {
    fn drop(&mut self) {
        self.requests = None;
        self.completions = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// For commands that ask one thing after the other.
pub struct EtcdTool {
    runtime: Runtime,
    client: Client,
    transactions: u64,
}

impl EtcdTool {
    pub fn open(options: &EtcdOptions) -> Result<Self> {
        let runtime = runtime()?;
        let client = {
            let _within = runtime.enter();
            Client::new(options, "command", nonce()?)?
        };
        Ok(EtcdTool { runtime, client, transactions: 0 })
    }

    pub fn range(&self, prefix: &str) -> Result<(Vec<Entry>, Revision)> {
        let range = self.client.range(prefix, TOOL_PATIENCE);
        self.runtime.block_on(range).map_err(|status| anyhow!(self.client.reason(&status)))
    }

    pub fn commit(&mut self, transaction: &Transaction) -> Result<Revision> {
        Ok(self.try_commit(transaction)?)
    }

    pub fn try_commit(&mut self, transaction: &Transaction) -> Result<Revision, CommitError> {
        self.transactions += 1;
        let commit = self.client.commit(self.transactions, transaction, TOOL_PATIENCE);
        self.runtime.block_on(commit)
    }

    /// Writes as a monitor does.
    #[cfg(test)]
    pub fn open_fenced(options: &EtcdOptions) -> Result<Self> {
        let tool = EtcdTool::open(options)?;
        Ok(EtcdTool { client: tool.client.fenced(), ..tool })
    }
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn nonce() -> Result<u64> {
    let mut nonce = [0; 8];
    fill_random(&mut nonce)?;
    Ok(u64::from_le_bytes(nonce))
}
