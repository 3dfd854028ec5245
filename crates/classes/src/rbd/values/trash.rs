//! An image in the trash.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::UTime;

/// `TrashImageSpec`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrashSpec {
    /// `TRASH_IMAGE_SOURCE_*`: reason why the image is in the trash.
    pub source: u8,
    /// Name that the image had.
    pub name: Bytes,
    /// Time when it was moved to the trash.
    pub deleted: UTime,
    /// Time before which it is not removed.
    pub deferred_until: UTime,
    /// `TRASH_IMAGE_STATE_*`
    pub state: u8,
}

impl Encode for TrashSpec {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.u8(self.source);
            w.value(&self.name);
            w.value(&self.deleted);
            w.value(&self.deferred_until);
            w.u8(self.state);
        });
    }
}

impl Decode for TrashSpec {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("trash image", 2, |r, version| {
            let (source, name, deleted, deferred_until) = r.value()?;
            let state = if version >= 2 { r.u8("state")? } else { 0 };
            Ok(TrashSpec { source, name, deleted, deferred_until, state })
        })
    }
}
