//! A monitor on its control store, with what it serves besides: metrics, and the console.

use super::console::ConsolePort;
use super::control::Control;
use super::metrics::MetricsPort;
use anyhow::Result;
use engine::{Node, NodeOutput, Output as DaemonOutput, Time, sessions_go_to};
use host::{DaemonNode, Hosted, StorageIo, StreamEvent, StreamOutput};
use mon::{DiskSpace, Monitor};
use rt::{DiskResult, SocketId};
use std::path::{Path, PathBuf};
use std::time::Duration;
use types::ParticipantName;
use webconsole::{Console, Output};

/// Interval at which the space of the monitor's directory is looked at.
const DISK_INTERVAL: Duration = Duration::from_secs(10);

/// A monitor with its servers.
pub struct MonitorNode {
    inner: DaemonNode<Monitor, Control>,
    metrics: MetricsPort,
    console: Option<ConsolePort>,
    /// The monitor's directory, and when its space is looked at next.
    directory: PathBuf,
    next_look: Time,
}

impl MonitorNode {
    /// The monitor of a directory, before anything connects.
    pub fn new(
        inner: DaemonNode<Monitor, Control>,
        console: Option<ConsolePort>,
        directory: &Path,
    ) -> Self {
        let (metrics, directory) = (MetricsPort::default(), directory.to_owned());
        MonitorNode { inner, metrics, console, directory, next_look: Time::ZERO }
    }

    fn look_at_disk(&mut self, now: Time) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + DISK_INTERVAL;
        if let Ok(found) = rustix::fs::statvfs(&self.directory) {
            let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
            let space =
                DiskSpace { total: bytes(found.f_blocks), available: bytes(found.f_bavail) };
            self.inner.daemon_mut().note_disk_space(space);
        }
    }

    /// Does what the console wants of the monitor and of its connections.
    fn drive_console(&mut self, now: Time) {
        let Some(port) = &mut self.console else { return };
        loop {
            while let Some(output) = port.console().poll_output() {
                match port.perform(output) {
                    Some(Output::Open(conn, peer)) => self.inner.handle_opened(now, conn, *peer),
                    Some(Output::Send(conn, message)) => {
                        self.inner.handle_message(now, conn, message);
                    }
                    Some(Output::Close(conn)) => self.inner.handle_closed(now, conn),
                    _ => {}
                }
            }
            if !port.take_waiting(now, self.inner.daemon_mut()) {
                return;
            }
        }
    }

    /// Passes an output on unless it is for a session of the console.
    fn divert(&mut self, now: Time, output: NodeOutput) -> Option<NodeOutput> {
        let Some(port) = &mut self.console else { return Some(output) };
        match output {
            DaemonOutput::Send { conn, message } if Console::owns(conn) => {
                port.console().handle_message(now, conn, &message);
            }
            DaemonOutput::Close { conn } if Console::owns(conn) => {
                port.console().handle_closed(conn);
            }
            // The console bounds the commands of a session by itself.
            DaemonOutput::Pause { conn, .. } if Console::owns(conn) => {}
            other => return Some(other),
        }
        self.drive_console(now);
        None
    }
}

impl Node for MonitorNode {
    sessions_go_to!(inner);

    fn handle_timeout(&mut self, now: Time) {
        self.look_at_disk(now);
        self.inner.handle_timeout(now);
        if let Some(port) = &mut self.console {
            port.handle_timeout(now, self.inner.daemon_mut());
        }
        self.drive_console(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        let console = self.console.as_ref().and_then(ConsolePort::poll_timeout);
        [self.inner.poll_timeout(), console].into_iter().flatten().min()
    }

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        loop {
            let output = self.inner.poll_output(now)?;
            if let Some(output) = self.divert(now, output) {
                return Some(output);
            }
        }
    }
}

impl Hosted for MonitorNode {
    fn participant(&self) -> ParticipantName {
        self.inner.participant()
    }

    fn pump_storage(&mut self, now: Time) -> bool {
        self.inner.pump_storage(now)
    }

    fn poll_io(&mut self) -> Option<StorageIo> {
        self.inner.poll_io()
    }

    fn handle_io(&mut self, now: Time, token: u64, result: DiskResult) {
        self.inner.handle_io(now, token, result);
    }

    fn handle_stream(&mut self, now: Time, socket: SocketId, event: StreamEvent) {
        let monitor = self.inner.daemon_mut();
        match self.console.as_mut().filter(|port| port.owns(socket, &event)) {
            Some(port) => port.handle_stream(now, monitor, socket, event),
            None => self.metrics.handle_stream(now, monitor, socket, event),
        }
        self.drive_console(now);
    }

    fn poll_stream(&mut self) -> Option<(SocketId, StreamOutput)> {
        let console = self.console.as_mut().and_then(ConsolePort::poll_stream);
        console.or_else(|| self.metrics.poll_stream())
    }

    fn is_open(&self) -> Result<bool> {
        self.inner.is_open()
    }

    fn check(&mut self) -> Result<()> {
        self.inner.check()
    }

    fn close(&mut self) {
        self.metrics.close();
        self.console.iter_mut().for_each(ConsolePort::close);
        self.inner.close();
    }

    fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}
