//! TLS on an NBD connection.

use anyhow::{Context, Result};
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;
use tls::{Tls, private_key};

const CERTIFICATE: &str = "server-cert.pem";
const KEY: &str = "server-key.pem";
const AUTHORITY: &str = "ca-cert.pem";

/// Policy of TLS, with the certificates.
#[derive(Clone, Default)]
pub struct TlsPolicy {
    config: Option<Arc<ServerConfig>>,
    is_required: bool,
}

impl TlsPolicy {
    /// Offers TLS with the certificate and key of a directory, to clients that must use it if it is required,
    /// and must have a certificate if that is verified.
    pub fn load(directory: &Path, is_required: bool, verifies_peer: bool) -> Result<Self> {
        let config = config(directory, verifies_peer)?;
        Ok(TlsPolicy { config: Some(Arc::new(config)), is_required })
    }

    pub(crate) fn of_new_sessions(&self) -> nbd::Tls {
        match (&self.config, self.is_required) {
            (None, _) => nbd::Tls::Unavailable,
            (Some(_), false) => nbd::Tls::Offered,
            (Some(_), true) => nbd::Tls::Required,
        }
    }

    pub(crate) fn begin(&self) -> Result<Tls> {
        let config = self.config.clone().context("TLS was not offered")?;
        // Output for a slow client is bounded for all clients alike.
        Tls::begin(config)
    }
}

fn config(directory: &Path, verifies_peer: bool) -> Result<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let certificates = tls::certificates(&directory.join(CERTIFICATE))?;
    let key = private_key(&directory.join(KEY))?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let builder = if verifies_peer {
        let mut authorities = RootCertStore::empty();
        for certificate in tls::certificates(&directory.join(AUTHORITY))? {
            authorities.add(certificate).with_context(|| format!("reading {AUTHORITY}"))?;
        }
        let authorities = Arc::new(authorities);
        let verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider);
        builder.with_client_cert_verifier(verifier.build()?)
    } else {
        builder.with_no_client_auth()
    };
    builder.with_single_cert(certificates, key).with_context(|| {
        format!("{CERTIFICATE} and {KEY} of {} cannot be used", directory.display())
    })
}
