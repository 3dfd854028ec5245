//! Pseudo-random permutations of buckets' items, computed as far as they are used.

use crate::{Bucket, hash};

/// Orders of the buckets that one execution touched. They depend on the input and the bucket
/// alone, so keeping them only saves work.
#[derive(Debug, Default)]
pub(super) struct Permutations {
    used: Vec<Permutation>,
}

#[derive(Debug)]
struct Permutation {
    bucket: i32,
    /// Number of leading entries of `order` that are final.
    known: usize,
    order: Vec<u32>,
}

impl Permutations {
    /// Forgets all permutations; called for each input.
    pub fn clear(&mut self) {
        self.used.clear();
    }

    /// The item of `bucket`, which is not empty, at place `rank` (modulo its size) of the order
    /// for `x` (`bucket_perm_choose`).
    pub fn choose(&mut self, bucket: &Bucket, x: u32, rank: u32) -> i32 {
        let size = bucket.items().len();
        let rank = rank as usize % size;
        let first = || hash::hash3(x, bucket.id() as u32, 0) as usize % size;
        let known = self.used.iter().position(|permutation| permutation.bucket == bucket.id());
        let position = match known {
            // By far the most common rank needs no memory.
            None if rank == 0 => first(),
            None => {
                let order = (0..size as u32).collect();
                self.used.push(Permutation { bucket: bucket.id(), known: 0, order });
                self.used.last_mut().expect("just pushed").place(x, rank)
            }
            Some(index) => self.used[index].place(x, rank),
        };
        bucket.items()[position]
    }
}

impl Permutation {
    fn place(&mut self, x: u32, rank: usize) -> usize {
        assert!(rank < self.order.len(), "a rank lies within the bucket");
        while self.known <= rank {
            let left = self.order.len() - self.known;
            let draw = hash::hash3(x, self.bucket as u32, self.known as u32) as usize;
            self.order.swap(self.known, self.known + draw % left);
            self.known += 1;
        }
        self.order[rank] as usize
    }
}
