//! Values under small reusable numbers.

/// Keys carry a generation, so that a key whose value is gone never finds its successor.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// A slab without values.
    pub fn new() -> Self {
        Slab::default()
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stores a value; returns its key, which no other value of this slab has or had within the last 2^32
    /// uses of the slot.
    pub fn insert(&mut self, value: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let (generation, slot) = &mut self.slots[index as usize];
        *slot = Some(value);
        u64::from(*generation) << 32 | u64::from(index)
    }

    /// The value of a key; `None` if it was removed.
    pub fn get(&self, key: u64) -> Option<&T> {
        let (generation, slot) = self.slots.get(key as u32 as usize)?;
        slot.as_ref().filter(|_| *generation == (key >> 32) as u32)
    }

    /// Like [`Slab::get`], to change the value.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        let (generation, slot) = self.slots.get_mut(key as u32 as usize)?;
        slot.as_mut().filter(|_| *generation == (key >> 32) as u32)
    }

    /// Two different values at once.
    pub fn get_two_mut(&mut self, first: u64, second: u64) -> Option<[&mut T; 2]> {
        let indices = [first as u32 as usize, second as u32 as usize];
        let [first_slot, second_slot] = self.slots.get_disjoint_mut(indices).ok()?;
        let current = |slot: &(u32, Option<T>), key: u64| slot.0 == (key >> 32) as u32;
        if !current(first_slot, first) || !current(second_slot, second) {
            return None;
        }
        Some([first_slot.1.as_mut()?, second_slot.1.as_mut()?])
    }

    /// All values with their keys, in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, (generation, slot))| {
            Some((u64::from(*generation) << 32 | index as u64, slot.as_ref()?))
        })
    }

    /// Takes a value out; `None` if it was removed before. The key finds nothing from now on.
    pub fn remove(&mut self, key: u64) -> Option<T> {
        let index = key as u32;
        let (generation, slot) = self.slots.get_mut(index as usize)?;
        if *generation != (key >> 32) as u32 {
            return None;
        }
        let value = slot.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(index);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut slab = Slab::new();
        let first = slab.insert("a");
        assert_eq!(slab.remove(first), Some("a"));
        let second = slab.insert("b");
        assert_ne!(first, second);
        assert_eq!((slab.get(first), slab.get(second), slab.len()), (None, Some(&"b"), 1));
        assert_eq!(slab.remove(first), None);
    }

    #[test]
    fn two_values_can_be_changed_together_if_both_are_there() {
        let mut slab = Slab::new();
        let (one, two) = (slab.insert(1), slab.insert(2));
        let [first, second] = slab.get_two_mut(one, two).unwrap();
        std::mem::swap(first, second);
        assert_eq!((slab.get(one), slab.get(two)), (Some(&2), Some(&1)));
        assert!(slab.get_two_mut(one, one).is_none());
        slab.remove(two);
        assert!(slab.get_two_mut(one, two).is_none());
    }
}
