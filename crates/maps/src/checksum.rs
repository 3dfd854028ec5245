//! Checksum of maps: crc-32c with an initial value of all ones, without the final inversion.

/// Continues `crc` over `bytes`. Maps start with [`SEED`].
pub(crate) fn crc32c(mut crc: u32, bytes: &[u8]) -> u32 {
    for byte in bytes {
        crc = TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8;
    }
    crc
}

pub(crate) const SEED: u32 = u32::MAX;

/// Castagnoli's polynomial, bit-reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ POLYNOMIAL };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_crc32c() {
        assert_eq!(!crc32c(SEED, b"123456789"), 0xe306_9283);
    }
}
