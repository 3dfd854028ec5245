//! What those who have an image open tell each other over the header's watchers (librbd's
//! `NotifyMessage`).

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};

/// `NOTIFY_OP_*`
const ACQUIRED_LOCK: u32 = 0;
const RELEASED_LOCK: u32 = 1;
const REQUEST_LOCK: u32 = 2;
const HEADER_UPDATE: u32 = 3;

/// What owners of the lock do for others: flatten, resize, and so on up to a rename, changes of
/// features, migration and sparsifying.
const FOR_OWNERS: std::ops::RangeInclusive<u32> = 6..=17;
const METADATA_UPDATE: u32 = 20;

/// The version of the message that this is written after; newer ones append.
const VERSION: u8 = 5;
/// The first that says whether a lock is demanded by force.
const VERSION_FORCE: u8 = 3;
/// The newest that is known to be readable by those who know this one.
const VERSION_MAX: u8 = 127;

/// `ClientId`: one who has an image open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct ClientId {
    /// The client's global id.
    pub global_id: u64,
    /// Of its watch.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notification {
    AcquiredLock(ClientId),
    ReleasedLock(ClientId),
    /// Who has the lock shall give it up.
    RequestLock {
        from: ClientId,
        force: bool,
    },
    /// The header is to be read again.
    HeaderUpdate,
    /// Something that owners of the lock do for others, or a newer client's.
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
                other => Notification::Other(other),
            })
        })
    }
}

impl Notification {
    /// Whether the lock's owner is asked to do something to the image.
    pub fn is_for_owner(&self) -> bool {
        matches!(self, Notification::Other(kind) if FOR_OWNERS.contains(kind) || *kind == METADATA_UPDATE)
    }
}

/// An owner's answer (librbd's `ResponseMessage`): zero or a negative errno. Whoever does not have the
/// lock answers with nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Response(pub i32);

impl Response {
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

/// The answer of one who works on the image and will be done soon.
pub(crate) fn patience(payload: &[u8]) -> Bytes {
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
        let all = [
            Notification::AcquiredLock(client),
            Notification::ReleasedLock(client),
            Notification::RequestLock { from: client, force: true },
            Notification::HeaderUpdate,
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
    fn what_owners_do_for_others_is_read_as_unknown() {
        // SNAP_CREATE with a name, as librbd 16.2 encodes it in version 6.
        let mut w = Writer::new();
        w.versioned(6, 1, |w| {
            w.u32(8);
            w.string("name");
        });
        let read = codec::decode_all::<Notification>("it", &w.into_bytes());
        assert_eq!(read, Ok(Notification::Other(8)));
    }
}
