//! Names of images and snapshots in links between clones and parents.

use crate::SnapId;
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};

/// `ParentImageSpec`: a snapshot of an image in a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentSpec {
    /// The pool of the parent; -1 if there is none.
    pub pool: i64,
    /// The RADOS namespace of the parent; empty for the default one.
    pub namespace: Bytes,
    /// The image id, not its name.
    pub image: Bytes,
    /// The snapshot of the parent that the clone was made of.
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
    /// False for the default value, which stands for "no parent" in stored headers.
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

/// `ChildImageSpec`: a clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChildSpec {
    /// The pool of the clone.
    pub pool: i64,
    /// The RADOS namespace of the clone; empty for the default one.
    pub namespace: Bytes,
    /// The image id, not its name.
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
