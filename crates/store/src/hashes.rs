//! Sets of hashes with the same lowest bits, as placement groups cover them.
//!
//! A listing is ordered by the reversed hash, so such a set is one range of it. A split halves the range;
//! that makes moving a part of a collection cheap.

use codec::{Decode, Encode, Reader, Result, Writer};
use types::HObject;

/// All hashes whose lowest `bits` bits are `remainder`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hashes {
    bits: u8,
    remainder: u32,
}

impl Hashes {
    /// All hashes.
    pub const ALL: Hashes = Hashes { bits: 0, remainder: 0 };

    /// Bits beyond 32, and bits of the remainder above `bits`, are ignored.
    pub fn new(bits: u8, remainder: u32) -> Self {
        let bits = bits.min(32);
        Hashes { bits, remainder: remainder & mask(bits) }
    }

    /// Number of the lowest bits that they share.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// The shared lowest bits.
    pub fn remainder(&self) -> u32 {
        self.remainder
    }

    /// Whether the hash is one of them.
    pub fn contains(&self, hash: u32) -> bool {
        hash & mask(self.bits) == self.remainder
    }

    /// Whether the object's hash is one of them.
    pub fn holds(&self, object: &HObject) -> bool {
        self.contains(object.hash)
    }

    /// The first and the last reversed hash.
    pub fn reversed(&self) -> (u32, u32) {
        let first = self.remainder.reverse_bits();
        (first, first | !mask(self.bits).reverse_bits())
    }
}

fn mask(bits: u8) -> u32 {
    1u32.checked_shl(bits.into()).map_or(u32::MAX, |end| end - 1)
}

impl Encode for Hashes {
    fn encode(&self, w: &mut Writer) {
        w.u8(self.bits);
        w.u32(self.remainder);
    }
}

impl Decode for Hashes {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let (bits, remainder) = (r.u8("bits of hashes")?, r.u32("remainder of hashes")?);
        match bits <= 32 && remainder & !mask(bits) == 0 {
            true => Ok(Hashes { bits, remainder }),
            false => Err(at.invalid("bits of hashes", bits.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_is_a_range_of_reversed_hashes(bits in 0u8..=32, remainder: u32, hash: u32, near: bool) {
            let hashes = Hashes::new(bits, remainder);
            let hash = if near { hash & !mask(bits) | hashes.remainder() } else { hash };
            let (first, last) = hashes.reversed();
            let within = (first..=last).contains(&hash.reverse_bits());
            prop_assert_eq!(hashes.contains(hash), within);
            prop_assert!(!near || within);
        }
    }

    #[test]
    fn halves_lie_beside_each_other() {
        assert_eq!(Hashes::ALL.reversed(), (0, u32::MAX));
        assert_eq!(Hashes::new(1, 0).reversed(), (0, u32::MAX >> 1));
        assert_eq!(Hashes::new(1, 1).reversed(), ((u32::MAX >> 1) + 1, u32::MAX));
        assert_eq!(Hashes::new(32, 5).reversed(), (5u32.reverse_bits(), 5u32.reverse_bits()));
    }
}
