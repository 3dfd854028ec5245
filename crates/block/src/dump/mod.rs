//! A store's metadata as text for people: superblock, log, tree, space and objects.
//!
//! Only reads, and streams its output, so that memory holds no more than the contents of the log.
//! The state shown is that at the end of the log. Damage is printed where it is met;
//! [`crate::fsck`] explains it.

mod error;
mod held;
mod log;
mod objects;
mod output;
mod scanner;
mod space;
mod superblock;
#[cfg(test)]
mod tests;
mod tree;

pub use error::DumpError;
pub use log::log;
pub use objects::{ObjectFilter, objects};
pub use space::space;
pub use superblock::superblock;
pub use tree::tree;
