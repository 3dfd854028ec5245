//! Variable-length integers: seven bits per byte, lowest first, top bit set in all bytes but the
//! last.

use codec::{Reader, Result};

/// Maximum length in bytes.
pub const VARINT_LEN_MAX: usize = 10;

const MORE: u8 = 0x80;
const TOP_BITS: u64 = 0x8080_8080_8080_8080;

/// Appends a number in its shortest encoding.
pub fn push(out: &mut Vec<u8>, mut value: u64) {
    while value >= u64::from(MORE) {
        out.push(value as u8 | MORE);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that [`push`] appends.
pub fn length(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()).div_ceil(7).max(1) as usize
}

/// Appends a signed number; small magnitudes take few bytes.
pub fn push_signed(out: &mut Vec<u8>, value: i64) {
    push(out, (value << 1 ^ value >> 63) as u64);
}

/// Decodes the shortest encoding of a number; others are errors.
#[inline]
pub fn take(r: &mut Reader<'_>, field: &'static str) -> Result<u64> {
    let mut ahead = *r;
    match ahead.u8(field)? {
        byte if byte < MORE => {
            *r = ahead;
            Ok(byte.into())
        }
        _ => take_long(r, field),
    }
}

/// Decodes up to eight bytes at once, if that many can be read.
fn take_long(r: &mut Reader<'_>, field: &'static str) -> Result<u64> {
    let Ok(raw) = { *r }.array(field).map(u64::from_le_bytes) else { return take_bytes(r, field) };
    let last_bits = !raw & TOP_BITS;
    if last_bits == 0 {
        return take_bytes(r, field);
    }
    // Bits up to the first byte without a top bit.
    let raw = raw & (last_bits ^ (last_bits - 1));
    let length = last_bits.trailing_zeros() as usize / 8 + 1;
    if raw >> ((length - 1) * 8) == 0 {
        return Err(r.invalid(field, 0));
    }
    r.skip(field, length)?;
    Ok(squeeze(raw & !TOP_BITS))
}

/// Joins the seven low bits of each of eight bytes.
fn squeeze(raw: u64) -> u64 {
    let pairs = raw & 0x007f_007f_007f_007f | (raw & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    fours & 0x0fff_ffff | (fours & (0x0fff_ffff << 32)) >> 4
}

fn take_bytes(r: &mut Reader<'_>, field: &'static str) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let at = *r;
        let byte = r.u8(field)?;
        let bits = u64::from(byte & !MORE);
        let is_lost = bits << shift >> shift != bits;
        if is_lost || byte == 0 && shift > 0 {
            return Err(at.invalid(field, byte.into()));
        }
        value |= bits << shift;
        if byte < MORE {
            return Ok(value);
        }
    }
    Err(r.invalid(field, value))
}

/// Decodes the output of [`push_signed`].
pub fn take_signed(r: &mut Reader<'_>, field: &'static str) -> Result<i64> {
    take(r, field).map(|raw| (raw >> 1) as i64 ^ -((raw & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_number() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift)
    }

    proptest! {
        #[test]
        fn numbers_round_trip_and_truncations_are_errors(value in any_number()) {
            let mut bytes = Vec::new();
            push(&mut bytes, value);
            push_signed(&mut bytes, value as i64);
            let mut r = Reader::new(&bytes);
            prop_assert_eq!(take(&mut r, "n").unwrap(), value);
            let middle = r.offset();
            prop_assert_eq!(take_signed(&mut r, "n").unwrap(), value as i64);
            prop_assert!(r.is_empty() && middle <= VARINT_LEN_MAX);
            for end in 0..middle {
                prop_assert!(take(&mut Reader::new(&bytes[..end]), "n").is_err());
            }
        }

        #[test]
        fn long_numbers_are_read_alike_at_the_end_and_before_it(raw in prop::collection::vec(any::<u8>(), 0..12)) {
            let alone = take(&mut Reader::new(&raw), "n");
            let mut r = Reader::new(&raw);
            let slowly = take_bytes(&mut r, "n");
            prop_assert_eq!(alone.ok(), slowly.ok());
        }

        #[test]
        fn there_is_one_encoding_of_each_number(raw in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut r = Reader::new(&raw);
            if let Ok(value) = take(&mut r, "n") {
                let mut bytes = Vec::new();
                push(&mut bytes, value);
                prop_assert_eq!(&bytes[..], &raw[..r.offset()]);
            }
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let mut bytes = Vec::new();
        push(&mut bytes, 300);
        push_signed(&mut bytes, -1);
        push_signed(&mut bytes, 64);
        assert_eq!(bytes, [0xac, 2, 1, 0x80, 1]);
    }
}
