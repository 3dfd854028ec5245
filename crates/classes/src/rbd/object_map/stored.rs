//! The map as a whole, read and written, and the states of an object.

use super::bits::ObjectMap;
use crate::encoding::decode_input;
use crate::object::{ObjectContext, Result};
use types::Errno;

/// The states of an object.
pub(super) mod state {
    /// The object exists.
    pub const EXISTS: u8 = 1;
    /// Not written since the newest snapshot.
    pub const EXISTS_CLEAN: u8 = 3;
}

/// ENOENT if there is no map; a damaged one is EINVAL.
pub(super) fn read(object: &mut dyn ObjectContext) -> Result<ObjectMap> {
    match object.size()? {
        0 => Err(Errno::NOENT.into()),
        size => decode_input(&object.read(0, size)?),
    }
}

pub(super) fn write(object: &mut dyn ObjectContext, map: &ObjectMap) -> Result<()> {
    object.write_full(codec::encode_to_bytes(map))
}
