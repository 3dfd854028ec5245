//! `sepiola mds start`: runs a metadata server in the foreground.

use super::directory::{MdsSettings, entity};
use super::volatile::WARNING;
use crate::cli::MdsStartArgs;
use crate::crashes;
use crate::daemon_files;
use crate::daemons::{MdsMember, RunEnded, plan};
use crate::listen::osd_listen;
use crate::process;
use access::{AuthMode, Connection, DataDir};
use anyhow::{Context, Result};
use host::{Notice, RunningDaemons};
use mds::End;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Pause before a server begins again whose requests to the cluster have failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);

/// `sepiola mds start`
pub fn start(args: &MdsStartArgs) -> Result<()> {
    let notices = process::begin()?;
    if args.with_parent {
        notices.watch_parent()?;
    }
    let lock = DataDir::new(&args.data).lock()?;
    let member = member(&args.data, args)?;
    if args.volatile {
        eprintln!("sepiola: mds.{}: {WARNING}", member.name);
    }
    let name = member.name.clone();
    crashes::keep(&args.data, &format!("mds.{name}"));
    let (key, monitors) = (member.key.clone(), member.monitors.clone());
    let poster = daemon_files::client_config(entity(&name), key, monitors);
    // Before the start, in which a daemon may panic each time.
    crashes::post(&args.data, move || Connection::start(poster.clone()));
    let running = RunningDaemons::start(plan(vec![Box::new(member)], None)?, &notices)?;
    println!("mds.{name} started");
    std::io::stdout().flush()?;
    if notices.wait()? == Notice::StopRequested {
        println!("stopping");
        return running.stop();
    }
    let ended = running.end();
    let RunEnded(end) = match ended {
        Err(error) => error.downcast::<RunEnded>()?,
        Ok(()) => return Ok(()),
    };
    println!("mds.{name}: {end}; it begins again");
    std::io::stdout().flush()?;
    let is_stopped = notices.wait_timeout(pause_after(&end));
    drop(lock);
    if is_stopped { Ok(()) } else { begin_again() }
}

/// Pause before the next run: what has failed may fail again at once.
fn pause_after(end: &End) -> Duration {
    match end {
        End::Failed(_) => FAILURE_PAUSE,
        End::Replaced | End::Damaged { .. } => Duration::ZERO,
    }
}

/// Becomes a new run of the server, which is a standby at first, as in Ceph.
fn begin_again() -> Result<()> {
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
