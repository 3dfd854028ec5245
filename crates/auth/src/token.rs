//! Random secrets that prove something to the one that gave them out: links and sessions of the console.

use crate::crypto::Entropy;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::fmt::{self, Debug, Formatter};
use subtle::ConstantTimeEq;

const TOKEN_BYTES: usize = 32;
/// Bound of the text that is compared; longer text is no token.
const TEXT_MAX: usize = 128;

/// The kept part of a token: enough to recognise it, too little to show it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// Draws a token of 256 bits: its text for its owner, and its digest.
    pub fn draw(entropy: &mut Entropy) -> (String, TokenDigest) {
        let text = BASE64_URL_SAFE_NO_PAD.encode(entropy.array::<TOKEN_BYTES>());
        let digest = TokenDigest::of(&text);
        (text, digest)
    }

    fn of(text: &str) -> TokenDigest {
        TokenDigest(Sha256::digest(text.as_bytes()).into())
    }

    /// Whether the text is that of the token. Takes the same time for every text of the same length.
    pub fn matches(&self, text: &str) -> bool {
        text.len() <= TEXT_MAX && bool::from(self.0.ct_eq(&TokenDigest::of(text).0))
    }
}

impl Debug for TokenDigest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_recognised_and_another_is_not() {
        let mut entropy = Entropy::from_seed([7; 32]);
        let (text, digest) = TokenDigest::draw(&mut entropy);
        let (other, _) = TokenDigest::draw(&mut entropy);
        assert_eq!(text.len(), 43);
        assert!(digest.matches(&text));
        assert!(!digest.matches(&other) && !digest.matches("") && !digest.matches(&text.repeat(4)));
        assert_eq!(format!("{digest:?}"), "TokenDigest");
    }
}
