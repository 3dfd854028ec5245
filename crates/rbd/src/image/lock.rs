//! The exclusive lock of an open image: acquired for the first write, released when another client requests
//! it, and acquired again for the next write.
//!
//! Requests wait while it is being acquired or released, so that each sees the image as its owner does.

use crate::Error;
use crate::header::{self, Header};
use crate::lock::{self, Attempt};
use crate::notify::{ClientId, Maintenance, Notification, ProxiedRequestId};
use crate::object_map::{self, ObjectMap};
use crate::part;
use crate::task::Task;
use engine::Duration;
use rados::{ClusterRequest, ClusterRequestId, ClusterResponse, RequestSource, Steps, WatchId};
use std::collections::VecDeque;

/// Delay before a client that was asked to release the lock tries to acquire it again.
const DELAY_AFTER_YIELD: Duration = Duration::from_millis(100);
/// Queued maintenance requests of other clients; beyond that the requester is answered that it must retry.
const PROXIED_MAX: usize = 16;
/// Bits of a request's number that belong to the task.
const NUMBER_BITS: u32 = 32;

#[derive(Debug)]
enum Change {
    Acquiring(Task<Acquisition>),
    Renewing(Renewal),
    /// Performs maintenance that another client requested from the lock owner.
    Working(Task<Acquisition>, ProxiedRequestId),
    /// Waits for writes in flight before the release.
    Draining,
    Releasing(Task<()>),
}

/// The lock's cookie is changed to that of a new watch.
#[derive(Debug)]
struct Renewal {
    task: Task<bool>,
    watch: WatchId,
    /// A release was pending when the watch changed.
    is_draining: bool,
}

/// Result of an attempt to acquire the lock; on success with the header as the previous owner left it.
#[derive(Debug)]
pub(super) enum Acquisition {
    Acquired(ClientId, Box<Header>, Option<ObjectMap>),
    NotYet,
}

/// Result of a change of the lock's state.
#[derive(Debug)]
pub(super) enum LockOutcome {
    Acquired(Result<Acquisition, Error>),
    Worked(ProxiedRequestId, Result<Acquisition, Error>),
    Renewed(Result<bool, Error>, WatchId),
    Released(Result<(), Error>),
}

/// Maintenance requested by a client that does not hold the lock.
#[derive(Debug, Clone)]
pub(super) struct ProxiedRequest {
    /// Id under which the requester waits for the completion.
    pub id: ProxiedRequestId,
    /// Maintenance to perform.
    pub action: Maintenance,
}

#[derive(Debug, Default)]
pub(super) struct Lock {
    /// The watch under which the lock is held, with this client's id.
    held: Option<ClientId>,
    /// The lock was broken, perhaps with writes in flight, and not acquired again since.
    is_lost: bool,
    change: Option<Change>,
    /// The lock is not released while the image is open.
    is_kept: bool,
    /// Another client requests the lock.
    is_requested: bool,
    /// Maintenance that other clients wait for, as they cannot get the lock.
    proxied: VecDeque<ProxiedRequest>,
    /// The lock was released because another client requested it.
    has_yielded: bool,
    /// Number of the current change; tells the requests of successive changes apart.
    generation: u64,
}

impl Lock {
    /// True if this client owns the lock.
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// True while the lock is acquired, renewed or released, or maintenance is performed under it.
    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// The next request of the current change, numbered so that its response finds the change.
    pub fn poll_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)> {
        let (id, request) = match self.change.as_mut()? {
            Change::Acquiring(task) | Change::Working(task, _) => task.poll_request()?,
            Change::Renewing(renewal) => renewal.task.poll_request()?,
            Change::Releasing(task) => task.poll_request()?,
            Change::Draining => return None,
        };
        let part = if id.part == part::DROPPED { part::DROPPED } else { part::LOCK };
        Some((
            ClusterRequestId { part, number: self.generation << NUMBER_BITS | id.number },
            request,
        ))
    }

    /// True if the lock was broken and not acquired again since.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// True if the lock is not released on request.
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Refuses to release the lock from now on.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    /// True if the client is this one, with the watch under which the lock is held.
    pub fn is_held_by(&self, client: ClientId) -> bool {
        self.held == Some(client)
    }

    /// True if the lock is released as soon as no write is in flight.
    pub fn is_draining(&self) -> bool {
        matches!(self.change, Some(Change::Draining))
    }

    /// True if another client waits for the lock, or for maintenance.
    pub fn is_wanted_by_others(&self) -> bool {
        self.is_requested || !self.proxied.is_empty()
    }

    /// Another client requests the lock, or does not any more.
    pub fn set_requested(&mut self, is_requested: bool) {
        self.is_requested = is_requested;
    }

    fn begin(&mut self, change: Change) {
        self.generation += 1;
        self.change = Some(change);
    }

    /// Begins to acquire the lock. No change may be in progress.
    pub fn begin_acquiring(&mut self, header: Header, watch: WatchId) {
        let rest = std::mem::take(&mut self.has_yielded).then_some(DELAY_AFTER_YIELD);
        self.begin(Change::Acquiring(Task::new(async move |steps| {
            if let Some(rest) = rest {
                steps.wait(rest).await;
            }
            match lock::attempt(&steps, &header, watch).await? {
                Attempt::NotYet => Ok(Acquisition::NotYet),
                Attempt::Acquired(me) => read_or_release(&steps, &header, me).await,
            }
        })));
    }

    /// Waits for writes in flight, and then releases the lock.
    pub fn begin_draining(&mut self) {
        self.begin(Change::Draining);
    }

    /// The client as which the lock is held.
    pub fn holder(&self) -> Option<ClientId> {
        self.held
    }

    /// Begins to release the lock. No write may be in flight.
    pub fn begin_release(&mut self, header: Header, me: ClientId) {
        self.begin(Change::Releasing(Task::new(async move |steps| {
            object_map::close(&steps, &header).await?;
            lock::release(&steps, &header, WatchId(me.handle)).await?;
            steps.send(lock::notification(&header, Notification::ReleasedLock(me)));
            Ok(())
        })));
    }

    /// Begins maintenance for another client; requests wait, and no other client writes.
    pub fn begin_work(&mut self, header: Header, request: ProxiedRequest) {
        let me = self.held.unwrap_or_default();
        let task = Task::new(async move |steps| {
            crate::maintenance::maintain(&steps, &header, &request.action).await?;
            read_as_owner(&steps, &header, me).await
        });
        self.begin(Change::Working(task, request.id));
    }

    /// The cookie of the lock must name the new watch: an owner without a watch is taken for dead.
    pub fn follow_watch(&mut self, header: &Header, watch: WatchId) {
        let Some(me) = self.held.filter(|me| me.handle != watch.0) else { return };
        let is_draining = self.is_draining();
        // A lock that is being released needs no new cookie; after other changes the cookie is checked again.
        if self.is_changing() && !is_draining {
            return;
        }
        let (header, old) = (header.clone(), WatchId(me.handle));
        let task = Task::new(async move |steps| lock::renew(&steps, &header, old, watch).await);
        self.begin(Change::Renewing(Renewal { task, watch, is_draining }));
    }

    /// Handles the response to a request of the current change; false if the request is an older one's.
    pub fn handle_response(&mut self, id: ClusterRequestId, answer: ClusterResponse) -> bool {
        if id.number >> NUMBER_BITS != self.generation {
            return false;
        }
        let id =
            ClusterRequestId { part: part::TASK, number: id.number & ((1 << NUMBER_BITS) - 1) };
        match &mut self.change {
            Some(Change::Acquiring(task) | Change::Working(task, _)) => {
                task.handle_response(id, answer)
            }
            Some(Change::Renewing(renewal)) => renewal.task.handle_response(id, answer),
            Some(Change::Releasing(task)) => task.handle_response(id, answer),
            Some(Change::Draining) | None => {}
        }
        true
    }

    /// The outcome of the current change once it is over, after its last requests were queued.
    pub fn poll_outcome(
        &mut self,
        outgoing: &mut VecDeque<(ClusterRequestId, ClusterRequest)>,
    ) -> Option<LockOutcome> {
        match self.change.as_mut()? {
            Change::Acquiring(task) => {
                let outcome = task.poll_outcome()?;
                outgoing.extend(final_requests(task));
                self.change = None;
                Some(LockOutcome::Acquired(outcome))
            }
            Change::Working(task, request) => {
                let request = *request;
                let outcome = task.poll_outcome()?;
                self.change = None;
                Some(LockOutcome::Worked(request, outcome))
            }
            Change::Renewing(renewal) => {
                let watch = renewal.watch;
                let outcome = renewal.task.poll_outcome()?;
                self.change = renewal.is_draining.then_some(Change::Draining);
                Some(LockOutcome::Renewed(outcome, watch))
            }
            Change::Releasing(task) => {
                let outcome = task.poll_outcome()?;
                outgoing.extend(final_requests(task));
                (self.change, self.held) = (None, None);
                self.has_yielded = std::mem::take(&mut self.is_requested);
                Some(LockOutcome::Released(outcome))
            }
            Change::Draining => None,
        }
    }

    /// The lock has been acquired under this client id.
    pub fn acquired(&mut self, me: ClientId) {
        (self.held, self.is_lost) = (Some(me), false);
    }

    /// Notes that the lock names another watch; false if it is not held.
    pub fn renewed(&mut self, watch: WatchId) -> bool {
        let Some(me) = &mut self.held else { return false };
        me.handle = watch.0;
        true
    }

    /// The lock was broken by another client.
    pub fn lose(&mut self) {
        (self.held, self.change, self.is_lost) = (None, None, true);
    }

    /// Ends the delay before the next attempt; false if the lock is not being acquired.
    pub fn end_delay(&mut self) -> bool {
        let Some(Change::Acquiring(task)) = &mut self.change else { return false };
        task.end_delay();
        true
    }

    /// Queues maintenance; `None` if too much waits, and true if it was not known before.
    pub fn queue_work(&mut self, request: ProxiedRequest) -> Option<bool> {
        let is_working = matches!(&self.change, Some(Change::Working(_, id)) if *id == request.id);
        let is_known = is_working || self.proxied.iter().any(|other| other.id == request.id);
        if !is_known && self.proxied.len() >= PROXIED_MAX {
            return None;
        }
        if !is_known {
            self.proxied.push_back(request);
        }
        Some(!is_known)
    }

    /// The oldest maintenance request in the queue.
    pub fn next_work(&mut self) -> Option<ProxiedRequest> {
        self.proxied.pop_front()
    }

    /// Panics if the state contradicts itself.
    pub fn check_invariants(&self, has_writes: bool) {
        assert!(self.proxied.len() <= PROXIED_MAX);
        assert!(!(self.is_held() && self.is_lost), "the lock is both held and lost");
        match &self.change {
            Some(Change::Acquiring(_)) => assert!(!self.is_held(), "a held lock is acquired"),
            Some(Change::Working(..) | Change::Releasing(_)) => {
                assert!(self.is_held() && !has_writes, "writes are in flight without the lock");
            }
            Some(Change::Draining | Change::Renewing(_)) => assert!(self.is_held()),
            None => {}
        }
    }
}

/// Reads the image as the previous owner left it; releases the lock again if that fails.
async fn read_or_release(
    steps: &Steps,
    header: &Header,
    me: ClientId,
) -> Result<Acquisition, Error> {
    let outcome = read_as_owner(steps, header, me).await;
    if outcome.is_err() {
        // The first error is the one worth reporting.
        let _ = lock::release(steps, header, WatchId(me.handle)).await;
        steps.send(lock::notification(header, Notification::ReleasedLock(me)));
    }
    outcome
}

async fn read_as_owner(steps: &Steps, header: &Header, me: ClientId) -> Result<Acquisition, Error> {
    let header = header::with_ancestors(steps, async || {
        header::read_with_id(steps, &header.spec, header.id.clone()).await
    })
    .await?;
    let map = object_map::open(steps, &header).await?;
    Ok(Acquisition::Acquired(me, Box::new(header), map))
}

/// Notifications that a completed task still has to send.
fn final_requests<T>(
    task: &mut Task<T>,
) -> impl Iterator<Item = (ClusterRequestId, ClusterRequest)> {
    let notification = std::iter::from_fn(|| task.poll_request());
    notification.map(|(_, request)| (ClusterRequestId::DROPPED, request))
}
