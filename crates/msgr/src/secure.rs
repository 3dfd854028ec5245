//! Ciphers of secure mode as frames need them, and the signature of the handshake.

use auth::{SessionCipher, SessionCiphers, Side};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use wire::frame::{CIPHER_TAG_LENGTH, FrameCipher, SIGNATURE_LENGTH};

struct Cipher(SessionCipher);

impl FrameCipher for Cipher {
    fn seal(&mut self, unit: &mut [u8]) -> [u8; CIPHER_TAG_LENGTH] {
        self.0.seal(&mut [unit])
    }

    fn open(&mut self, unit: &mut [u8], tag: &[u8; CIPHER_TAG_LENGTH]) -> bool {
        self.0.open(&mut [unit], tag).is_ok()
    }
}

/// The ciphers for receiving and sending; `None` if the secret is too short.
pub(crate) fn ciphers(
    secret: &[u8],
    side: Side,
) -> Option<(Box<dyn FrameCipher>, Box<dyn FrameCipher>)> {
    let SessionCiphers { rx, tx } = SessionCiphers::new(secret, side).ok()?;
    Some((Box::new(Cipher(rx)), Box::new(Cipher(tx))))
}

/// The signature of the handshake; zeros without a key.
pub(crate) fn signature(session_key: &[u8], bytes: &[u8]) -> [u8; SIGNATURE_LENGTH] {
    if session_key.is_empty() {
        return [0; SIGNATURE_LENGTH];
    }
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(session_key).expect("any length is a key");
    mac.update(bytes);
    mac.finalize().into_bytes().into()
}
