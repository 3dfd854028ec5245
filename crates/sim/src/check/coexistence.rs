//! Capabilities of clients on a file: those that contradict each other never exist at the same time. Of a
//! client that was shut out, capabilities do not count: the OSDs refuse what it does with them.

use std::collections::BTreeMap;
use wire::CapBits;

/// Bits of the group F that no other client may have any bit beside.
const ALONE: CapBits = CapBits(CapBits::FILE_EXCL.0 | CapBits::FILE_BUFFER.0);
/// Bits that say that nothing changes.
const STEADY: CapBits = CapBits(CapBits::FILE_SHARED.0 | CapBits::FILE_CACHE.0);
/// Groups with a bit that shows and one that changes.
const SIMPLE: [(CapBits, CapBits); 3] = [
    (CapBits::AUTH_SHARED, CapBits::AUTH_EXCL),
    (CapBits::LINK_SHARED, CapBits::LINK_EXCL),
    (CapBits::XATTR_SHARED, CapBits::XATTR_EXCL),
];

/// Bits that clients hold, by inode: each client with its bits.
pub type Holders = BTreeMap<u64, Vec<(u64, CapBits)>>;

/// Checks all inodes.
///
/// # Errors
///
/// Two clients and what they hold.
pub fn check(held: &Holders) -> Result<(), String> {
    for (ino, holders) in held {
        for (number, (a, first)) in holders.iter().enumerate() {
            for (b, second) in &holders[number + 1..] {
                if contradict(*first, *second) || contradict(*second, *first) {
                    return Err(format!(
                        "clients {a} and {b} hold {first} and {second} on {ino:x} at once"
                    ));
                }
            }
        }
    }
    Ok(())
}

fn contradict(one: CapBits, other: CapBits) -> bool {
    let file = one.intersects(ALONE) && other.intersects(CapBits::ANY_FILE);
    let steady = one.intersects(CapBits::FILE_WRITE) && other.intersects(STEADY);
    let is_shown = |(shows, changes): &(CapBits, CapBits)| {
        one.intersects(*changes) && other.intersects(*shows | *changes)
    };
    file || steady || SIMPLE.iter().any(is_shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_and_one_who_caches_contradict_each_other() {
        let mixed = CapBits::FILE_READ | CapBits::FILE_WRITE;
        assert!(!contradict(mixed, mixed));
        assert!(contradict(mixed, CapBits::FILE_CACHE));
        assert!(contradict(CapBits::FILE_BUFFER, CapBits::FILE_READ));
        assert!(contradict(CapBits::AUTH_EXCL, CapBits::AUTH_SHARED));
        assert!(!contradict(CapBits::AUTH_SHARED, CapBits::AUTH_SHARED));
    }
}
