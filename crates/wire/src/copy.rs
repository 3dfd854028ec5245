//! Copying objects between placement groups: the payloads of `COPY_GET` and `COPY_FROM`.

use crate::ObjectLocator;
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::{RequestId, SnapId, UTime};

structure! {
    /// `object_copy_cursor_t`: progress of a copy.
    CopyCursor, version 1, compat 1 {
        attrs_complete: bool;
        data_offset: u64;
        data_complete: bool;
        omap_offset: Bytes;
        omap_complete: bool;
    }
}

impl CopyCursor {
    pub fn is_complete(&self) -> bool {
        self.attrs_complete && self.data_complete && self.omap_complete
    }
}

structure! {
    /// `object_copy_data_t`: a piece of an object, the reply to `COPY_GET`.
    CopyData, version 8, compat 5 {
        size: u64;
        mtime: UTime;
        attrs: BTreeMap<Bytes, Bytes>;
        data: Bytes;
        /// An encoded map of keys to values; empty if there are none.
        omap: Bytes;
        cursor: CopyCursor;
        omap_header: Bytes;
        snaps: Vec<SnapId>;
        snap_seq: SnapId;
        flags: u32;
        data_digest: u32;
        omap_digest: u32;
        request_ids: Vec<(RequestId, u64)>, since 6;
        truncate_seq: u64, since 7;
        truncate_size: u64, since 7;
        request_return_codes: BTreeMap<u32, i32>, since 8;
    }
}

/// The input of `COPY_FROM` and, with `truncate`, of `COPY_FROM2`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopySource {
    pub object: Bytes,
    pub locator: ObjectLocator,
    /// Truncate sequence and size.
    pub truncate: Option<(u32, u64)>,
}

impl Encode for CopySource {
    fn encode(&self, w: &mut Writer) {
        w.blob(&self.object);
        w.value(&self.locator);
        if let Some((sequence, size)) = self.truncate {
            w.u32(sequence);
            w.u64(size);
        }
    }
}

impl Decode for CopySource {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let object = r.value()?;
        let locator = r.value()?;
        let truncate = match r.is_empty() {
            true => None,
            false => Some((r.u32("truncate sequence")?, r.u64("truncate size")?)),
        };
        Ok(CopySource { object, locator, truncate })
    }
}
