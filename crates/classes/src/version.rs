//! Class `version`: a version number and tag of an object, with conditions (`cls_version`).

use crate::encoding::{decode_input, decode_stored, encode_output};
use crate::method::{Class, Flags, Method};
use crate::object::{Failure, ObjectContext, Result};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Writer};
use types::Errno;

const ATTR: &[u8] = b"ceph.objclass.version";
const TAG_LEN: usize = 24;

pub(crate) const CLASS: Class = Class {
    name: "version",
    default_allowed: true,
    methods: &[&[
        Method { name: "set", flags: Flags::READ_WRITE, function: set },
        Method { name: "inc", flags: Flags::READ_WRITE, function: increment },
        Method { name: "inc_conds", flags: Flags::READ_WRITE, function: increment },
        Method { name: "read", flags: Flags::READ, function: read },
        Method { name: "check_conds", flags: Flags::READ, function: check },
    ]],
};

/// `obj_version`
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct ObjectVersion {
    number: u64,
    tag: Bytes,
}

impl Encode for ObjectVersion {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.number);
            w.value(&self.tag);
        });
    }
}

impl Decode for ObjectVersion {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        r.versioned("object version", 1, |r, _| {
            Ok(ObjectVersion { number: r.u64("number")?, tag: r.value()? })
        })
    }
}

/// `obj_version_cond`
#[derive(Debug)]
struct Condition {
    version: ObjectVersion,
    comparison: u32,
}

impl Decode for Condition {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        r.versioned("version condition", 1, |r, _| {
            Ok(Condition { version: r.value()?, comparison: r.u32("comparison")? })
        })
    }
}

impl Condition {
    fn holds(&self, current: &ObjectVersion) -> bool {
        let asked = &self.version;
        match self.comparison {
            1 => current == asked,
            2 => current.number > asked.number,
            3 => current.number >= asked.number,
            4 => current.number < asked.number,
            5 => current.number <= asked.number,
            6 => current.tag == asked.tag,
            7 => current.tag != asked.tag,
            _ => true,
        }
    }
}

/// `cls_version_inc_op` and `cls_version_check_op`
struct ConditionsOp {
    conditions: Vec<Condition>,
}

impl Decode for ConditionsOp {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        r.versioned("version operation", 1, |r, _| {
            r.value::<ObjectVersion>()?;
            Ok(ConditionsOp { conditions: r.value()? })
        })
    }
}

/// `cls_version_set_op` and `cls_version_read_ret`
struct Wrapped(ObjectVersion);

impl Decode for Wrapped {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        r.versioned("version operation", 1, |r, _| Ok(Wrapped(r.value()?)))
    }
}

impl Encode for Wrapped {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| w.value(&self.0));
    }
}

/// `None` if the object or the attribute does not exist.
fn load(object: &mut dyn ObjectContext) -> Result<Option<ObjectVersion>> {
    match object.xattr(ATTR) {
        Ok(stored) => decode_stored(&stored).map(Some),
        Err(Failure::Errno(Errno::NOENT | Errno::NODATA)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn save(object: &mut dyn ObjectContext, version: &ObjectVersion) -> Result<()> {
    object.set_xattr(ATTR, codec::encode_to_bytes(version))
}

/// A first version. The tag must differ from all others; the request is unique.
fn first(object: &dyn ObjectContext) -> ObjectVersion {
    let request = object.caller().request;
    let seed = object.now().as_nanos() ^ (request.name.number as u64).rotate_left(40);
    let mut tag = format!("{seed:016x}{:08x}", request.tid).into_bytes();
    tag.truncate(TAG_LEN);
    ObjectVersion { number: 1, tag: tag.into() }
}

fn require(conditions: &[Condition], current: &ObjectVersion) -> Result<()> {
    let all = conditions.iter().all(|condition| condition.holds(current));
    if all { Ok(()) } else { Err(Errno::CANCELED.into()) }
}

fn set(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    let Wrapped(version) = decode_input(input)?;
    save(object, &version)?;
    Ok(0)
}

fn increment(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    let op: ConditionsOp = decode_input(input)?;
    let mut version = match load(object)? {
        Some(version) => version,
        None => first(object),
    };
    require(&op.conditions, &version)?;
    version.number += 1;
    save(object, &version)?;
    Ok(0)
}

fn check(object: &mut dyn ObjectContext, input: &Bytes, _: &mut Vec<u8>) -> Result<i32> {
    let op: ConditionsOp = decode_input(input)?;
    let version = load(object)?.unwrap_or_default();
    require(&op.conditions, &version)?;
    Ok(0)
}

fn read(object: &mut dyn ObjectContext, _: &Bytes, output: &mut Vec<u8>) -> Result<i32> {
    let version = load(object)?.unwrap_or_default();
    encode_output(&Wrapped(version), output);
    Ok(0)
}

#[cfg(test)]
mod tests {
    use crate::test_object::TestObject;
    use types::Errno;

    #[test]
    fn versions_count_and_conditions_are_enforced() {
        let op = |condition: Option<(u64, u32)>| {
            let mut w = codec::Writer::new();
            w.versioned(1, 1, |w| {
                w.versioned(1, 1, |w| (w.u64(0), w.string("")).1);
                w.count(condition.iter().len());
                if let Some((number, comparison)) = condition {
                    w.versioned(1, 1, |w| {
                        w.versioned(1, 1, |w| (w.u64(number), w.string("")).1);
                        w.u32(comparison);
                    });
                }
            });
            w.into_vec()
        };
        let mut object = TestObject::existing();
        object.call("version", "inc", &op(None)).unwrap();
        assert_eq!(object.call("version", "check_conds", &op(Some((3, 3)))), Err(Errno::CANCELED));
        object.call("version", "inc_conds", &op(Some((2, 3)))).unwrap();
        object.call("version", "check_conds", &op(Some((3, 3)))).unwrap();
    }
}
