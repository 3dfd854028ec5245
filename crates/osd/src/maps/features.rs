//! Features of the stored state that a version must know to read it: the key `features` beside the map.
//!
//! Its value is the format (one byte, 1), the incompatible features as bits of a `u64`, and the version of
//! the writer. Without the key, there are none. A version that meets a feature which it does not know must
//! not start: it would misread what the other has stored.

use crate::config::VERSION;
use bytes::Bytes;
use codec::{Decode, Reader, Writer};

/// The key beside the stored map.
pub(super) const FEATURES_KEY: Bytes = Bytes::from_static(b"features");
const FORMAT: u8 = 1;
/// The features that this version knows: none so far. A feature is added here, and to the value that is
/// written, with the first state that earlier versions cannot read.
const KNOWN: u64 = 0;

/// The stored value.
#[derive(Debug, PartialEq, Eq)]
struct Features {
    bits: u64,
    writer: String,
}

impl Decode for Features {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        let at = *r;
        match r.u8("format of the features")? {
            FORMAT => Ok(Features { bits: r.u64("features")?, writer: r.string("writer")? }),
            other => Err(at.invalid("format of the features", other.into())),
        }
    }
}

/// The value that this version stores.
pub(super) fn to_bytes() -> Bytes {
    encode(KNOWN, VERSION)
}

fn encode(bits: u64, writer: &str) -> Bytes {
    let mut w = Writer::new();
    w.u8(FORMAT);
    w.u64(bits);
    w.string(writer);
    w.into_bytes()
}

/// Fails with the reason for which this version must not use the store.
pub(super) fn check(value: Option<&Bytes>) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    let Features { bits, writer } =
        codec::decode_all("features of the store", value).map_err(|error| {
            format!("this version cannot read which features the store needs: {error}")
        })?;
    match bits & !KNOWN {
        0 => Ok(()),
        unknown => Err(format!(
            "the store needs feature bit {}, which this version does not know; it was written by {writer:?}: \
             start that version or a later one",
            unknown.trailing_zeros()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_without_features_and_the_own_value_are_accepted() {
        assert_eq!(check(None), Ok(()));
        assert_eq!(check(Some(&to_bytes())), Ok(()));
    }

    #[test]
    fn an_unknown_feature_is_refused_with_its_bit_and_its_writer() {
        let reason = check(Some(&encode(1 << 5, "sepiola version 9"))).unwrap_err();
        assert!(reason.contains("feature bit 5"), "{reason}");
        assert!(reason.contains("sepiola version 9"), "{reason}");
    }

    #[test]
    fn an_unknown_format_and_a_damaged_value_are_refused() {
        for value in [&b"\x02"[..], b"", b"\x01\0\0", &[to_bytes().as_ref(), b"x"].concat()] {
            assert!(check(Some(&Bytes::copy_from_slice(value))).is_err(), "{value:?}");
        }
    }
}
