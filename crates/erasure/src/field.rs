//! The field GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1, as isa-l and jerasure (w = 8) use it.
//!
//! Addition is XOR. The element 2 generates all elements but 0.

/// The polynomial, with the bit of x^8. (AES and the instruction `gf2p8mulb` have another one: 0x11b.)
pub const POLYNOMIAL: u16 = 0x11d;

/// Order of the multiplicative group.
const ORDER: usize = 255;

/// 2 to the power of the index; two periods, so that a sum of two logarithms needs no reduction.
const EXPONENTIALS: [u8; 2 * ORDER] = {
    let mut table = [0; 2 * ORDER];
    let (mut i, mut element) = (0, 1u8);
    while i < table.len() {
        table[i] = element;
        element = double(element);
        i += 1;
    }
    table
};

/// Logarithms to base 2; that of 0 is not used.
const LOGARITHMS: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < ORDER {
        table[EXPONENTIALS[i] as usize] = i as u8;
        i += 1;
    }
    table
};

const fn double(a: u8) -> u8 {
    let shifted = (a as u16) << 1;
    (if shifted & 0x100 == 0 { shifted } else { shifted ^ POLYNOMIAL }) as u8
}

/// The product of two elements.
pub const fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    EXPONENTIALS[LOGARITHMS[a as usize] as usize + LOGARITHMS[b as usize] as usize]
}

/// The inverse of an element, which must not be 0.
pub const fn inverse(a: u8) -> u8 {
    assert!(a != 0, "0 has no inverse");
    EXPONENTIALS[ORDER - LOGARITHMS[a as usize] as usize]
}

/// `a` to the power of `n`; 1 if `n` is 0.
pub const fn power(a: u8, n: usize) -> u8 {
    match (a, n) {
        (_, 0) => 1,
        (0, _) => 0,
        _ => EXPONENTIALS[(LOGARITHMS[a as usize] as usize * (n % ORDER)) % ORDER],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplication by its definition: polynomials over GF(2), and the remainder.
    fn product_of_polynomials(a: u8, b: u8) -> u8 {
        let product =
            (0..8).filter(|bit| b >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u16::from(a) << bit);
        let reduced = (8..16).rev().fold(product, |rest, bit| {
            if rest >> bit & 1 == 1 { rest ^ POLYNOMIAL << (bit - 8) } else { rest }
        });
        reduced as u8
    }

    fn elements() -> impl Iterator<Item = u8> + Clone {
        0..=255
    }

    #[test]
    fn products_are_those_of_polynomials() {
        for (a, b) in elements().flat_map(|a| elements().map(move |b| (a, b))) {
            assert_eq!(mul(a, b), product_of_polynomials(a, b));
        }
    }

    #[test]
    fn axioms_of_a_field_hold() {
        for a in elements() {
            assert_eq!(mul(a, 1), a);
            assert_eq!(mul(a, 0), 0);
            assert!(a == 0 || mul(a, inverse(a)) == 1);
            for b in elements() {
                assert_eq!(mul(a, b), mul(b, a));
                for c in [1, 2, 3, 29, 128, 142, 255] {
                    assert_eq!(mul(mul(a, b), c), mul(a, mul(b, c)));
                    assert_eq!(mul(a ^ b, c), mul(a, c) ^ mul(b, c));
                }
            }
        }
    }

    #[test]
    fn powers_are_repeated_products_and_2_generates_all() {
        for a in elements() {
            let mut product = 1;
            for n in 0..600 {
                assert_eq!(power(a, n), product);
                product = mul(product, a);
            }
        }
        let powers: std::collections::BTreeSet<u8> = (0..ORDER).map(|n| power(2, n)).collect();
        assert_eq!(powers.len(), ORDER);
    }
}
