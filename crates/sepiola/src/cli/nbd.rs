//! Syntax of `sepiola nbd`.

use access::{ClusterArgs, SourceName, source_name};
use clap::Args;
use std::path::PathBuf;

/// Serve images to NBD clients such as qemu, nbdcopy, fio and the kernel's nbd-client
#[derive(Debug, Clone, Args)]
pub struct NbdArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// [POOL/[NAMESPACE/]]IMAGE[@SNAP], each an export of that name; the first is also the default
    /// export. Snapshots are never written
    #[arg(required = true, value_parser = source_name)]
    pub images: Vec<SourceName>,
    /// Listen at this path
    #[arg(long, value_name = "PATH", required_unless_present = "listen")]
    pub socket: Option<PathBuf>,
    /// Listen at this address; every client that reaches it may read and write the images
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Refuse writes
    #[arg(long)]
    pub read_only: bool,
    /// Offer TLS with `server-cert.pem` and `server-key.pem` of this directory, as qemu-nbd and nbdkit
    /// name them
    #[arg(long, value_name = "DIRECTORY")]
    pub tls_certs: Option<PathBuf>,
    /// Refuse clients that do not use TLS
    #[arg(long, requires = "tls_certs")]
    pub tls_required: bool,
    /// Serve only clients whose certificate is signed by `ca-cert.pem` of the directory
    #[arg(long, requires = "tls_required")]
    pub tls_verify_peer: bool,
    /// Take the exclusive lock at once and keep it: no other client writes as long as this runs. Without
    /// this, the lock goes to the client that writes
    #[arg(long, conflicts_with_all = ["read_only", "shared"])]
    pub exclusive: bool,
    /// Other servers write at the same time, for a file system that is made for that. Only for images
    /// without the feature exclusive-lock, which would go to and fro
    #[arg(long)]
    pub shared: bool,
}
