//! Page cache: bounded, with CLOCK eviction.
//!
//! An item is a page of the tree or a run of overflow pages, identified by its first page and its
//! checksum. Inner pages survive more rounds of the clock than leaves, which survive more than
//! overflow runs.
//!
//! An operation that misses pages is repeated once they are there. To make progress with any bound,
//! supplied pages, and those that an operation used before it missed one, are *held* until an
//! operation that used them has completed. If that never happens (the operation was given up), they
//! are held for [`HOLD`] further insertions. Held items may exceed the bound.

use bytes::Bytes;
use stdx::FastMap;

/// Insertions for which items are held at most.
const HOLD: u64 = 1024;
/// Insertions for which inner pages are held after an operation that used them has completed,
/// because other operations in progress need them, too.
const HOLD_INNER: u64 = 128;
/// Rounds of the clock that an item survives after its last use, by its level.
const ROUNDS_OVERFLOW: u8 = 1;
const ROUNDS_LEAF: u8 = 2;
const ROUNDS_INNER: u8 = 6;

#[derive(Debug)]
struct Item {
    page: u64,
    crc: u32,
    bytes: Bytes,
    pages: u32,
    /// Rounds that the item survives after each use.
    rounds_max: u8,
    rounds: u8,
    held_until: u64,
}

#[derive(Debug)]
pub(super) struct Cache {
    items: Vec<Item>,
    index: FastMap<u64, u32>,
    hand: usize,
    pages: usize,
    pages_max: usize,
    insertions: u64,
    /// Slots and pages that the operation in progress used.
    trail: Vec<(u32, u64)>,
}

impl Cache {
    pub(super) fn new(pages_max: usize) -> Self {
        Cache {
            items: Vec::new(),
            index: FastMap::default(),
            hand: 0,
            pages: 0,
            pages_max,
            insertions: 0,
            trail: Vec::new(),
        }
    }

    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    pub(super) fn set_pages_max(&mut self, pages_max: usize) {
        self.pages_max = pages_max;
        self.evict();
    }

    pub(super) fn pages_max(&self) -> usize {
        self.pages_max
    }

    /// Looks up a page without counting a use.
    pub(super) fn peek(&self, page: u64, crc: u32) -> Option<Bytes> {
        let item = &self.items[*self.index.get(&page)? as usize];
        (item.crc == crc).then(|| item.bytes.clone())
    }

    pub(super) fn contains(&self, page: u64, crc: u32) -> bool {
        self.index.get(&page).is_some_and(|index| self.items[*index as usize].crc == crc)
    }

    pub(super) fn get(&mut self, page: u64, crc: u32) -> Option<Bytes> {
        let index = *self.index.get(&page)?;
        let item = &mut self.items[index as usize];
        if item.crc != crc {
            return None;
        }
        item.rounds = item.rounds_max;
        self.trail.push((index, page));
        Some(item.bytes.clone())
    }

    /// Inserts a page that was read, and holds it.
    pub(super) fn insert_read(&mut self, page: u64, crc: u32, level: Option<u8>, bytes: Bytes) {
        let held_until = self.insertions + HOLD;
        self.insert(page, crc, level, bytes, held_until);
    }

    /// Inserts a page that is being written. It is evicted first, because no operation has
    /// requested it.
    pub(super) fn insert_written(&mut self, page: u64, crc: u32, level: Option<u8>, bytes: Bytes) {
        self.insert(page, crc, level, bytes, 0);
    }

    fn insert(&mut self, page: u64, crc: u32, level: Option<u8>, bytes: Bytes, held_until: u64) {
        self.remove(page);
        let rounds_max = match level {
            None => ROUNDS_OVERFLOW,
            Some(0) => ROUNDS_LEAF,
            Some(_) => ROUNDS_INNER,
        };
        let pages = (bytes.len() / crate::device::BLOCK) as u32;
        self.index.insert(page, self.items.len() as u32);
        self.items.push(Item { page, crc, bytes, pages, rounds_max, rounds: 0, held_until });
        self.pages += pages as usize;
        self.insertions += 1;
        self.evict();
    }

    /// Ends the operation in progress: holds the pages that it used if it will be repeated.
    pub(super) fn settle(&mut self, again: bool) {
        while let Some((index, page)) = self.trail.pop() {
            // The item may have been moved or evicted in the meantime.
            let is_there = self.items.get(index as usize).is_some_and(|item| item.page == page);
            let index = if is_there { Some(index) } else { self.index.get(&page).copied() };
            if let Some(index) = index {
                self.settle_item(index as usize, again);
            }
        }
        self.evict();
    }

    fn settle_item(&mut self, index: usize, again: bool) {
        let item = &mut self.items[index];
        let hold = match (again, item.rounds_max) {
            (true, _) => HOLD,
            (false, ROUNDS_INNER) => HOLD_INNER,
            (false, _) => 0,
        };
        item.held_until = self.insertions + hold;
    }

    pub(super) fn remove(&mut self, page: u64) {
        if let Some(index) = self.index.get(&page) {
            self.remove_at(*index as usize);
        }
    }

    fn remove_at(&mut self, index: usize) {
        let item = self.items.swap_remove(index);
        self.index.remove(&item.page);
        self.pages -= item.pages as usize;
        if let Some(moved) = self.items.get(index) {
            self.index.insert(moved.page, index as u32);
        }
    }

    fn evict(&mut self) {
        // After this many steps every item was seen without rounds left, so the rest is held.
        let mut steps = (usize::from(ROUNDS_INNER) + 1) * self.items.len();
        while self.pages > self.pages_max && steps > 0 {
            steps -= 1;
            if self.hand >= self.items.len() {
                self.hand = 0;
            }
            let item = &mut self.items[self.hand];
            if item.held_until > self.insertions {
                self.hand += 1;
            } else if item.rounds > 0 {
                item.rounds -= 1;
                self.hand += 1;
            } else {
                self.remove_at(self.hand);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.index.len(), self.items.len());
        assert_eq!(self.pages, self.items.iter().map(|item| item.pages as usize).sum::<usize>());
        for (index, item) in self.items.iter().enumerate() {
            assert_eq!(self.index.get(&item.page), Some(&(index as u32)));
        }
        let held = self.items.iter().filter(|item| item.held_until > self.insertions);
        let held: usize = held.map(|item| item.pages as usize).sum();
        assert!(self.pages <= self.pages_max.max(held), "{} pages, {held} held", self.pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::BLOCK;

    fn page() -> Bytes {
        Bytes::from(vec![0; BLOCK])
    }

    #[test]
    fn pages_read_stay_until_they_are_used() {
        let mut cache = Cache::new(2);
        for number in 0..10 {
            cache.insert_read(number, 0, Some(0), page());
        }
        assert!((0..10).all(|number| cache.contains(number, 0)));
        for number in 0..10 {
            assert!(cache.get(number, 0).is_some());
            cache.settle(false);
            cache.check_invariants();
        }
        assert_eq!(cache.pages(), 2);
    }

    #[test]
    fn unused_pages_are_not_held_forever() {
        let mut cache = Cache::new(2);
        for number in 0..5000 {
            cache.insert_read(number, 0, Some(0), page());
        }
        assert!(cache.pages() <= HOLD as usize + 1);
    }

    #[test]
    fn inner_pages_stay_when_leaves_go() {
        let mut cache = Cache::new(8);
        for number in 0..1000 {
            cache.insert_read(number, 0, Some(u8::from(number == 0)), page());
            let _ = cache.get(0, 0);
            let _ = cache.get(number, 0);
            cache.settle(false);
        }
        assert!(cache.contains(0, 0));
        cache.check_invariants();
    }

    #[test]
    fn a_page_with_another_checksum_is_another_page() {
        let mut cache = Cache::new(8);
        cache.insert_written(1, 5, Some(0), page());
        assert!(cache.get(1, 6).is_none());
        assert!(cache.get(1, 5).is_some());
    }
}
