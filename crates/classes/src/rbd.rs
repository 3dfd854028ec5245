//! Class `rbd`: the two methods that client test suites call on any object (`cls_rbd`).

use crate::{Class, Flags, Method, ObjectContext, Result, decode_stored, encode_output};
use bytes::Bytes;
use types::Errno;

/// `RBD_FEATURES_ALL`: layering up to dirty-cache.
const FEATURES_ALL: u64 = (1 << 12) - 1;

pub(crate) const CLASS: Class = Class {
    name: "rbd",
    default_allowed: true,
    methods: &[
        Method { name: "get_all_features", flags: Flags::READ, function: all_features },
        Method { name: "get_id", flags: Flags::READ, function: id },
    ],
};

fn all_features(_: &mut dyn ObjectContext, _: &[u8], output: &mut Vec<u8>) -> Result<i32> {
    encode_output(&FEATURES_ALL, output);
    Ok(0)
}

/// The image id that an id object holds as its data.
fn id(object: &mut dyn ObjectContext, _: &[u8], output: &mut Vec<u8>) -> Result<i32> {
    let size = object.size()?;
    if size == 0 {
        return Err(Errno::NOENT.into());
    }
    let id: Bytes = decode_stored(&object.read(0, size)?)?;
    encode_output(&id, output);
    Ok(0)
}
