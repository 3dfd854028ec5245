//! Where an etcd is, and how it is reached: from the command line, or from the file that a cluster's
//! directory keeps.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Keys lie below this unless told otherwise.
pub const PREFIX_DEFAULT: &str = "sepiola";
/// The file may name a password.
pub const FILE_MODE: u32 = 0o600;

/// The members of an etcd, and how they are reached.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EtcdOptions {
    /// `http://10.0.0.1:2379`, of any number of members.
    pub endpoints: Vec<String>,
    /// Clusters that share an etcd have different ones.
    pub prefix: String,
    /// Name to log in with, if etcd asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// PEM file with the certificates of the authorities that sign the members'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file with the certificate that is shown to the members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// PEM file with its private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

impl EtcdOptions {
    /// Members without user and certificates; `http` unless the endpoint says otherwise.
    pub fn new(endpoints: impl IntoIterator<Item = String>) -> Self {
        let endpoints = endpoints.into_iter().map(|endpoint| with_scheme(&endpoint)).collect();
        EtcdOptions { endpoints, prefix: PREFIX_DEFAULT.to_owned(), ..EtcdOptions::default() }
    }

    /// The member on the machine with this address is asked first: it goes with the machine.
    pub fn prefer(&mut self, ip: IpAddr) {
        let ip = if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
        let is_near = |url: &String| {
            let host = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            host.strip_prefix(&ip)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
        };
        self.endpoints.sort_by_key(|url| !is_near(url));
    }

    /// Says what cannot work before anything is tried.
    pub fn check(&self) -> Result<()> {
        if self.endpoints.is_empty() {
            bail!("no etcd is named; expected --etcd http://10.0.0.1:2379,http://10.0.0.2:2379");
        }
        if self.prefix.is_empty() || self.prefix.starts_with('/') || self.prefix.ends_with('/') {
            bail!("{:?} cannot be a prefix of keys; expected something like sepiola", self.prefix);
        }
        if self.cert.is_some() != self.key.is_some() {
            bail!("a certificate needs its key and a key its certificate: give both or neither");
        }
        if self.password.is_some() && self.user.is_none() {
            bail!("there is a password for etcd, but no user");
        }
        Ok(())
    }

    /// Reads the file that [`EtcdOptions::to_text`] made.
    pub fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("reading where etcd is from {}", path.display()))?;
        let options: EtcdOptions =
            serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        options.check().with_context(|| format!("in {}", path.display()))?;
        Ok(options)
    }

    /// The content of the file that a cluster's directory keeps.
    pub fn to_text(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Name of the store in messages.
    pub fn shown(&self) -> String {
        format!("etcd at {}", self.endpoints.join(","))
    }
}

fn with_scheme(endpoint: &str) -> String {
    let endpoint = endpoint.trim().trim_end_matches('/');
    if endpoint.contains("://") { endpoint.to_owned() } else { format!("http://{endpoint}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_need_no_scheme_and_bad_options_are_named() {
        let mut options = EtcdOptions::new(["10.0.0.1:2379/".to_owned()]);
        assert_eq!(options.endpoints, ["http://10.0.0.1:2379"]);
        options.check().unwrap();
        options.endpoints.push("https://10.0.0.11:2379".to_owned());
        options.prefer("10.0.0.11".parse().unwrap());
        assert_eq!(options.endpoints, ["https://10.0.0.11:2379", "http://10.0.0.1:2379"]);
        let text = options.to_text().unwrap();
        assert_eq!(serde_json::from_str::<EtcdOptions>(&text).unwrap(), options);
        options.cert = Some("a.pem".into());
        assert!(options.check().unwrap_err().to_string().contains("key"));
        assert!(EtcdOptions::new([]).check().is_err());
    }
}
