//! Groups whose members keep shards of erasure-coded objects: places, and plans of writes.
//!
//! See `docs/internals/erasure-coding.md`.

mod cell;
mod geometry;
mod image;
mod plan;
#[cfg(test)]
mod tests;
