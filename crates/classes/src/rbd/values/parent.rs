//! Links between a clone and the snapshot that it was made of.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::SnapId;

/// `ParentImageSpec`: a snapshot of an image in a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParentSpec {
    pub pool: i64,
    pub namespace: Bytes,
    pub image: Bytes,
    pub snapshot: SnapId,
}

impl Default for ParentSpec {
    /// No parent.
    fn default() -> Self {
        let (namespace, image) = (Bytes::new(), Bytes::new());
        ParentSpec { pool: -1, namespace, image, snapshot: SnapId::HEAD }
    }
}

impl ParentSpec {
    pub fn exists(&self) -> bool {
        self.pool >= 0 && !self.image.is_empty() && self.snapshot != SnapId::HEAD
    }
}

impl Encode for ParentSpec {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.i64(self.pool);
            w.value(&self.namespace);
            w.value(&self.image);
            w.value(&self.snapshot);
        });
    }
}

impl Decode for ParentSpec {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("parent image", 1, |r, _| {
            let pool = r.i64("pool")?;
            let (namespace, image) = r.value()?;
            Ok(ParentSpec { pool, namespace, image, snapshot: r.value()? })
        })
    }
}

/// `cls_rbd_parent`: the parent of an image, and how much of it the image still shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Parent {
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

/// `ChildImageSpec`: a clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChildSpec {
    pub pool: i64,
    pub namespace: Bytes,
    pub image: Bytes,
}

impl Encode for ChildSpec {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.i64(self.pool);
            w.value(&self.image);
            w.value(&self.namespace);
        });
    }
}

impl Decode for ChildSpec {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("child image", 2, |r, version| {
            let (pool, image) = r.value()?;
            let namespace = if version >= 2 { r.value()? } else { Bytes::new() };
            Ok(ChildSpec { pool, namespace, image })
        })
    }
}
