//! Plaintext of an envelope: `u8 1 | u64 magic | structure`.

use codec::{Encode, Writer};

/// `AUTH_ENC_MAGIC`.
pub(super) const MAGIC: u64 = 0xff00_9cad_8826_aa55;
const VERSION: u8 = 1;

pub(super) fn enveloped<T: Encode + ?Sized>(value: &T) -> Vec<u8> {
    let mut w = Writer::new();
    w.u8(VERSION);
    w.u64(MAGIC);
    w.value(value);
    w.into_vec()
}
