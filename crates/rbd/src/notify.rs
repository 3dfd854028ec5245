//! What those who have an image open tell each other over the header's watchers (librbd's
//! `NotifyMessage`).

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
/// What owners of the lock do for others: flatten, resize, and so on up to a rename, changes of
/// features, migration and sparsifying.
const FOR_OWNERS: std::ops::RangeInclusive<u32> = 6..=17;
const METADATA_UPDATE: u32 = 20;

/// The version of the message that this is written after; newer ones append.
const VERSION: u8 = 7;
/// The first that says whether a lock is demanded by force.
const VERSION_FORCE: u8 = 3;
/// The first that says whether an image may become smaller.
const VERSION_SHRINK: u8 = 4;
/// The first that gives a number to what owners are asked to do with snapshots.
const VERSION_SNAPSHOTS: u8 = 7;
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

/// `AsyncRequestId`: something that an owner was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WishId {
    pub from: ClientId,
    pub number: u64,
}

impl Encode for WishId {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.from);
        w.u64(self.number);
    }
}

impl Decode for WishId {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(WishId { from: r.value()?, number: r.u64("number of a request")? })
    }
}

/// What owners that keep their lock do for others.
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
    /// Who has the lock shall give it up.
    RequestLock {
        from: ClientId,
        force: bool,
    },
    /// The header is to be read again.
    HeaderUpdate,
    /// Who has the lock shall do something with the image.
    Wanted {
        wish: WishId,
        what: Maintenance,
    },
    /// What an owner was asked to do is done, or has failed: zero or a negative errno.
    Complete {
        wish: WishId,
        result: i32,
    },
    /// Something else that owners of the lock do for others, or a newer client's.
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
            Notification::Wanted { wish, what } => encode_wish(w, *wish, what),
            Notification::Complete { wish, result } => {
                w.u32(ASYNC_COMPLETE);
                w.value(wish);
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
                    let (size, wish) = (r.u64("size")?, r.value()?);
                    let may_shrink = version >= VERSION_SHRINK && r.bool("may shrink")?;
                    Notification::Wanted { wish, what: Maintenance::Resize { size, may_shrink } }
                }
                kind @ (SNAP_CREATE | SNAP_REMOVE) if version >= VERSION_SNAPSHOTS => {
                    decode_snapshot_wish(r, kind)?
                }
                ASYNC_COMPLETE => {
                    Notification::Complete { wish: r.value()?, result: r.i32("result")? }
                }
                other => Notification::Other(other),
            })
        })
    }
}

fn encode_wish(w: &mut Writer, wish: WishId, what: &Maintenance) {
    w.u32(what.kind());
    match what {
        Maintenance::Resize { size, may_shrink } => {
            w.u64(*size);
            w.value(&wish);
            w.bool(*may_shrink);
        }
        Maintenance::TakeSnapshot(name) | Maintenance::RemoveSnapshot(name) => {
            w.string(name);
            w.value(&UserNamespace);
            w.value(&wish);
            if what.kind() == SNAP_CREATE {
                w.u64(0);
            }
        }
    }
}

/// Snapshots of groups and mirrors are others' business.
fn decode_snapshot_wish(r: &mut Reader<'_>, kind: u32) -> Result<Notification> {
    let (name, purpose): (String, Purpose) = r.value()?;
    let wish = r.value()?;
    if kind == SNAP_CREATE {
        let _about_quiescing = r.u64("flags")?;
    }
    Ok(match (purpose, kind) {
        (Purpose::User, SNAP_CREATE) => {
            Notification::Wanted { wish, what: Maintenance::TakeSnapshot(name) }
        }
        (Purpose::User, _) => {
            Notification::Wanted { wish, what: Maintenance::RemoveSnapshot(name) }
        }
        _ => Notification::Other(kind),
    })
}

impl Notification {
    /// Whether the lock's owner is asked to do something to the image.
    pub fn is_for_owner(&self) -> bool {
        match self {
            Notification::Wanted { .. } => true,
            Notification::Other(kind) => FOR_OWNERS.contains(kind) || *kind == METADATA_UPDATE,
            _ => false,
        }
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
        let wish = WishId { from: client, number: 6 };
        let wanted = |what| Notification::Wanted { wish, what };
        let all = [
            Notification::AcquiredLock(client),
            Notification::ReleasedLock(client),
            Notification::RequestLock { from: client, force: true },
            Notification::HeaderUpdate,
            wanted(Maintenance::Resize { size: 7, may_shrink: true }),
            wanted(Maintenance::TakeSnapshot("one".into())),
            wanted(Maintenance::RemoveSnapshot("two".into())),
            Notification::Complete { wish, result: -22 },
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
    fn a_wish_for_another_size_reads_as_librbd_writes_it() {
        // By librbd 16.2: 80 MiB, from client.4296, its first request.
        let mut w = Writer::new();
        w.raw(&[
            7, 1, 0x25, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0xc8, 0x10, 0, 0, 0, 0, 0, 0,
        ]);
        w.raw(&[0x70, 0x4e, 0, 0xa4, 0x93, 0x7f, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let from = ClientId { global_id: 0x10c8, handle: 0x7f93_a400_4e70 };
        let wish = WishId { from, number: 1 };
        let what = Maintenance::Resize { size: 80 << 20, may_shrink: false };
        let expected = Notification::Wanted { wish, what };
        assert_eq!(codec::decode_all("it", &w.into_bytes()), Ok(expected));
    }

    #[test]
    fn wishes_about_snapshots_read_as_librbd_writes_them() {
        // By librbd 16.2, 18.2 and 20.2 alike: "s1", from client.4112, its first request.
        let wish = [
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
                w.raw(&wish);
                flags.iter().for_each(|flags| w.u64(*flags));
            });
            let what = match flags {
                Some(_) => Maintenance::TakeSnapshot("s1".into()),
                None => Maintenance::RemoveSnapshot("s1".into()),
            };
            let expected = Notification::Wanted { wish: WishId { from, number: 1 }, what };
            assert_eq!(codec::decode_all("it", &w.into_bytes()), Ok(expected));
        }
    }

    #[test]
    fn what_owners_do_for_others_is_read_as_unknown() {
        // SNAP_CREATE with a name, of a version before requests had numbers.
        let mut w = Writer::new();
        w.versioned(6, 1, |w| {
            w.u32(8);
            w.string("name");
        });
        let read = codec::decode_all::<Notification>("it", &w.into_bytes());
        assert_eq!(read, Ok(Notification::Other(8)));
    }
}
