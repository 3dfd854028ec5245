//! The cipher of `aes256k` keys: RFC 8009's aes256-cts-hmac-sha384-192.
//!
//! `ciphertext = AES-256-CBC-CTS(Ke, confounder | plaintext) | HMAC-SHA-384(Ki, 0^16 | c)[..24]`, with Ke
//! and Ki derived from the secret and a usage number, so that bytes sealed for one purpose cannot be
//! replayed for another. The confounder must be fresh and unpredictable.

use aes::Aes256;
use aes::cipher::{BlockDecrypt, BlockEncrypt, KeyInit, generic_array::GenericArray};
use hmac::{Hmac, Mac};
use sha2::Sha384;

pub(super) const KEY_LENGTH: usize = 32;
pub(super) const CONFOUNDER_LENGTH: usize = 16;
const BLOCK_LENGTH: usize = 16;
const TAG_LENGTH: usize = 24;

const INTEGRITY_KEY: u8 = 0x55;
const ENCRYPTION_KEY: u8 = 0xaa;

pub(super) fn encrypt(
    secret: &[u8],
    usage: u32,
    confounder: [u8; CONFOUNDER_LENGTH],
    plaintext: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CONFOUNDER_LENGTH + plaintext.len() + TAG_LENGTH);
    bytes.extend_from_slice(&confounder);
    bytes.extend_from_slice(plaintext);
    cts_encrypt(&cipher(secret, usage), &mut bytes);
    let tag = authenticate(secret, usage, &bytes).finalize().into_bytes();
    bytes.extend_from_slice(&tag[..TAG_LENGTH]);
    bytes
}

/// Returns `None` if the tag does not match.
pub(super) fn decrypt(secret: &[u8], usage: u32, sealed: &[u8]) -> Option<Vec<u8>> {
    let body_length = sealed.len().checked_sub(TAG_LENGTH)?;
    if body_length < CONFOUNDER_LENGTH {
        return None;
    }
    let (body, tag) = sealed.split_at(body_length);
    authenticate(secret, usage, body).verify_truncated_left(tag).ok()?;
    let mut bytes = body.to_vec();
    cts_decrypt(&cipher(secret, usage), &mut bytes);
    bytes.drain(..CONFOUNDER_LENGTH);
    Some(bytes)
}

/// KDF-HMAC-SHA2 of RFC 8009, section 3, with the usage number and kind as its label.
fn derive(secret: &[u8], usage: u32, kind: u8, length: usize) -> [u8; 48] {
    let mut mac = new_mac(secret);
    mac.update(&1u32.to_be_bytes());
    mac.update(&usage.to_be_bytes());
    mac.update(&[kind, 0]);
    mac.update(&(length as u32 * 8).to_be_bytes());
    mac.finalize().into_bytes().into()
}

fn cipher(secret: &[u8], usage: u32) -> Aes256 {
    let key = derive(secret, usage, ENCRYPTION_KEY, KEY_LENGTH);
    Aes256::new(GenericArray::from_slice(&key[..KEY_LENGTH]))
}

/// The tag covers the initialisation vector, which is always zero, and the ciphertext.
fn authenticate(secret: &[u8], usage: u32, ciphertext: &[u8]) -> Hmac<Sha384> {
    let key = derive(secret, usage, INTEGRITY_KEY, TAG_LENGTH);
    let mut mac = new_mac(&key[..TAG_LENGTH]);
    mac.update(&[0; BLOCK_LENGTH]);
    mac.update(ciphertext);
    mac
}

fn new_mac(key: &[u8]) -> Hmac<Sha384> {
    <Hmac<Sha384> as Mac>::new_from_slice(key).expect("a MAC takes a key of any length")
}

/// Ciphertext stealing, variant CS3: the last two blocks always change places.
fn cts_encrypt(cipher: &Aes256, bytes: &mut Vec<u8>) {
    let length = bytes.len();
    bytes.resize(length.next_multiple_of(BLOCK_LENGTH), 0);
    let mut previous = [0; BLOCK_LENGTH];
    for block in bytes.chunks_exact_mut(BLOCK_LENGTH) {
        xor(block, &previous);
        cipher.encrypt_block(GenericArray::from_mut_slice(block));
        previous.copy_from_slice(block);
    }
    swap_last_blocks(bytes);
    bytes.truncate(length);
}

fn cts_decrypt(cipher: &Aes256, bytes: &mut Vec<u8>) {
    let length = bytes.len();
    let tail = length.next_multiple_of(BLOCK_LENGTH) - length;
    if tail > 0 {
        // The second to last block was truncated: the last plaintext block was padded with zeros there, so
        // deciphering the final block yields the missing bytes.
        let at = length / BLOCK_LENGTH * BLOCK_LENGTH - BLOCK_LENGTH;
        let mut block = *GenericArray::from_slice(&bytes[at..at + BLOCK_LENGTH]);
        cipher.decrypt_block(&mut block);
        bytes.extend_from_slice(&block[BLOCK_LENGTH - tail..]);
    }
    swap_last_blocks(bytes);
    let mut previous = [0; BLOCK_LENGTH];
    for block in bytes.chunks_exact_mut(BLOCK_LENGTH) {
        let sealed: [u8; BLOCK_LENGTH] = (&*block).try_into().expect("chunks are whole blocks");
        cipher.decrypt_block(GenericArray::from_mut_slice(block));
        xor(block, &previous);
        previous = sealed;
    }
    bytes.truncate(length);
}

fn swap_last_blocks(bytes: &mut [u8]) {
    if bytes.len() >= 2 * BLOCK_LENGTH {
        let (front, last) = bytes.split_at_mut(bytes.len() - BLOCK_LENGTH);
        let at = front.len() - BLOCK_LENGTH;
        front[at..].swap_with_slice(last);
    }
}

fn xor(block: &mut [u8], other: &[u8; BLOCK_LENGTH]) {
    block.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    const SECRET: &str = "6d404d37faf79f9df0d33568d320669800eb4836472ea8a026d16b7182460c52";

    /// RFC 8009, appendix A, "Sample results for aes256-cts-hmac-sha384-192 key derivation".
    #[test]
    fn derived_keys_agree_with_rfc_8009() {
        let secret = hex(SECRET);
        assert_eq!(
            derive(&secret, 2, ENCRYPTION_KEY, KEY_LENGTH)[..KEY_LENGTH],
            hex("56ab22bee63d82d7bc5227f6773f8ea7a5eb1c825160c38312980c442e5c7e49")
        );
        assert_eq!(
            derive(&secret, 2, INTEGRITY_KEY, TAG_LENGTH)[..TAG_LENGTH],
            hex("69b16514e3cd8e56b82010d5c73012b622c4d00ffc23ed1f")
        );
    }

    /// RFC 8009, appendix A, "Sample encryptions (all using the default cipher state)".
    #[test]
    fn encryptions_agree_with_rfc_8009() {
        let cases = [
            (
                "f764e9fa15c276478b2c7d0c4e5f58e4",
                "",
                "41f53fa5bfe7026d91faf9be959195a058707273a96a40f0a01960621ac612748b9bbfbe7eb4ce3c",
            ),
            (
                "b80d3251c1f6471494256ffe712d0b9a",
                "000102030405",
                "4ed7b37c2bcac8f74f23c1cf07e62bc7b75fb3f637b9f559c7f664f69eab7b6092237526ea0d1f61\
                 cb20d69d10f2",
            ),
            (
                "53bf8a0d105265d4e276428624ce5e63",
                "000102030405060708090a0b0c0d0e0f",
                "bc47ffec7998eb91e8115cf8d19dac4bbbe2e163e87dd37f49beca92027764f68cf51f14d798c227\
                 3f35df574d1f932e40c4ff255b36a266",
            ),
            (
                "763e65367e864f02f55153c7e3b58af1",
                "000102030405060708090a0b0c0d0e0f1011121314",
                "40013e2df58e8751957d2878bcd2d6fe101ccfd556cb1eae79db3c3ee86429f2b2a602ac86fef6ec\
                 b647d6295fae077a1feb517508d2c16b4192e01f62",
            ),
        ];
        let secret = hex(SECRET);
        for (confounder, plaintext, expected) in cases {
            let confounder = hex(confounder).try_into().unwrap();
            let sealed = encrypt(&secret, 2, confounder, &hex(plaintext));
            assert_eq!(sealed, hex(expected));
            assert_eq!(decrypt(&secret, 2, &sealed).unwrap(), hex(plaintext));
        }
    }

    #[test]
    fn any_change_of_bytes_usage_or_length_is_refused() {
        let sealed = encrypt(&[7; 32], 4, [9; 16], b"twenty bytes of text");
        for at in 0..sealed.len() {
            let mut tampered = sealed.clone();
            tampered[at] ^= 1;
            assert_eq!(decrypt(&[7; 32], 4, &tampered), None);
            assert_eq!(decrypt(&[7; 32], 4, &sealed[..at]), None);
        }
        assert_eq!(decrypt(&[7; 32], 5, &sealed), None);
    }

    #[test]
    fn every_length_round_trips() {
        for length in 0..100 {
            let plaintext: Vec<u8> = (0..length).collect();
            let sealed = encrypt(&[3; 32], 1, [5; 16], &plaintext);
            assert_eq!(decrypt(&[3; 32], 1, &sealed).unwrap(), plaintext);
        }
    }
}
