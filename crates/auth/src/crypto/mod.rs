//! Keys and their ciphers.
//!
//! * [`CryptoKey`] is a secret with its type, as in keyrings and tickets.
//! * `aes_cbc` and `aes256k` are the ciphers of the two key types; both map bytes to bytes.
//! * [`seal`] and [`open`] add the envelope of cephx around each encrypted structure.
//! * [`Entropy`] expands a seed of the host; this module never asks the system for randomness.
//!
//! The module knows neither tickets nor exchanges of the protocol.

mod aes256k;
mod aes_cbc;
mod entropy;
mod envelope;
mod key;
mod plaintext;

pub use entropy::Entropy;
pub use envelope::{KeyUsage, open, seal};
pub use key::{CryptoKey, KeyTextError, KeyType};

/// Failure to encrypt or decrypt. The failed check is not named on purpose: a peer must not learn it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    /// An empty key encrypts nothing and proves nothing.
    #[error("the key is empty")]
    EmptyKey,
    /// The bytes were not encrypted with this key, or were changed.
    #[error("{what} cannot be decrypted with this key")]
    Undecryptable {
        /// The structure.
        what: &'static str,
    },
    /// The bytes were encrypted with this key and are no such structure.
    #[error("{what} is malformed after decryption")]
    Malformed {
        /// The structure.
        what: &'static str,
        /// The violated rule of its encoding.
        #[source]
        source: codec::DecodeError,
    },
}
