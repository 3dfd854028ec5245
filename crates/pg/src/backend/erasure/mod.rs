//! Groups whose members keep shards of erasure-coded objects: rules, places, and plans of writes.
//!
//! See `docs/internals/erasure-coding.md`.

mod authority;
pub(crate) mod cell;
pub(crate) mod geometry;
pub(crate) mod image;
pub(crate) mod plan;
mod rules;
#[cfg(test)]
mod tests;

pub(super) use authority::choose_authority;
pub(crate) use geometry::Geometry;
pub use geometry::ROW;
pub(crate) use rules::TookPart;
pub(super) use rules::{blocked_by, can_serve, choose_acting, choose_holders};
