//! Class `refcount`: named references to an object, which is removed with the last one (`cls_refcount`).

use crate::encoding::{decode_input, decode_stored, encode_output};
use crate::method::{Class, Flags, Method};
use crate::object::{Failure, ObjectContext, Result};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Writer};
use std::collections::{BTreeMap, BTreeSet};
use types::Errno;

const ATTR: &[u8] = b"refcount";
/// The reference that an object without any is taken to have.
const WILDCARD: Bytes = Bytes::new();

pub(crate) const CLASS: Class = Class {
    name: "refcount",
    default_allowed: true,
    methods: &[&[
        Method { name: "get", flags: Flags::READ_WRITE, function: take },
        Method { name: "put", flags: Flags::READ_WRITE, function: put },
        Method { name: "set", flags: Flags::READ_WRITE, function: set },
        Method { name: "read", flags: Flags::READ, function: read },
    ]],
};

/// `obj_refcount`
#[derive(Debug, Default)]
struct References {
    held: BTreeMap<Bytes, bool>,
    retired: BTreeSet<Bytes>,
}

impl Encode for References {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.value(&self.held);
            w.value(&self.retired);
        });
    }
}

impl Decode for References {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        r.versioned("references", 2, |r, version| {
            let held = r.value()?;
            let retired = if version >= 2 { r.value()? } else { BTreeSet::new() };
            Ok(References { held, retired })
        })
    }
}

/// `cls_refcount_get_op` and `cls_refcount_put_op`
struct TagOp {
    tag: Bytes,
    implicit: bool,
}

impl Decode for TagOp {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        r.versioned("reference operation", 1, |r, _| {
            Ok(TagOp { tag: r.value()?, implicit: r.bool("implicit")? })
        })
    }
}

/// `cls_refcount_set_op` and `cls_refcount_read_ret`
struct Tags(Vec<Bytes>);

impl Decode for Tags {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        r.versioned("references", 1, |r, _| Ok(Tags(r.value()?)))
    }
}

impl Encode for Tags {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| w.value(&self.0));
    }
}

/// `cls_refcount_read_op`
struct ReadOp {
    implicit: bool,
}

impl Decode for ReadOp {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        r.versioned("reference read", 1, |r, _| Ok(ReadOp { implicit: r.bool("implicit")? }))
    }
}

fn load(object: &mut dyn ObjectContext, implicit: bool) -> Result<References> {
    match object.xattr(ATTR) {
        Ok(stored) => decode_stored(&stored),
        Err(Failure::Errno(Errno::NODATA)) => {
            let mut references = References::default();
            if implicit {
                references.held.insert(WILDCARD, true);
            }
            Ok(references)
        }
        Err(failure) => Err(failure),
    }
}

fn save(object: &mut dyn ObjectContext, references: &References) -> Result<()> {
    object.set_xattr(ATTR, codec::encode_to_bytes(references))
}

fn take(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    let op: TagOp = decode_input(input)?;
    let mut references = load(object, op.implicit)?;
    references.held.insert(op.tag, true);
    save(object, &references)?;
    Ok(0)
}

fn put(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    let op: TagOp = decode_input(input)?;
    let mut references = load(object, op.implicit)?;
    if references.held.is_empty() {
        return Err(Errno::INVAL.into());
    }
    if references.retired.contains(&op.tag) {
        return Ok(0);
    }
    let held = references.held.remove(&op.tag);
    if held.or_else(|| references.held.remove(&WILDCARD).filter(|_| op.implicit)).is_none() {
        return Ok(0);
    }
    references.retired.insert(op.tag);
    match references.held.is_empty() {
        true => object.remove()?,
        false => save(object, &references)?,
    }
    Ok(0)
}

fn set(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    let Tags(tags) = decode_input(input)?;
    if tags.is_empty() {
        object.remove()?;
        return Ok(0);
    }
    let held = tags.into_iter().map(|tag| (tag, true)).collect();
    save(object, &References { held, ..References::default() })?;
    Ok(0)
}

fn read(object: &mut dyn ObjectContext, input: &Bytes, output: &mut Vec<u8>) -> Result<i32> {
    let op: ReadOp = decode_input(input)?;
    let references = load(object, op.implicit)?;
    encode_output(&Tags(references.held.into_keys().collect()), output);
    Ok(0)
}

#[cfg(test)]
mod tests {
    use crate::test_object::TestObject;

    #[test]
    fn references_keep_an_object_until_the_last_is_put() {
        let tag = |tag: &str, implicit| {
            let mut w = codec::Writer::new();
            w.versioned(1, 1, |w| {
                w.string(tag);
                w.bool(implicit);
            });
            w.into_vec()
        };
        let mut object = TestObject::existing();
        object.call("refcount", "get", &tag("a", true)).unwrap();
        object.call("refcount", "put", &tag("b", true)).unwrap();
        assert!(object.state.exists, "the wildcard reference went, a is left");
        object.call("refcount", "put", &tag("a", false)).unwrap();
        assert!(!object.state.exists);
    }
}
