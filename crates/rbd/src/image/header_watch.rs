//! The watch on the header, and notifications that arrive over it.

use super::{Image, ImageEvent};
use crate::Error;
use crate::notify::Notification;
use crate::part;
use bytes::Bytes;
use engine::Duration;
use rados::{ClusterRequest, WatchEvent, WatchId};
use types::Errno;

/// Delay before a watch is registered again that ended while it was being registered.
const REST_BEFORE_WATCH: Duration = Duration::from_millis(500);
/// Number of the request that waits for this delay.
pub(super) const REST: u64 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderWatch {
    /// An image that is open for reading only does not watch.
    None,
    Registering,
    Watching(WatchId),
}

impl HeaderWatch {
    /// True unless a registration is in progress, in which notifications could be missed.
    pub fn is_settled(self) -> bool {
        self != HeaderWatch::Registering
    }
}

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
            return self.request(part::WATCH, REST, ClusterRequest::Wait(REST_BEFORE_WATCH));
        }
        self.watch = HeaderWatch::None;
        match answer {
            Ok(Some(watch)) => {
                self.watch = HeaderWatch::Watching(watch);
                self.watch_changed(watch);
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
