//! `sepiola up`: a whole cluster in one process.

use crate::cli::UpArgs;
use crate::cluster::{self, RunningCluster, Settings};
use crate::console::Link;
use crate::crashes;
use crate::image_worker::Worker;
use crate::listen::parse_listen;
use crate::mds::FileSystem;
use crate::osd::hosts;
use crate::process;
use crate::volume_worker::VolumeWorker;
use access::{AuthMode, Connection, DataDir};
use anyhow::Result;
use host::Notices;
use machine::write_file;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// After this an unhealthy cluster is shown as it is.
const HEALTHY_TIME_MAX: Duration = Duration::from_secs(30);
const CONF_MODE: u32 = 0o644;

/// `sepiola up`
pub fn up(args: &UpArgs) -> Result<()> {
    let notices = process::begin()?;
    let start = Instant::now();
    FileSystem::warn(args);
    let dir = DataDir::new(&args.data.data);
    dir.create()?;
    let _lock = dir.lock()?;
    crashes::keep(dir.path(), "sepiola");
    let is_new = !dir.exists();
    if is_new {
        cluster::create(&dir, &of_this_process(args), parse_listen(&args.listen)?)?;
    } else if says_how_to_create(args) {
        println!("the cluster exists: its stores stay as and where they are");
    }
    let settings = Settings::load(&dir)?;
    // Before the daemons: a service manager that hears that they run starts clients, which need it.
    write_conf(&dir, &settings)?;
    let running = RunningCluster::start(&dir, settings, args, &notices)?;
    let verb = if is_new { "created" } else { "found" };
    println!("cluster {} {verb} in {}", running.fsid(), dir.path().display());
    if let Some(hosts) = args.hosts.filter(|_| is_new) {
        hosts::make(&dir, hosts, args.osds.unwrap_or(hosts), args)?;
    }
    let processes = hosts::start(&dir, args)?;
    let worker = Worker::start(cluster::admin_args(&dir))?;
    let volume_worker = VolumeWorker::start(cluster::admin_args(&dir))?;
    crashes::post_as_admin(&dir, cluster::admin_args(&dir));
    let served = serve(&dir, args, &running, &notices, start);
    println!("stopping");
    drop(volume_worker);
    drop(worker);
    drop(processes);
    // The end of a core is the cause, whatever else failed with it.
    running.stop().and(served)
}

/// The options that concern this process when the OSDs run in processes of their own.
fn of_this_process(args: &UpArgs) -> UpArgs {
    match args.hosts {
        None => args.clone(),
        Some(hosts) => {
            let size = Some(args.size.unwrap_or(hosts.min(cluster::SIZE_DEFAULT)));
            UpArgs { osds: Some(0), disk_size: None, size, ..args.clone() }
        }
    }
}

fn says_how_to_create(args: &UpArgs) -> bool {
    let has_disks = !(args.disks.is_empty() && args.log_disks.is_empty());
    let is_sized = args.osds.is_some() || args.disk_size.is_some();
    has_disks
        || is_sized
        || args.hosts.is_some()
        || args.store.is_some()
        || args.wipe
        || args.log.is_some()
}

/// Returns when the cluster is to stop.
fn serve(
    dir: &DataDir,
    args: &UpArgs,
    running: &RunningCluster,
    notices: &Notices,
    start: Instant,
) -> Result<()> {
    let mut file_system = FileSystem::start(dir, args)?;
    let is_active = match &mut file_system {
        Some(file_system) => file_system.wait_until_active(dir, notices)?,
        None => true,
    };
    let health = if is_active { wait_until_healthy(dir, notices)? } else { None };
    let Some(health) = health else { return Ok(()) };
    println!("{health} after {:.1} s", start.elapsed().as_secs_f64());
    print_next(dir, running, file_system.as_ref());
    print_console(dir, args);
    std::io::stdout().flush()?;
    notices.wait()?;
    Ok(())
}

/// Writes the addresses and credentials that clients need.
fn write_conf(dir: &DataDir, settings: &Settings) -> Result<()> {
    let auth = settings.auth.name();
    let conf = format!(
        "[global]\n\
         fsid = {}\n\
         mon_host = [v2:{}/0]\n\
         auth_cluster_required = {auth}\n\
         auth_service_required = {auth}\n\
         auth_client_required = {auth}\n\
         keyring = {}\n",
        settings.fsid,
        settings.mon_addr,
        dir.admin_keyring().display()
    );
    write_file(&dir.conf(), &conf, CONF_MODE)
}

/// Asks as a client would, so that what is said here is what clients see. Warnings that do not keep
/// anybody from working are told and not waited for. `None` if the cluster is to stop before.
fn wait_until_healthy(dir: &DataDir, notices: &Notices) -> Result<Option<String>> {
    let mut connection = Connection::open(&cluster::admin_args(dir))?;
    let start = Instant::now();
    loop {
        if notices.has_any() {
            return Ok(None);
        }
        let status = connection.ask_json(&json!({"prefix": "status", "format": "json"}))?;
        let osds = &status["osdmap"]["num_up_osds"];
        let is_ready = *osds == status["osdmap"]["num_osds"] && all_clean(&status["pgmap"]);
        if is_ready && status["health"]["status"] == "HEALTH_OK" {
            return Ok(Some(format!("healthy: {osds} OSDs up")));
        }
        if is_ready || start.elapsed() > HEALTHY_TIME_MAX {
            let output = connection.command(&json!({"prefix": "health"}))?;
            let health = String::from_utf8_lossy(&output.output).trim().to_owned();
            let verb = if is_ready { "ready" } else { "not ready" };
            return Ok(Some(format!("{verb}: {osds} OSDs up, {health}")));
        }
        connection.turn()?;
    }
}

/// Whether every placement group serves with all its copies.
fn all_clean(pgmap: &Value) -> bool {
    let states = pgmap["pgs_by_state"].as_array().map(Vec::as_slice).unwrap_or_default();
    let clean = states.iter().filter(|state| state["state_name"] == "active+clean");
    let clean: u64 = clean.filter_map(|state| state["count"].as_u64()).sum();
    clean == pgmap["num_pgs"].as_u64().unwrap_or(0)
}

fn print_next(dir: &DataDir, running: &RunningCluster, file_system: Option<&FileSystem>) {
    let conf = shown(&dir.conf());
    println!(
        "\nNext, with Ceph's own tools (Debian: apt-get install ceph-common):\n\n  \
           export CEPH_CONF={conf}\n  \
           ceph -s\n  \
           ceph osd pool create data\n  \
           rados -p data put hello /etc/hostname\n  \
           rados -p data bench 5 write\n\n\
         or with this binary:\n\n  \
           {me} put --data {data} --pool data hello /etc/hostname\n  \
           {me} bench --data {data} --pool data write -b 4K\n\n\
         {mount}\
         The monitor listens on {mon}. Ctrl-C (or {me} down --data {data}) stops the cluster;\n\
         starting it again brings it back with its data.",
        me = std::env::current_exe().map_or_else(|_| "sepiola".to_owned(), |path| shown(&path)),
        data = shown(dir.path()),
        mount = file_system.map_or_else(String::new, |fs| how_to_mount(dir, running, fs.name())),
        mon = running.mon_addr(),
    );
}

/// The console is served while the cluster runs. A link is a secret for a minute, so it goes to terminals
/// alone, and not into logs.
fn print_console(dir: &DataDir, args: &UpArgs) {
    if args.console.as_deref() == Some("none") {
        return;
    }
    let command = format!("sepiola console --data {}", shown(dir.path()));
    match Link::ask(&cluster::admin_args(dir)) {
        Ok(link) if std::io::stdout().is_terminal() => {
            println!("The console, for a minute and once (then: {command}):\n\n  {}", link.url);
        }
        Ok(_) => println!("The console: {command}"),
        Err(error) => tracing::warn!("no link to the console: {error:#}"),
    }
}

fn how_to_mount(dir: &DataDir, running: &RunningCluster, name: &str) -> String {
    let (conf, mon, fsid) = (shown(&dir.conf()), running.mon_addr(), running.fsid());
    let secret = match running.auth() {
        AuthMode::Cephx => ",secret=$(ceph auth get-key client.admin)",
        AuthMode::None => "",
    };
    format!(
        "The file system {name} is mounted (Debian: apt-get install ceph-fuse) by\n\n  \
           ceph-fuse -c {conf} -n client.admin --client_fs {name} /mnt\n\n\
         or by the kernel\n\n  \
           mount -t ceph admin@{fsid}.{name}=/ /mnt -o mon_addr={mon},ms_mode=prefer-crc{secret}\n\n"
    )
}

/// Relative to the current directory if it lies below; services run in `/`, below which everything lies.
fn shown(path: &Path) -> String {
    shown_from(&std::env::current_dir().unwrap_or_default(), path)
}

fn shown_from(here: &Path, path: &Path) -> String {
    match path.strip_prefix(here) {
        Ok(below) if !below.as_os_str().is_empty() && here.parent().is_some() => {
            below.display().to_string()
        }
        _ => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shown_so_that_they_can_be_typed() {
        let path = Path::new("/srv/data/ceph.conf");
        assert_eq!(shown_from(Path::new("/srv"), path), "data/ceph.conf");
        assert_eq!(shown_from(Path::new("/"), path), "/srv/data/ceph.conf");
        assert_eq!(shown_from(path, path), "/srv/data/ceph.conf");
    }
}
