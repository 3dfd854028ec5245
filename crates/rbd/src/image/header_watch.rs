//! Watching the header, and what others say there.

use super::{Image, ImageEvent};
use crate::Error;
use crate::notify::Notification;
use crate::steps::{Ask, Part};
use bytes::Bytes;
use engine::Duration;
use rados::{WatchEvent, WatchId};
use types::Errno;

/// Before a watch that ended while it began is begun anew.
const REST_BEFORE_WATCH: Duration = Duration::from_millis(500);
/// The number of the question that lets this time pass.
pub(super) const REST: u64 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderWatch {
    /// Who only reads does not watch.
    None,
    Registering,
    Watching(WatchId),
}

impl HeaderWatch {
    /// Whether nothing that is said can be missed.
    pub fn is_settled(self) -> bool {
        self != HeaderWatch::Registering
    }
}

impl Image {
    pub(super) fn begin_watch(&mut self) {
        self.watch = HeaderWatch::Registering;
        self.ask(Part::Watch, 0, Ask::Watch(self.header.place()));
    }

    pub(super) fn end_watch(&mut self) {
        match std::mem::replace(&mut self.watch, HeaderWatch::None) {
            HeaderWatch::Watching(watch) => self.ask(Part::Unwatch, 0, Ask::Unwatch(watch)),
            _ => self.events.push_back(ImageEvent::Closed),
        }
        self.is_closing = false;
    }

    pub(super) fn watch_answered(&mut self, answer: Result<Option<WatchId>, Errno>) {
        // The OSD did not hear of us for too long; nothing was missed, as requests wait.
        if answer == Err(Errno::NOTCONN) {
            return self.ask(Part::Watch, REST, Ask::Wait(REST_BEFORE_WATCH));
        }
        self.watch = HeaderWatch::None;
        match answer {
            Ok(Some(watch)) => {
                self.watch = HeaderWatch::Watching(watch);
                self.watch_changed(watch);
                // What changed before it began was told to nobody here.
                self.read_header_again();
            }
            Ok(None) => self.fail(Error::cluster("watching the image", Errno::IO)),
            Err(Errno::BLOCKLISTED) => self.blocklisted(),
            Err(errno) => self.fail(Error::cluster("watching the image", errno)),
        }
        self.go_on();
    }

    /// What the client was told of a watch; false if the watch is not this image's.
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
        // Whoever notified may rely on it that no request ignores what was said.
        self.ask(Part::Nobody, 0, Ask::Acknowledge { watch, notify_id, reply });
    }
}
