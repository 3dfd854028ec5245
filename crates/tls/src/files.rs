//! Certificates and keys in PEM files.

use anyhow::{Context, Result, ensure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;

/// The certificates of a file, at least one.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = || -> Result<Vec<_>, _> { CertificateDer::pem_file_iter(path)?.collect() };
    let found = read().with_context(|| format!("reading certificates in {}", path.display()))?;
    ensure!(!found.is_empty(), "there is no certificate in {}", path.display());
    Ok(found)
}

/// The key of a file.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path)
        .with_context(|| format!("reading the key in {}", path.display()))
}
