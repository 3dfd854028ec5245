//! The monitor's storage on etcd, on a thread of its own.
//!
//! The thread runs an asynchronous loop; the monitor hands it requests and takes completions by two
//! queues. Transactions and leases are asked for independently of each other. A load ends the watch
//! that was, and begins one behind the revision that it shows, so that changes follow without a gap.

use crate::client::{COMMIT_PATIENCE, Client};
use crate::follow;
use crate::options::EtcdOptions;
use crate::outbox::Outbox;
use crate::tool::runtime;
use anyhow::{Context, Result};
use control::{Completion, LeaseId, Observer, Request};
use engine::{Storage, Time};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, LocalSet, spawn_local};

/// Requests and completions under way; the monitor has a handful.
const QUEUE_CAPACITY: usize = 4096;

/// The monitor's storage: a thread that speaks to etcd.
pub struct EtcdControl {
    /// Both are there until the end.
    requests: Option<mpsc::Sender<Request>>,
    completions: Option<Receiver<Completion>>,
    thread: Option<JoinHandle<()>>,
}

impl EtcdControl {
    /// `writer` names this monitor among those that share the store. `wake` is called when there is
    /// something to poll.
    ///
    /// # Errors
    ///
    /// If the options contradict each other, or name files that cannot be read.
    pub fn open(
        options: &EtcdOptions,
        writer: &str,
        observer: Option<Box<dyn Observer>>,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self> {
        options.check()?;
        let nonce = machine::random_u64()?;
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
                let out = Outbox::new(done, wake, observer);
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
        out.note_request(&request);
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
                    out.send(Completion::Committed { token, outcome });
                });
            }
            Request::Grant { token, ttl } => {
                let leases = leases.clone();
                spawn_local(async move {
                    let outcome = client.grant(ttl).await;
                    leases.borrow_mut().extend(outcome.as_ref().ok());
                    out.send(Completion::Leased { token, outcome });
                });
            }
            Request::Renew { token, lease } => {
                spawn_local(async move {
                    let outcome = client.renew(lease).await;
                    out.send(Completion::Leased { token, outcome });
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
