//! Names of the objects that make up images.

use crate::Error;
use bytes::Bytes;
use rados::Place;
use std::fmt;
use std::fmt::Write;
use types::{PoolId, SnapId};

/// Names and ids of all images of a pool or namespace.
pub(crate) const DIRECTORY: &str = "rbd_directory";
/// Clones of format 1 in this pool, by parent snapshot.
const CHILDREN: &str = "rbd_children";
/// Images in the trash, by id.
const TRASH: &str = "rbd_trash";
/// Namespaces of a pool.
const NAMESPACES: &str = "rbd_namespace";
const ID_PREFIX: &str = "rbd_id.";
const HEADER_PREFIX: &str = "rbd_header.";
const DATA_PREFIX: &str = "rbd_data.";
const OBJECT_MAP_PREFIX: &str = "rbd_object_map.";
/// Suffix of the header of an image of format 1.
const OLD_HEADER_SUFFIX: &str = ".rbd";
/// Hexadecimal digits of an object's number.
const NUMBER_DIGITS: usize = 16;

/// A pool, or a namespace in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Id of the pool.
    pub id: PoolId,
    /// Name of the pool, for messages.
    pub name: String,
    /// Empty for the default namespace.
    pub namespace: String,
}

impl Pool {
    pub(crate) fn place(&self, object: impl Into<Bytes>) -> Place {
        let mut place = Place::new(self.id, object);
        place.namespace = Bytes::copy_from_slice(self.namespace.as_bytes());
        place
    }

    pub(crate) fn directory(&self) -> Place {
        self.place(DIRECTORY)
    }

    pub(crate) fn children(&self) -> Place {
        self.place(CHILDREN)
    }

    pub(crate) fn trash(&self) -> Place {
        self.place(TRASH)
    }

    pub(crate) fn namespaces(&self) -> Place {
        self.place(NAMESPACES)
    }

    pub(crate) fn id_object(&self, name: &str) -> Place {
        self.place(format!("{ID_PREFIX}{name}"))
    }

    pub(crate) fn old_header(&self, name: &str) -> Place {
        self.place(format!("{name}{OLD_HEADER_SUFFIX}"))
    }

    pub(crate) fn header(&self, id: &str) -> Place {
        self.place(format!("{HEADER_PREFIX}{id}"))
    }

    pub(crate) fn snapshot_map(&self, id: &str, snap: SnapId) -> Place {
        self.place(format!("{OBJECT_MAP_PREFIX}{id}.{:0width$x}", snap.0, width = NUMBER_DIGITS))
    }

    pub(crate) fn object_map(&self, id: &str) -> Place {
        self.place(format!("{OBJECT_MAP_PREFIX}{id}"))
    }
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.is_empty() {
            true => f.write_str(&self.name),
            false => write!(f, "{}/{}", self.name, self.namespace),
        }
    }
}

pub(crate) fn text(bytes: Bytes, what: &'static str) -> Result<String, Error> {
    String::from_utf8(bytes.into()).map_err(|_| Error::refused(format!("{what} is not text")))
}

/// An image by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSpec {
    /// Pool and namespace.
    pub pool: Pool,
    /// Name of the image, unique in pool and namespace.
    pub name: String,
}

impl fmt::Display for ImageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pool, self.name)
    }
}

/// Prefix of the names of an image's data objects. With a separate data pool it contains the header's pool
/// id, because image ids are unique per pool only.
pub(crate) fn data_prefix(header_pool: PoolId, id: &str, has_data_pool: bool) -> String {
    match has_data_pool {
        true => format!("{DATA_PREFIX}{}.{id}", header_pool.0),
        false => format!("{DATA_PREFIX}{id}"),
    }
}

pub(crate) fn data_object(prefix: &str, number: u64) -> Bytes {
    let mut name = String::with_capacity(prefix.len() + 1 + NUMBER_DIGITS);
    name.push_str(prefix);
    // Writing to a string cannot fail.
    let _ = write!(name, ".{number:0width$x}", width = NUMBER_DIGITS);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_as_librbd_names_them() {
        let prefix = data_prefix(PoolId(7), "10ab", false);
        assert_eq!(data_object(&prefix, 0x1f), "rbd_data.10ab.000000000000001f");
        assert_eq!(data_prefix(PoolId(7), "10ab", true), "rbd_data.7.10ab");
        let pool = Pool { id: PoolId(1), name: "p".into(), namespace: "n".into() };
        assert_eq!(pool.header("10ab").object, "rbd_header.10ab");
        assert_eq!(pool.header("10ab").namespace, "n");
        let spec = ImageSpec { pool, name: "i".into() };
        assert_eq!(spec.to_string(), "p/n/i");
    }
}
