//! One placement group: its log, replication, and agreement after restarts.
mod object_info;
pub use object_info::*;
