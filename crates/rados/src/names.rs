//! Names of objects, and ids of requests and watches.

use bytes::Bytes;
use types::PoolId;

/// Id of a request of the client; also its transaction id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// An object's full name without its hash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// The pool that holds the object.
    pub pool: PoolId,
    /// Empty for the default namespace.
    pub namespace: Bytes,
    /// Decides the placement instead of the name, unless empty.
    pub key: Bytes,
    /// The object's name, any bytes.
    pub object: Bytes,
}

impl Place {
    /// An object of the default namespace, placed by its name.
    pub fn new(pool: PoolId, object: impl Into<Bytes>) -> Self {
        Place { pool, object: object.into(), ..Place::default() }
    }
}

/// Id of a watch; also its cookie at the OSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(pub u64);
