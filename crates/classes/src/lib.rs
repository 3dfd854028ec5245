//! Object classes: methods that run beside the data, as pure functions.
//!
//! A client calls `class.method(input)` on an object (`CEPH_OSD_OP_CALL`); the method reads and
//! changes that object through [`ObjectContext`], which records the changes; the caller applies all of them,
//! or none, with the operation. Methods know no clock, no store and no placement. If data is not in memory,
//! the access fails with [`Failure::Missing`]; the caller loads the data and runs the method again, so the
//! result of a method must not depend on how often it runs.
//!
//! As in Ceph, reads see the object as it was before the operation, not what the method recorded.

#![warn(missing_docs)]

mod encoding;
mod hello;
mod journal;
mod lock;
mod method;
mod object;
mod omap;
mod rbd;
mod refcount;
mod version;

pub use method::{Class, Flags, Function, Method};
pub use object::{Caller, Failure, ObjectContext, OmapPage, Result};

use std::collections::BTreeMap;
use std::sync::LazyLock;

impl Class {
    /// The method of this name; `None` if the class has none.
    pub fn method(&self, name: &[u8]) -> Option<&'static Method> {
        METHODS.get(&(self.name.as_bytes(), name)).copied()
    }
}

/// Methods by the names of class and method.
type Index = BTreeMap<(&'static [u8], &'static [u8]), &'static Method>;

static METHODS: LazyLock<Index> = LazyLock::new(|| {
    let of = |class: &'static Class| {
        let methods = class.methods.iter().copied().flatten();
        methods.map(|method| ((class.name.as_bytes(), method.name.as_bytes()), method))
    };
    CLASSES.iter().flat_map(of).collect()
});

static CLASSES: &[Class] =
    &[rbd::CLASS, lock::CLASS, journal::CLASS, hello::CLASS, refcount::CLASS, version::CLASS];

/// The class of this name; `None` if this build has none. Clients get EOPNOTSUPP then.
pub fn class(name: &[u8]) -> Option<&'static Class> {
    CLASSES.iter().find(|class| class.name.as_bytes() == name)
}

#[cfg(test)]
mod noise;
#[cfg(test)]
mod test_object;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_a_name_of_its_own_and_is_found_by_it() {
        for class in CLASSES {
            for method in class.methods.iter().copied().flatten() {
                let found = class.method(method.name.as_bytes()).unwrap();
                assert!(std::ptr::eq(found, method), "{}.{}", class.name, method.name);
            }
            assert!(class.method(b"").is_none());
        }
    }
}
