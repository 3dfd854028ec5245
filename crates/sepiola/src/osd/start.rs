//! `sepiola osd start`: runs OSDs in the foreground.

use super::directory::{self, OsdSettings};
use crate::cli::{AuthMode, OsdStartArgs};
use crate::cluster::{OsdMember, default_memory, osds_plan};
use crate::up::{start_log, watch_signals};
use access::{self, Connection, DataDir, DataLock};
use anyhow::{Context, Result, bail};
use host::{Notice, RunningDaemons};
use rados::{Config, Credentials};
use rt::StopSignals;
use serde_json::json;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use types::{EntityAddrVec, EntityName};

/// How long a start that failed tries to tell the monitors.
const TELLING_TIME_MAX: Duration = Duration::from_secs(10);

pub fn start(args: &OsdStartArgs) -> Result<()> {
    rt::kernel_support().map_err(|reason| anyhow::anyhow!(reason))?;
    start_log();
    rt::raise_open_files();
    let (notify, notices) = channel();
    watch_signals(StopSignals::block()?, notify.clone())?;
    if args.with_parent {
        watch_parent(notify.clone())?;
    }
    let _locks: Vec<DataLock> =
        args.data.iter().map(|path| DataDir::new(path).lock()).collect::<Result<_>>()?;
    let mut members = Vec::new();
    for path in &args.data {
        members.push(member(path, args)?);
    }
    let names: Vec<String> = members.iter().map(|member| format!("osd.{}", member.id)).collect();
    let identities: Vec<Config> = members.iter().map(identity).collect();
    let running = RunningDaemons::start(osds_plan(members, args.cores)?, &notify);
    let running = running.inspect_err(|error| tell_monitors(identities, error))?;
    println!("{} started", names.join(", "));
    std::io::stdout().flush()?;
    notices.recv().context("waiting for the end")?;
    println!("stopping");
    running.stop()
}

/// How an OSD presents itself to the monitors when it is not one yet.
fn identity(member: &OsdMember) -> Config {
    let credentials = member.key.clone().map_or(Credentials::None, Credentials::Key);
    let mut config = Config::new(EntityName::osd(member.id), credentials, member.monitors.clone());
    config.timeout = Some(TELLING_TIME_MAX);
    config
}

/// To the monitors an OSD that does not start is just down: they are told why, for `ceph health detail`.
fn tell_monitors(identities: Vec<Config>, error: &anyhow::Error) {
    for identity in identities {
        let key = format!("daemon-private/{}/refusal", identity.name);
        let reason = format!("{error:#}");
        let command = json!({"prefix": "config-key set", "key": key, "val": reason});
        let told = Connection::start(identity).and_then(|mut monitor| monitor.command(&command));
        if let Err(error) = told {
            tracing::warn!(%error, "the monitors could not be told why the OSD does not start");
        }
    }
}

/// Stops the process when its parent ends, which holds the other end of standard input.
fn watch_parent(notify: Sender<Notice>) -> Result<()> {
    std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        // If nobody listens, the process is about to end.
        let _ = notify.send(Notice::StopRequested);
    })?;
    Ok(())
}

fn member(path: &Path, args: &OsdStartArgs) -> Result<OsdMember> {
    let directory = std::path::absolute(path)?;
    let settings = OsdSettings::load(&directory)?;
    let monitors = match &args.conf {
        Some(conf) => access::monitors(&access::read_conf(conf)?.mon_host)?,
        None => settings.monitors,
    };
    let key = match settings.auth {
        AuthMode::Cephx => Some(directory::key(&directory, settings.id)?),
        AuthMode::None => None,
    };
    let osds = args.data.len() as u32;
    Ok(OsdMember {
        id: settings.id,
        uuid: settings.uuid,
        fsid: settings.fsid,
        listen: listen_addr(args.listen.as_deref(), args.data.len(), &monitors)?,
        monitors,
        auth: settings.auth,
        key,
        hostname: args.host.clone().unwrap_or(settings.host),
        memory: args.memory.unwrap_or_else(|| default_memory(&directory, osds)),
        log: None,
        capacity: None,
        directory,
    })
}

/// The address from the command line, or this machine's address by which it reaches the monitors.
fn listen_addr(
    listen: Option<&str>,
    osds: usize,
    monitors: &[EntityAddrVec],
) -> Result<SocketAddr> {
    let Some(text) = listen else { return Ok(SocketAddr::new(own_ip(monitors)?, 0)) };
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, 0));
    }
    match text.parse::<SocketAddr>() {
        Ok(addr) if addr.port() == 0 || osds == 1 => Ok(addr),
        Ok(_) => bail!("--listen {text}: several OSDs cannot share a port; leave it out"),
        Err(_) => bail!("--listen {text}: expected an address like 10.0.0.2 or 10.0.0.2:6800"),
    }
}

/// Asks the kernel for the route; nothing is sent.
fn own_ip(monitors: &[EntityAddrVec]) -> Result<IpAddr> {
    let sockets = monitors.iter().filter_map(|addrs| addrs.msgr2()?.socket);
    for monitor in sockets {
        let any: IpAddr = match monitor {
            SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
        if socket.connect(monitor).is_ok() {
            return Ok(socket.local_addr()?.ip());
        }
    }
    bail!("no monitor can be reached from here; name this machine's address by --listen")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_an_osd_listens_is_said_or_found_out() {
        let monitors = [EntityAddrVec::one("v2:127.0.0.1:3300/0".parse().unwrap())];
        let found =
            |listen, osds| listen_addr(listen, osds, &monitors).map(|addr| addr.to_string());
        assert_eq!(found(None, 2).unwrap(), "127.0.0.1:0");
        assert_eq!(found(Some("10.0.0.2"), 2).unwrap(), "10.0.0.2:0");
        assert_eq!(found(Some("10.0.0.2:6800"), 1).unwrap(), "10.0.0.2:6800");
        assert!(found(Some("10.0.0.2:6800"), 2).is_err());
        assert!(found(Some("here"), 1).is_err());
    }
}
