//! Watches: registrations with an object that outlive sessions and maps.

use crate::locate::Target;
use crate::names::{OpId, Place, WatchId};
use bytes::Bytes;
use engine::{ConnId, Duration, Time};
use types::Errno;
use wire::OsdOp;
use wire::op::watch_op;
use wire::osd_op::WatchArguments;

/// Pings per watch timeout.
const PINGS: u32 = 3;

/// Event of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchEvent {
    /// A notification; the client answers with [`crate::Client::acknowledge`].
    Notified {
        /// The watch that was notified.
        watch: WatchId,
        /// Id of the notification, for the answer.
        notify_id: u64,
        /// Global id of the notifier.
        notifier: u64,
        /// The notifier's bytes.
        payload: Bytes,
    },
    /// The watch has ended; notifications may have been missed.
    Lost {
        /// The watch that has ended.
        watch: WatchId,
        /// ENOTCONN if the OSD has ended it, else the error of a registration or ping.
        error: Errno,
    },
}

#[derive(Debug)]
pub(crate) struct Watch {
    /// The object that is watched.
    pub place: Place,
    /// Silence after which the OSD ends the watch.
    pub timeout: Duration,
    /// Number of registrations, so that a reply to an earlier one is recognised.
    pub generation: u32,
    /// Target and session of the registration.
    pub registered: Option<(Target, ConnId)>,
    /// The registration or ping in flight.
    pub operation: Option<OpId>,
    /// Time of the next ping, if no operation is in flight.
    pub next_ping: Time,
    /// Time at which `operation` was sent.
    pub asked: Time,
    /// Time at which the newest confirmed registration or ping was sent.
    pub confirmed: Option<Time>,
}

impl Watch {
    /// A watch that was never registered.
    pub fn new(place: Place, timeout: Duration) -> Self {
        Watch {
            place,
            timeout,
            generation: 0,
            registered: None,
            operation: None,
            next_ping: Time::FAR_FUTURE,
            asked: Time::ZERO,
            confirmed: None,
        }
    }

    /// The OSD has confirmed the watch.
    pub fn confirm(&mut self, now: Time) {
        assert!(self.operation.is_some(), "a confirmation answers an operation");
        self.operation = None;
        self.confirmed = Some(self.asked);
        self.next_ping = now + self.ping_interval();
    }

    /// Time between a confirmation and the next ping.
    pub fn ping_interval(&self) -> Duration {
        self.timeout / PINGS
    }

    /// The operation that registers, pings or ends the watch.
    pub fn op(&self, id: WatchId, op: u8) -> OsdOp {
        OsdOp::watch(WatchArguments {
            cookie: id.0,
            op,
            generation: self.generation,
            timeout_seconds: u32::try_from(self.timeout.as_secs()).unwrap_or(u32::MAX),
        })
    }

    /// Code of the operation that registers the watch: the first time, or again.
    pub fn registration(&self) -> u8 {
        if self.generation == 0 { watch_op::WATCH } else { watch_op::RECONNECT }
    }
}
