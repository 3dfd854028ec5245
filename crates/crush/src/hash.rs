//! Robert Jenkins' 32-bit mix as CRUSH uses it (`crush_hash32_*`, hash type rjenkins1).
//!
//! Each arity folds its words in an order of its own, so the functions are no prefixes of each
//! other. Placement groups are hashed with [`hash2`] as well.

const SEED: u32 = 1_315_423_911;
const PAD_X: u32 = 231_232;
const PAD_Y: u32 = 1_232;

/// The only hash type that Ceph ever assigned (`CRUSH_HASH_RJENKINS1`).
pub const HASH_RJENKINS1: u8 = 0;

/// Mixes three words, of several inputs at once, which a processor computes together; each line of three
/// steps diffuses one of the words into the others.
#[inline(always)]
fn mix<const N: usize>(a: &mut [u32; N], b: &mut [u32; N], c: &mut [u32; N]) {
    step(a, b, c, |c| c >> 13);
    step(b, c, a, |a| a << 8);
    step(c, a, b, |b| b >> 13);
    step(a, b, c, |c| c >> 12);
    step(b, c, a, |a| a << 16);
    step(c, a, b, |b| b >> 5);
    step(a, b, c, |c| c >> 3);
    step(b, c, a, |a| a << 10);
    step(c, a, b, |b| b >> 15);
}

#[inline(always)]
fn step<const N: usize>(
    into: &mut [u32; N],
    one: &[u32; N],
    other: &[u32; N],
    shift: impl Fn(u32) -> u32,
) {
    for lane in 0..N {
        into[lane] =
            into[lane].wrapping_sub(one[lane]).wrapping_sub(other[lane]) ^ shift(other[lane]);
    }
}

/// `crush_hash32`
pub fn hash1(a: u32) -> u32 {
    let mut hash = [SEED ^ a];
    let (mut a, mut b, mut x, mut y) = ([a], [a], [PAD_X], [PAD_Y]);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    hash[0]
}

/// `crush_hash32_2`
pub fn hash2(a: u32, b: u32) -> u32 {
    let mut hash = [SEED ^ a ^ b];
    let (mut a, mut b) = ([a], [b]);
    let (mut x, mut y) = ([PAD_X], [PAD_Y]);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut x, &mut a, &mut hash);
    mix(&mut b, &mut y, &mut hash);
    hash[0]
}

/// `crush_hash32_3`
pub fn hash3(a: u32, b: u32, c: u32) -> u32 {
    hash3_each(a, [b], c)[0]
}

/// [`hash3`] for several words in the middle.
#[inline]
pub fn hash3_each<const N: usize>(a: u32, mut b: [u32; N], c: u32) -> [u32; N] {
    let mut hash = b.map(|b| SEED ^ a ^ b ^ c);
    let (mut a, mut c, mut x, mut y) = ([a; N], [c; N], [PAD_X; N], [PAD_Y; N]);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut c, &mut hash);
    hash
}

/// `crush_hash32_4`
pub fn hash4(a: u32, b: u32, c: u32, d: u32) -> u32 {
    let mut hash = [SEED ^ a ^ b ^ c ^ d];
    let (mut a, mut b, mut c, mut d) = ([a], [b], [c], [d]);
    let (mut x, mut y) = ([PAD_X], [PAD_Y]);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut d, &mut hash);
    mix(&mut a, &mut x, &mut hash);
    mix(&mut y, &mut b, &mut hash);
    mix(&mut c, &mut x, &mut hash);
    mix(&mut y, &mut d, &mut hash);
    hash[0]
}

/// `crush_hash32_5`
pub fn hash5(a: u32, b: u32, c: u32, d: u32, e: u32) -> u32 {
    let mut hash = [SEED ^ a ^ b ^ c ^ d ^ e];
    let (mut a, mut b, mut c, mut d, mut e) = ([a], [b], [c], [d], [e]);
    let (mut x, mut y) = ([PAD_X], [PAD_Y]);
    mix(&mut a, &mut b, &mut hash);
    mix(&mut c, &mut d, &mut hash);
    mix(&mut e, &mut x, &mut hash);
    mix(&mut y, &mut a, &mut hash);
    mix(&mut b, &mut x, &mut hash);
    mix(&mut y, &mut c, &mut hash);
    mix(&mut d, &mut x, &mut hash);
    mix(&mut y, &mut e, &mut hash);
    hash[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_at_once_are_what_each_is_alone() {
        let each = hash3_each(12, [34, 7, u32::MAX], 56);
        assert_eq!(each, [hash3(12, 34, 56), hash3(12, 7, 56), hash3(12, u32::MAX, 56)]);
    }

    #[test]
    fn hashes_are_those_of_ceph() {
        assert_eq!(hash1(12), 0x53a8_0375);
        assert_eq!(hash2(12, 34), 0xea0b_ce8f);
        assert_eq!(hash3(12, 34, 56), 0x763c_2aaf);
        assert_eq!(hash4(12, 34, 56, 78), 0x0bf4_5d91);
        assert_eq!(hash5(12, 34, 56, 78, 90), 0x8e89_01f2);
    }
}
