//! Class `journal`: journals of changes, as images with journaling have (`cls_journal`).
//!
//! The header object's omap holds the layout, which sets of data objects are in use, the clients
//! with how far each has committed, and the tags, which say who wrote entries and since when.
//! Entries themselves are appended to data objects, and only clients understand them.

mod clients;
mod header;
mod objects;
mod tags;
mod values;

use crate::Class;

pub(crate) const CLASS: Class = Class {
    name: "journal",
    default_allowed: true,
    methods: &[objects::METHODS, clients::METHODS, header::METHODS, tags::METHODS],
};

#[cfg(test)]
mod tests;
