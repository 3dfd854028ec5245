//! Shared by tests: codes, bytes without a pattern, and owned stripes.
#![allow(dead_code)]

use erasure::{Code, Technique};

/// The numbers of data shards and parities that tests use.
pub const SIZES: [(usize, usize); 7] = [(2, 1), (2, 2), (3, 2), (4, 2), (6, 3), (8, 3), (10, 4)];

/// All codes of these sizes.
pub fn codes() -> Vec<Code> {
    let sized =
        SIZES.into_iter().flat_map(|size| Technique::ALL.map(|technique| (technique, size)));
    sized.filter_map(|(technique, (k, m))| Code::new(technique, k, m).ok()).collect()
}

/// Bytes of a xorshift generator.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// All shards of a stripe of such bytes.
pub fn stripe(code: &Code, len: usize) -> Vec<Vec<u8>> {
    let data: Vec<Vec<u8>> = (0..code.k()).map(|shard| bytes(shard as u64 + 1, len)).collect();
    let parities = encode(code, &data);
    [data, parities].concat()
}

/// The parities of data.
pub fn encode(code: &Code, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut parities = vec![vec![0xa5; data[0].len()]; code.m()];
    code.encode(&slices(data), &mut slices_mut(&mut parities));
    parities
}

/// Borrowed chunks.
pub fn slices(chunks: &[Vec<u8>]) -> Vec<&[u8]> {
    chunks.iter().map(Vec::as_slice).collect()
}

/// Mutably borrowed chunks.
pub fn slices_mut(chunks: &mut [Vec<u8>]) -> Vec<&mut [u8]> {
    chunks.iter_mut().map(Vec::as_mut_slice).collect()
}
