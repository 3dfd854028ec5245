//! Watch and notify: the message to watchers, and the payloads of the operations.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use engine::Message;
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityAddr, ParticipantName};

/// `CEPH_WATCH_EVENT_*`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WatchEvent {
    /// A notification; the watcher acknowledges with `NOTIFY_ACK`.
    #[default]
    Notify = 1,
    /// To the notifier: all watchers have acknowledged, or the time is up.
    NotifyComplete = 2,
    /// The watch has ended.
    Disconnect = 3,
}

/// `MWatchNotify`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchNotify {
    /// Event.
    pub event: WatchEvent,
    /// Cookie of the watcher (in completions, of the notifier).
    pub cookie: u64,
    /// User version of the object; 0 here.
    pub version: u64,
    /// The OSD's id of the notification.
    pub notify_id: u64,
    /// Payload of the notification.
    pub payload: Bytes,
    /// In completions: 0 or a negative errno.
    pub result: i32,
    /// Global id of the notifier.
    pub notifier: u64,
    /// In completions an encoded [`NotifyResult`]; travels in the data segment.
    pub outcome: Bytes,
}

impl crate::MessageBody for WatchNotify {
    const KIND: u16 = 44;

    fn encode(&self, _features: u64) -> Message {
        let mut w = Writer::with_capacity(64 + self.payload.len());
        w.u8(1);
        w.u8(self.event as u8);
        w.u64(self.cookie);
        w.u64(self.version);
        w.u64(self.notify_id);
        w.blob(&self.payload);
        w.i32(self.result);
        w.u64(self.notifier);
        Message::new(Self::KIND, 3, 1, w.into_bytes()).with_data(self.outcome.clone())
    }

    fn decode(message: &Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        let has_payload = r.u8("payload version")? >= 1;
        let at = r;
        let event = match r.u8("watch event")? {
            1 => WatchEvent::Notify,
            2 => WatchEvent::NotifyComplete,
            3 => WatchEvent::Disconnect,
            other => return Err(at.invalid("watch event", other.into())),
        };
        let cookie = r.u64("cookie")?;
        let version = r.u64("version")?;
        let notify_id = r.u64("notify id")?;
        let payload = if has_payload { r.value()? } else { Bytes::new() };
        let result = if message.version >= 2 { r.i32("result")? } else { 0 };
        let notifier = if message.version >= 3 { r.u64("notifier")? } else { 0 };
        let outcome = message.data.clone();
        Ok(WatchNotify { event, cookie, version, notify_id, payload, result, notifier, outcome })
    }
}

/// The input of `NOTIFY`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotifyRequest {
    /// 0 selects the OSD's default.
    pub timeout_seconds: u32,
    /// Content for the watchers.
    pub payload: Bytes,
}

impl Encode for NotifyRequest {
    fn encode(&self, w: &mut Writer) {
        w.u32(1);
        w.u32(self.timeout_seconds);
        w.blob(&self.payload);
    }
}

impl Decode for NotifyRequest {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.u32("notify version")?;
        let timeout_seconds = r.u32("notify timeout")?;
        Ok(NotifyRequest { timeout_seconds, payload: r.value()? })
    }
}

/// The input of `NOTIFY_ACK`. The reply may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotifyAck {
    /// The OSD's id of the notification.
    pub notify_id: u64,
    /// Cookie of the watcher.
    pub cookie: u64,
    /// Content for the notifier.
    pub reply: Bytes,
}

impl Encode for NotifyAck {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.notify_id);
        w.u64(self.cookie);
        w.blob(&self.reply);
    }
}

impl Decode for NotifyAck {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let notify_id = r.u64("notify id")?;
        let cookie = r.u64("cookie")?;
        let reply = if r.is_empty() { Bytes::new() } else { r.value()? };
        Ok(NotifyAck { notify_id, cookie, reply })
    }
}

/// A watcher: global id and cookie.
pub type WatcherKey = (u64, u64);

/// Outcome of a notification: the replies, and the watchers that timed out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotifyResult {
    /// Contents of the acknowledgements.
    pub replies: BTreeMap<WatcherKey, Bytes>,
    /// Watchers that did not acknowledge in time.
    pub missed: BTreeSet<WatcherKey>,
}

impl Encode for NotifyResult {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.replies);
        w.value(&self.missed);
    }
}

impl Decode for NotifyResult {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(NotifyResult { replies: r.value()?, missed: r.value()? })
    }
}

structure! {
    /// `watch_item_t`
    Watcher, version 2, compat 1 {
        /// Type and number of the watcher.
        name: ParticipantName;
        /// Id that the client gave the watch.
        cookie: u64;
        /// Seconds without a ping after which the watch ends.
        timeout_seconds: u32;
        /// Address of the watcher.
        addr: EntityAddr, since 2;
    }
}

structure! {
    /// `obj_list_watch_response_t`: the reply to `LIST_WATCHERS`.
    WatcherListing, version 1, compat 1 {
        /// The watchers of the object.
        entries: Vec<Watcher>;
    }
}
