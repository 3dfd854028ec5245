//! A secret key with its type and creation time.

use super::{CryptoError, Entropy, aes_cbc, aes256k, plaintext};
use base64::{Engine, engine::general_purpose::STANDARD};
use codec::{Decode, Encode, Reader, Writer, encode_to_bytes};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::{fmt, str::FromStr};
use types::UTime;

/// Bound for a secret in bytes: its length is encoded in sixteen bits.
const SECRET_LENGTH_MAX: usize = u16::MAX as usize;

/// `CEPH_CRYPTO_*`, ordered from weak to strong: two peers use the weaker of their types.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyType {
    /// No key; encrypts nothing.
    #[default]
    None,
    /// AES-128, the only type of clients before Ceph 20.2.
    Aes,
    /// AES256-CTS-HMAC384-192 of RFC 8009 (`CEPH_CRYPTO_AES256KRB5`).
    Aes256k,
}

impl KeyType {
    /// Name in commands and options.
    pub fn name(self) -> &'static str {
        match self {
            KeyType::None => "none",
            KeyType::Aes => "aes",
            KeyType::Aes256k => "aes256k",
        }
    }

    /// The number on the wire and in keyrings.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// `None` for a type that this release does not have.
    pub fn from_number(number: u16) -> Option<Self> {
        [KeyType::None, KeyType::Aes, KeyType::Aes256k].into_iter().find(|k| k.number() == number)
    }

    /// Minimum length of the secret in bytes.
    fn secret_length(self) -> usize {
        match self {
            KeyType::None => 0,
            KeyType::Aes => aes_cbc::KEY_LENGTH,
            KeyType::Aes256k => aes256k::KEY_LENGTH,
        }
    }
}

impl FromStr for KeyType {
    type Err = KeyTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [KeyType::None, KeyType::Aes, KeyType::Aes256k]
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| KeyTextError::UnknownType { name: text.into() })
    }
}

/// Reason why text is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyTextError {
    /// The text has other characters or a wrong length.
    #[error("the key is not base64")]
    NotBase64(#[source] base64::DecodeError),
    /// The bytes are not a key.
    #[error("the key is malformed")]
    Malformed(#[source] codec::DecodeError),
    /// A type that this release does not have.
    #[error("unknown key type '{name}', known are none, aes and aes256k")]
    UnknownType {
        /// The name as written.
        name: String,
    },
}

/// `CryptoKey`. Keyrings hold its base64 text ([`fmt::Display`], [`FromStr`]); `Debug` never shows the
/// secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CryptoKey {
    kind: KeyType,
    created: UTime,
    secret: Vec<u8>,
}

impl CryptoKey {
    /// A new key with as many secret bytes as `kind` needs.
    pub fn generate(kind: KeyType, created: UTime, entropy: &mut Entropy) -> Self {
        CryptoKey { kind, created, secret: entropy.bytes(kind.secret_length()) }
    }

    /// Returns `None` if `secret` is too short for `kind`, or longer than the bound.
    pub fn from_secret(kind: KeyType, created: UTime, secret: &[u8]) -> Option<Self> {
        let lengths = kind.secret_length()..=SECRET_LENGTH_MAX;
        let valid = secret.is_empty() || lengths.contains(&secret.len());
        valid.then(|| CryptoKey { kind, created, secret: secret.to_vec() })
    }

    /// Type of the key, which decides the cipher.
    pub fn kind(&self) -> KeyType {
        self.kind
    }

    /// Wall-clock time at which the key was made.
    pub fn created(&self) -> UTime {
        self.created
    }

    /// The secret bytes; never for output.
    pub fn secret(&self) -> &[u8] {
        &self.secret
    }

    /// True for an empty key, which encrypts nothing and proves nothing.
    pub fn is_empty(&self) -> bool {
        self.kind == KeyType::None || self.secret.is_empty()
    }

    /// HMAC-SHA-256 under the secret; used for signatures of handshakes.
    pub fn hmac_sha256(&self, bytes: &[u8]) -> [u8; 32] {
        let mut mac =
            <Hmac<Sha256> as Mac>::new_from_slice(&self.secret).expect("any length is a key");
        mac.update(bytes);
        mac.finalize().into_bytes().into()
    }

    /// `cephx_calc_client_server_challenge`: the number with which a client proves that it has this key.
    /// `aes` folds the sealed challenges; `aes256k`, whose sealing is randomised, folds their HMAC.
    pub fn answer(&self, server_challenge: u64, client_challenge: u64) -> Result<u64, CryptoError> {
        let challenges = (server_challenge, client_challenge);
        let bytes = match self.aes()? {
            Some(key) => {
                let sealed = aes_cbc::encrypt(key, &plaintext::enveloped(&challenges));
                let mut w = Writer::new();
                w.blob(&sealed);
                w.into_vec()
            }
            None => self.hmac_sha256(&encode_to_bytes(&challenges)).to_vec(),
        };
        let words = bytes.chunks_exact(8).map(|word| word.try_into().expect("chunks are of 8"));
        Ok(words.map(u64::from_le_bytes).fold(0, |folded, word| folded ^ word))
    }

    pub(super) fn encrypt(
        &self,
        usage: u32,
        plaintext: &[u8],
        entropy: &mut Entropy,
    ) -> Result<Vec<u8>, CryptoError> {
        Ok(match self.aes()? {
            Some(key) => aes_cbc::encrypt(key, plaintext),
            None => aes256k::encrypt(&self.secret, usage, entropy.array(), plaintext),
        })
    }

    pub(super) fn decrypt(
        &self,
        usage: u32,
        sealed: &[u8],
    ) -> Result<Option<Vec<u8>>, CryptoError> {
        Ok(match self.aes()? {
            Some(key) => aes_cbc::decrypt(key, sealed),
            None => aes256k::decrypt(&self.secret, usage, sealed),
        })
    }

    /// The AES-128 key; `None` for an `aes256k` key.
    fn aes(&self) -> Result<Option<&[u8; aes_cbc::KEY_LENGTH]>, CryptoError> {
        match self.kind {
            _ if self.is_empty() => Err(CryptoError::EmptyKey),
            KeyType::Aes => Ok(self.secret.first_chunk()),
            KeyType::Aes256k | KeyType::None => Ok(None),
        }
    }
}

impl Encode for CryptoKey {
    fn encode(&self, w: &mut Writer) {
        w.u16(self.kind.number());
        w.value(&self.created);
        w.u16(self.secret.len() as u16);
        w.raw(&self.secret);
    }
}

impl Decode for CryptoKey {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        let at = *r;
        let number = r.u16("key type")?;
        let kind =
            KeyType::from_number(number).ok_or_else(|| at.invalid("key type", number.into()))?;
        let created = r.value()?;
        let at = *r;
        let length = r.u16("secret length")?;
        let secret = r.take("secret", length.into())?;
        CryptoKey::from_secret(kind, created, secret)
            .ok_or_else(|| at.invalid("secret length", length.into()))
    }
}

impl fmt::Display for CryptoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(encode_to_bytes(self)))
    }
}

impl fmt::Debug for CryptoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CryptoKey({}, {} bytes)", self.kind.name(), self.secret.len())
    }
}

impl FromStr for CryptoKey {
    type Err = KeyTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = STANDARD.decode(text.trim()).map_err(KeyTextError::NotBase64)?;
        Reader::new(&bytes).value().map_err(KeyTextError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::decode_all;

    /// Printed by `ceph-authtool --gen-print-key` of 16.2.15 and, for `aes256k`, of 20.2.4.
    const PRINTED: [(&str, KeyType, usize); 2] = [
        ("AQCLKQBrkEMKGxAA48ZITKwHx8DA1F0ZZVjelw==", KeyType::Aes, 16),
        ("AgCLKQBrLyZyHiAA/jIiDLcy2LH8GIeKEPNCpRdRLgpTwehbkiSesUVSiAY=", KeyType::Aes256k, 32),
    ];

    #[test]
    fn printed_keys_are_read_and_printed_unchanged() {
        for (text, kind, length) in PRINTED {
            let key: CryptoKey = text.parse().unwrap();
            assert_eq!((key.kind(), key.secret().len()), (kind, length));
            assert_eq!(key.to_string(), text);
            let bytes = encode_to_bytes(&key);
            for end in 0..bytes.len() {
                assert!(decode_all::<CryptoKey>("key", &bytes[..end]).is_err());
            }
        }
    }

    /// Test vector of Ceph's HMAC test.
    #[test]
    fn signatures_agree_with_ceph() {
        let secret: Vec<u8> = (0..16).map(|i| i * 0x11).collect();
        let key = CryptoKey::from_secret(KeyType::Aes, UTime::ZERO, &secret).unwrap();
        let expected = "42c7027e8be06dca2c0b444373fefdbeac5b4034eca44a69de3a291634ed8df9";
        assert_eq!(key.hmac_sha256(b"blablabla").to_vec(), crate::testing::hex(expected));
    }

    #[test]
    fn short_secrets_unknown_types_and_other_text_are_refused() {
        assert!(CryptoKey::from_secret(KeyType::Aes256k, UTime::ZERO, &[1; 16]).is_none());
        assert!(CryptoKey::from_secret(KeyType::Aes, UTime::ZERO, &[1; 70_000]).is_none());
        assert!(matches!("no key!".parse::<CryptoKey>(), Err(KeyTextError::NotBase64(_))));
        assert!(matches!("CQAAAA==".parse::<CryptoKey>(), Err(KeyTextError::Malformed(_))));
        assert_eq!("AES256K".parse::<KeyType>(), Ok(KeyType::Aes256k));
        assert!("des".parse::<KeyType>().is_err());
    }

    #[test]
    fn an_empty_key_proves_nothing_and_debug_shows_nothing() {
        assert_eq!(CryptoKey::default().answer(1, 2), Err(CryptoError::EmptyKey));
        let key = CryptoKey::from_secret(KeyType::Aes, UTime::ZERO, &[0xab; 16]).unwrap();
        assert_eq!(format!("{key:?}"), "CryptoKey(aes, 16 bytes)");
    }
}
