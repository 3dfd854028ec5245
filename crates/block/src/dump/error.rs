//! Reasons why a store cannot be shown.

use super::output::excerpt;
use crate::fsck::Finding;
use crate::space::SpaceError;
use crate::tree::Fault;
use bytes::Bytes;
use codec::DecodeError;
use std::fmt;
use thiserror::Error;

/// Reason why a text ends early.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DumpError {
    /// The findings about the superblock.
    #[error("there is no superblock to go by: {}", join(.0))]
    NoSuperblock(Vec<Finding>),
    /// A key or value does not decode.
    #[error(transparent)]
    Encoding(#[from] DecodeError),
    /// A page of the tree is damaged.
    #[error(transparent)]
    Tree(#[from] Fault),
    /// A chunk of the bitmap does not fit the space.
    #[error(transparent)]
    Space(#[from] SpaceError),
    /// A key is not that of an object.
    #[error("key {}", excerpt(key))]
    Key {
        /// The key.
        key: Bytes,
    },
    /// The text was refused.
    #[error("the text cannot be written")]
    Write(#[from] fmt::Error),
}

fn join(findings: &[Finding]) -> String {
    let texts: Vec<String> = findings.iter().map(Finding::to_string).collect();
    texts.join("; ")
}
