//! `sepiola mds start`: runs a metadata server in the foreground.

use super::directory::{MdsSettings, entity};
use super::volatile::WARNING;
use crate::cli::MdsStartArgs;
use crate::daemon_files;
use crate::daemons::{MdsMember, RunEnded};
use crate::listen::osd_listen;
use crate::process;
use access::{AuthMode, DataDir};
use anyhow::{Context, Result};
use host::run_until_signal;
use machine::random_u64;
use rustix::process::{Signal, getpid, kill_process};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// `sepiola mds start`
pub fn start(args: &MdsStartArgs) -> Result<()> {
    let signals = process::begin_alone()?;
    if args.with_parent {
        stop_with_parent()?;
    }
    let lock = DataDir::new(&args.data).lock()?;
    let member = member(&args.data, args)?;
    if args.volatile {
        eprintln!("sepiola: mds.{}: {WARNING}", member.name);
    }
    println!("mds.{} started", member.name);
    std::io::stdout().flush()?;
    let ended = run_until_signal(&member, random_u64()?, signals);
    drop(lock);
    match ended {
        Err(error) if error.is::<RunEnded>() => begin_again(&member.name, &error),
        ended => ended,
    }
}

/// Becomes a new run of the server, which is a standby at first, as in Ceph.
fn begin_again(name: &str, end: &anyhow::Error) -> Result<()> {
    println!("mds.{name}: {end}; it begins again");
    std::io::stdout().flush()?;
    // Also when a package has replaced the file meanwhile.
    let program = Path::new("/proc/self/exe");
    let error = Command::new(program).args(std::env::args_os().skip(1)).exec();
    Err(error).with_context(|| format!("starting {} again", program.display()))
}

fn member(path: &Path, args: &MdsStartArgs) -> Result<MdsMember> {
    let directory = std::path::absolute(path)?;
    let settings = MdsSettings::load(&directory)?;
    let monitors = match &args.conf {
        Some(conf) => access::monitors(&access::read_conf(conf)?.mon_host)?,
        None => settings.monitors,
    };
    let key = match settings.auth {
        AuthMode::Cephx => Some(daemon_files::key(&directory, &entity(&settings.name))?),
        AuthMode::None => None,
    };
    Ok(MdsMember {
        name: settings.name,
        fsid: settings.fsid,
        listen: osd_listen(args.listen.as_deref(), 1, &monitors)?,
        monitors,
        auth: settings.auth,
        key,
        is_volatile: args.volatile,
    })
}

/// Asks for a stop when standard input ends, whose other end the parent process holds.
fn stop_with_parent() -> Result<()> {
    std::thread::Builder::new().name("parent".to_owned()).spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        // A process may always signal itself.
        let _ = kill_process(getpid(), Signal::TERM);
    })?;
    Ok(())
}
