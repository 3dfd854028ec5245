//! Addresses at which daemons listen, as the command line has them.

use crate::daemons::ServiceAddr;
use anyhow::{Result, bail};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use types::EntityAddrVec;

const MON_PORT: u16 = 3300;
/// The port at which Ceph serves its metrics.
const METRICS_PORT: u16 = 9283;
/// The port at which Ceph serves its dashboard over TLS.
const CONSOLE_PORT: u16 = 8443;

/// The address of a monitor.
pub fn parse_listen(text: &str) -> Result<SocketAddr> {
    if let Ok(addr) = text.parse::<SocketAddr>() {
        return Ok(addr);
    }
    match text.parse::<IpAddr>() {
        Ok(ip) => Ok(SocketAddr::new(ip, MON_PORT)),
        Err(_) => bail!("--listen {text}: expected an address like 192.168.0.10 or 127.0.0.1:3300"),
    }
}

/// Where a monitor that listens at `monitor` serves its metrics.
pub fn parse_metrics(text: Option<&str>, monitor: SocketAddr) -> Result<ServiceAddr> {
    parse_service("metrics", METRICS_PORT, text, monitor)
}

/// Where it serves its console.
pub fn parse_console(text: Option<&str>, monitor: SocketAddr) -> Result<ServiceAddr> {
    parse_service("console", CONSOLE_PORT, text, monitor)
}

fn parse_service(
    option: &str,
    port: u16,
    text: Option<&str>,
    monitor: SocketAddr,
) -> Result<ServiceAddr> {
    let Some(text) = text else {
        return Ok(ServiceAddr::Preferably(SocketAddr::new(monitor.ip(), port)));
    };
    if text == "none" {
        return Ok(ServiceAddr::Nowhere);
    }
    let addr = text.parse().or_else(|_| text.parse().map(|ip| SocketAddr::new(ip, port)));
    match addr {
        Ok(addr) => Ok(ServiceAddr::Exactly(addr)),
        Err(_) => {
            bail!(
                "--{option} {text}: expected an address like 10.0.0.2 or 10.0.0.2:{port}, or none"
            )
        }
    }
}

/// The address from the command line, or this machine's address by which it reaches the monitors.
pub fn osd_listen(
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
        let found = |listen, osds| osd_listen(listen, osds, &monitors).map(|addr| addr.to_string());
        assert_eq!(found(None, 2).unwrap(), "127.0.0.1:0");
        assert_eq!(found(Some("10.0.0.2"), 2).unwrap(), "10.0.0.2:0");
        assert_eq!(found(Some("10.0.0.2:6800"), 1).unwrap(), "10.0.0.2:6800");
        assert!(found(Some("10.0.0.2:6800"), 2).is_err());
        assert!(found(Some("here"), 1).is_err());
    }

    #[test]
    fn metrics_are_beside_the_monitor_unless_told_otherwise() {
        let monitor = "10.0.0.1:3300".parse().unwrap();
        let at = |text| parse_metrics(text, monitor);
        let addr = |text: &str| text.parse().unwrap();
        assert_eq!(at(None).unwrap(), ServiceAddr::Preferably(addr("10.0.0.1:9283")));
        assert_eq!(at(Some("::")).unwrap(), ServiceAddr::Exactly(addr("[::]:9283")));
        assert_eq!(at(Some("127.0.0.1:0")).unwrap(), ServiceAddr::Exactly(addr("127.0.0.1:0")));
        assert_eq!(at(Some("none")).unwrap(), ServiceAddr::Nowhere);
        assert!(at(Some("9283")).is_err());
        let console = parse_console(None, monitor).unwrap();
        assert_eq!(console, ServiceAddr::Preferably(addr("10.0.0.1:8443")));
    }
}
