//! Bytes that tell which object, which of its generations and which offset they belong to.
//!
//! Each aligned word of eight bytes is a hash of the three; it does not compress, and any part of it
//! can be made again without what lies around it.

const WORD: u64 = 8;

/// Key of one generation of one object of one seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternKey(u64);

impl PatternKey {
    /// The bytes of one generation of one object.
    pub fn new(seed: u64, object: u32, generation: u32) -> Self {
        PatternKey(mixed(mixed(seed) ^ (u64::from(object) << 32 | u64::from(generation))))
    }

    fn word(self, index: u64) -> [u8; WORD as usize] {
        // Multiples of the golden ratio are far apart, so that no two keys share a run of words.
        mixed(self.0.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))).to_le_bytes()
    }

    /// Makes the bytes that begin at `offset` of the object.
    pub fn fill(self, offset: u64, bytes: &mut [u8]) {
        let skipped = (offset % WORD) as usize;
        let head_len = if skipped == 0 { 0 } else { (WORD as usize - skipped).min(bytes.len()) };
        let (head, rest) = bytes.split_at_mut(head_len);
        head.copy_from_slice(&self.word(offset / WORD)[skipped..][..head_len]);
        let first = offset.div_ceil(WORD);
        for (index, chunk) in rest.chunks_mut(WORD as usize).enumerate() {
            chunk.copy_from_slice(&self.word(first + index as u64)[..chunk.len()]);
        }
    }

    /// True if `bytes` at `offset` belong to this generation.
    pub fn matches(self, offset: u64, bytes: &[u8]) -> bool {
        let mut expected = vec![0; bytes.len()];
        self.fill(offset, &mut expected);
        expected == bytes
    }
}

/// The finalizer of splitmix64: every bit of the input changes half of the output's.
fn mixed(x: u64) -> u64 {
    let z = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_is_the_same_as_in_the_whole() {
        let key = PatternKey::new(1, 2, 3);
        let mut whole = [0; 64];
        key.fill(0, &mut whole);
        for start in 0..64 {
            for end in start..=64 {
                assert!(key.matches(start as u64, &whole[start..end]), "{start}..{end}");
            }
        }
    }

    #[test]
    fn objects_generations_and_offsets_differ() {
        let bytes = |seed, object, generation, offset| {
            let mut bytes = [0; 8];
            PatternKey::new(seed, object, generation).fill(offset, &mut bytes);
            bytes
        };
        let one = bytes(1, 1, 1, 0);
        for other in [bytes(2, 1, 1, 0), bytes(1, 2, 1, 0), bytes(1, 1, 2, 0), bytes(1, 1, 1, 8)] {
            assert_ne!(one, other);
        }
    }
}
