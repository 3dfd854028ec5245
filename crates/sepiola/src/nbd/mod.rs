//! `sepiola nbd`: an NBD server for images.

mod client;
mod node;
mod served;
mod tls;

use crate::cli::NbdArgs;
use crate::up::start_log;
use access::{BlockingClient, client_config, client_node, fill_random};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use host::{Core, CoreConfig};
use node::NbdNode;
use rt::{Clock, StopSignals};
use served::Served;
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tls::TlsPolicy;

/// Time for closing the images.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(5);
/// Maximum duration of a turn.
const TURN_TIME_MAX: Duration = Duration::from_secs(60);

pub fn serve(args: &NbdArgs) -> Result<()> {
    start_log();
    let signals = StopSignals::block().context("taking over signals")?;
    let tls = TlsPolicy::load(args)?;
    let served = open_images(args)?;
    let addr = args.listen.as_deref().map(address).transpose()?;
    let mut config = client_config(&args.cluster)?;
    // A block device waits without bound.
    config.timeout = None;
    let clock = Clock::start();
    let mut seed = [0; 32];
    fill_random(&mut seed)?;
    let core_seed = u64::from_le_bytes(seed[..8].try_into().expect("eight bytes"));
    let mut core = Core::new(CoreConfig { index: 0, seed: core_seed }, clock.clone())?;
    let client = client_node(config, seed, clock.now());
    let node = core.add(NbdNode::new(client, served, tls)).node;
    let _socket =
        args.socket.as_deref().map(|path| listen_at(&mut core, path, node)).transpose()?;
    if let Some(addr) = addr {
        let addr = core.listen_for_streams(addr, node)?;
        println!("listening on {addr}");
    }
    if let Some(path) = &args.socket {
        println!("listening on {}", path.display());
    }
    for uri in uris(args) {
        println!("  {uri}");
    }
    run(core, clock, signals)
}

/// Opens the headers before the exports are announced.
fn open_images(args: &NbdArgs) -> Result<Vec<Served>> {
    let mut client = BlockingClient::open(&args.cluster)?;
    let mut served: Vec<Served> = Vec::new();
    for name in &args.images {
        let is_writable = !args.read_only && name.snap.is_none();
        let header = client.open_header(name)?;
        let name = Bytes::from(name.to_string());
        if served.iter().any(|other| *other.name() == name) {
            bail!("{} is named twice", String::from_utf8_lossy(&name));
        }
        if is_writable {
            check_sharing(args, &header)?;
        }
        let mut image = rbd::Image::new(header, is_writable)?;
        if args.exclusive {
            image.keep_lock();
        }
        served.push(Served::new(name, image));
    }
    Ok(served)
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

/// Removes the socket's path at the end.
struct SocketPath(PathBuf);

impl Drop for SocketPath {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Replaces the socket of a killed server, but not one in use.
fn listen_at(core: &mut Core<NbdNode>, path: &Path, node: usize) -> Result<SocketPath> {
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

fn run(mut core: Core<NbdNode>, clock: Clock, signals: StopSignals) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    let (waker, flag) = (core.waker(), stop.clone());
    std::thread::spawn(move || {
        let _ = signals.wait();
        flag.store(true, Ordering::Release);
        waker.wake();
    });
    let mut outcome = Ok(());
    while !stop.load(Ordering::Acquire) && outcome.is_ok() {
        core.turn(clock.now() + TURN_TIME_MAX)?;
        outcome = core.node_mut(0).check();
    }
    core.node_mut(0).close();
    let give_up = clock.now() + CLOSE_TIME_MAX;
    while !core.node_mut(0).is_closed() && clock.now() < give_up {
        core.settle();
        core.transmit();
        core.turn(give_up)?;
    }
    outcome
}
