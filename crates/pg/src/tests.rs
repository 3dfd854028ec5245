//! Text-driven cases: a few OSDs with one group, driven line by line. `tests/world.rs` describes the
//! commands.

mod backfill;
mod damage;
mod distrusted;
mod dups;
mod intervals;
mod invariants;
mod members;
mod pieces;
mod recovery;
mod reshaping;
mod room;
mod setup;
mod sizes;
mod states;
mod steps;
mod striped;
mod world;

use world::World;
