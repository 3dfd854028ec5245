//! A store's metadata as text for people: superblock, log, tree, space and objects.
//!
//! Only reads, and streams its output, so that memory holds no more than the contents of the log.
//! The state shown is that at the end of the log. Damage is printed where it is met;
//! [`crate::fsck`] explains it.

mod log;
mod objects;
mod output;
mod scanner;
mod space;
mod superblock;
#[cfg(test)]
mod tests;
mod tree;

pub use log::log;
pub use objects::{ObjectFilter, objects};
pub use space::space;
pub use superblock::superblock;
pub use tree::tree;

use crate::fsck::{Source, choose_superblock};
use crate::superblock::Superblock;
use std::fmt;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DumpError {
    #[error("there is no superblock to go by: {0}")]
    NoSuperblock(String),
    #[error("{0}")]
    Damaged(String),
    #[error("the text cannot be written")]
    Write(#[from] fmt::Error),
}

/// The newest valid superblock.
fn find_superblock(source: &Source<'_>) -> Result<Superblock, DumpError> {
    choose_superblock(source).map_err(DumpError::NoSuperblock)
}
