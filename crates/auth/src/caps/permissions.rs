//! Read, write and execute permissions of monitor and manager capabilities.

use std::ops::BitOr;

/// A set of permissions. `*` is more than all three: it includes permissions of later releases, and a few
/// requests require it explicitly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rwx(u8);

impl Rwx {
    /// No permission.
    pub const NONE: Rwx = Rwx(0);
    /// `r`
    pub const READ: Rwx = Rwx(1 << 1);
    /// `w`
    pub const WRITE: Rwx = Rwx(1 << 2);
    /// `x`
    pub const EXECUTE: Rwx = Rwx(1 << 3);
    /// `rw`
    pub const READ_WRITE: Rwx = Rwx(Self::READ.0 | Self::WRITE.0);
    /// `rwx`
    pub const ALL: Rwx = Rwx(Self::READ.0 | Self::WRITE.0 | Self::EXECUTE.0);
    /// `*`
    pub const ANY: Rwx = Rwx(0xff);

    /// The set of those that are true.
    pub fn new(read: bool, write: bool, execute: bool) -> Rwx {
        let bit = |set, permission| if set { permission } else { Rwx::NONE };
        bit(read, Rwx::READ) | bit(write, Rwx::WRITE) | bit(execute, Rwx::EXECUTE)
    }

    /// Parses letters such as `rw`, which command tables use for the needed permissions.
    pub fn from_letters(letters: &str) -> Rwx {
        Rwx::new(letters.contains('r'), letters.contains('w'), letters.contains('x'))
    }

    /// True if all of `needed` are in the set.
    pub fn contains(self, needed: Rwx) -> bool {
        self.0 & needed.0 == needed.0
    }
}

impl BitOr for Rwx {
    type Output = Rwx;

    fn bitor(self, other: Rwx) -> Rwx {
        Rwx(self.0 | other.0)
    }
}
