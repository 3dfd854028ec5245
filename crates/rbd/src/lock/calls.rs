//! Calls of the class `lock` as librbd makes them on headers and object maps.

use bytes::Bytes;
use codec::{Decode, Reader, Result, Writer};
use types::{EntityAddr, ParticipantName, UTime};
use wire::OsdOp;

/// `RBD_LOCK_NAME`
const NAME: &str = "rbd_lock";
/// `ClsLockType::EXCLUSIVE`
const EXCLUSIVE: u8 = 1;
/// Prefix of the cookies of locks that clients acquire automatically.
const COOKIE_PREFIX: &str = "auto ";

/// Cookie and tag, which identify the owner of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockIdentity {
    /// Text that tells locks of one client apart: "auto " and the handle of its watch.
    pub cookie: String,
    /// Text that all clients which share a lock must agree upon.
    pub tag: &'static str,
}

impl LockIdentity {
    /// Identity in an image's lock: the cookie names the watch that shows the owner to be alive.
    pub fn of_watch(handle: u64) -> Self {
        LockIdentity { cookie: format!("{COOKIE_PREFIX}{handle}"), tag: "internal" }
    }

    /// Identity in an object map's lock, whose owner is the owner of the image's lock.
    pub const NONE: LockIdentity = LockIdentity { cookie: String::new(), tag: "" };

    fn encode_held(&self, w: &mut Writer) {
        w.string(NAME);
        w.u8(EXCLUSIVE);
        w.string(&self.cookie);
        w.string(self.tag);
    }
}

fn call(method: &str, input: impl FnOnce(&mut Writer)) -> OsdOp {
    let mut w = Writer::new();
    w.versioned(1, 1, input);
    OsdOp::call("lock", method, &w.into_bytes())
}

pub(crate) fn lock(identity: &LockIdentity) -> OsdOp {
    call("lock", |w| {
        identity.encode_held(w);
        w.string("");
        w.value(&UTime::ZERO);
        w.u8(0);
    })
}

pub(crate) fn unlock(identity: &LockIdentity) -> OsdOp {
    call("unlock", |w| {
        w.string(NAME);
        w.string(&identity.cookie);
    })
}

pub(crate) fn break_lock(holder: &Holder) -> OsdOp {
    call("break_lock", |w| {
        w.string(NAME);
        w.value(&holder.name);
        w.value(&holder.cookie);
    })
}

/// Fails with EBUSY unless the caller owns the lock.
pub(crate) fn assert_locked(identity: &LockIdentity) -> OsdOp {
    call("assert_locked", |w| identity.encode_held(w))
}

pub(crate) fn set_cookie(old: &LockIdentity, new: &LockIdentity) -> OsdOp {
    call("set_cookie", |w| {
        old.encode_held(w);
        w.string(&new.cookie);
    })
}

/// The output is [`LockInfo`].
pub(crate) fn get_info() -> OsdOp {
    call("get_info", |w| w.string(NAME))
}

/// The owner of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Name of the client, as `client.4123`.
    pub name: ParticipantName,
    /// Cookie that the owner gave.
    pub cookie: Bytes,
    /// Address of the client; the blocklist is to contain it before the lock is broken.
    pub addr: EntityAddr,
}

impl Holder {
    /// The watch that shows the owner to be alive, if the cookie names one.
    pub fn watch(&self) -> Option<u64> {
        std::str::from_utf8(&self.cookie).ok()?.strip_prefix(COOKIE_PREFIX)?.parse().ok()
    }
}

/// `cls_lock_get_info_reply`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockInfo {
    /// Owners; an exclusive lock has at most one.
    pub holders: Vec<Holder>,
    /// False if other owners may share the lock.
    pub is_exclusive: bool,
    /// Tag that the first owner gave.
    pub tag: Bytes,
}

struct Locker(Holder);

impl Decode for Locker {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let (name, cookie) = r.versioned("locker id", 1, |r, _| Ok((r.value()?, r.value()?)))?;
        let addr = r.versioned("locker", 1, |r, _| {
            let _expiration: UTime = r.value()?;
            let addr = r.value()?;
            let _description: Bytes = r.value()?;
            Ok(addr)
        })?;
        Ok(Locker(Holder { name, cookie, addr }))
    }
}

impl Decode for LockInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("lock", 1, |r, _| {
            let lockers: Vec<Locker> = r.value()?;
            let holders = lockers.into_iter().map(|locker| locker.0).collect();
            let is_exclusive = r.u8("lock type")? == EXCLUSIVE;
            Ok(LockInfo { holders, is_exclusive, tag: r.value()? })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_name_watches() {
        let holder = |cookie: &str| Holder {
            name: ParticipantName::default(),
            cookie: Bytes::copy_from_slice(cookie.as_bytes()),
            addr: EntityAddr::default(),
        };
        assert_eq!(LockIdentity::of_watch(139930839816208).cookie, "auto 139930839816208");
        assert_eq!(holder("auto 139930839816208").watch(), Some(139930839816208));
        for foreign in ["", "auto", "auto x", "mine"] {
            assert_eq!(holder(foreign).watch(), None);
        }
    }
}
