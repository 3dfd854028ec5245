//! Arguments of all programs that open a cluster, a pool or an image.

use clap::{Args, ValueEnum};
use std::fmt;
use std::path::PathBuf;

/// How clients prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuthMode {
    Cephx,
    None,
}

impl AuthMode {
    /// Its name in a `ceph.conf` and in settings files.
    pub fn name(self) -> &'static str {
        match self {
            AuthMode::Cephx => "cephx",
            AuthMode::None => "none",
        }
    }

    /// The mode of that name, as files have it: without one, clients prove who they are.
    pub fn named(name: &str) -> Self {
        if name == AuthMode::None.name() { AuthMode::None } else { AuthMode::Cephx }
    }
}

/// The data directory if none is named.
pub(crate) const DATA_DEFAULT: &str = "sepiola-data";

#[derive(Debug, Clone, Args)]
pub struct DataArgs {
    /// Where the cluster keeps its configuration and data
    #[arg(long, env = "SEPIOLA_DATA", default_value = DATA_DEFAULT)]
    pub data: PathBuf,
}

#[derive(Debug, Clone, Args)]
pub struct ClusterArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// ceph.conf of the cluster [default: the one in the data directory, else /etc/ceph/ceph.conf]
    #[arg(short, long)]
    pub conf: Option<PathBuf>,
    /// Keyring with the client's key [default: the one that the configuration names]
    #[arg(short, long)]
    pub keyring: Option<PathBuf>,
    /// Entity to authenticate as
    #[arg(short, long, default_value = "client.admin")]
    pub name: String,
    /// Encrypt what goes over the wire
    #[arg(long)]
    pub secure: bool,
}

#[derive(Debug, Clone, Args)]
pub struct PoolArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[arg(short, long)]
    pub pool: String,
    /// Namespace within the pool
    #[arg(short = 'N', long, default_value = "")]
    pub namespace: String,
}

/// `[POOL/[NAMESPACE/]]IMAGE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName {
    /// The pool that it is in.
    pub pool: PoolName,
    /// Its name in the pool.
    pub name: String,
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.pool.pool)?;
        if !self.pool.namespace.is_empty() {
            write!(f, "{}/", self.pool.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// `POOL[/NAMESPACE]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolName {
    /// Name of the pool.
    pub pool: String,
    /// Namespace in the pool; empty for the default one.
    pub namespace: String,
}

/// The pool of images whose names do not say another.
pub const POOL_DEFAULT: &str = "rbd";

/// Parses `[POOL/[NAMESPACE/]]IMAGE`.
pub fn image_name(text: &str) -> Result<ImageName, String> {
    let words: Vec<&str> = text.split('/').collect();
    let (pool, namespace, name) = match words[..] {
        [name] => (POOL_DEFAULT, "", name),
        [pool, name] => (pool, "", name),
        [pool, namespace, name] => (pool, namespace, name),
        _ => return Err("an image is named [POOL/[NAMESPACE/]]IMAGE".to_owned()),
    };
    if pool.is_empty() || name.is_empty() || name.contains('@') {
        return Err("an image is named [POOL/[NAMESPACE/]]IMAGE".to_owned());
    }
    let pool = PoolName { pool: pool.to_owned(), namespace: namespace.to_owned() };
    Ok(ImageName { pool, name: name.to_owned() })
}

/// Parses `POOL[/NAMESPACE]`.
pub fn pool_name(text: &str) -> Result<PoolName, String> {
    let (pool, namespace) = text.split_once('/').unwrap_or((text, ""));
    if pool.is_empty() || namespace.contains('/') {
        return Err("a pool is named POOL[/NAMESPACE]".to_owned());
    }
    Ok(PoolName { pool: pool.to_owned(), namespace: namespace.to_owned() })
}

#[derive(Debug, Clone, Args)]
pub struct ImageArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// [POOL/[NAMESPACE/]]IMAGE; the pool is `rbd` unless it is named
    #[arg(value_parser = image_name)]
    pub image: ImageName,
}

/// `[POOL/[NAMESPACE/]]IMAGE[@SNAP]`: something that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceName {
    /// The image.
    pub image: ImageName,
    /// The snapshot, if one is named.
    pub snap: Option<String>,
}

impl fmt::Display for SourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.snap {
            None => self.image.fmt(f),
            Some(snap) => write!(f, "{}@{snap}", self.image),
        }
    }
}

/// Parses `[POOL/[NAMESPACE/]]IMAGE[@SNAP]`.
pub fn source_name(text: &str) -> Result<SourceName, String> {
    let Some((image, snap)) = text.split_once('@') else {
        return Ok(SourceName { image: image_name(text)?, snap: None });
    };
    if snap.is_empty() || snap.contains(['@', '/']) {
        return Err("a snapshot is named [POOL/[NAMESPACE/]]IMAGE@SNAP".to_owned());
    }
    Ok(SourceName { image: image_name(image)?, snap: Some(snap.to_owned()) })
}

/// A size in bytes, such as `512M` or `10G`.
///
/// # Errors
///
/// If it is not positive, or no size.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let bytes = stdx::parse_bytes(text).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "expected a size such as 512M or 10G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_named_as_rbd_names_them() {
        let name = |pool: &str, namespace: &str, name: &str| ImageName {
            pool: PoolName { pool: pool.into(), namespace: namespace.into() },
            name: name.into(),
        };
        assert_eq!(image_name("disk"), Ok(name("rbd", "", "disk")));
        assert_eq!(image_name("pool/disk"), Ok(name("pool", "", "disk")));
        assert_eq!(image_name("pool/space/disk"), Ok(name("pool", "space", "disk")));
        for bad in ["", "/disk", "pool/", "a/b/c/d", "disk@snap"] {
            assert!(image_name(bad).is_err(), "{bad}");
        }
    }
}
