//! `sepiola nbd`: an NBD server for images.

use crate::cli::NbdArgs;
use crate::daemons::{NbdExport, NbdMember, NbdSettings};
use crate::process::start_log;
use access::{BlockingClient, client_config};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use gateway::TlsPolicy;
use machine::random_u64;
use rt::StopSignals;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// `sepiola nbd`
pub fn serve(args: &NbdArgs) -> Result<()> {
    start_log();
    let signals = StopSignals::block().context("taking over signals")?;
    let tls = tls_policy(args)?;
    let exports = open_images(args)?;
    let listen = args.listen.as_deref().map(address).transpose()?;
    let mut client = client_config(&args.cluster)?;
    // A block device waits without bound.
    client.timeout = None;
    let server = NbdMember::new(NbdSettings {
        client,
        exports,
        keeps_locks: args.exclusive,
        tls,
        socket: args.socket.clone(),
        listen,
        uris: uris(args),
    });
    host::run_until_signal(&server, random_u64()?, signals)
}

fn tls_policy(args: &NbdArgs) -> Result<TlsPolicy> {
    match &args.tls_certs {
        Some(directory) => TlsPolicy::load(directory, args.tls_required, args.tls_verify_peer),
        None => Ok(TlsPolicy::default()),
    }
}

/// Reads the headers before the exports are announced.
fn open_images(args: &NbdArgs) -> Result<Vec<NbdExport>> {
    let mut client = BlockingClient::open(&args.cluster)?;
    let mut exports: Vec<NbdExport> = Vec::new();
    for name in &args.images {
        let is_writable = !args.read_only && name.snap.is_none();
        let header = client.open_header(name)?;
        let name = Bytes::from(name.to_string());
        if exports.iter().any(|other| other.name == name) {
            bail!("{} is named twice", String::from_utf8_lossy(&name));
        }
        if is_writable {
            check_sharing(args, &header)?;
        }
        exports.push(NbdExport { name, header, is_writable });
    }
    Ok(exports)
}

fn check_sharing(args: &NbdArgs, header: &rbd::Header) -> Result<()> {
    let (image, has_lock) = (&header.spec, header.features.contains(rbd::Features::EXCLUSIVE_LOCK));
    if args.exclusive && !has_lock {
        bail!(
            "{image} lacks the feature exclusive-lock; `sepiola image feature enable {image} \
             exclusive-lock` gives it that"
        );
    }
    if args.shared && has_lock {
        bail!(
            "{image} has the feature exclusive-lock: one client writes at a time; `sepiola image \
             feature disable {image} object-map,exclusive-lock` lets many write"
        );
    }
    Ok(())
}

fn address(text: &str) -> Result<SocketAddr> {
    let mut found = text.to_socket_addrs().with_context(|| format!("reading --listen {text}"))?;
    found.next().with_context(|| format!("{text} is no address"))
}

/// URIs for clients.
fn uris(args: &NbdArgs) -> Vec<String> {
    let names = args.images.iter().map(|image| image.to_string());
    let scheme = if args.tls_certs.is_some() { "nbds" } else { "nbd" };
    let at = |name: String| {
        let of_socket =
            |path: &PathBuf| format!("{scheme}+unix:///{name}?socket={}", path.display());
        let of_addr = |addr: &String| format!("{scheme}://{addr}/{name}");
        [args.socket.as_ref().map(of_socket), args.listen.as_ref().map(of_addr)]
    };
    names.flat_map(at).flatten().collect()
}
