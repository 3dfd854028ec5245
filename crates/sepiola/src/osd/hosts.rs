//! `sepiola up --hosts`: a cluster on one machine as if it were several, for trying and testing.
//!
//! The OSDs of each host of the CRUSH map are one process of their own; the monitor lives in the process
//! that starts and stops them. Each may be killed like a machine that fails: the others go on.

use super::create::{self, Identity};
use super::directory::OsdSettings;
use super::registry::Registry;
use crate::cli::{OsdClusterArgs, OsdStoreArgs, UpArgs};
use access::DataDir;
use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The processes of all hosts; they end with this.
pub struct HostProcesses(Vec<Child>);

/// Makes the OSDs of a new cluster whose monitor runs, in turn over the hosts.
pub fn make(dir: &DataDir, hosts: u32, osds: u32, args: &UpArgs) -> Result<()> {
    let cluster = OsdClusterArgs {
        conf: dir.conf(),
        keyring: Some(dir.admin_keyring()),
        name: "client.admin".to_owned(),
    };
    let mut registry = Registry::open(&cluster)?;
    for number in 0..osds {
        let store = OsdStoreArgs {
            disk: None,
            log_disk: None,
            disk_size: args.disk_size,
            kind: args.store.unwrap_or_default(),
            wipe: false,
            host: Some(format!("host{}", number % hosts + 1)),
        };
        let identity = Identity::new()?;
        let id = registry.register(identity.uuid, &identity.key, None)?;
        create::make_store(&registry, id, &dir.osd(id), &store)?;
        create::finish(&registry, id, &identity, &dir.osd(id), &store)?;
    }
    Ok(())
}

/// Starts one process for each host that has OSDs in the data directory.
pub fn start(dir: &DataDir, args: &UpArgs) -> Result<HostProcesses> {
    let mut processes = HostProcesses(Vec::new());
    for (host, osds) in osds_by_host(dir)? {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["osd", "start", "--with-parent"]).stdin(Stdio::piped()).stdout(Stdio::null());
        for path in &osds {
            command.arg("--data").arg(path);
        }
        if let Some(memory) = args.memory {
            command.arg("--memory").arg(memory.to_string());
        }
        // The unit is told of this process, not of its children.
        command.env_remove("NOTIFY_SOCKET");
        // Ctrl-C is for the process that was started first; it stops the others.
        let child = command.process_group(0).spawn();
        let child = child.with_context(|| format!("starting the OSDs of {host}"))?;
        println!("{host}: process {} with {} OSDs", child.id(), osds.len());
        processes.0.push(child);
    }
    Ok(processes)
}

fn osds_by_host(dir: &DataDir) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut hosts: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(dir.path())? {
        let path = entry?.path();
        if path.join("osd.json").exists() {
            let settings = OsdSettings::load(&path)?;
            hosts.entry(settings.host).or_default().push(path);
        }
    }
    hosts.values_mut().for_each(|paths| paths.sort());
    Ok(hosts)
}

impl Drop for HostProcesses {
    fn drop(&mut self) {
        for child in &self.0 {
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            // One that has ended already needs no signal.
            let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}
