//! The exclusive lock of an open image: acquired for the first write, released when another client requests
//! it, and acquired again for the next write.
//!
//! Requests wait while it is being acquired or released, so that each sees the image as its owner does.

use super::Image;
use super::header_watch::HeaderWatch;
use crate::header::{self, Header};
use crate::lock::{self, Attempt};
use crate::notify::{ClientId, Maintenance, Notification, ProxiedRequestId, Response};
use crate::object_map::{self, ObjectMap};
use crate::part;
use crate::task::Task;
use crate::{Error, Features};
use bytes::Bytes;
use engine::Duration;
use rados::{ClusterRequest, ClusterRequestId, ClusterResponse, RequestSource, Steps, WatchId};
use std::collections::VecDeque;
use types::Errno;

/// Delay before a client that was asked to release the lock tries to acquire it again.
const REST_AFTER_YIELD: Duration = Duration::from_millis(100);
/// Queued maintenance requests of other clients; beyond that the requester is told to retry.
const PROXIED_MAX: usize = 16;
/// Bits of a request's number that belong to the task.
const NUMBER_BITS: u32 = 32;

#[derive(Debug)]
pub(super) enum Change {
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
pub(super) struct Renewal {
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

/// Maintenance requested by a client that does not hold the lock.
#[derive(Debug, Clone)]
struct ProxiedRequest {
    id: ProxiedRequestId,
    action: Maintenance,
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
    is_asked_for: bool,
    /// Maintenance that other clients wait for, as they cannot get the lock.
    proxied: VecDeque<ProxiedRequest>,
    /// The lock was released because another client requested it.
    has_yielded: bool,
    /// Number of the current change; tells the requests of successive changes apart.
    generation: u64,
    /// Write requests in flight.
    writes: usize,
}

impl Lock {
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    pub fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    fn poll_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)> {
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
}

impl Image {
    /// Acquires the exclusive lock at once and keeps it until the image is closed.
    pub fn keep_lock(&mut self) {
        self.lock.is_kept = true;
        self.resume();
    }

    pub fn keeps_lock(&self) -> bool {
        self.lock.is_kept
    }

    /// True if this client is the only one that may write.
    pub fn has_lock(&self) -> bool {
        self.lock.is_held()
    }

    fn must_have_lock(&self) -> bool {
        self.is_writable
            && self.failure.is_none()
            && self.header.features.contains(Features::EXCLUSIVE_LOCK)
            && !self.lock.is_held()
    }

    /// Acquires the lock if a request, or the image itself, needs it; true if it does.
    pub(super) fn needs_lock_first(&mut self, key: Option<u64>) -> bool {
        let is_wanted = match key {
            Some(key) => self.requests.get(key).is_some_and(|pending| pending.writes()),
            None => self.lock.is_kept && !self.is_closing,
        };
        if !is_wanted || !self.must_have_lock() || !self.is_ready() {
            return false;
        }
        self.take_lock();
        true
    }

    fn change_lock(&mut self, change: Change) {
        self.lock.generation += 1;
        self.lock.change = Some(change);
    }

    fn take_lock(&mut self) {
        let HeaderWatch::Watching(watch) = self.watch else { return };
        let header = self.header.clone();
        let rest = std::mem::take(&mut self.lock.has_yielded).then_some(REST_AFTER_YIELD);
        self.change_lock(Change::Acquiring(Task::new(async move |steps| {
            if let Some(rest) = rest {
                steps.wait(rest).await;
            }
            match lock::attempt(&steps, &header, watch).await? {
                Attempt::NotYet => Ok(Acquisition::NotYet),
                Attempt::Taken(me) => read_or_release(&steps, &header, me).await,
            }
        })));
    }

    fn release_lock(&mut self) {
        let Some(me) = self.lock.held else { return };
        let header = self.header.clone();
        self.set_map(None);
        self.change_lock(Change::Releasing(Task::new(async move |steps| {
            object_map::close(&steps, &header).await?;
            lock::release(&steps, &header, WatchId(me.handle)).await?;
            steps.send(lock::notification(&header, Notification::ReleasedLock(me)));
            Ok(())
        })));
    }

    /// The cookie of the lock must name the new watch: an owner without a watch is taken for dead.
    pub(super) fn watch_changed(&mut self, watch: WatchId) {
        let Some(me) = self.lock.held.filter(|me| me.handle != watch.0) else { return };
        let is_draining = matches!(self.lock.change, Some(Change::Draining));
        // A lock that is being released needs no new cookie; after other changes the cookie is checked again.
        if self.lock.is_changing() && !is_draining {
            return;
        }
        let (header, old) = (self.header.clone(), WatchId(me.handle));
        let task = Task::new(async move |steps| lock::renew(&steps, &header, old, watch).await);
        self.change_lock(Change::Renewing(Renewal { task, watch, is_draining }));
    }

    /// Applies watches that were registered during another change.
    fn catch_up_with_watch(&mut self) {
        if let HeaderWatch::Watching(watch) = self.watch {
            self.watch_changed(watch);
        }
    }

    pub(super) fn poll_lock_request(&mut self) -> Option<(ClusterRequestId, ClusterRequest)> {
        self.lock.poll_request()
    }

    pub(super) fn lock_answered(&mut self, id: ClusterRequestId, answer: ClusterResponse) {
        if id.number >> NUMBER_BITS != self.lock.generation {
            return;
        }
        let id =
            ClusterRequestId { part: part::TASK, number: id.number & ((1 << NUMBER_BITS) - 1) };
        match &mut self.lock.change {
            Some(Change::Acquiring(task) | Change::Working(task, _)) => {
                task.handle_response(id, answer)
            }
            Some(Change::Renewing(renewal)) => renewal.task.handle_response(id, answer),
            Some(Change::Releasing(task)) => task.handle_response(id, answer),
            Some(Change::Draining) | None => {}
        }
        self.advance_lock();
    }

    fn advance_lock(&mut self) {
        match &mut self.lock.change {
            Some(Change::Acquiring(task)) => {
                if let Some(outcome) = task.poll_outcome() {
                    self.outgoing.extend(final_requests(task));
                    self.lock.change = None;
                    self.lock_taken(outcome);
                }
            }
            Some(Change::Working(task, request)) => {
                let request = *request;
                if let Some(outcome) = task.poll_outcome() {
                    self.lock.change = None;
                    self.work_done(request, outcome);
                }
            }
            Some(Change::Renewing(renewal)) => {
                let watch = renewal.watch;
                if let Some(outcome) = renewal.task.poll_outcome() {
                    self.lock.change = renewal.is_draining.then_some(Change::Draining);
                    self.lock_renewed(outcome, watch);
                }
            }
            Some(Change::Releasing(task)) => {
                if let Some(outcome) = task.poll_outcome() {
                    self.outgoing.extend(final_requests(task));
                    (self.lock.change, self.lock.held) = (None, None);
                    self.lock.has_yielded = std::mem::take(&mut self.lock.is_asked_for);
                    self.lock_changed(outcome);
                }
            }
            Some(Change::Draining) | None => {}
        }
    }

    fn lock_taken(&mut self, outcome: Result<Acquisition, Error>) {
        match outcome {
            Ok(Acquisition::Acquired(me, header, map)) => {
                (self.lock.held, self.lock.is_lost) = (Some(me), false);
                // The previous owner may have removed objects.
                self.existence.forget();
                let told = lock::notification(&header, Notification::AcquiredLock(me));
                self.request(part::DROPPED, 0, told);
                self.take_header(*header);
                self.set_map(map);
                self.catch_up_with_watch();
                self.resume();
            }
            Ok(Acquisition::NotYet) => self.resume(),
            Err(error) => self.lock_refused(error),
        }
    }

    fn lock_renewed(&mut self, outcome: Result<bool, Error>, watch: WatchId) {
        match (&outcome, &mut self.lock.held) {
            (Ok(true), Some(me)) => me.handle = watch.0,
            (Err(error), _) => self.lose_lock(Some(error.clone())),
            _ => self.lose_lock(None),
        }
        self.catch_up_with_watch();
        self.drain();
        self.resume();
    }

    /// Fails writes that have begun: they must not continue without the lock and its object map.
    fn lose_lock(&mut self, error: Option<Error>) {
        (self.lock.held, self.lock.change, self.lock.is_lost) = (None, None, true);
        if let Some(error) = error {
            self.fail(error);
        }
        self.abandon_map();
    }

    /// The reason why objects must not be changed now, if there is one.
    pub(super) fn write_obstacle(&self) -> Option<Error> {
        let lost = || {
            let image = &self.header.spec;
            let text = format!(
                "the exclusive lock of {image} was taken away during a write (`rbd lock ls` names \
                 its owner); write again"
            );
            Error::cluster(text, Errno::BUSY)
        };
        self.failure.clone().or_else(|| self.lock.is_lost.then(lost))
    }

    fn lock_changed(&mut self, outcome: Result<(), Error>) {
        if let Err(error) = outcome {
            self.fail(error);
        }
        self.resume();
    }

    /// Fails the writes that waited for the lock; a later write tries again.
    fn lock_refused(&mut self, error: Error) {
        if self.lock.is_kept || error.errno() == Errno::BLOCKLISTED {
            self.fail(error.clone());
        }
        for key in std::mem::take(&mut self.held) {
            match self.requests.get(key) {
                Some(pending) if pending.writes() => self.refuse(key, error.clone()),
                _ => self.held.push_back(key),
            }
        }
        self.resume();
    }

    /// Counts a write request in or out.
    pub(super) fn write_begun(&mut self) {
        self.lock.writes += 1;
    }

    pub(super) fn write_ended(&mut self) {
        self.lock.writes -= 1;
        self.drain();
    }

    pub(super) fn drain(&mut self) {
        let is_idle = self.lock.writes == 0 && !self.map.is_busy();
        if is_idle && matches!(self.lock.change, Some(Change::Draining)) {
            match self.lock.proxied.pop_front() {
                Some(request) => self.work(request),
                None => self.release_lock(),
            }
        }
    }

    /// Releases the lock to a client that requests it, once no write needs it.
    pub(super) fn yield_lock_if_asked(&mut self) {
        if self.lock.is_asked_for || !self.lock.proxied.is_empty() {
            self.yield_lock();
        }
    }

    /// Performs maintenance; requests wait, and no other client writes.
    fn work(&mut self, request: ProxiedRequest) {
        let (header, me) = (self.header.clone(), self.lock.held.unwrap_or_default());
        let task = Task::new(async move |steps| {
            crate::maintenance::maintain(&steps, &header, &request.action).await?;
            read_as_owner(&steps, &header, me).await
        });
        self.change_lock(Change::Working(task, request.id));
        // A task that was refused has completed already.
        self.advance_lock();
    }

    fn work_done(&mut self, request: ProxiedRequestId, outcome: Result<Acquisition, Error>) {
        let result = outcome.as_ref().err().map_or(0, |error| error.errno().negative());
        let told = Notification::Complete { request, result };
        self.request(part::DROPPED, 0, lock::notification(&self.header, told));
        match outcome {
            Ok(Acquisition::Acquired(_, header, map)) => {
                self.take_header(*header);
                self.set_map(map);
            }
            Ok(Acquisition::NotYet) => {}
            Err(error) => {
                let image = &self.header.spec;
                tracing::warn!(%image, %error, "what another client asked for was not done");
                // Parts that were changed before the failure are read again with the lock.
                self.change_lock(Change::Draining);
                self.drain();
            }
        }
        self.catch_up_with_watch();
        self.resume();
    }

    /// Begins the release; false if the lock is not held.
    pub(super) fn yield_lock(&mut self) -> bool {
        if !self.lock.is_held() {
            self.lock.is_asked_for = false;
            return false;
        }
        if !self.lock.is_changing() {
            self.change_lock(Change::Draining);
            self.drain();
        }
        true
    }

    /// The answer to a notification about the lock.
    pub(super) fn lock_notified(&mut self, notification: &Notification) -> Bytes {
        match notification {
            Notification::RequestLock { from, .. } => self.lock_requested(*from),
            Notification::ReleasedLock(_) => {
                if let Some(Change::Acquiring(task)) = &mut self.lock.change {
                    task.end_delay();
                    self.advance_lock();
                }
                Bytes::new()
            }
            // A client that cannot get the lock has its maintenance done by the owner.
            Notification::Proxied { request, action }
                if self.lock.is_held() && self.lock.is_kept =>
            {
                self.proxied(ProxiedRequest { id: *request, action: action.clone() })
            }
            // The peer then requests the lock and does the maintenance itself.
            other if other.is_for_owner() && self.lock.is_held() => {
                Response(Errno::NOTSUPP.negative()).encoded()
            }
            _ => Bytes::new(),
        }
    }

    /// Queues maintenance. A requester repeats its request if it gets no completion for long.
    fn proxied(&mut self, request: ProxiedRequest) -> Bytes {
        let is_working =
            matches!(&self.lock.change, Some(Change::Working(_, id)) if *id == request.id);
        let is_known = is_working || self.lock.proxied.iter().any(|other| other.id == request.id);
        if !is_known && self.lock.proxied.len() >= PROXIED_MAX {
            return Response(Errno::TIMEDOUT.negative()).encoded();
        }
        if !is_known {
            self.lock.proxied.push_back(request);
            self.resume();
        }
        Response(0).encoded()
    }

    fn lock_requested(&mut self, from: ClientId) -> Bytes {
        if !self.lock.is_held() || self.lock.held == Some(from) {
            return Bytes::new();
        }
        if self.lock.is_kept {
            return Response(Errno::ROFS.negative()).encoded();
        }
        self.lock.is_asked_for = true;
        self.resume();
        Response(0).encoded()
    }

    pub(super) fn blocklisted(&mut self) {
        let error = lock::blocklisted(&self.header);
        self.fail(error);
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
    let told = std::iter::from_fn(|| task.poll_request());
    told.map(|(_, request)| (ClusterRequestId::DROPPED, request))
}
