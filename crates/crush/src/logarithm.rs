//! The fixed-point logarithm that shapes straw2 draws (`crush_ln`).

mod tables;

use tables::{LOG_HIGH, LOG_LOW, RECIPROCAL};

/// 2^44 * log2(input + 1) for 16-bit inputs.
///
/// The argument is normalised to 2^15 <= x <= 2^16; its high bits pick a tabulated logarithm, and
/// what remains after multiplying with the tabulated reciprocal picks a small correction.
#[inline]
pub fn crush_ln(input: u16) -> u64 {
    let mut x = u32::from(input) + 1;
    let mut exponent = 15;
    if x & 0x1_8000 == 0 {
        let shift = x.leading_zeros() - 16;
        x <<= shift;
        exponent -= shift;
    }
    let high = (x >> 8) as usize - 128;
    let remainder = (u64::from(x) * RECIPROCAL[high]) >> 48;
    let logarithm = LOG_HIGH[high] + LOG_LOW[(remainder & 0xff) as usize];
    (u64::from(exponent) << 44) + (logarithm >> 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_near_the_true_one_everywhere() {
        assert_eq!(crush_ln(0), 0);
        assert_eq!(crush_ln(1), 1 << 44);
        for input in 0..=u16::MAX {
            let exact = f64::from(u32::from(input) + 1).log2() * (1u64 << 44) as f64;
            let value = crush_ln(input);
            assert!((value as f64 - exact).abs() < (1u64 << 31) as f64, "{input}: {value}");
        }
    }

    #[test]
    fn no_logarithm_exceeds_that_of_the_largest_input() {
        assert!((0..=u16::MAX).map(crush_ln).all(|logarithm| logarithm <= 1 << 48));
    }
}
