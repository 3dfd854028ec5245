//! Notifications between the clients that have an image open (librbd's `NotifyMessage`), sent over the
//! watches of the header.

use crate::snapshot::{Purpose, UserNamespace};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};

/// `NOTIFY_OP_*`
const ACQUIRED_LOCK: u32 = 0;
const RELEASED_LOCK: u32 = 1;
const REQUEST_LOCK: u32 = 2;
const HEADER_UPDATE: u32 = 3;

const ASYNC_COMPLETE: u32 = 5;
const RESIZE: u32 = 7;
const SNAP_CREATE: u32 = 8;
const SNAP_REMOVE: u32 = 9;
/// Kinds of maintenance that lock owners perform for others: flatten, resize, and so on up to rename, changes
/// of features, migration and sparsifying.
const FOR_OWNERS: std::ops::RangeInclusive<u32> = 6..=17;
const METADATA_UPDATE: u32 = 20;

/// Version of the encoding; later versions append fields.
const VERSION: u8 = 7;
/// First version that says whether the lock is requested by force.
const VERSION_FORCE: u8 = 3;
/// First version that says whether an image may shrink.
const VERSION_SHRINK: u8 = 4;
/// First version that gives snapshot maintenance a request id.
const VERSION_SNAPSHOTS: u8 = 7;
/// Newest version known to be readable by decoders of this one.
const VERSION_MAX: u8 = 127;

/// `ClientId`: a client that has an image open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct ClientId {
    /// Global id of the client.
    pub global_id: u64,
    /// Handle of its watch.
    pub handle: u64,
}

impl Encode for ClientId {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.global_id);
        w.u64(self.handle);
    }
}

impl Decode for ClientId {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(ClientId { global_id: r.u64("global id")?, handle: r.u64("handle")? })
    }
}

/// `AsyncRequestId` of maintenance that was requested from a lock owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProxiedRequestId {
    /// The client that sent the request.
    pub from: ClientId,
    /// Number of the request, unique for that client.
    pub number: u64,
}

impl Encode for ProxiedRequestId {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.from);
        w.u64(self.number);
    }
}

impl Decode for ProxiedRequestId {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(ProxiedRequestId { from: r.value()?, number: r.u64("number of a request")? })
    }
}

/// Maintenance that an owner that keeps its lock performs for other clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Maintenance {
    Resize { size: u64, may_shrink: bool },
    TakeSnapshot(String),
    RemoveSnapshot(String),
}

impl Maintenance {
    fn kind(&self) -> u32 {
        match self {
            Maintenance::Resize { .. } => RESIZE,
            Maintenance::TakeSnapshot(_) => SNAP_CREATE,
            Maintenance::RemoveSnapshot(_) => SNAP_REMOVE,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notification {
    AcquiredLock(ClientId),
    ReleasedLock(ClientId),
    /// Asks the lock owner to release the lock.
    RequestLock {
        from: ClientId,
        force: bool,
    },
    /// Announces that the header has changed.
    HeaderUpdate,
    /// Asks the lock owner to perform maintenance.
    Proxied {
        request: ProxiedRequestId,
        action: Maintenance,
    },
    /// Reports the end of maintenance: zero or a negative errno.
    Complete {
        request: ProxiedRequestId,
        result: i32,
    },
    /// Maintenance that this client does not perform, or a newer client's notification.
    Other(u32),
}

impl Encode for Notification {
    fn encode(&self, w: &mut Writer) {
        w.versioned(VERSION, 1, |w| match self {
            Notification::AcquiredLock(client) => {
                w.u32(ACQUIRED_LOCK);
                w.value(client);
            }
            Notification::ReleasedLock(client) => {
                w.u32(RELEASED_LOCK);
                w.value(client);
            }
            Notification::RequestLock { from, force } => {
                w.u32(REQUEST_LOCK);
                w.value(from);
                w.bool(*force);
            }
            Notification::HeaderUpdate => w.u32(HEADER_UPDATE),
            Notification::Proxied { request, action } => encode_proxied(w, *request, action),
            Notification::Complete { request, result } => {
                w.u32(ASYNC_COMPLETE);
                w.value(request);
                w.i32(*result);
            }
            Notification::Other(kind) => w.u32(*kind),
        });
    }
}

impl Decode for Notification {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("notification", VERSION_MAX, |r, version| {
            Ok(match r.u32("kind of notification")? {
                ACQUIRED_LOCK => Notification::AcquiredLock(r.value()?),
                RELEASED_LOCK => Notification::ReleasedLock(r.value()?),
                REQUEST_LOCK => {
                    let from = r.value()?;
                    let force = version >= VERSION_FORCE && r.bool("force")?;
                    Notification::RequestLock { from, force }
                }
                HEADER_UPDATE => Notification::HeaderUpdate,
                RESIZE => {
                    let (size, request) = (r.u64("size")?, r.value()?);
                    let may_shrink = version >= VERSION_SHRINK && r.bool("may shrink")?;
                    Notification::Proxied {
                        request,
                        action: Maintenance::Resize { size, may_shrink },
                    }
                }
                kind @ (SNAP_CREATE | SNAP_REMOVE) if version >= VERSION_SNAPSHOTS => {
                    decode_snapshot_request(r, kind)?
                }
                ASYNC_COMPLETE => {
                    Notification::Complete { request: r.value()?, result: r.i32("result")? }
                }
                other => Notification::Other(other),
            })
        })
    }
}

fn encode_proxied(w: &mut Writer, request: ProxiedRequestId, action: &Maintenance) {
    w.u32(action.kind());
    match action {
        Maintenance::Resize { size, may_shrink } => {
            w.u64(*size);
            w.value(&request);
            w.bool(*may_shrink);
        }
        Maintenance::TakeSnapshot(name) | Maintenance::RemoveSnapshot(name) => {
            w.string(name);
            w.value(&UserNamespace);
            w.value(&request);
            if action.kind() == SNAP_CREATE {
                w.u64(0);
            }
        }
    }
}

/// Reads a snapshot request. Snapshots of groups and mirrors are not performed for others.
fn decode_snapshot_request(r: &mut Reader<'_>, kind: u32) -> Result<Notification> {
    let (name, purpose): (String, Purpose) = r.value()?;
    let request = r.value()?;
    if kind == SNAP_CREATE {
        let _about_quiescing = r.u64("flags")?;
    }
    Ok(match (purpose, kind) {
        (Purpose::User, SNAP_CREATE) => {
            Notification::Proxied { request, action: Maintenance::TakeSnapshot(name) }
        }
        (Purpose::User, _) => {
            Notification::Proxied { request, action: Maintenance::RemoveSnapshot(name) }
        }
        _ => Notification::Other(kind),
    })
}

impl Notification {
    /// True if the notification asks the lock owner for maintenance.
    pub fn is_for_owner(&self) -> bool {
        match self {
            Notification::Proxied { .. } => true,
            Notification::Other(kind) => FOR_OWNERS.contains(kind) || *kind == METADATA_UPDATE,
            _ => false,
        }
    }
}

/// The lock owner's acknowledgement (librbd's `ResponseMessage`): zero or a negative errno. Clients that do
/// not hold the lock acknowledge with an empty payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Response(pub i32);

impl Response {
    /// The payload of the acknowledgement.
    pub fn encoded(self) -> Bytes {
        codec::encode_to_bytes(&self)
    }
}

impl Encode for Response {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| w.i32(self.0));
    }
}

impl Decode for Response {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("response", 1, |r, _| Ok(Response(r.i32("result")?)))
    }
}

/// The acknowledgement of a task that will release the lock soon.
pub(crate) fn release_pending(payload: &[u8]) -> Bytes {
    match codec::decode_all("notification", payload) {
        Ok(Notification::RequestLock { .. }) => Response(0).encoded(),
        _ => Bytes::new(),
    }
}

pub(crate) fn header_update() -> Bytes {
    codec::encode_to_bytes(&Notification::HeaderUpdate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_read_back_as_written() {
        let client = ClientId { global_id: 4, handle: 5 };
        let request = ProxiedRequestId { from: client, number: 6 };
        let wanted = |action| Notification::Proxied { request, action };
        let all = [
            Notification::AcquiredLock(client),
            Notification::ReleasedLock(client),
            Notification::RequestLock { from: client, force: true },
            Notification::HeaderUpdate,
            wanted(Maintenance::Resize { size: 7, may_shrink: true }),
            wanted(Maintenance::TakeSnapshot("one".into())),
            wanted(Maintenance::RemoveSnapshot("two".into())),
            Notification::Complete { request, result: -22 },
        ];
        for notification in all {
            let bytes = codec::encode_to_bytes(&notification);
            assert_eq!(codec::decode_all::<Notification>("it", &bytes), Ok(notification));
            for end in 0..bytes.len() {
                assert!(codec::decode_all::<Notification>("it", &bytes[..end]).is_err());
            }
        }
    }

    #[test]
    fn a_resize_request_reads_as_librbd_writes_it() {
        // Captured from librbd 16.2: 80 MiB, from client.4296, its first request.
        let mut w = Writer::new();
        w.raw(&[
            7, 1, 0x25, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0xc8, 0x10, 0, 0, 0, 0, 0, 0,
        ]);
        w.raw(&[0x70, 0x4e, 0, 0xa4, 0x93, 0x7f, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let from = ClientId { global_id: 0x10c8, handle: 0x7f93_a400_4e70 };
        let request = ProxiedRequestId { from, number: 1 };
        let action = Maintenance::Resize { size: 80 << 20, may_shrink: false };
        let expected = Notification::Proxied { request, action };
        assert_eq!(codec::decode_all("it", &w.into_bytes()), Ok(expected));
    }

    #[test]
    fn snapshot_requests_read_as_librbd_writes_them() {
        // Captured from librbd 16.2, 18.2 and 20.2, which agree: "s1", from client.4112, its first request.
        let request = [
            0x10, 0x10, 0, 0, 0, 0, 0, 0, 0xa0, 0x14, 0, 0xbc, 0x82, 0x7f, 0, 0, 1, 0, 0, 0, 0, 0,
            0, 0,
        ];
        let from = ClientId { global_id: 0x1010, handle: 0x7f82_bc00_14a0 };
        for (kind, flags) in [(8, Some(0u64)), (9, None)] {
            let mut w = Writer::new();
            w.versioned(7, 1, |w| {
                w.u32(kind);
                w.string("s1");
                w.raw(&[1, 1, 4, 0, 0, 0, 0, 0, 0, 0]);
                w.raw(&request);
                flags.iter().for_each(|flags| w.u64(*flags));
            });
            let action = match flags {
                Some(_) => Maintenance::TakeSnapshot("s1".into()),
                None => Maintenance::RemoveSnapshot("s1".into()),
            };
            let expected =
                Notification::Proxied { request: ProxiedRequestId { from, number: 1 }, action };
            assert_eq!(codec::decode_all("it", &w.into_bytes()), Ok(expected));
        }
    }

    #[test]
    fn unsupported_maintenance_reads_as_other() {
        // SNAP_CREATE with a name, in a version before request ids.
        let mut w = Writer::new();
        w.versioned(6, 1, |w| {
            w.u32(8);
            w.string("name");
        });
        let read = codec::decode_all::<Notification>("it", &w.into_bytes());
        assert_eq!(read, Ok(Notification::Other(8)));
    }
}
