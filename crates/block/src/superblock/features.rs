//! Version of the format, and features that stores may use.

use codec::DecodeError;
use std::fmt;

/// Version of the format that this code writes and reads.
pub const FORMAT: u32 = 1;

/// An incompatible feature: the superblock does not name the runs of the metadata space. Set only
/// while there are too many of them.
pub const SCATTERED_METADATA: u64 = 1 << 0;

/// An incompatible feature: there are collections of shards, or held changes. Set before the first one
/// is recorded in the log, and never unset.
pub const SHARDS: u64 = 1 << 1;

/// Features that this version knows.
const KNOWN_READ_ONLY: u64 = 0;
const KNOWN_INCOMPATIBLE: u64 = SCATTERED_METADATA | SHARDS;

/// Additions to the format, one bit each. An older version that does not know a bit may still write
/// to the store, only read it, or do neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// Bits that do not concern older versions.
    pub compatible: u64,
    /// Bits because of which older versions may only read.
    pub read_only: u64,
    /// Bits because of which older versions may do neither.
    pub incompatible: u64,
}

/// Feature bits, shown as their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bits(pub u64);

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for bit in (0..u64::BITS).filter(|bit| self.0 >> bit & 1 == 1) {
            write!(f, "{separator}{bit}")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl Features {
    /// Set if only the bitmap of pages names the runs of the metadata space.
    pub fn has_scattered_metadata(&self) -> bool {
        self.incompatible & SCATTERED_METADATA != 0
    }

    /// Sets or clears the feature; see [`SCATTERED_METADATA`].
    pub fn set_scattered_metadata(&mut self, is_scattered: bool) {
        self.incompatible &= !SCATTERED_METADATA;
        self.incompatible |= if is_scattered { SCATTERED_METADATA } else { 0 };
    }

    /// Set if collections of shards may exist.
    pub fn has_shards(&self) -> bool {
        self.incompatible & SHARDS != 0
    }

    /// Sets the feature; see [`SHARDS`].
    pub fn set_shards(&mut self) {
        self.incompatible |= SHARDS;
    }

    pub(super) fn unknown_incompatible(&self) -> u64 {
        self.incompatible & !KNOWN_INCOMPATIBLE
    }

    /// Features because of which this version may not write.
    pub(super) fn unknown_read_only(&self) -> u64 {
        self.read_only & !KNOWN_READ_ONLY
    }
}

/// Reason why a block is not a usable copy.
#[derive(Debug, Clone)]
pub(super) enum CopyFault {
    NoMagic,
    Damaged,
    NotUnderstood(DecodeError),
    OtherFormat(u32),
    UnknownFeatures(u64),
}
