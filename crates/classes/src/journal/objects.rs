//! Methods of the objects that hold entries: appends up to a soft maximum size.

use crate::encoding::decode_input;
use crate::method::{Flags, Method};
use crate::object::{Failure, ObjectContext, Result, exists};
use bytes::Bytes;
use codec::Reader;
use types::Errno;

pub(super) const METHODS: &[Method] = &[
    Method { name: "append", flags: Flags::READ_WRITE, function: append },
    Method { name: "guard_append", flags: Flags::READ_WRITE, function: guard },
];

/// The size, if the object may still grow; EOVERFLOW if not.
fn size_below(object: &mut dyn ObjectContext, soft_max: u64) -> Result<u64> {
    let size = if exists(object)? { object.size()? } else { return Ok(0) };
    if size >= soft_max { Err(Errno::OVERFLOW.into()) } else { Ok(size) }
}

/// Guards the appends that follow in the same request.
fn guard(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    size_below(object, decode_input(input)?)?;
    Ok(0)
}

fn append(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    let invalid = |_| Failure::Errno(Errno::INVAL);
    let mut r = Reader::new(input);
    let soft_max = r.u64("soft maximum").map_err(invalid)?;
    let data = input.slice_ref(r.blob("entries").map_err(invalid)?);
    let size = size_below(object, soft_max)?;
    object.write(size, data)?;
    Ok(0)
}
