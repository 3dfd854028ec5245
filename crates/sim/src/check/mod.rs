//! Checkers, one per file: each examines the result of a run and returns a description of any violation.

pub mod coexistence;
pub mod committed;
pub mod file_contents;
pub mod file_rows;
mod file_snapshots;
pub mod health;
pub mod image;
pub mod issued;
pub mod linearizable;
pub mod log;
pub mod media;
pub mod memory;
pub mod once;
pub mod order;
pub mod order_search;
pub mod quiet;
pub mod replicas;
pub mod shards;
pub mod snapshots;
pub mod stores;
pub mod tree;
pub mod watches;
