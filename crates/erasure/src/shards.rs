//! Sets of shards.

use crate::technique::SHARDS_MAX;

/// A set of shards by number, below [`SHARDS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Shards(u32);

const _: () = assert!(SHARDS_MAX == u32::BITS as usize);

impl Shards {
    /// The first `count` shards.
    pub fn first(count: usize) -> Shards {
        (0..count).collect()
    }

    /// Adds a shard.
    pub fn insert(&mut self, shard: usize) {
        assert!(shard < SHARDS_MAX, "shard {shard}");
        self.0 |= 1 << shard;
    }

    /// True if the shard is in the set.
    pub fn contains(self, shard: usize) -> bool {
        shard < SHARDS_MAX && self.0 >> shard & 1 == 1
    }

    /// Number of shards.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// True if there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The shards, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..SHARDS_MAX).filter(move |shard| self.contains(*shard))
    }

    /// Shards of this set that are not in the other.
    #[must_use]
    pub fn without(self, other: Shards) -> Shards {
        Shards(self.0 & !other.0)
    }
}

impl FromIterator<usize> for Shards {
    fn from_iter<I: IntoIterator<Item = usize>>(shards: I) -> Shards {
        let mut set = Shards::default();
        shards.into_iter().for_each(|shard| set.insert(shard));
        set
    }
}
