//! `sepiola up --fs`: a file system with its metadata server beside the OSDs.

use super::create::make;
use super::volatile::WARNING;
use crate::cli::{OsdClusterArgs, UpArgs};
use crate::cluster;
use crate::kept_process::{KeptProcess, Pauses};
use access::{Connection, DataDir};
use anyhow::{Context, Result, bail};
use host::Notices;
use serde_json::json;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Name of the one metadata server.
const SERVER: &str = "a";
/// Bound of the wait for the server, which takes about a second.
const ACTIVE_TIME_MAX: Duration = Duration::from_secs(30);

/// A file system whose server runs until this is dropped; if it ends before, it is started again.
pub struct FileSystem {
    name: String,
    server: KeptProcess,
}

impl FileSystem {
    /// Says what the command line means for files before anything is made.
    pub fn warn(args: &UpArgs) {
        if args.volatile {
            println!("warning: {WARNING}");
        }
    }

    /// Makes the file system that the command line asks for, unless there is one, and starts its server.
    pub fn start(dir: &DataDir, args: &UpArgs) -> Result<Option<Self>> {
        let Some(name) = args.fs.clone() else { return Ok(None) };
        let directory = dir.path().join(format!("mds.{SERVER}"));
        let cluster = OsdClusterArgs {
            conf: dir.conf(),
            keyring: Some(dir.admin_keyring()),
            name: "client.admin".to_owned(),
        };
        make(&cluster, SERVER, &directory)?;
        make_file_system(&mut Connection::open(&cluster::admin_args(dir))?, &name)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["mds", "start", "--with-parent", "--data"]).arg(directory);
        command.args(args.volatile.then_some("--volatile"));
        command.stdout(Stdio::null()).stderr(Stdio::inherit());
        // The unit is told of this process, not of its children.
        command.env_remove("NOTIFY_SOCKET");
        // Ctrl-C is for the process that was started first; it stops the others.
        command.process_group(0);
        let server = KeptProcess::start(command, Pauses::default(), |ended| {
            tracing::warn!(
                "the metadata server {ended}; it has said why above, unless it was killed"
            );
        });
        Ok(Some(FileSystem { name, server: server.context("starting the metadata server")? }))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns when clients can mount it, or after half a minute; false if the cluster is to stop before.
    /// Without the server, objects and images are served all the same.
    pub fn wait_until_active(&mut self, dir: &DataDir, notices: &Notices) -> Result<bool> {
        let mut connection = Connection::open(&cluster::admin_args(dir))?;
        let start = Instant::now();
        while !is_active(&mut connection, &self.name)? {
            if notices.has_any() {
                return Ok(false);
            }
            if self.server.has_ended() {
                return Ok(true);
            }
            if start.elapsed() > ACTIVE_TIME_MAX {
                println!(
                    "the metadata server is not active after {ACTIVE_TIME_MAX:?}: a take-over waits a minute for \
                     clients that are gone; see `ceph fs status`"
                );
                return Ok(true);
            }
            connection.turn()?;
        }
        Ok(true)
    }
}

/// Pools and file system, named as `ceph fs volume create` names them.
fn make_file_system(connection: &mut Connection, name: &str) -> Result<()> {
    let known = connection.ask_json(&json!({"prefix": "fs ls", "format": "json"}))?;
    let known = known.as_array().map(Vec::as_slice).unwrap_or_default();
    if known.iter().any(|fs| fs["name"] == name) {
        return Ok(());
    }
    if let Some(other) = known.first() {
        bail!("the cluster has the file system {} already (--fs {0})", other["name"]);
    }
    let [metadata, data] = ["meta", "data"].map(|kind| format!("cephfs.{name}.{kind}"));
    for pool in [&metadata, &data] {
        let command = json!({"prefix": "osd pool create", "pool": pool});
        connection.command(&command).with_context(|| format!("making the pool {pool}"))?;
    }
    let command = json!({"prefix": "fs new", "fs_name": name, "metadata": metadata, "data": data});
    connection.command(&command).with_context(|| format!("making the file system {name}"))?;
    Ok(())
}

fn is_active(connection: &mut Connection, name: &str) -> Result<bool> {
    let command = json!({"prefix": "fs status", "fs": name, "format": "json"});
    let status = connection.ask_json(&command)?;
    let servers = status["mdsmap"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(servers.iter().any(|server| server["state"] == "active"))
}
