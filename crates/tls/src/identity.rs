//! The certificate by which a server is known, and its key.

use crate::{certificates, private_key};
use anyhow::{Context, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use machine::write_file;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::ring;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;

/// Of both files: they lie in directories whose other files are private, too.
const MODE: u32 = 0o600;

/// A certificate with its key, ready to serve.
#[derive(Clone)]
pub struct Identity {
    config: Arc<ServerConfig>,
    fingerprint: String,
}

impl Identity {
    /// The identity in these two files.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self> {
        let chain = certificates(certificate)?;
        let fingerprint = fingerprint(&chain[0]);
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth();
        let config = builder.with_single_cert(chain, private_key(key)?).with_context(|| {
            format!("{} and {} cannot be used", certificate.display(), key.display())
        })?;
        Ok(Identity { config: Arc::new(config), fingerprint })
    }

    /// The same. Files that do not exist are made: a certificate that signs itself, for these names and
    /// addresses, and a key that only the owner may read.
    pub fn load_or_create(certificate: &Path, key: &Path, names: &[String]) -> Result<Self> {
        if is_missing(certificate) {
            // A key without a certificate is left of a start that was interrupted, or is an administrator's.
            let has_key = !is_missing(key);
            let pair = match has_key {
                true => KeyPair::try_from(&private_key(key)?)?,
                false => KeyPair::generate()?,
            };
            let made = self_signed(&pair, names).context("making a certificate")?;
            if !has_key {
                write_file(key, &pem("PRIVATE KEY", &pair.serialize_der()), MODE)?;
            }
            write_file(certificate, &made, MODE)?;
        }
        Identity::load(certificate, key)
    }

    /// The configuration of new connections.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// SHA-256 of the certificate, as browsers show it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// Whether there is nothing of this name. What cannot be looked at is an administrator's, and is kept.
fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

fn self_signed(key: &KeyPair, names: &[String]) -> Result<String> {
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name.push(DnType::CommonName, "sepiola console");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    // Trust is in the fingerprint: an end would only lock administrators out.
    (parameters.not_before, parameters.not_after) =
        (date_time_ymd(2026, 1, 1), date_time_ymd(2126, 1, 1));
    Ok(pem("CERTIFICATE", parameters.self_signed(key)?.der()))
}

/// A value in the text form of certificates and keys, in lines of 64 characters (RFC 7468).
fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: Vec<&str> =
        (0..text.len()).step_by(64).map(|at| &text[at..text.len().min(at + 64)]).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn fingerprint(certificate: &[u8]) -> String {
    let digest = Sha256::digest(certificate);
    let bytes: Vec<String> = digest.iter().map(|byte| format!("{byte:02X}")).collect();
    bytes.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_certificate_is_made_once_and_its_key_is_private() {
        let directory = std::env::temp_dir().join(format!("sepiola-tls-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (certificate, key) = (directory.join("cert.pem"), directory.join("key.pem"));
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = Identity::load_or_create(&certificate, &key, &names).unwrap();
        let again = Identity::load_or_create(&certificate, &key, &names).unwrap();
        assert_eq!(made.fingerprint(), again.fingerprint());
        assert_eq!(made.fingerprint().len(), 32 * 3 - 1);
        let mode = std::fs::metadata(&key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        let before = std::fs::read(&key).unwrap();
        std::fs::remove_file(&certificate).unwrap();
        Identity::load_or_create(&certificate, &key, &names).unwrap();
        assert_eq!(std::fs::read(&key).unwrap(), before, "a key that is there is kept");
        std::fs::remove_file(&key).unwrap();
        let before = std::fs::read(&certificate).unwrap();
        let refused = Identity::load_or_create(&certificate, &key, &names);
        assert!(refused.is_err(), "a certificate without its key is an administrator's");
        assert_eq!(std::fs::read(&certificate).unwrap(), before);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
