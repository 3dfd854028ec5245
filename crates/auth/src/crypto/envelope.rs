//! Envelope of cephx around each encrypted structure: `u8 1 | u64 magic | structure`, encrypted.
//!
//! The magic detects a wrong `aes` key; `aes256k` has a tag of its own besides.

use super::plaintext::{MAGIC, enveloped};
use super::{CryptoError, CryptoKey, Entropy};
use codec::{Decode, Encode, Reader};

/// Purpose for which a key is used (`CEPHX_KEY_USAGE_*`). Only `aes256k` binds ciphertext to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUsage {
    /// The connection secret that a monitor sends with the auth ticket.
    AuthConnectionSecret,
    /// `CephXServiceTicket`: the session key of a ticket.
    TicketSessionKey,
    /// A new auth ticket, sealed under the session key of the old one.
    TicketBlob,
    /// Proof of a session key in an authorizer.
    Authorize,
    /// The challenge of a service.
    AuthorizeChallenge,
    /// The reply of a service to an authorizer.
    AuthorizeReply,
    /// The rotating secrets of a daemon's own service.
    RotatingSecret,
    /// `CephXServiceTicketInfo`: the content of a ticket for a service.
    TicketInfo,
}

impl KeyUsage {
    /// The number in the key derivation.
    pub fn number(self) -> u32 {
        match self {
            KeyUsage::AuthConnectionSecret => 0x03,
            KeyUsage::TicketSessionKey => 0x04,
            KeyUsage::TicketBlob => 0x05,
            KeyUsage::Authorize => 0x10,
            KeyUsage::AuthorizeChallenge => 0x11,
            KeyUsage::AuthorizeReply => 0x12,
            KeyUsage::RotatingSecret => 0x20,
            KeyUsage::TicketInfo => 0x30,
        }
    }
}

/// Encrypts `value` in its envelope (`encode_encrypt_enc_bl`; `encode_encrypt` writes the same bytes behind
/// their length).
pub fn seal<T: Encode + ?Sized>(
    value: &T,
    key: &CryptoKey,
    usage: KeyUsage,
    entropy: &mut Entropy,
) -> Result<Vec<u8>, CryptoError> {
    key.encrypt(usage.number(), &enveloped(value), entropy)
}

/// Decrypts a value and checks its envelope. Bytes behind the value, of a newer encoding, are ignored.
pub fn open<T: Decode>(
    what: &'static str,
    sealed: &[u8],
    key: &CryptoKey,
    usage: KeyUsage,
) -> Result<T, CryptoError> {
    let plaintext =
        key.decrypt(usage.number(), sealed)?.ok_or(CryptoError::Undecryptable { what })?;
    let mut reader = Reader::new(&plaintext);
    let malformed = |source| CryptoError::Malformed { what, source };
    reader.u8("envelope version").map_err(malformed)?;
    if reader.u64("envelope magic").map_err(malformed)? != MAGIC {
        return Err(CryptoError::Undecryptable { what });
    }
    reader.value().map_err(malformed)
}
