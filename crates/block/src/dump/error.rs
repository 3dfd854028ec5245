//! Reasons why a store cannot be shown.

use std::fmt;
use thiserror::Error;

/// Reason why a text ends early.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DumpError {
    #[error("there is no superblock to go by: {0}")]
    NoSuperblock(String),
    #[error("{0}")]
    Damaged(String),
    #[error("the text cannot be written")]
    Write(#[from] fmt::Error),
}
