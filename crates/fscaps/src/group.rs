//! Groups of bits, the states of a group, and the bits that a state allows.

use std::fmt;
use std::ops::BitOr;
use wire::CapBits;

/// Bits of which one state decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// A: mode, owner, group, time of creation.
    Auth,
    /// L: number of links.
    Link,
    /// X: extended attributes.
    Xattr,
    /// F: size, times, layout and data; of a directory, its entries.
    File,
}

impl Group {
    /// All groups.
    pub const ALL: [Group; 4] = [Group::Auth, Group::Link, Group::Xattr, Group::File];

    /// All bits of the group.
    pub(crate) fn mask(self) -> CapBits {
        match self {
            Group::File => CapBits::ANY_FILE,
            _ => self.shared() | self.exclusive(),
        }
    }

    /// The bit `s`.
    pub(crate) fn shared(self) -> CapBits {
        CapBits(CapBits::AUTH_SHARED.0 << (2 * self as u32))
    }

    /// The bit `x`.
    pub(crate) fn exclusive(self) -> CapBits {
        CapBits(CapBits::AUTH_EXCL.0 << (2 * self as u32))
    }
}

/// A set of groups.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Groups(u8);

impl Groups {
    /// No group.
    pub const NONE: Self = Groups(0);
    /// Mode and owner.
    pub const AUTH: Self = Groups(1);
    /// Number of links.
    pub const LINK: Self = Groups(2);
    /// Extended attributes.
    pub const XATTR: Self = Groups(4);
    /// Size, times, data; entries.
    pub const FILE: Self = Groups(8);
    /// All groups.
    pub const ALL: Self = Groups(15);

    /// Groups of which any bit is set.
    pub fn of(bits: CapBits) -> Self {
        let named = Group::ALL.into_iter().filter(|group| bits.intersects(group.mask()));
        named.fold(Groups::NONE, |groups, group| groups | Groups(1 << group as u8))
    }

    /// Whether it has no group.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it has a group.
    pub fn contains(self, group: Group) -> bool {
        self.0 >> group as u8 & 1 != 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Group> {
        Group::ALL.into_iter().filter(move |group| self.contains(*group))
    }
}

impl BitOr for Groups {
    type Output = Groups;
    fn bitor(self, other: Groups) -> Groups {
        Groups(self.0 | other.0)
    }
}

/// `ALXF`
impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|group| match group {
            Group::Auth => f.write_str("A"),
            Group::Link => f.write_str("L"),
            Group::Xattr => f.write_str("X"),
            Group::File => f.write_str("F"),
        })
    }
}

/// Kind of an inode, as far as capabilities differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// A file, or anything that has no entries.
    #[default]
    File,
    /// A directory.
    Directory,
}

/// State of a group of one inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// All may read and cache.
    #[default]
    Sync,
    /// One client, the loner, may do everything; others nothing.
    Excl(u64),
    /// All may read and write data, and cache none. Only of files.
    Mix,
    /// The server reads or changes it for a client, which keeps its bits but for those by which it changes it
    /// itself; others keep `c` and `b` of a file. Client 0 is a task of the server, for which all are others.
    Lock(u64),
}

/// Rights to create and to unlink asynchronously: `Fc` and `Fr` of a directory.
pub const DIRECTORY_OPERATIONS: CapBits = CapBits(CapBits::FILE_CACHE.0 | CapBits::FILE_READ.0);
/// Bits by which a client writes data or attributes of a file.
pub const WRITING: CapBits = CapBits::ANY_FILE_WRITE;
/// Bits by which a client uses a file.
pub(crate) const USING: CapBits = CapBits(WRITING.0 | CapBits::FILE_READ.0);
/// Bits of F that a client keeps while the server reads or changes a file, so that buffers survive it.
const BUFFERS: CapBits = CapBits(CapBits::FILE_CACHE.0 | CapBits::FILE_BUFFER.0);

const READING: CapBits = CapBits(
    CapBits::FILE_SHARED.0 | CapBits::FILE_CACHE.0 | CapBits::FILE_READ.0 | CapBits::FILE_LAZY.0,
);
const MIXED: CapBits = CapBits(CapBits::FILE_READ.0 | CapBits::FILE_WRITE.0 | CapBits::FILE_LAZY.0);

impl State {
    /// Bits of a group that a client may be granted.
    pub(crate) fn granted(self, group: Group, kind: Kind, client: u64) -> CapBits {
        let is_file = group == Group::File && kind == Kind::File;
        match self {
            State::Excl(loner) if loner != client => CapBits::NONE,
            State::Excl(_) if is_file => CapBits::ANY_FILE - CapBits::FILE_EXTEND,
            State::Excl(_) if group == Group::File => {
                group.shared() | group.exclusive() | DIRECTORY_OPERATIONS
            }
            State::Excl(_) => group.mask() - CapBits::LINK_EXCL,
            State::Sync if is_file => READING,
            State::Mix if is_file => MIXED,
            State::Sync | State::Mix => group.shared(),
            State::Lock(_) => CapBits::NONE,
        }
    }

    /// Bits of a group that a client may keep if it has them.
    pub(crate) fn kept(self, group: Group, kind: Kind, client: u64) -> CapBits {
        match self {
            State::Lock(by) if by == client => group.mask() - changed_by_server(group, kind),
            State::Lock(_) if group == Group::File && kind == Kind::File => BUFFERS,
            _ => self.granted(group, kind, client),
        }
    }
}

/// Bits of a group that a client must not have while the server changes the group for that client itself:
/// with them it would not take the new values from the reply, and the server would not know the size that it
/// cuts.
pub(crate) fn changed_by_server(group: Group, kind: Kind) -> CapBits {
    match (group, kind) {
        // Linux warns if it may read a file that is cut.
        (Group::File, Kind::File) => group.mask() - BUFFERS - CapBits::FILE_SHARED,
        // Others have no entries of their own, and times only grow.
        (Group::File, Kind::Directory) => CapBits::NONE,
        _ => group.exclusive(),
    }
}

/// Bits that a client gets without asking. `Lx` is of no use, since only the server changes the number of
/// links; with `Xx`, a client that changes attributes by requests would have to give it back each time.
pub(crate) fn liked(kind: Kind) -> CapBits {
    let of_server = CapBits::LINK_EXCL | CapBits::XATTR_EXCL;
    let attributes = CapBits::PIN | CapBits::ANY_SHARED | (CapBits::ANY_EXCL - of_server);
    match kind {
        Kind::Directory => attributes | DIRECTORY_OPERATIONS,
        Kind::File => attributes | (CapBits::ANY_FILE - CapBits::FILE_LAZY - CapBits::FILE_EXTEND),
    }
}

/// Bits of a group that no other client may hold while the server reads the group for a client.
pub(crate) fn hides(group: Group, kind: Kind) -> CapBits {
    match (group, kind) {
        (Group::File, Kind::File) => CapBits::FILE_EXCL | CapBits::FILE_WRITE,
        (Group::File, Kind::Directory) => CapBits::FILE_EXCL | DIRECTORY_OPERATIONS,
        _ => group.exclusive(),
    }
}

/// Bits of a group that no other client may hold while the server changes the group for a client.
pub(crate) fn relies_on(group: Group, kind: Kind) -> CapBits {
    match (group, kind) {
        (Group::File, Kind::File) => group.mask() - BUFFERS,
        _ => group.mask(),
    }
}

/// Capabilities on an inode of a snapshot, which never change.
pub fn snapshot_caps() -> CapBits {
    CapBits::PIN | CapBits::ANY_SHARED | READING
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{ROWS, excluded_by};

    #[test]
    fn allowed_bits_of_two_clients_obey_the_table() {
        for state in [State::Sync, State::Excl(1), State::Mix, State::Lock(1), State::Lock(0)] {
            for (kind, group) in [Kind::File, Kind::Directory]
                .into_iter()
                .flat_map(|kind| Group::ALL.map(|group| (kind, group)))
            {
                let [one, two] = [1, 2].map(|client| state.granted(group, kind, client));
                let excluded = excluded_by(&ROWS, one);
                assert!(!excluded.intersects(two), "{state:?} of {group:?}: {one} beside {two}");
                let kept = state.kept(group, kind, 2);
                assert!(kept.contains(two), "{state:?}: bits that are granted are kept");
            }
        }
    }

    #[test]
    fn a_reading_or_changing_server_is_a_holder_of_the_table() {
        for group in Group::ALL {
            let reads = excluded_by(&ROWS, group.shared());
            assert!(reads.contains(hides(group, Kind::File)), "{group:?}");
            let changes = excluded_by(&ROWS, group.exclusive()) - BUFFERS;
            assert_eq!(relies_on(group, Kind::File) - CapBits::FILE_EXTEND, changes, "{group:?}");
        }
    }

    #[test]
    fn groups_are_named_by_their_bits() {
        assert_eq!(format!("{:?}", Groups::of(CapBits::FILE_WRITE | CapBits::XATTR_SHARED)), "XF");
        assert!(Groups::of(CapBits::PIN).is_empty());
    }
}
