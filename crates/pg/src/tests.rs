//! Text-driven cases: a few OSDs with one group, driven line by line. `tests/world.rs` describes the
//! commands.

mod backfill;
mod corrupt_copies;
mod damage;
mod dups;
mod erasure;
mod intervals;
mod invariants;
mod members;
mod no_space;
mod pieces;
mod recovery;
mod rows;
mod setup;
mod sizes;
mod split_merge;
mod states;
mod steps;
mod world;

use world::World;
