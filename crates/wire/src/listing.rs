//! Replies to listings of a placement group.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::HObject;

/// `librados::ListObjectImpl`
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ListedObject {
    /// Namespace of the object; empty for the default one.
    pub namespace: Bytes,
    /// Name of the object.
    pub name: Bytes,
    /// The locator key, if the object has one.
    pub key: Bytes,
}

structure! {
    /// `pg_nls_response_t`: the reply to `PGNLS`.
    PgListing, version 1, compat 1 {
        /// Where the next page begins; [`HObject::max`] behind the last.
        handle: HObject;
        /// The objects of this page, in hash order.
        entries: Vec<ListedObject>;
    }
}

impl Encode for ListedObject {
    fn encode(&self, w: &mut Writer) {
        w.blob(&self.namespace);
        w.blob(&self.name);
        w.blob(&self.key);
    }
}

impl Decode for ListedObject {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(ListedObject { namespace: r.value()?, name: r.value()?, key: r.value()? })
    }
}
