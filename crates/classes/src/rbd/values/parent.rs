//! Links between a clone and the snapshot that it was made of.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::ParentSpec;

/// `cls_rbd_parent`: the parent of an image, and how much of it the image still shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Parent {
    /// The snapshot of the parent.
    pub spec: ParentSpec,
    /// `None`: only snapshots of the image still need the parent.
    pub overlap: Option<u64>,
}

impl Encode for Parent {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.i64(self.spec.pool);
            w.value(&self.spec.namespace);
            w.value(&self.spec.image);
            w.value(&self.spec.snapshot);
            w.value(&self.overlap);
        });
    }
}

impl Decode for Parent {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("parent", 2, |r, version| {
            let pool = r.i64("pool")?;
            let namespace = if version >= 2 { r.value()? } else { Bytes::new() };
            let (image, snapshot) = r.value()?;
            let overlap = if version >= 2 { r.value()? } else { Some(r.u64("overlap")?) };
            Ok(Parent { spec: ParentSpec { pool, namespace, image, snapshot }, overlap })
        })
    }
}
