//! The machine that a program runs on.
//!
//! * `entropy`: randomness from the kernel.
//! * `private_files`: files and directories that hold keys or client data.
//! * `facts`: name, memory and facts of the machine.
//!
//! It does not know daemons.

#![warn(missing_docs)]

mod devices;
mod entropy;
mod facts;
mod private_files;

pub use devices::disks_below;
pub use entropy::{random_bytes, random_u64};
pub use facts::{host_facts, hostname, total_memory};
pub use private_files::{create_private, private_file, write_file};
