//! `sepiola up`: a whole cluster in one process.

use crate::cli::{AuthMode, UpArgs};
use crate::cluster::{self, RunningCluster};
use crate::image::Worker;
use crate::osd::hosts;
use access::{Connection, DataDir, write_file};
use anyhow::{Context, Result, bail};
use host::Notice;
use rt::{StopSignal, StopSignals};
use serde_json::{Value, json};
use std::fs;
use std::io::{IsTerminal, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

const MON_PORT: u16 = 3300;
/// After this an unhealthy cluster is shown as it is.
const HEALTHY_TIME_MAX: Duration = Duration::from_secs(30);
const SECRET_MODE: u32 = 0o600;
const CONF_MODE: u32 = 0o644;
/// Exit code of a process ended by SIGINT, as shells show it.
const INTERRUPTED_EXIT_CODE: i32 = 130;

pub fn up(args: &UpArgs) -> Result<()> {
    rt::kernel_support().map_err(|reason| anyhow::anyhow!(reason))?;
    start_log();
    rt::raise_open_files();
    let (notify, notices) = channel();
    watch_signals(StopSignals::block()?, notify.clone())?;
    let start = Instant::now();
    let dir = DataDir::new(&args.data.data);
    dir.create()?;
    let _lock = dir.lock()?;
    let is_new = !dir.exists();
    if is_new {
        cluster::create(&dir, &of_this_process(args), parse_listen(&args.listen)?)?;
    } else if says_how_to_create(args) {
        println!("the cluster exists: its stores stay as and where they are");
    }
    let running = RunningCluster::start(&dir, args, &notify)?;
    let verb = if is_new { "created" } else { "found" };
    println!("cluster {} {verb} in {}", running.fsid(), dir.path().display());
    write_conf(&dir, &running)?;
    if let Some(hosts) = args.hosts.filter(|_| is_new) {
        hosts::make(&dir, hosts, args.osds.unwrap_or(hosts), args)?;
    }
    let processes = hosts::start(&dir, args)?;
    let worker = Worker::start(cluster::admin_args(&dir))?;
    let served = serve(&dir, &running, &notices, start);
    println!("stopping");
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
    running: &RunningCluster,
    notices: &Receiver<Notice>,
    start: Instant,
) -> Result<()> {
    let Some(health) = wait_until_healthy(dir, notices)? else { return Ok(()) };
    println!("{health} after {:.1} s", start.elapsed().as_secs_f64());
    print_next(dir, running);
    std::io::stdout().flush()?;
    notices.recv().context("waiting for the end")?;
    Ok(())
}

/// The first signal asks the cluster to stop; an impatient Ctrl-C then ends the process.
pub fn watch_signals(signals: StopSignals, notify: Sender<Notice>) -> Result<()> {
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        signals.wait();
        // If nobody listens, the process is about to end.
        let _ = notify.send(Notice::StopRequested);
        while signals.wait() != StopSignal::Interrupt {}
        eprintln!("sepiola: ended at once; what was acknowledged is in the logs");
        std::process::exit(INTERRUPTED_EXIT_CODE);
    })?;
    Ok(())
}

/// Events go to standard error; `SEPIOLA_LOG=debug` shows more.
pub fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("SEPIOLA_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let is_terminal = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(is_terminal)
        .init();
}

pub fn parse_listen(text: &str) -> Result<SocketAddr> {
    if let Ok(addr) = text.parse::<SocketAddr>() {
        return Ok(addr);
    }
    match text.parse::<IpAddr>() {
        Ok(ip) => Ok(SocketAddr::new(ip, MON_PORT)),
        Err(_) => bail!("--listen {text}: expected an address like 192.168.0.10 or 127.0.0.1:3300"),
    }
}

/// Writes the addresses and credentials that clients need.
fn write_conf(dir: &DataDir, running: &RunningCluster) -> Result<()> {
    let auth = match running.auth() {
        AuthMode::Cephx => "cephx",
        AuthMode::None => "none",
    };
    let conf = format!(
        "[global]\n\
         fsid = {}\n\
         mon_host = [v2:{}/0]\n\
         auth_cluster_required = {auth}\n\
         auth_service_required = {auth}\n\
         auth_client_required = {auth}\n\
         keyring = {}\n",
        running.fsid(),
        running.mon_addr(),
        dir.admin_keyring().display()
    );
    write_file(&dir.conf(), &conf, CONF_MODE)
}

pub fn write_keyring(dir: &DataDir, keyring: &str) -> Result<()> {
    write_file(&dir.admin_keyring(), keyring, SECRET_MODE)
}

/// Asks as a client would, so that what is said here is what clients see. Warnings that do not keep
/// anybody from working are told and not waited for. `None` if the cluster is to stop before.
fn wait_until_healthy(dir: &DataDir, notices: &Receiver<Notice>) -> Result<Option<String>> {
    let mut connection = Connection::open(&cluster::admin_args(dir))?;
    let start = Instant::now();
    loop {
        if notices.try_recv() != Err(TryRecvError::Empty) {
            return Ok(None);
        }
        let output = connection.command(&json!({"prefix": "status", "format": "json"}))?;
        let status: Value = serde_json::from_slice(&output.output).context("reading the status")?;
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

fn print_next(dir: &DataDir, running: &RunningCluster) {
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
         The monitor listens on {mon}. Ctrl-C (or {me} down --data {data}) stops the cluster;\n\
         starting it again brings it back with its data.",
        me = std::env::current_exe().map_or_else(|_| "sepiola".to_owned(), |path| shown(&path)),
        data = shown(dir.path()),
        mon = running.mon_addr(),
    );
}

/// Relative to the current directory if it lies below.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    match path.strip_prefix(&here) {
        Ok(below) if !below.as_os_str().is_empty() => below.display().to_string(),
        _ => path.display().to_string(),
    }
}

/// The name of this machine, for the CRUSH map.
pub fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String =
        name.trim().chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect();
    if name.is_empty() { "localhost".to_owned() } else { name }
}
