//! Deterministic generator of secret bytes from a seed.
//!
//! Sessions, keys and confounders need varying amounts, so the host passes one seed from its source of
//! randomness to an engine, which draws from this generator; with the same seed a simulation replays
//! exactly. The generator is HMAC-SHA-256 in counter mode and replaces its own key after each draw, so that
//! its state does not reveal earlier output.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt;

/// Generator of secret bytes. Its owner must not clone it: equal states give equal secrets.
pub struct Entropy {
    key: [u8; 32],
}

impl Entropy {
    /// `seed` must come from the system's random source, except in simulations and tests.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Entropy { key: block(&seed, 0) }
    }

    /// Overwrites `bytes` with secret ones.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for (chunk, counter) in bytes.chunks_mut(32).zip(1..) {
            chunk.copy_from_slice(&block(&self.key, counter)[..chunk.len()]);
        }
        self.key = block(&self.key, 0);
    }

    /// Draws `N` bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// Draws `length` bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.fill(&mut bytes);
        bytes
    }

    /// Draws a number; every value is equally likely.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// An independent generator for another part of the engine.
    pub fn fork(&mut self) -> Entropy {
        Entropy::from_seed(self.array())
    }
}

fn block(key: &[u8; 32], counter: u64) -> [u8; 32] {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("any length is a key");
    mac.update(&counter.to_le_bytes());
    mac.finalize().into_bytes().into()
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_and_draws_differ() {
        let (mut a, mut b) = (Entropy::from_seed([1; 32]), Entropy::from_seed([1; 32]));
        assert_eq!(a.bytes(100), b.bytes(100));
        let (first, second) = (a.array::<32>(), a.array::<32>());
        assert_ne!(first, second);
        assert_ne!(first, Entropy::from_seed([2; 32]).array::<32>());
        assert_ne!(a.fork().u64(), a.u64());
    }
}
