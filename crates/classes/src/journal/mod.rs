//! Class `journal`: journals of changes, as images with journaling have (`cls_journal`).
//!
//! The header object's omap holds the layout, the sets of data objects in use, the clients with their commit
//! positions, and the tags, which name the writers of entries. Entries themselves are appended to data
//! objects, and only clients interpret them.

mod clients;
mod header;
mod objects;
mod stored;
mod tags;
mod values;

use crate::method::Class;

pub(crate) const CLASS: Class = Class {
    name: "journal",
    default_allowed: true,
    methods: &[objects::METHODS, clients::METHODS, header::METHODS, tags::METHODS],
};

#[cfg(test)]
mod tests;
