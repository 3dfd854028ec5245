//! A monitor of this process.

use super::common::{CONNECTION_MODES, msgr2_addrs};
use super::console::ConsolePort;
use super::control::Control;
use super::mark;
use super::monitor_node::MonitorNode;
use super::service_addr::ServiceAddr;
use access::{AuthMode, DataDir};
use anyhow::Result;
use auth::CephxPolicy;
use host::{Addressing, AnyCore, DaemonNode, Listening, Member, Prepared};
use machine::{host_facts, hostname, random_bytes};
use mon::Monitor;
use std::net::SocketAddr;
use tls::Identity;
use types::{EntityType, ParticipantName};

/// A monitor of this process.
pub struct MonMember {
    /// Its name among the monitors.
    pub name: String,
    /// Rank in the maps at its start, for its name; others find it by its address.
    pub rank: usize,
    /// Of the manager that it plays.
    pub manager: String,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where it serves its metrics.
    pub metrics: ServiceAddr,
    /// Where it serves its console.
    pub console: ServiceAddr,
    /// How clients prove who they are.
    pub auth: AuthMode,
    /// Its files tell where the control store is.
    pub dir: DataDir,
}

impl Member for MonMember {
    fn participant(&self) -> ParticipantName {
        ParticipantName::new(EntityType::MON, self.rank as i64)
    }

    fn is_light(&self) -> bool {
        true
    }

    fn addressing(&self) -> Addressing {
        Addressing::Listening(EntityType::MON, self.listen)
    }

    /// The port of the manager that it plays is left open: maps tell it.
    fn prepare<'a>(&'a self, core: &mut AnyCore, node: usize) -> Result<Prepared<'a>> {
        let participant = self.participant();
        core.listen(self.listen, Listening { node, participant, nonce: 0 })?;
        let manager = ParticipantName::new(EntityType::MGR, self.rank as i64);
        let manager = Listening { node, participant: manager, nonce: 0 };
        let mgr_addr = core.listen(SocketAddr::new(self.listen.ip(), 0), manager)?;
        let metrics = self.metrics.listen(core, node, "metrics")?;
        let console = self.console.listen(core, node, "console")?;
        Ok(Box::new(move |core| {
            let control = Control::open(&self.dir, &self.name, self.listen, core.waker())?;
            let mut monitor = self.daemon(mgr_addr, metrics, console)?;
            let console = console.map(|addr| self.console(addr, &mut monitor)).transpose()?;
            let node = DaemonNode::new(participant, monitor, control);
            Ok(Box::new(MonitorNode::new(node, console, self.dir.path())))
        }))
    }
}

impl MonMember {
    fn daemon(
        &self,
        mgr_addr: SocketAddr,
        metrics: Option<SocketAddr>,
        console: Option<SocketAddr>,
    ) -> Result<Monitor> {
        let metrics = metrics.map(|addr| ("prometheus", self.url("http", addr)));
        let console = console.map(|addr| (mon::CONSOLE_SERVICE, self.url("https", addr)));
        let services = metrics.into_iter().chain(console);
        let settings = mon::Settings {
            mon_name: self.name.clone(),
            mon_addrs: msgr2_addrs(self.listen),
            mgr_name: self.manager.clone(),
            mgr_addrs: msgr2_addrs(mgr_addr),
            auth: match self.auth {
                AuthMode::Cephx => mon::AuthMode::Cephx,
                AuthMode::None => mon::AuthMode::None,
            },
            connection_modes: CONNECTION_MODES.to_vec(),
            cephx: CephxPolicy::default(),
            services: services.map(|(name, url)| (name.to_owned(), url)).collect(),
            hostname: hostname(),
            served: types::ServedVersions::OWN,
        };
        let mark = mark::load(&self.dir)?;
        let mut monitor = Monitor::new(settings, random_bytes()?).with_high_water(mark);
        monitor.describe_host(host_facts());
        Ok(monitor)
    }

    /// The URL of an address at which this process listens, for clients of the monitor.
    fn url(&self, scheme: &str, addr: SocketAddr) -> String {
        let ip = if addr.ip().is_unspecified() { self.listen.ip() } else { addr.ip() };
        format!("{scheme}://{}/", SocketAddr::new(ip, addr.port()))
    }

    /// The console at an address. Its certificate is made at the first start, unless the administrator has
    /// put another one there.
    fn console(&self, addr: SocketAddr, monitor: &mut Monitor) -> Result<ConsolePort> {
        let file = |name: &str| self.dir.path().join(name);
        let ip = if addr.ip().is_unspecified() { self.listen.ip() } else { addr.ip() };
        let names = [hostname(), "localhost".to_owned(), ip.to_string()];
        let (certificate, key) = (file("console-cert.pem"), file("console-key.pem"));
        let identity = Identity::load_or_create(&certificate, &key, &names)?;
        monitor.describe_console(identity.fingerprint());
        Ok(ConsolePort::new(addr, identity, random_bytes()?))
    }
}
