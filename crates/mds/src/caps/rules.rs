//! Which capabilities may exist beside each other, and which are right for whom.

use wire::CapBits;

/// Bits by which a client wants a file's data for itself, if no other client wants it.
const DATA: CapBits = CapBits(
    CapBits::FILE_READ.0 | CapBits::FILE_WRITE.0 | CapBits::FILE_BUFFER.0 | CapBits::FILE_EXCL.0,
);
/// Bits by which a client changes data.
pub(crate) const WRITING: CapBits = CapBits::ANY_FILE_WRITE;

/// State of an inode: how its holders share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// One client may do everything, others nothing.
    Exclusive(u64),
    /// All may read and cache.
    Shared,
    /// All may read and write data, and cache none.
    Mixed,
}

/// The state that is right for an inode, from its holders and their wanted bits.
pub(crate) fn right_sharing(is_directory: bool, holders: &[(u64, CapBits)]) -> Sharing {
    if is_directory {
        return match holders {
            [(only, _)] => Sharing::Exclusive(*only),
            _ => Sharing::Shared,
        };
    }
    let mut users = holders.iter().filter(|(_, wanted)| wanted.intersects(DATA));
    match (users.next(), users.next()) {
        (Some((only, _)), None) => Sharing::Exclusive(*only),
        (Some(_), Some(_)) if holders.iter().any(|(_, wanted)| wanted.intersects(WRITING)) => {
            Sharing::Mixed
        }
        _ => Sharing::Shared,
    }
}

/// Bits that a client may hold in a state.
pub(crate) fn allowed(sharing: Sharing, is_directory: bool, client: u64) -> CapBits {
    let attributes = CapBits::AUTH_SHARED | CapBits::LINK_SHARED | CapBits::XATTR_SHARED;
    let reading = CapBits::FILE_SHARED | CapBits::FILE_CACHE | CapBits::FILE_READ;
    // A client that has these does not take the values from replies, also not those of its own requests.
    let never = CapBits::LINK_EXCL | CapBits::XATTR_EXCL;
    let all = CapBits::ANY_SHARED | (CapBits::ANY_EXCL - never);
    let bits = match sharing {
        Sharing::Exclusive(loner) if loner != client => CapBits::NONE,
        Sharing::Exclusive(_) if is_directory => all,
        Sharing::Exclusive(_) => all | CapBits::ANY_FILE,
        Sharing::Shared if is_directory => CapBits::ANY_SHARED,
        Sharing::Shared => attributes | reading | CapBits::FILE_LAZY,
        Sharing::Mixed => {
            attributes | CapBits::FILE_READ | CapBits::FILE_WRITE | CapBits::FILE_LAZY
        }
    };
    CapBits::PIN | (bits - CapBits::FILE_EXTEND)
}

/// Bits that a client gets without asking.
pub(crate) fn liked(is_directory: bool) -> CapBits {
    let attributes = CapBits::PIN | CapBits::ANY_SHARED | CapBits::ANY_EXCL;
    match is_directory {
        true => attributes,
        false => attributes | (CapBits::ANY_FILE - CapBits::FILE_LAZY - CapBits::FILE_EXTEND),
    }
}

/// Bits that no other client may hold while a client holds `held`: the table of the design, by rows.
pub(crate) fn excluded_by(held: CapBits) -> CapBits {
    let mut excluded = CapBits::NONE;
    for (shared, exclusive) in [
        (CapBits::AUTH_SHARED, CapBits::AUTH_EXCL),
        (CapBits::LINK_SHARED, CapBits::LINK_EXCL),
        (CapBits::XATTR_SHARED, CapBits::XATTR_EXCL),
    ] {
        if held.contains(shared) {
            excluded |= exclusive;
        }
        if held.contains(exclusive) {
            excluded |= shared | exclusive;
        }
    }
    let (write, buffer) = (CapBits::FILE_WRITE, CapBits::FILE_BUFFER);
    let exclusive = CapBits::FILE_EXCL;
    let file = CapBits::ANY_FILE - CapBits::FILE_EXTEND;
    let rows = [
        (CapBits::FILE_SHARED, exclusive | write | buffer),
        (exclusive, file),
        (CapBits::FILE_CACHE, exclusive | write | buffer),
        (CapBits::FILE_READ, exclusive | buffer),
        (write, CapBits::FILE_SHARED | exclusive | CapBits::FILE_CACHE | buffer),
        (buffer, file),
        (CapBits::FILE_LAZY, exclusive | buffer),
    ];
    for (bit, others) in rows {
        if held.contains(bit) {
            excluded |= others;
        }
    }
    excluded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_symmetric() {
        let bits = || (0..16).map(|bit| CapBits(1 << bit));
        for (a, b) in bits().flat_map(|a| bits().map(move |b| (a, b))) {
            assert_eq!(excluded_by(a).contains(b), excluded_by(b).contains(a), "{a} and {b}");
        }
    }

    #[test]
    fn allowed_bits_of_two_clients_obey_the_table() {
        for sharing in [Sharing::Exclusive(1), Sharing::Shared, Sharing::Mixed] {
            for is_directory in [false, true] {
                let [one, two] = [1, 2].map(|client| allowed(sharing, is_directory, client));
                assert!(!excluded_by(one).intersects(two), "{sharing:?}: {one} beside {two}");
            }
        }
    }

    #[test]
    fn a_file_belongs_to_the_only_client_that_uses_it() {
        let read = CapBits::FILE_READ;
        let write = CapBits::FILE_WRITE;
        let none = CapBits::NONE;
        let right = |holders: &[(u64, CapBits)]| right_sharing(false, holders);
        assert_eq!(right(&[(1, none), (2, none)]), Sharing::Shared);
        assert_eq!(right(&[(1, none), (2, read)]), Sharing::Exclusive(2));
        assert_eq!(right(&[(1, read), (2, read)]), Sharing::Shared);
        assert_eq!(right(&[(1, read), (2, write)]), Sharing::Mixed);
        assert_eq!(right_sharing(true, &[(7, none)]), Sharing::Exclusive(7));
        assert_eq!(right_sharing(true, &[(7, none), (8, none)]), Sharing::Shared);
    }
}
