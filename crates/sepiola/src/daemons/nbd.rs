//! An NBD server of this process.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use gateway::{NbdNode, ServedImage, TlsPolicy};
use host::{AnyCore, Member, PORT_TIME_MAX, Prepared};
use machine::random_bytes;
use rados::Config;
use rbd::{Header, Image};
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use types::{EntityType, ParticipantName};

/// An image to serve.
pub struct NbdExport {
    /// Its name for clients.
    pub name: Bytes,
    /// Its header, read before.
    pub header: Header,
    /// Whether clients may write.
    pub is_writable: bool,
}

/// Images of an NBD server, and where it listens.
pub struct NbdSettings {
    /// How it presents itself to the cluster.
    pub client: Config,
    /// The first is also the default export.
    pub exports: Vec<NbdExport>,
    /// Takes the exclusive locks at once and keeps them.
    pub keeps_locks: bool,
    /// TLS of the connections.
    pub tls: TlsPolicy,
    /// Unix socket to listen at.
    pub socket: Option<PathBuf>,
    /// Address to listen at.
    pub listen: Option<SocketAddr>,
    /// URIs for clients, shown when it listens.
    pub uris: Vec<String>,
}

/// An NBD server.
pub struct NbdMember {
    settings: NbdSettings,
    bound: OnceLock<SocketPath>,
}

impl NbdMember {
    /// A server that does not listen yet.
    pub fn new(settings: NbdSettings) -> Self {
        NbdMember { settings, bound: OnceLock::new() }
    }

    fn served(&self, export: &NbdExport) -> Result<ServedImage> {
        let mut image = Image::new(export.header.clone(), export.is_writable)?;
        if self.settings.keeps_locks {
            image.keep_lock();
        }
        Ok(ServedImage::new(export.name.clone(), image))
    }

    fn listen(&self, core: &mut AnyCore, node: usize) -> Result<()> {
        if let Some(path) = &self.settings.socket {
            let bound = listen_at(core, path, node)?;
            assert!(self.bound.set(bound).is_ok(), "a server listens once");
        }
        if let Some(addr) = self.settings.listen {
            let addr = core.listen_for_streams(addr, node, PORT_TIME_MAX)?;
            println!("listening on {addr}");
        }
        if let Some(path) = &self.settings.socket {
            println!("listening on {}", path.display());
        }
        for uri in &self.settings.uris {
            println!("  {uri}");
        }
        Ok(())
    }
}

impl Member for NbdMember {
    fn participant(&self) -> ParticipantName {
        ParticipantName::new(EntityType::CLIENT, -1)
    }

    fn prepare<'a>(&'a self, core: &mut AnyCore, node: usize) -> Result<Prepared<'a>> {
        let served = self.settings.exports.iter().map(|export| self.served(export));
        let served: Vec<ServedImage> = served.collect::<Result<_>>()?;
        let config = self.settings.client.clone();
        let client = access::client_node(config, random_bytes()?, core.now());
        self.listen(core, node)?;
        let tls = self.settings.tls.clone();
        Ok(Box::new(move |_| Ok(Box::new(NbdNode::new(client, served, tls)))))
    }
}

/// Removes the socket's path at the end.
struct SocketPath(PathBuf);

impl Drop for SocketPath {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Replaces the socket of a killed server, but not one in use.
fn listen_at(core: &mut AnyCore, path: &Path, node: usize) -> Result<SocketPath> {
    if let Ok(metadata) = fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            bail!("{} exists and is no socket", path.display());
        }
        if UnixStream::connect(path).is_ok() {
            bail!("{} is served by another process", path.display());
        }
        fs::remove_file(path).with_context(|| format!("removing {}", path.display()))?;
    }
    core.listen_for_streams_at(path, node)?;
    Ok(SocketPath(path.to_owned()))
}
