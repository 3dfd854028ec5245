//! Copying objects between placement groups: the payloads of `COPY_GET` and `COPY_FROM`.

use crate::ObjectLocator;
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::{RequestId, SnapId, UTime};

structure! {
    /// `object_copy_cursor_t`: progress of a copy.
    CopyCursor, version 1, compat 1 {
        /// All attributes are copied.
        attrs_complete: bool;
        /// Bytes of data that are copied.
        data_offset: u64;
        /// All data is copied.
        data_complete: bool;
        /// Last key of the omap that is copied.
        omap_offset: Bytes;
        /// All omap keys are copied.
        omap_complete: bool;
    }
}

impl CopyCursor {
    /// True if attributes, data and omap are copied.
    pub fn is_complete(&self) -> bool {
        self.attrs_complete && self.data_complete && self.omap_complete
    }
}

structure! {
    /// `object_copy_data_t`: a piece of an object, the reply to `COPY_GET`.
    CopyData, version 8, compat 5 {
        /// Size of the object in bytes.
        size: u64;
        /// Time of the last modification.
        mtime: UTime;
        /// Attributes; only in the first piece.
        attrs: BTreeMap<Bytes, Bytes>;
        /// Data from the cursor's offset on.
        data: Bytes;
        /// An encoded map of keys to values; empty if there are none.
        omap: Bytes;
        /// Position after this piece.
        cursor: CopyCursor;
        /// Header of the omap; only in the first piece.
        omap_header: Bytes;
        /// Snapshots that show the source, if it is a clone.
        snaps: Vec<SnapId>;
        /// Snapshot sequence of the source, if it is a head.
        snap_seq: SnapId;
        /// `object_copy_data_t::FLAG_*`: which digests are valid.
        flags: u32;
        /// crc32c of all data.
        data_digest: u32;
        /// crc32c of the omap.
        omap_digest: u32;
        /// Requests that the source has executed, with their user versions.
        request_ids: Vec<(RequestId, u64)>, since 6;
        /// Truncate sequence of the source.
        truncate_seq: u64, since 7;
        /// Truncate size of the source.
        truncate_size: u64, since 7;
        /// Return codes of these requests, by index.
        request_return_codes: BTreeMap<u32, i32>, since 8;
    }
}

/// The input of `COPY_FROM` and, with `truncate`, of `COPY_FROM2`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopySource {
    /// Name of the source.
    pub object: Bytes,
    /// Pool, namespace and key of the source.
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
