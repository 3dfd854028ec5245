//! Operations on the users' attributes.

use super::context::{AttrDelta, Context, Stop};
use crate::limits;
use bytes::Bytes;
use codec::Reader;
use pg::user_attr;
use std::collections::BTreeMap;
use store::Change;
use types::Errno;
use wire::OsdOp;
use wire::op::compare;

/// An attribute as it was before the request.
pub(super) fn stored_xattr<'a>(context: &Context<'a>, name: &[u8]) -> Result<&'a Bytes, Stop> {
    if !context.input.state.exists {
        return Err(Errno::NOENT.into());
    }
    context.input.state.xattrs.get(name).ok_or(Errno::NODATA.into())
}

/// All attributes as they were before the request.
pub(super) fn stored_xattrs<'a>(context: &Context<'a>) -> Result<&'a BTreeMap<Bytes, Bytes>, Stop> {
    match context.input.state.exists {
        true => Ok(&context.input.state.xattrs),
        false => Err(Errno::NOENT.into()),
    }
}

pub(super) fn xattr<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    let (name, _) = op.xattr_input()?;
    let value = stored_xattr(context, &name)?.clone();
    context.count_shared(value.len() as u64);
    context.output = value;
    Ok(0)
}

pub(super) fn xattrs<'a>(context: &mut Context<'a>) -> Result<i32, Stop> {
    let xattrs = stored_xattrs(context)?;
    context.count_built(
        xattrs.iter().map(|(name, value)| (name.len() + value.len() + 8) as u64).sum(),
    );
    context.check_allowance()?;
    context.output = codec::encode_to_bytes(xattrs);
    Ok(0)
}

/// Result 1 if the comparison holds; the given value is on the left.
pub(super) fn compare_xattr<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    let arguments = op.xattr_arguments();
    let mut r = Reader::new(&op.input);
    let name = r.take("attribute name", arguments.name_len as usize)?;
    let stored = match stored_xattr(context, name) {
        Ok(value) => value.clone(),
        Err(stop) if stop == Stop::from(Errno::NODATA) => Bytes::new(),
        Err(stop) => return Err(stop),
    };
    let holds = match arguments.compare_mode {
        compare::MODE_STRING => {
            let given = r.take("attribute value", arguments.value_len as usize)?;
            compared(arguments.compare, given, &stored[..])?
        }
        compare::MODE_U64 => {
            compared(arguments.compare, r.u64("attribute value")?, decimal(&stored)?)?
        }
        _ => return Err(Errno::INVAL.into()),
    };
    if holds { Ok(1) } else { Err(Errno::CANCELED.into()) }
}

pub(super) fn set_xattr_op<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    let (name, value) = op.xattr_input()?;
    set_xattr(context, &name, value)
}

pub(super) fn set_xattr<'a>(
    context: &mut Context<'a>,
    name: &[u8],
    value: Bytes,
) -> Result<i32, Stop> {
    if name.len() > limits::XATTR_NAME_LEN_MAX {
        return Err(Errno::NAMETOOLONG.into());
    }
    if name.is_empty() {
        return Err(Errno::INVAL.into());
    }
    context.create();
    context.touched = true;
    let stored = user_attr(name);
    context.attrs.push(AttrDelta::Set(stored.slice(1..), value.clone()));
    context.stored_attrs.insert(stored, value);
    Ok(0)
}

/// Refuses attributes that are too long together for an object of an erasure-coded pool: with `EFBIG`, as
/// Ceph refuses a value beyond `osd_max_attr_size`. What makes them fewer or shorter is taken.
pub(super) fn check_sum(context: &Context<'_>) -> Result<(), Errno> {
    let len = |(name, value): (&Bytes, &Bytes)| name.len() + value.len();
    let added = |delta: &AttrDelta| match delta {
        AttrDelta::Set(name, value) => name.len() + value.len(),
        AttrDelta::Remove(_) | AttrDelta::Clear => 0,
    };
    let added: usize = context.attrs.iter().map(added).sum();
    if !context.input.pool.is_erasure || added == 0 {
        return Ok(());
    }
    let before: usize = context.input.state.xattrs.iter().map(len).sum();
    if before + added <= limits::SHARD_XATTRS_BYTES_MAX {
        return Ok(());
    }
    let mut after = context.input.state.xattrs.clone();
    for delta in &context.attrs {
        match delta {
            AttrDelta::Clear => after.clear(),
            AttrDelta::Remove(name) => drop(after.remove(name)),
            AttrDelta::Set(name, value) => drop(after.insert(name.clone(), value.clone())),
        }
    }
    let after: usize = after.iter().map(len).sum();
    let is_within = after <= limits::SHARD_XATTRS_BYTES_MAX || after <= before;
    if is_within { Ok(()) } else { Err(Errno::FBIG) }
}

pub(super) fn remove_xattr<'a>(context: &mut Context<'a>, op: &OsdOp) -> Result<i32, Stop> {
    let (name, _) = op.xattr_input()?;
    if !context.exists {
        return Err(Errno::NOENT.into());
    }
    if name.is_empty() {
        return Err(Errno::INVAL.into());
    }
    let stored = user_attr(&name);
    context.stored_attrs.remove(&stored);
    context.attrs.push(AttrDelta::Remove(name));
    let object = context.input.object.clone();
    context.changes.push(Change::RemoveAttr { object, name: stored });
    Ok(0)
}

fn compared<T: PartialOrd>(operator: u8, left: T, right: T) -> Result<bool, Stop> {
    Ok(match operator {
        compare::EQ => left == right,
        compare::NE => left != right,
        compare::GT => left > right,
        compare::GTE => left >= right,
        compare::LT => left < right,
        compare::LTE => left <= right,
        _ => return Err(Errno::INVAL.into()),
    })
}

/// The decimal number at the start of an attribute; an empty attribute counts as 0.
fn decimal(value: &[u8]) -> Result<u64, Stop> {
    if value.is_empty() {
        return Ok(0);
    }
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = std::str::from_utf8(&value[..digits]).expect("digits are ASCII");
    digits.parse().map_err(|_| Errno::INVAL.into())
}
