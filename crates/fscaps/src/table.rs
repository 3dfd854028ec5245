//! The table of bits that clients may hold beside each other on one inode.
//!
//! It is the specification of the lock machine: in each state of an inode, the bits that clients hold, with
//! those that are being revoked, obey it.

use wire::CapBits;

/// A row: a bit, and the bits that no other client may hold beside it.
pub(crate) type Row = (CapBits, CapBits);

const FILE: CapBits = CapBits(CapBits::ANY_FILE.0 & !CapBits::FILE_EXTEND.0);
const EXCL: CapBits = CapBits::FILE_EXCL;
const WRITE: CapBits = CapBits::FILE_WRITE;
const BUFFER: CapBits = CapBits::FILE_BUFFER;

/// The rows. `Fc` and `Fr` of a directory are the rights to create and unlink asynchronously; a directory's
/// holder of them has `Fx`, so the rows hold for directories, too.
pub(crate) const ROWS: [Row; 13] = [
    (CapBits::AUTH_SHARED, CapBits::AUTH_EXCL),
    (CapBits::AUTH_EXCL, CapBits(CapBits::AUTH_SHARED.0 | CapBits::AUTH_EXCL.0)),
    (CapBits::LINK_SHARED, CapBits::LINK_EXCL),
    (CapBits::LINK_EXCL, CapBits(CapBits::LINK_SHARED.0 | CapBits::LINK_EXCL.0)),
    (CapBits::XATTR_SHARED, CapBits::XATTR_EXCL),
    (CapBits::XATTR_EXCL, CapBits(CapBits::XATTR_SHARED.0 | CapBits::XATTR_EXCL.0)),
    (CapBits::FILE_SHARED, CapBits(EXCL.0 | WRITE.0 | BUFFER.0)),
    (EXCL, FILE),
    (CapBits::FILE_CACHE, CapBits(EXCL.0 | WRITE.0 | BUFFER.0)),
    (CapBits::FILE_READ, CapBits(EXCL.0 | BUFFER.0)),
    (WRITE, CapBits(CapBits::FILE_SHARED.0 | EXCL.0 | CapBits::FILE_CACHE.0 | BUFFER.0)),
    (BUFFER, FILE),
    (CapBits::FILE_LAZY, CapBits(EXCL.0 | BUFFER.0)),
];

/// Bits that no other client may hold while a client holds `held`.
pub(crate) fn excluded_by(rows: &[Row], held: CapBits) -> CapBits {
    let rows = rows.iter().filter(|(bit, _)| held.contains(*bit));
    rows.fold(CapBits::NONE, |bits, (_, excluded)| bits | *excluded)
}

/// The first two clients that contradict each other, if any do.
pub(crate) fn contradiction(
    rows: &[Row],
    holders: impl Iterator<Item = (u64, CapBits)> + Clone,
) -> Option<[(u64, CapBits); 2]> {
    for (one, held) in holders.clone() {
        let excluded = excluded_by(rows, held);
        let mut others = holders.clone().filter(|(other, _)| *other != one);
        if let Some(other) = others.find(|(_, bits)| excluded.intersects(*bits)) {
            return Some([(one, held), other]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_symmetric() {
        let bits = || (0..16).map(|bit| CapBits(1 << bit));
        for (a, b) in bits().flat_map(|a| bits().map(move |b| (a, b))) {
            let [ab, ba] = [(a, b), (b, a)].map(|(a, b)| excluded_by(&ROWS, a).contains(b));
            assert_eq!(ab, ba, "{a} and {b}");
        }
    }

    #[test]
    fn a_contradiction_names_both_clients() {
        let held = [(1, CapBits::FILE_READ), (2, CapBits::FILE_WRITE), (3, CapBits::FILE_CACHE)];
        let found = contradiction(&ROWS, held.into_iter());
        assert_eq!(found, Some([held[1], held[2]]));
        assert_eq!(contradiction(&ROWS, held[..2].iter().copied()), None);
    }
}
