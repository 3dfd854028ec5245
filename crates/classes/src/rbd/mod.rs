//! Class `rbd`: block device images (`cls_rbd`).
//!
//! An image is a header object, whose omap holds all that is known of it, and data objects. Names,
//! groups, mirroring, the trash and namespaces are omaps of further objects of the pool. One file
//! here for each such object or family of methods, [`values`] for what they store.
//!
//! The class keeps and checks these omaps only: clones of data objects are kept by OSDs, and data objects are
//! written and removed by clients.

mod children;
mod data;
mod directory;
mod features;
mod groups;
mod header;
mod keys;
mod metadata;
mod migration;
mod mirror;
mod object_map;
mod old_format;
mod parents;
mod snapshots;
mod stored;
mod timestamps;
mod trash;
mod values;

use crate::method::Class;

/// Methods that clients call while they write come first.
pub(crate) const CLASS: Class = Class {
    name: "rbd",
    default_allowed: true,
    methods: &[
        data::METHODS,
        object_map::METHODS,
        header::METHODS,
        timestamps::METHODS,
        snapshots::METHODS,
        parents::METHODS,
        children::METHODS,
        directory::METHODS,
        metadata::METHODS,
        trash::METHODS,
        groups::METHODS,
        migration::METHODS,
        mirror::pool::METHODS,
        mirror::images::METHODS,
        mirror::status::METHODS,
        mirror::instances::METHODS,
        old_format::METHODS,
    ],
};

#[cfg(test)]
mod tests;
