//! Robert Jenkins' 32-bit mix as CRUSH uses it (`crush_hash32_*`, hash type rjenkins1).
//!
//! Each arity folds its words in an order of its own, so the functions are no prefixes of each
//! other. Placement groups are hashed with [`hash2`] as well.

const SEED: u32 = 1_315_423_911;
const PAD_X: u32 = 231_232;
const PAD_Y: u32 = 1_232;

/// The only hash type that Ceph ever gave out (`CRUSH_HASH_RJENKINS1`).
pub const HASH_RJENKINS1: u8 = 0;

/// Mixes three words; each line of three steps diffuses one of them into the others.
#[inline(always)]
fn mix(a: &mut u32, b: &mut u32, c: &mut u32) {
    let (mut x, mut y, mut z) = (*a, *b, *c);
    for (right, left, last) in [(13, 8, 13), (12, 16, 5), (3, 10, 15)] {
        x = x.wrapping_sub(y).wrapping_sub(z) ^ (z >> right);
        y = y.wrapping_sub(z).wrapping_sub(x) ^ (x << left);
        z = z.wrapping_sub(x).wrapping_sub(y) ^ (y >> last);
    }
    (*a, *b, *c) = (x, y, z);
}

pub fn hash1(mut a: u32) -> u32 {
    let mut hash = SEED ^ a;
    let (mut b, mut x, mut y) = (a, PAD_X, PAD_Y);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    hash
}

pub fn hash2(mut a: u32, mut b: u32) -> u32 {
    let mut hash = SEED ^ a ^ b;
    let (mut x, mut y) = (PAD_X, PAD_Y);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut x, &mut a, &mut hash);
    mix(&mut b, &mut y, &mut hash);
    hash
}

#[inline]
pub fn hash3(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    let mut hash = SEED ^ a ^ b ^ c;
    let (mut x, mut y) = (PAD_X, PAD_Y);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut c, &mut hash);
    hash
}

pub fn hash4(mut a: u32, mut b: u32, mut c: u32, mut d: u32) -> u32 {
    let mut hash = SEED ^ a ^ b ^ c ^ d;
    let (mut x, mut y) = (PAD_X, PAD_Y);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut d, &mut hash);
    mix(&mut a, &mut x, &mut hash);
    mix(&mut y, &mut b, &mut hash);
    mix(&mut c, &mut x, &mut hash);
    mix(&mut y, &mut d, &mut hash);
    hash
}

pub fn hash5(mut a: u32, mut b: u32, mut c: u32, mut d: u32, mut e: u32) -> u32 {
    let mut hash = SEED ^ a ^ b ^ c ^ d ^ e;
    let (mut x, mut y) = (PAD_X, PAD_Y);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut d, &mut hash);
    mix(&mut e, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut c, &mut hash);
    mix(&mut d, &mut x, &mut hash);
    mix(&mut y, &mut e, &mut hash);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_ceph() {
        assert_eq!(hash1(12), 0x53a8_0375);
        assert_eq!(hash2(12, 34), 0xea0b_ce8f);
        assert_eq!(hash3(12, 34, 56), 0x763c_2aaf);
        assert_eq!(hash4(12, 34, 56, 78), 0x0bf4_5d91);
        assert_eq!(hash5(12, 34, 56, 78, 90), 0x8e89_01f2);
    }
}
