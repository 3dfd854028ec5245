//! Allocation of the slots of slab files.
//!
//! A slot holds the data of one small object. A released slot stays allocated until the checkpoint that makes
//! its release durable has finished: until then a replay of the log may still write into it ("file-store.md",
//! recovery).

use std::collections::BTreeSet;

/// Slot sizes of the slab files, in bytes. A larger object gets a file of its own.
pub const CLASSES: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];
/// Slots per stored chunk of a bitmap.
pub const SLOTS_PER_CHUNK: u64 = 4096;
const WORDS_PER_CHUNK: usize = (SLOTS_PER_CHUNK / 64) as usize;

/// The smallest class that holds `bytes`.
pub fn class_for(bytes: u64) -> Option<u8> {
    CLASSES.iter().position(|capacity| *capacity >= bytes).map(|class| class as u8)
}

/// Place of one small object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// Index in [`CLASSES`].
    pub class: u8,
    /// Number of the slot in its slab file.
    pub index: u64,
}

/// A stored chunk of a bitmap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Index in [`CLASSES`].
    pub class: u8,
    /// Number of the chunk in its bitmap.
    pub number: u32,
    /// One bit per slot, set if it is in use.
    pub bits: Vec<u8>,
}

/// The bitmaps of all slab files.
#[derive(Debug, Default)]
pub struct Slots {
    classes: [Bitmap; CLASSES.len()],
    /// Released since the last freeze.
    released: Vec<Slot>,
    /// Released before it; the running checkpoint makes the release durable.
    frozen: Vec<Slot>,
}

#[derive(Debug, Default)]
struct Bitmap {
    words: Vec<u64>,
    /// All words before this one are full.
    search_from: usize,
    dirty: BTreeSet<u32>,
}

impl Slots {
    /// Loads a stored chunk.
    pub fn load(&mut self, chunk: &Chunk) {
        let Some(bitmap) = self.classes.get_mut(usize::from(chunk.class)) else { return };
        let start = chunk.number as usize * WORDS_PER_CHUNK;
        bitmap.grow(start + WORDS_PER_CHUNK);
        for (word, raw) in bitmap.words[start..].iter_mut().zip(chunk.bits.chunks_exact(8)) {
            *word = u64::from_le_bytes(raw.try_into().expect("chunks of eight"));
        }
    }

    /// Allocates the first free slot of a class.
    pub fn allocate(&mut self, class: u8) -> Slot {
        let bitmap = &mut self.classes[usize::from(class)];
        let index = bitmap.first_free();
        bitmap.set(index, true);
        Slot { class, index }
    }

    /// Releases a slot, which can be reused after the next checkpoint.
    pub fn release(&mut self, slot: Slot) {
        debug_assert!(self.is_used(slot), "{slot:?} is released twice");
        self.classes[usize::from(slot.class)].mark_dirty(slot.index);
        self.released.push(slot);
    }

    /// True for an allocated slot, also for a released one before the checkpoint.
    pub fn is_used(&self, slot: Slot) -> bool {
        self.classes.get(usize::from(slot.class)).is_some_and(|bitmap| bitmap.get(slot.index))
    }

    /// Slots in use, without released ones.
    pub fn used(&self) -> u64 {
        let words = self.classes.iter().flat_map(|bitmap| &bitmap.words);
        let all: u64 = words.map(|word| u64::from(word.count_ones())).sum();
        all - (self.released.len() + self.frozen.len()) as u64
    }

    /// The changed chunks, in which the slots released so far are free.
    pub fn freeze(&mut self) -> Vec<Chunk> {
        debug_assert!(self.frozen.is_empty(), "one checkpoint at a time");
        self.frozen = std::mem::take(&mut self.released);
        let mut chunks = Vec::new();
        for class in 0..CLASSES.len() as u8 {
            for number in std::mem::take(&mut self.classes[usize::from(class)].dirty) {
                chunks.push(self.chunk(class, number));
            }
        }
        chunks
    }

    /// Ends a checkpoint: the frozen slots can be reused.
    pub fn thaw(&mut self) {
        for slot in std::mem::take(&mut self.frozen) {
            let bitmap = &mut self.classes[usize::from(slot.class)];
            // The stored chunk has the slot as free already.
            let was_dirty = bitmap.dirty.contains(&chunk_of(slot.index));
            bitmap.set(slot.index, false);
            if !was_dirty {
                bitmap.dirty.remove(&chunk_of(slot.index));
            }
        }
    }

    fn chunk(&self, class: u8, number: u32) -> Chunk {
        let bitmap = &self.classes[usize::from(class)];
        let start = number as usize * WORDS_PER_CHUNK;
        let mut words = bitmap.words[start..start + WORDS_PER_CHUNK].to_vec();
        let free = |slot: &&Slot| slot.class == class && chunk_of(slot.index) == number;
        for slot in self.frozen.iter().filter(free) {
            words[(slot.index / 64) as usize - start] &= !(1 << (slot.index % 64));
        }
        let bits = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Chunk { class, number, bits }
    }
}

impl Bitmap {
    fn grow(&mut self, words: usize) {
        let words = words.next_multiple_of(WORDS_PER_CHUNK);
        if self.words.len() < words {
            self.words.resize(words, 0);
        }
    }

    fn first_free(&mut self) -> u64 {
        let free = |word: &u64| *word != u64::MAX;
        let found = self.words[self.search_from..].iter().position(free);
        let at = found.map_or(self.words.len(), |ahead| self.search_from + ahead);
        self.grow(at + 1);
        self.search_from = at;
        at as u64 * 64 + u64::from(self.words[at].trailing_ones())
    }

    fn get(&self, index: u64) -> bool {
        self.words.get((index / 64) as usize).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    fn set(&mut self, index: u64, used: bool) {
        let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
        if used {
            self.words[word] |= bit;
        } else {
            self.words[word] &= !bit;
            self.search_from = self.search_from.min(word);
        }
        self.mark_dirty(index);
    }

    fn mark_dirty(&mut self, index: u64) {
        self.dirty.insert(chunk_of(index));
    }
}

fn chunk_of(index: u64) -> u32 {
    (index / SLOTS_PER_CHUNK) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    #[test]
    fn a_released_slot_is_used_again_only_after_the_checkpoint() {
        let mut slots = Slots::default();
        let first = slots.allocate(0);
        slots.freeze();
        slots.thaw();
        slots.release(first);
        assert_ne!(slots.allocate(0), first);
        let chunks = slots.freeze();
        assert_eq!(chunks[0].bits[0], 0b10, "free in what is stored");
        assert_ne!(slots.allocate(0), first);
        slots.thaw();
        assert_eq!(slots.allocate(0), first);
    }

    #[test]
    fn stored_chunks_give_the_same_slots_back() {
        let mut prng = Prng::new(5);
        let (mut slots, mut stored) = (Slots::default(), Slots::default());
        let mut used = BTreeSet::new();
        for _ in 0..50 {
            for _ in 0..prng.below(400) {
                let slot = slots.allocate(prng.below(3) as u8);
                assert!(used.insert(slot), "{slot:?} was given twice");
            }
            let victims: Vec<Slot> = used.iter().copied().filter(|_| prng.chance(1, 3)).collect();
            for slot in victims {
                slots.release(slot);
                used.remove(&slot);
            }
            slots.freeze().iter().for_each(|chunk| stored.load(chunk));
            assert_eq!((slots.used(), stored.used()), (used.len() as u64, used.len() as u64));
            assert!(used.iter().all(|slot| stored.is_used(*slot)));
            slots.thaw();
        }
    }

    #[test]
    fn classes_are_chosen_by_size() {
        assert_eq!(class_for(1), Some(0));
        assert_eq!(class_for(4097), Some(1));
        assert_eq!(class_for(64 << 10), Some(2));
        assert_eq!(class_for((64 << 10) + 1), None);
    }
}
