//! The header's watch and the exclusive lock of an open image: what follows from their answers and from
//! notifications.

use super::header_watch::{DELAY, HeaderWatch};
use super::lock::{Acquisition, LockOutcome, ProxiedRequest};
use super::{Image, ImageEvent};
use crate::lock;
use crate::notify::{ClientId, Notification, ProxiedRequestId, Response};
use crate::object_map::ObjectMap;
use crate::{Error, Features, part};
use bytes::Bytes;
use engine::Duration;
use rados::{ClusterRequest, ClusterRequestId, ClusterResponse, WatchEvent, WatchId};
use types::Errno;

/// Delay before a watch is registered again that ended while it was being registered.
const DELAY_BEFORE_WATCH: Duration = Duration::from_millis(500);

impl Image {
    pub(super) fn begin_watch(&mut self) {
        self.watch = HeaderWatch::Registering;
        self.request(part::WATCH, 0, ClusterRequest::Watch(self.header.place()));
    }

    pub(super) fn end_watch(&mut self) {
        match std::mem::replace(&mut self.watch, HeaderWatch::None) {
            HeaderWatch::Watching(watch) => {
                self.request(part::UNWATCH, 0, ClusterRequest::Unwatch(watch))
            }
            _ => self.events.push_back(ImageEvent::Closed),
        }
        self.is_closing = false;
    }

    pub(super) fn watch_answered(&mut self, answer: Result<Option<WatchId>, Errno>) {
        // The OSD timed the watch out; no notification was missed, as requests wait for the registration.
        if answer == Err(Errno::NOTCONN) {
            return self.request(part::WATCH, DELAY, ClusterRequest::Wait(DELAY_BEFORE_WATCH));
        }
        self.watch = HeaderWatch::None;
        match answer {
            Ok(Some(watch)) => {
                self.watch = HeaderWatch::Watching(watch);
                self.lock.follow_watch(&self.header, watch);
                // Changes before the watch began were not announced here.
                self.read_header_again();
            }
            Ok(None) => self.fail(Error::cluster("watching the image", Errno::IO)),
            Err(Errno::BLOCKLISTED) => self.blocklisted(),
            Err(errno) => self.fail(Error::cluster("watching the image", errno)),
        }
        self.resume();
    }

    /// Handles an event of the image's watch; false if the watch is another one.
    pub fn handle_watch_event(&mut self, event: &WatchEvent) -> bool {
        match event {
            WatchEvent::Notified { watch, notify_id, payload, .. }
                if self.watch == HeaderWatch::Watching(*watch) =>
            {
                self.notified(*watch, *notify_id, payload);
                true
            }
            WatchEvent::Lost { watch, .. } if self.watch == HeaderWatch::Watching(*watch) => {
                self.begin_watch();
                true
            }
            _ => false,
        }
    }

    fn notified(&mut self, watch: WatchId, notify_id: u64, payload: &Bytes) {
        let mut reply = Bytes::new();
        match codec::decode_all("notification", payload) {
            Ok(Notification::HeaderUpdate) => self.read_header_again(),
            Ok(notification) => reply = self.lock_notified(&notification),
            Err(error) => tracing::warn!(%error, "a notification about an image does not decode"),
        }
        // The notifier may rely on that no later request ignores the notification.
        self.request(part::DROPPED, 0, ClusterRequest::Acknowledge { watch, notify_id, reply });
    }
}

impl Image {
    /// Acquires the exclusive lock at once and keeps it until the image is closed.
    pub fn keep_lock(&mut self) {
        self.lock.keep();
        self.resume();
    }

    /// True after [`Image::keep_lock`].
    pub fn keeps_lock(&self) -> bool {
        self.lock.is_kept()
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
            Some(key) => self.requests.is_write(key),
            None => self.lock.is_kept() && !self.is_closing,
        };
        if !is_wanted || !self.must_have_lock() || !self.is_ready() {
            return false;
        }
        if let HeaderWatch::Watching(watch) = self.watch {
            self.lock.begin_acquiring(self.header.clone(), watch);
        }
        true
    }

    fn release_lock(&mut self) {
        let Some(me) = self.lock.holder() else { return };
        self.set_map(None);
        self.lock.begin_release(self.header.clone(), me);
    }

    /// Applies watches that were registered during another change.
    fn catch_up_with_watch(&mut self) {
        if let HeaderWatch::Watching(watch) = self.watch {
            self.lock.follow_watch(&self.header, watch);
        }
    }

    pub(super) fn lock_answered(&mut self, id: ClusterRequestId, answer: ClusterResponse) {
        if self.lock.handle_response(id, answer) {
            self.advance_lock();
        }
    }

    fn advance_lock(&mut self) {
        match self.lock.poll_outcome(&mut self.outgoing) {
            Some(LockOutcome::Acquired(outcome)) => self.lock_taken(outcome),
            Some(LockOutcome::Worked(request, outcome)) => self.work_done(request, outcome),
            Some(LockOutcome::Renewed(outcome, watch)) => self.lock_renewed(outcome, watch),
            Some(LockOutcome::Released(outcome)) => self.lock_changed(outcome),
            None => {}
        }
    }

    fn lock_taken(&mut self, outcome: Result<Acquisition, Error>) {
        match outcome {
            Ok(Acquisition::Acquired(me, header, map)) => {
                self.lock.acquired(me);
                // The previous owner may have removed objects.
                self.existence.forget();
                let notification = lock::notification(&header, Notification::AcquiredLock(me));
                self.request(part::DROPPED, 0, notification);
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
        match outcome {
            Ok(is_held) => {
                if !is_held || !self.lock.renewed(watch) {
                    self.lose_lock(None);
                }
            }
            Err(error) => self.lose_lock(Some(error)),
        }
        self.catch_up_with_watch();
        self.drain();
        self.resume();
    }

    /// Fails writes that have begun: they must not continue without the lock and its object map.
    fn lose_lock(&mut self, error: Option<Error>) {
        self.lock.lose();
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
        self.failure.clone().or_else(|| self.lock.is_lost().then(lost))
    }

    /// Exchanges the object map that comes and goes with the lock.
    fn set_map(&mut self, map: Option<ObjectMap>) {
        self.map.set(map);
    }

    fn lock_changed(&mut self, outcome: Result<(), Error>) {
        if let Err(error) = outcome {
            self.fail(error);
        }
        self.resume();
    }

    /// Fails the writes that waited for the lock; a later write tries again.
    fn lock_refused(&mut self, error: Error) {
        if self.lock.is_kept() || error.errno() == Errno::BLOCKLISTED {
            self.fail(error.clone());
        }
        for key in self.requests.take_held() {
            match self.requests.is_write(key) {
                true => self.refuse(key, error.clone()),
                false => self.requests.hold(key),
            }
        }
        self.resume();
    }

    pub(super) fn drain(&mut self) {
        let is_idle = !self.requests.has_writes() && !self.map.is_busy();
        if is_idle && self.lock.is_draining() {
            match self.lock.next_work() {
                Some(request) => self.work(request),
                None => self.release_lock(),
            }
        }
    }

    /// Releases the lock to a client that requests it, once no write needs it.
    pub(super) fn yield_lock_if_requested(&mut self) {
        if self.lock.is_wanted_by_others() {
            self.yield_lock();
        }
    }

    /// Performs maintenance; requests wait, and no other client writes.
    fn work(&mut self, request: ProxiedRequest) {
        self.lock.begin_work(self.header.clone(), request);
        // A task that was refused has completed already.
        self.advance_lock();
    }

    fn work_done(&mut self, request: ProxiedRequestId, outcome: Result<Acquisition, Error>) {
        let result = outcome.as_ref().err().map_or(0, |error| error.errno().negative());
        let notification = Notification::Complete { request, result };
        self.request(part::DROPPED, 0, lock::notification(&self.header, notification));
        match outcome {
            Ok(Acquisition::Acquired(_, header, map)) => {
                self.take_header(*header);
                self.set_map(map);
            }
            Ok(Acquisition::NotYet) => {}
            Err(error) => {
                let image = &self.header.spec;
                tracing::warn!(%image, %error, "maintenance that another client requested has failed");
                // Parts that were changed before the failure are read again with the lock.
                self.lock.begin_draining();
                self.drain();
            }
        }
        self.catch_up_with_watch();
        self.resume();
    }

    /// Begins the release; false if the lock is not held.
    pub(super) fn yield_lock(&mut self) -> bool {
        if !self.lock.is_held() {
            self.lock.set_requested(false);
            return false;
        }
        if !self.lock.is_changing() {
            self.lock.begin_draining();
            self.drain();
        }
        true
    }

    /// The answer to a notification about the lock.
    pub(super) fn lock_notified(&mut self, notification: &Notification) -> Bytes {
        match notification {
            Notification::RequestLock { from, .. } => self.lock_requested(*from),
            Notification::ReleasedLock(_) => {
                if self.lock.end_delay() {
                    self.advance_lock();
                }
                Bytes::new()
            }
            // A client that cannot get the lock has its maintenance done by the owner.
            Notification::Proxied { request, action }
                if self.lock.is_held() && self.lock.is_kept() =>
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
        let Some(is_new) = self.lock.queue_work(request) else {
            return Response(Errno::TIMEDOUT.negative()).encoded();
        };
        if is_new {
            self.resume();
        }
        Response(0).encoded()
    }

    fn lock_requested(&mut self, from: ClientId) -> Bytes {
        if !self.lock.is_held() || self.lock.is_held_by(from) {
            return Bytes::new();
        }
        if self.lock.is_kept() {
            return Response(Errno::ROFS.negative()).encoded();
        }
        self.lock.set_requested(true);
        self.resume();
        Response(0).encoded()
    }

    pub(super) fn blocklisted(&mut self) {
        let error = lock::blocklisted(&self.header);
        self.fail(error);
    }
}
