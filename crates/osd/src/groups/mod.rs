//! The placement groups of this OSD: their table, and their way through maps, splits and merges.

pub(crate) mod group;
mod jobs;
pub(crate) mod placement;
pub(crate) mod split_merge;
pub(crate) mod states;
mod table;
pub(crate) mod wants;

pub(crate) use group::Group;
pub(crate) use table::{Groups, Polled};
