//! TLS on one connection.

use anyhow::{Result, bail};
use bytes::{Bytes, BytesMut};
use rustls::{ServerConfig, ServerConnection};
use std::io::{Read, Write};
use std::sync::Arc;

/// Decrypted bytes are delivered in pieces of at most one record.
const PIECE: usize = 16 << 10;

/// One connection.
#[derive(Debug)]
pub struct Tls {
    connection: ServerConnection,
}

impl Tls {
    /// A connection that was accepted.
    pub fn begin(config: Arc<ServerConfig>) -> Result<Self> {
        let mut connection = ServerConnection::new(config)?;
        // Output for a slow client is bounded by the caller, which knows what it has not sent yet.
        connection.set_buffer_limit(None);
        Ok(Tls { connection })
    }

    /// Whether keys are still being agreed on.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Decrypts received bytes; after an error there may still be an alert to send.
    pub fn receive(&mut self, mut encrypted: &[u8], plain: &mut Vec<Bytes>) -> Result<()> {
        while !encrypted.is_empty() {
            if self.connection.read_tls(&mut encrypted)? == 0 {
                bail!("the client went on after it had said that no more would come");
            }
            let mut ready = self.connection.process_new_packets()?.plaintext_bytes_to_read();
            while ready > 0 {
                let mut piece = BytesMut::zeroed(ready.min(PIECE));
                let length = self.connection.reader().read(&mut piece)?;
                piece.truncate(length);
                plain.push(piece.freeze());
                ready -= length;
            }
        }
        Ok(())
    }

    /// Encrypts a piece.
    pub fn send(&mut self, plain: &[u8]) -> Result<()> {
        Ok(self.connection.writer().write_all(plain)?)
    }

    /// Sends the closing alert.
    pub fn end(&mut self) {
        self.connection.send_close_notify();
    }

    /// Encrypted output so far.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        let mut encrypted = Vec::new();
        while self.connection.wants_write() {
            // Writing to memory cannot fail.
            let _ = self.connection.write_tls(&mut encrypted);
        }
        (!encrypted.is_empty()).then(|| encrypted.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    /// A key for tests only, with its certificate for the name "a" until 2120.
    const PEM: &[u8] = b"-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIED8ify/xCe+Y1oGmCrLxeDcO7CmhBIwwM7LEqrGZidn
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBBTCBuKADAgECAgEBMAUGAytlcDAMMQowCAYDVQQDDAFhMCAXDTIwMDEwMTAw
MDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAMMQowCAYDVQQDDAFhMCowBQYDK2VwAyEA
5ckjqMVpZ2NuV1lec7ME5IzabTSe6OmTdkadTgsRy3KjPTA7MAwGA1UdEwEB/wQC
MAAwDAYDVR0RBAUwA4IBYTAdBgNVHQ4EFgQUAbBTjS5bIubzIPiAeh143DfQMDIw
BQYDK2VwA0EARXzS2F9A7OVEIxM+tGt/wFt11hDhZtFCPJthqzAJjjxDHAbaCF9A
saCty5KNizZKcRPUrnuOAvWUPkKQtgFEDQ==
-----END CERTIFICATE-----
";

    fn server() -> Tls {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let certificate = CertificateDer::from_pem_slice(PEM).unwrap();
        let key = PrivateKeyDer::from_pem_slice(PEM).unwrap();
        let config = Arc::new(builder.with_single_cert(vec![certificate], key).unwrap());
        Tls::begin(config).unwrap()
    }

    fn client() -> ClientConnection {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(PEM).unwrap()).unwrap();
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        ClientConnection::new(Arc::new(config), "a".try_into().unwrap()).unwrap()
    }

    fn sent(client: &mut ClientConnection) -> Vec<u8> {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).unwrap();
        }
        sent
    }

    #[test]
    fn who_goes_on_after_a_goodbye_is_given_up() {
        let (mut tls, mut client, mut plain) = (server(), client(), Vec::new());
        while client.is_handshaking() || client.wants_write() {
            tls.receive(&sent(&mut client), &mut plain).unwrap();
            let answer = tls.poll_transmit().unwrap_or_default();
            let mut answer = &answer[..];
            while !answer.is_empty() {
                client.read_tls(&mut answer).unwrap();
                client.process_new_packets().unwrap();
            }
        }
        client.writer().write_all(b"hello").unwrap();
        client.send_close_notify();
        tls.receive(&sent(&mut client), &mut plain).unwrap();
        assert_eq!(plain.concat(), b"hello");
        assert!(tls.receive(b"x", &mut plain).is_err());
    }
}
