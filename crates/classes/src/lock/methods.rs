//! The methods of class `lock`.

use super::values::{
    AssertOp, BreakOp, GetInfoOp, ListReply, LockInfo, LockOp, LockType, LockerId, LockerInfo,
    SetCookieOp, UnlockOp,
};
use crate::encoding::{decode_input, decode_stored, encode_output};
use crate::method::{Class, Flags, Method};
use crate::object::{Failure, ObjectContext, Result};
use bytes::Bytes;
use codec::Writer;
use types::{AddrType, Errno, UTime};

const PREFIX: &[u8] = b"lock.";

pub(crate) const CLASS: Class = Class {
    name: "lock",
    default_allowed: true,
    methods: &[&[
        Method { name: "lock", flags: Flags::READ_WRITE, function: lock },
        Method { name: "unlock", flags: Flags::READ_WRITE, function: unlock },
        Method { name: "break_lock", flags: Flags::READ_WRITE, function: break_lock },
        Method { name: "get_info", flags: Flags::READ, function: info },
        Method { name: "list_locks", flags: Flags::READ, function: list_locks },
        Method { name: "assert_locked", flags: Flags::READ, function: assert_locked },
        Method { name: "set_cookie", flags: Flags::READ_WRITE, function: set_cookie },
    ]],
};

fn attr_name(name: &[u8]) -> Vec<u8> {
    [PREFIX, name].concat()
}

/// The current lock, without expired lockers.
fn read_lock(object: &mut dyn ObjectContext, name: &[u8]) -> Result<LockInfo> {
    let mut lock: LockInfo = match object.xattr(&attr_name(name)) {
        Ok(stored) => decode_stored(&stored)?,
        Err(Failure::Errno(Errno::NODATA)) => return Ok(LockInfo::default()),
        Err(failure) => return Err(failure),
    };
    let now = object.now();
    lock.lockers.retain(|_, info| info.expiration == UTime::ZERO || info.expiration >= now);
    if lock.lockers.is_empty() && lock.kind == LockType::EXCLUSIVE_EPHEMERAL {
        // Effective only in a method that may write; the caller ignores it for others.
        match object.remove() {
            Err(Failure::Missing) => return Err(Failure::Missing),
            Err(Failure::Errno(_)) | Ok(()) => {}
        }
    }
    Ok(lock)
}

fn write_lock(object: &mut dyn ObjectContext, name: &[u8], lock: &LockInfo) -> Result<()> {
    let mut w = Writer::new();
    lock.encode_for(&mut w, object.caller().features);
    object.set_xattr(&attr_name(name), w.into_bytes())
}

fn caller_id(object: &dyn ObjectContext, cookie: Bytes) -> LockerId {
    LockerId { locker: object.caller().request.name, cookie }
}

fn lock(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    let op: LockOp = decode_input(input)?;
    let may_renew = op.flags & LockOp::MAY_RENEW != 0;
    let must_renew = op.flags & LockOp::MUST_RENEW != 0;
    if !op.kind.is_valid() || op.name.is_empty() || may_renew && must_renew {
        return Err(Errno::INVAL.into());
    }
    let mut lock = match read_lock(object, &op.name) {
        Err(Failure::Errno(Errno::NOENT)) => LockInfo::default(),
        other => other?,
    };
    // Checked before the caller's own entry is removed, or else a wrong tag would replace it.
    if !lock.lockers.is_empty() && lock.tag != op.tag {
        return Err(Errno::BUSY.into());
    }
    let id = caller_id(object, op.cookie);
    match lock.lockers.remove(&id) {
        Some(_) if !may_renew && !must_renew => return Err(Errno::EXIST.into()),
        None if must_renew => return Err(Errno::NOENT.into()),
        _ => {}
    }
    if !lock.lockers.is_empty() && (op.kind.is_exclusive() || lock.kind != op.kind) {
        return Err(Errno::BUSY.into());
    }
    lock.kind = op.kind;
    lock.tag = op.tag;
    let expiration = match op.duration {
        UTime::ZERO => UTime::ZERO,
        duration => UTime::from_nanos(object.now().as_nanos() + duration.as_nanos()),
    };
    let mut addr = object.caller().addr;
    // The kind of the address depends on the daemon that the client talks to, and does not identify the
    // client.
    addr.kind = AddrType::Legacy;
    lock.lockers.insert(id, LockerInfo { expiration, addr, description: op.description });
    write_lock(object, &op.name, &lock)?;
    Ok(0)
}

fn remove_locker(object: &mut dyn ObjectContext, name: &[u8], id: &LockerId) -> Result<i32> {
    let mut lock = read_lock(object, name)?;
    if lock.lockers.remove(id).is_none() {
        return Err(Errno::NOENT.into());
    }
    match lock.kind {
        LockType::EXCLUSIVE_EPHEMERAL => object.remove()?,
        _ => write_lock(object, name, &lock)?,
    }
    Ok(0)
}

fn unlock(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    let op: UnlockOp = decode_input(input)?;
    let id = caller_id(object, op.cookie);
    remove_locker(object, &op.name, &id)
}

fn break_lock(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    let op: BreakOp = decode_input(input)?;
    remove_locker(object, &op.name, &op.id)
}

fn info(object: &mut dyn ObjectContext, input: &Bytes, output: &mut Vec<u8>) -> Result<i32> {
    let op: GetInfoOp = decode_input(input)?;
    let lock = read_lock(object, &op.name)?;
    let mut w = Writer::append_to(std::mem::take(output));
    lock.encode_for(&mut w, object.caller().features);
    *output = w.into_vec();
    Ok(0)
}

fn list_locks(object: &mut dyn ObjectContext, _: &Bytes, output: &mut Vec<u8>) -> Result<i32> {
    let names = object.xattrs()?.into_keys();
    let locks = names.filter(|name| name.starts_with(PREFIX));
    let locks = locks.map(|name| name.slice(PREFIX.len()..)).collect();
    encode_output(&ListReply { locks }, output);
    Ok(0)
}

/// The lock, if the caller holds it as stated; otherwise EBUSY.
fn held_lock(object: &mut dyn ObjectContext, op: &AssertOp) -> Result<(LockInfo, LockerId)> {
    if !op.kind.is_valid() || op.name.is_empty() {
        return Err(Errno::INVAL.into());
    }
    let lock = read_lock(object, &op.name)?;
    let id = caller_id(object, op.cookie.clone());
    let held = lock.kind == op.kind && lock.tag == op.tag && lock.lockers.contains_key(&id);
    if held { Ok((lock, id)) } else { Err(Errno::BUSY.into()) }
}

fn assert_locked(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    let op: AssertOp = decode_input(input)?;
    held_lock(object, &op).map(|_| 0)
}

fn set_cookie(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    let op: SetCookieOp = decode_input(input)?;
    let (mut lock, old) = held_lock(object, &op.held)?;
    let new = LockerId { cookie: op.new_cookie, ..old.clone() };
    if lock.lockers.contains_key(&new) {
        return Err(Errno::BUSY.into());
    }
    let info = lock.lockers.remove(&old).expect("a held lock has its holder");
    lock.lockers.insert(new, info);
    write_lock(object, &op.held.name, &lock)?;
    Ok(0)
}
