//! Location of an object: locators and redirects.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::PoolId;

/// `object_locator_t`: the address of an object without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectLocator {
    /// The pool; -1 for none.
    pub pool: PoolId,
    /// Decides the placement instead of the name, if not empty.
    pub key: Bytes,
    /// The namespace; empty for the default one.
    pub namespace: Bytes,
    /// The placement hash itself, or [`ObjectLocator::NO_HASH`]; with a hash there is no key.
    pub hash: i64,
}

impl ObjectLocator {
    /// The hash follows from key or name.
    pub const NO_HASH: i64 = -1;

    /// Locator of objects of a pool, without key or namespace.
    pub fn pool(pool: PoolId) -> Self {
        ObjectLocator { pool, ..ObjectLocator::default() }
    }
}

impl Default for ObjectLocator {
    fn default() -> Self {
        let (key, namespace) = (Bytes::new(), Bytes::new());
        ObjectLocator { pool: PoolId(-1), key, namespace, hash: Self::NO_HASH }
    }
}

impl Encode for ObjectLocator {
    fn encode(&self, w: &mut Writer) {
        // A reader that ignores the hash would misplace the object.
        let compat = if self.hash == Self::NO_HASH { 3 } else { 6 };
        w.versioned(6, compat, |w| {
            w.value(&self.pool);
            w.i32(-1); // once the preferred OSD
            w.blob(&self.key);
            w.blob(&self.namespace);
            w.i64(self.hash);
        });
    }
}

impl Decode for ObjectLocator {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("object locator", 6, |r, version| {
            let pool = r.value()?;
            r.skip("preferred OSD", 4)?;
            let key = r.value()?;
            let namespace = if version >= 5 { r.value()? } else { Bytes::new() };
            let hash = if version >= 6 { r.i64("locator hash")? } else { Self::NO_HASH };
            Ok(ObjectLocator { pool, key, namespace, hash })
        })
    }
}

structure! {
    /// `request_redirect_t`: the object is elsewhere.
    Redirect, version 1, compat 1 {
        /// Pool, namespace and key to use instead.
        locator: ObjectLocator;
        /// Empty if the name stays the same.
        object: Bytes;
        /// Once instructions for the other OSD; always 0.
        reserved: u32;
    }
}
