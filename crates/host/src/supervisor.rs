//! The service manager that started this process, such as systemd: it is told when the daemons run, that
//! they make progress, and when they stop.
//!
//! The protocol is that of `sd_notify(3)`: datagrams of `NAME=VALUE` lines to the socket that `NOTIFY_SOCKET`
//! names. A process that was started otherwise has no such variable, and nothing is sent. A message that
//! cannot be sent is logged and dropped: the manager decides what its absence means.

use std::env::VarError;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Interval of a watchdog beyond which nothing is won by reporting more seldom.
const INTERVAL_MAX: Duration = Duration::from_secs(3600);

/// The service manager of this process, if there is one.
#[derive(Debug)]
pub(crate) struct Supervisor {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

/// Variables by which a service manager introduces itself.
struct Variables {
    socket: Option<OsString>,
    watchdog_us: Option<String>,
    watchdog_pid: Option<String>,
}

impl Variables {
    fn of_process() -> Self {
        let text = |name: &str| match std::env::var(name) {
            Ok(text) => Some(text),
            Err(VarError::NotPresent) => None,
            Err(VarError::NotUnicode(_)) => Some(String::new()),
        };
        Variables {
            socket: std::env::var_os("NOTIFY_SOCKET"),
            watchdog_us: text("WATCHDOG_USEC"),
            watchdog_pid: text("WATCHDOG_PID"),
        }
    }
}

impl Supervisor {
    /// The manager that the environment of this process names.
    pub(crate) fn of_process() -> Self {
        Supervisor::new(Variables::of_process(), std::process::id())
    }

    fn new(variables: Variables, pid: u32) -> Self {
        let socket = variables.socket.filter(|path| !path.is_empty());
        let socket = socket.and_then(|path| match connect(&path) {
            Ok(socket) => Some(socket),
            Err(error) => {
                tracing::warn!(%error, ?path, "NOTIFY_SOCKET: the service manager is not told anything");
                None
            }
        });
        // The variables may have been inherited by a process that the watchdog is not for.
        let is_mine = variables.watchdog_pid.is_none_or(|text| text.parse() == Ok(pid));
        let watchdog = variables.watchdog_us.filter(|_| is_mine && socket.is_some());
        let watchdog = watchdog.and_then(|text| text.parse().ok()).filter(|us| *us > 0);
        let watchdog = watchdog.map(|us| Duration::from_micros(us).min(INTERVAL_MAX));
        Supervisor { socket, watchdog }
    }

    /// Time without a report of progress after which the manager ends this process.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// All daemons run.
    pub(crate) fn ready(&self) {
        self.send("READY=1");
    }

    /// All cores have made progress since the last report.
    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// The daemons are being stopped.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = socket.send(message.as_bytes()) {
            tracing::warn!(%error, message, "the service manager could not be told");
        }
    }
}

/// A name that begins with `@` is one of the abstract name space.
fn connect(path: &OsStr) -> io::Result<UnixDatagram> {
    let address = match path.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&address)?;
    // A manager that does not read must not stop a core.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const PID: u32 = 17;

    fn variables(socket: &str, us: &str, pid: Option<&str>) -> Variables {
        Variables {
            socket: Some(socket.into()),
            watchdog_us: Some(us.to_owned()),
            watchdog_pid: pid.map(str::to_owned),
        }
    }

    /// A socket of an unused name, as a service manager has it.
    pub(crate) fn manager(name: &str) -> (UnixDatagram, String) {
        let name = format!("sepiola-test-{}-{name}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        (UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}"))
    }

    /// The manager of a process without a watchdog, which reads at that socket.
    pub(crate) fn supervisor_at(path: &str) -> Supervisor {
        Supervisor::new(variables(path, "0", None), PID)
    }

    pub(crate) fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 100];
        let len = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    #[test]
    fn a_service_manager_is_told_the_stages_of_a_process() {
        let (socket, name) = manager("stages");
        let supervisor = Supervisor::new(variables(&name, "20000000", Some("17")), PID);
        assert_eq!(supervisor.watchdog(), Some(Duration::from_secs(20)));
        supervisor.ready();
        supervisor.alive();
        supervisor.stopping();
        let told = [(); 3].map(|()| received(&socket));
        assert_eq!(told, ["READY=1", "WATCHDOG=1", "STOPPING=1"]);
    }

    #[test]
    fn a_watchdog_of_another_process_and_absurd_values_are_ignored() {
        let (_socket, name) = manager("watchdog");
        let watchdog = |us: &str, pid: Option<&str>| {
            Supervisor::new(variables(&name, us, pid), PID).watchdog()
        };
        assert_eq!(watchdog("1000", None), Some(Duration::from_millis(1)));
        assert_eq!(watchdog("18446744073709551615", None), Some(INTERVAL_MAX));
        for (us, pid) in [("1000", Some("18")), ("0", None), ("soon", None), ("", Some("17"))] {
            assert_eq!(watchdog(us, pid), None, "{us} {pid:?}");
        }
    }

    #[test]
    fn a_process_without_a_service_manager_tells_nothing() {
        for name in ["", "/no/such/socket", "no/path"] {
            let supervisor = Supervisor::new(variables(name, "1000", None), PID);
            assert!(supervisor.socket.is_none() && supervisor.watchdog().is_none(), "{name}");
            supervisor.ready();
        }
    }
}
