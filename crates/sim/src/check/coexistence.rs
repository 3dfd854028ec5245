//! Capabilities of clients on a file: those that contradict each other never exist at the same time. Of a
//! client that was shut out, capabilities do not count: the OSDs refuse what it does with them.

use maps::OsdMap;
use std::collections::BTreeMap;
use types::EntityAddrVec;
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

/// Clients that were shut out, by the newest OSD map that any monitor has had: it counts also while all
/// monitors that had it are down.
#[derive(Default)]
pub struct ShutOut {
    /// The epoch of that map, and what it says of clients.
    newest: OsdMap,
}

impl ShutOut {
    /// A monitor has this map.
    pub fn note(&mut self, map: &OsdMap) {
        if map.epoch > self.newest.epoch {
            let (blocklist, range_blocklist) = (map.blocklist.clone(), map.range_blocklist.clone());
            let epoch = map.epoch;
            self.newest = OsdMap { epoch, blocklist, range_blocklist, ..OsdMap::default() };
        }
    }

    /// Whether a client with these addresses is shut out.
    pub fn has(&self, addrs: &EntityAddrVec) -> bool {
        self.newest.is_any_blocklisted(addrs)
    }
}

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
    use types::{EntityAddr, Epoch, UTime};

    #[test]
    fn a_client_stays_shut_out_while_no_monitor_has_the_map_that_says_so() {
        let client: EntityAddr = "v2:10.0.0.2:0/77".parse().unwrap();
        let addrs = EntityAddrVec(vec![client]);
        let mut map = OsdMap { epoch: Epoch(20), ..OsdMap::default() };
        map.blocklist.insert("any:10.0.0.2:0/77".parse().unwrap(), UTime::ZERO);
        let mut shut_out = ShutOut::default();
        assert!(!shut_out.has(&addrs));
        shut_out.note(&map);
        // A monitor starts again, and has read only a part of the control store.
        shut_out.note(&OsdMap { epoch: Epoch(19), ..OsdMap::default() });
        assert!(shut_out.has(&addrs));
        shut_out.note(&OsdMap { epoch: Epoch(21), ..OsdMap::default() });
        assert!(!shut_out.has(&addrs), "the entry was removed");
    }

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
