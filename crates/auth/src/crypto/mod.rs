//! Keys and the ciphers they stand for.
//!
//! * [`CryptoKey`] is a secret with its type, as keyrings and tickets carry it.
//! * `aes_cbc` and `aes256k` are the two ciphers a key can name; both map bytes to bytes.
//! * [`seal`] and [`open`] add the envelope that cephx puts around each encrypted structure.
//! * [`Entropy`] stretches a seed that the host gave; nothing here asks the system for randomness.
//!
//! This part knows neither tickets nor protocol exchanges.

mod aes256k;
mod aes_cbc;
mod entropy;
mod envelope;
mod key;

pub use entropy::Entropy;
pub use envelope::{KeyUsage, open, seal};
pub use key::{CryptoKey, KeyTextError, KeyType};

/// Why bytes could not be encrypted or decrypted. Deliberately says little: which check failed is
/// nothing that a peer may learn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    #[error("the key is empty")]
    EmptyKey,
    #[error("{what} cannot be decrypted with this key")]
    Undecryptable { what: &'static str },
    #[error("{what} is malformed after decryption")]
    Malformed {
        what: &'static str,
        #[source]
        source: codec::DecodeError,
    },
}
