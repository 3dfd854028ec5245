//! Stored and exchanged values of class `lock`, in Ceph's encodings.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::{EntityAddr, ParticipantName, UTime};

/// `ClsLockType`; values from clients may be none of the constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockType(pub u8);

impl LockType {
    /// One locker.
    pub const EXCLUSIVE: LockType = LockType(1);
    /// Lockers with equal tags share the lock.
    pub const SHARED: LockType = LockType(2);
    /// The object is removed with its lock.
    pub const EXCLUSIVE_EPHEMERAL: LockType = LockType(3);

    /// True if the type admits one locker only.
    pub fn is_exclusive(self) -> bool {
        self == Self::EXCLUSIVE || self == Self::EXCLUSIVE_EPHEMERAL
    }

    /// True for the three types that Ceph has.
    pub fn is_valid(self) -> bool {
        self.is_exclusive() || self == Self::SHARED
    }
}

/// `locker_id_t`
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LockerId {
    /// Type and number of the client.
    pub locker: ParticipantName,
    /// Cookie that the client gave.
    pub cookie: Bytes,
}

impl Encode for LockerId {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.value(&self.locker);
            w.value(&self.cookie);
        });
    }
}

impl Decode for LockerId {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("locker id", 1, |r, _| Ok(LockerId { locker: r.value()?, cookie: r.value()? }))
    }
}

/// `locker_info_t`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockerInfo {
    /// Zero: never.
    pub expiration: UTime,
    /// Address of the client.
    pub addr: EntityAddr,
    /// Description that the client gave.
    pub description: Bytes,
}

impl LockerInfo {
    fn encode_for(&self, w: &mut Writer, features: u64) {
        w.versioned(1, 1, |w| {
            w.value(&self.expiration);
            self.addr.encode_for(w, features);
            w.value(&self.description);
        });
    }
}

impl Decode for LockerInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("locker", 1, |r, _| {
            let expiration = r.value()?;
            let addr = r.value()?;
            Ok(LockerInfo { expiration, addr, description: r.value()? })
        })
    }
}

/// `lock_info_t`, and with the same bytes `cls_lock_get_info_reply`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockInfo {
    /// The lockers.
    pub lockers: BTreeMap<LockerId, LockerInfo>,
    /// Type of the lock.
    pub kind: LockType,
    /// Tag that the lockers of a shared lock must agree upon.
    pub tag: Bytes,
}

impl LockInfo {
    /// Appends the encoding for a client with these features.
    pub fn encode_for(&self, w: &mut Writer, features: u64) {
        w.versioned(1, 1, |w| {
            w.count(self.lockers.len());
            for (id, info) in &self.lockers {
                w.value(id);
                info.encode_for(w, features);
            }
            w.u8(self.kind.0);
            w.value(&self.tag);
        });
    }
}

impl Decode for LockInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("lock", 1, |r, _| {
            let lockers = r.value()?;
            let kind = LockType(r.u8("lock type")?);
            Ok(LockInfo { lockers, kind, tag: r.value()? })
        })
    }
}

/// `cls_lock_lock_op`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LockOp {
    /// Name of the lock.
    pub name: Bytes,
    /// Requested type.
    pub kind: LockType,
    /// Cookie that tells locks of one client apart.
    pub cookie: Bytes,
    /// Tag of a shared lock.
    pub tag: Bytes,
    /// Description for users.
    pub description: Bytes,
    /// Time until the lock expires; zero for never.
    pub duration: UTime,
    /// [`LockOp::MAY_RENEW`], [`LockOp::MUST_RENEW`] or 0.
    pub flags: u8,
}

impl LockOp {
    /// The lock may already be held by the caller.
    pub const MAY_RENEW: u8 = 1;
    /// The lock must already be held by the caller.
    pub const MUST_RENEW: u8 = 2;
}

impl Decode for LockOp {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("lock operation", 1, |r, _| {
            Ok(LockOp {
                name: r.value()?,
                kind: LockType(r.u8("lock type")?),
                cookie: r.value()?,
                tag: r.value()?,
                description: r.value()?,
                duration: r.value()?,
                flags: r.u8("lock flags")?,
            })
        })
    }
}

/// `cls_lock_unlock_op`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlockOp {
    /// Name of the lock.
    pub name: Bytes,
    /// Cookie of the caller's lock.
    pub cookie: Bytes,
}

impl Decode for UnlockOp {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("unlock operation", 1, |r, _| {
            Ok(UnlockOp { name: r.value()?, cookie: r.value()? })
        })
    }
}

/// `cls_lock_break_op`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreakOp {
    /// Name of the lock.
    pub name: Bytes,
    /// The locker to remove.
    pub id: LockerId,
}

impl Decode for BreakOp {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("break operation", 1, |r, _| {
            let name = r.value()?;
            let locker = r.value()?;
            Ok(BreakOp { name, id: LockerId { locker, cookie: r.value()? } })
        })
    }
}

/// `cls_lock_get_info_op`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetInfoOp {
    /// Name of the lock.
    pub name: Bytes,
}

impl Decode for GetInfoOp {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("get info operation", 1, |r, _| Ok(GetInfoOp { name: r.value()? }))
    }
}

/// `cls_lock_list_locks_reply`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListReply {
    /// Names of all locks on the object.
    pub locks: Vec<Bytes>,
}

impl Encode for ListReply {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| w.value(&self.locks));
    }
}

/// `cls_lock_assert_op`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssertOp {
    /// Name of the lock.
    pub name: Bytes,
    /// Type that the lock must have.
    pub kind: LockType,
    /// Cookie that the caller's lock must have.
    pub cookie: Bytes,
    /// Tag that the lock must have.
    pub tag: Bytes,
}

impl AssertOp {
    fn decode_fields(r: &mut Reader<'_>) -> Result<Self> {
        let name = r.value()?;
        let kind = LockType(r.u8("lock type")?);
        Ok(AssertOp { name, kind, cookie: r.value()?, tag: r.value()? })
    }
}

impl Decode for AssertOp {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("assert operation", 1, |r, _| Self::decode_fields(r))
    }
}

/// `cls_lock_set_cookie_op`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetCookieOp {
    /// The lock that the caller must hold.
    pub held: AssertOp,
    /// Cookie to set.
    pub new_cookie: Bytes,
}

impl Decode for SetCookieOp {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("set cookie operation", 1, |r, _| {
            let held = AssertOp::decode_fields(r)?;
            Ok(SetCookieOp { held, new_cookie: r.value()? })
        })
    }
}
