//! `sepiola mon create` and `sepiola mon start`: a monitor's directory, and a monitor in the foreground.

use super::directory::{MonSettings, write_conf};
use super::prepare::{Preparation, prepare};
use crate::cli::{MonCreateArgs, MonStartArgs};
use crate::cluster::admin_args;
use crate::crashes;
use crate::daemons::{MonMember, plan};
use crate::image_worker::Worker;
use crate::listen::{parse_console, parse_metrics};
use crate::process;
use crate::volume_worker::VolumeWorker;
use access::DataDir;
use anyhow::{Result, bail};
use host::RunningDaemons;
use std::io::Write;

/// `sepiola mon create`
pub fn create(args: &MonCreateArgs) -> Result<()> {
    let dir = DataDir::new(&args.options.data);
    dir.create()?;
    let _lock = dir.lock()?;
    if let Some(known) = MonSettings::load(&dir)? {
        bail!("{} is the directory of mon.{} already", dir.path().display(), known.name);
    }
    let Preparation { settings, found } = prepare(&dir, &args.options)?;
    write_conf(&dir, &found.map_with(&settings), found.auth)?;
    let path = dir.path().display();
    println!(
        "mon.{} of cluster {} is made in {path}; start it with",
        settings.name, found.map.fsid
    );
    println!("\n  sepiola mon start --data {path}");
    Ok(())
}

/// `sepiola mon start`
pub fn start(args: &MonStartArgs) -> Result<()> {
    let notices = process::begin()?;
    let dir = DataDir::new(&args.options.data);
    dir.create()?;
    let _lock = dir.lock()?;
    let Preparation { settings, found } = prepare(&dir, &args.options)?;
    crashes::keep(dir.path(), &format!("mon.{}", settings.name));
    let member = MonMember {
        rank: found.map.rank(&settings.name).unwrap_or(found.map.ranks.len()),
        manager: settings.name.clone(),
        name: settings.name.clone(),
        listen: settings.listen,
        metrics: parse_metrics(settings.metrics.as_deref(), settings.listen)?,
        console: parse_console(settings.console.as_deref(), settings.listen)?,
        auth: found.auth,
        dir: dir.clone(),
    };
    // Before the daemon: a service manager that hears that it runs starts clients, which need it.
    write_conf(&dir, &found.map_with(&settings), found.auth)?;
    let running = RunningDaemons::start(plan(vec![Box::new(member)], None)?, &notices)?;
    let worker = Worker::start(admin_args(&dir))?;
    let volume_worker = VolumeWorker::start(admin_args(&dir))?;
    crashes::post_as_admin(&dir, admin_args(&dir));
    println!("mon.{} of cluster {} listens on {}", settings.name, found.map.fsid, settings.listen);
    std::io::stdout().flush()?;
    notices.wait()?;
    println!("stopping");
    drop(volume_worker);
    drop(worker);
    running.stop()
}
