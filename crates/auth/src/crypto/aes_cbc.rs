//! The cipher of `aes` keys: AES-128-CBC under one constant initialisation vector, PKCS #7 padding.
//!
//! The constant vector makes the cipher deterministic, a weakness that `aes256k` mends; the cipher stays
//! because clients before Ceph 20.2 have no other.

use aes::Aes128;
use cbc::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit, block_padding::Pkcs7};

pub(super) const KEY_LENGTH: usize = 16;

/// `CEPH_AES_IV`.
const INITIALISATION_VECTOR: &[u8; 16] = b"cephsageyudagreg";

pub(super) fn encrypt(key: &[u8; KEY_LENGTH], plaintext: &[u8]) -> Vec<u8> {
    cbc::Encryptor::<Aes128>::new(key.into(), INITIALISATION_VECTOR.into())
        .encrypt_padded_vec_mut::<Pkcs7>(plaintext)
}

/// Returns `None` if the length or the padding is wrong.
pub(super) fn decrypt(key: &[u8; KEY_LENGTH], ciphertext: &[u8]) -> Option<Vec<u8>> {
    cbc::Decryptor::<Aes128>::new(key.into(), INITIALISATION_VECTOR.into())
        .decrypt_padded_vec_mut::<Pkcs7>(ciphertext)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    /// Test vector of Ceph's `AES.Encrypt` test.
    #[test]
    fn agrees_with_ceph() {
        let key: [u8; 16] = std::array::from_fn(|i| i as u8);
        let plaintext: [u8; 16] = std::array::from_fn(|i| 0x11 * i as u8);
        let sealed = encrypt(&key, &plaintext);
        // Input that fills its blocks is followed by a whole block of padding.
        assert_eq!(sealed, hex("b38f5bc9354cf8c61315666f37d7793a11907be9d83c3570587b979b03d2a501"));
        assert_eq!(decrypt(&key, &sealed).unwrap(), plaintext);
    }

    #[test]
    fn partial_blocks_and_foreign_keys_are_refused() {
        let sealed = encrypt(&[1; 16], b"some words");
        assert_eq!(decrypt(&[1; 16], &sealed[..15]), None);
        assert_eq!(decrypt(&[1; 16], b""), None);
        assert_ne!(decrypt(&[2; 16], &sealed).as_deref(), Some(&b"some words"[..]));
    }
}
