//! Capabilities of clients on inodes, as bits (`CEPH_CAP_*`), and their names.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not, Sub};

/// A set of capabilities. Each of the groups A, L, X has the bits `s` and `x`; F has eight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CapBits(pub u32);

impl CapBits {
    /// No capability.
    pub const NONE: Self = CapBits(0);
    /// The inode exists and is known to the client.
    pub const PIN: Self = CapBits(1);
    /// Mode, owner and group may be read.
    pub const AUTH_SHARED: Self = CapBits(1 << 2);
    /// They may be changed.
    pub const AUTH_EXCL: Self = CapBits(2 << 2);
    /// The number of links may be read.
    pub const LINK_SHARED: Self = CapBits(1 << 4);
    /// It may be changed.
    pub const LINK_EXCL: Self = CapBits(2 << 4);
    /// Extended attributes may be read.
    pub const XATTR_SHARED: Self = CapBits(1 << 6);
    /// They may be changed.
    pub const XATTR_EXCL: Self = CapBits(2 << 6);
    /// Size, times and layout may be read; of a directory, its entries may be cached.
    pub const FILE_SHARED: Self = CapBits(1 << 8);
    /// They may be changed.
    pub const FILE_EXCL: Self = CapBits(2 << 8);
    /// Data that was read may be cached; of a directory: files may be created asynchronously.
    pub const FILE_CACHE: Self = CapBits(4 << 8);
    /// Data may be read; of a directory: files may be unlinked asynchronously.
    pub const FILE_READ: Self = CapBits(8 << 8);
    /// Data may be written.
    pub const FILE_WRITE: Self = CapBits(16 << 8);
    /// Writes may be buffered.
    pub const FILE_BUFFER: Self = CapBits(32 << 8);
    /// Not used; in requests for attributes it asks for recursive statistics.
    pub const FILE_EXTEND: Self = CapBits(64 << 8);
    /// Data may be read and written without coherence.
    pub const FILE_LAZY: Self = CapBits(128 << 8);

    /// All `s` bits.
    pub const ANY_SHARED: Self = CapBits((1 << 2) | (1 << 4) | (1 << 6) | (1 << 8));
    /// All `x` bits.
    pub const ANY_EXCL: Self = CapBits((2 << 2) | (2 << 4) | (2 << 6) | (2 << 8));
    /// Bits with which a client writes data.
    pub const ANY_FILE_WRITE: Self = CapBits((2 | 16 | 32) << 8);
    /// All bits there are.
    pub const ALL: Self = CapBits(u32::MAX);
    /// All bits of the group F.
    pub const ANY_FILE: Self = CapBits(0xff << 8);

    /// Whether no bit is set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` are set.
    pub fn contains(self, other: CapBits) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether one of `other` is set.
    pub fn intersects(self, other: CapBits) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for CapBits {
    type Output = CapBits;
    fn bitor(self, other: CapBits) -> CapBits {
        CapBits(self.0 | other.0)
    }
}

impl BitOrAssign for CapBits {
    fn bitor_assign(&mut self, other: CapBits) {
        self.0 |= other.0;
    }
}

impl BitAnd for CapBits {
    type Output = CapBits;
    fn bitand(self, other: CapBits) -> CapBits {
        CapBits(self.0 & other.0)
    }
}

impl Not for CapBits {
    type Output = CapBits;
    fn not(self) -> CapBits {
        CapBits(!self.0)
    }
}

impl Sub for CapBits {
    type Output = CapBits;
    fn sub(self, other: CapBits) -> CapBits {
        CapBits(self.0 & !other.0)
    }
}

impl codec::Encode for CapBits {
    fn encode(&self, w: &mut codec::Writer) {
        w.u32(self.0);
    }
}

impl codec::Decode for CapBits {
    fn decode(r: &mut codec::Reader<'_>) -> codec::Result<Self> {
        r.u32("capabilities").map(CapBits)
    }
}

/// `pAsxLsXsxFsxcrwb`, as Ceph prints them; `-` for none.
impl fmt::Display for CapBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("-");
        }
        if self.contains(CapBits::PIN) {
            f.write_str("p")?;
        }
        for (name, shift, bits) in [('A', 2, 2), ('L', 4, 2), ('X', 6, 2), ('F', 8, 8)] {
            let group = self.0 >> shift & ((1 << bits) - 1);
            if group != 0 {
                write!(f, "{name}")?;
            }
            let letters = "sxcrwbal".chars().enumerate();
            for (_, letter) in letters.filter(|(bit, _)| group >> bit & 1 != 0) {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for CapBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_print_as_ceph_prints_them() {
        assert_eq!(CapBits(0xd55).to_string(), "pAsLsXsFscr");
        assert_eq!(CapBits(0x3fff).to_string(), "pAsxLsxXsxFsxcrwb");
        assert_eq!(CapBits::NONE.to_string(), "-");
    }
}
