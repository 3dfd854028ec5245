//! Output of maps and statistics, with the field names of Ceph 18.2.
//!
//! Pure translation: nothing is decided here.

pub mod addrs;
pub mod crush;
pub mod fsmap;
pub mod maps;
pub mod osdmap;
pub mod peers;
pub mod pg_tables;
pub mod pgs;
pub mod pool;
pub mod tree;
