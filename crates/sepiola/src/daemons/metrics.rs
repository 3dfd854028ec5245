//! A monitor with its metrics for Prometheus, served over HTTP on the monitor's core.

use super::control::Control;
use anyhow::{Context, Result};
use bytes::Bytes;
use engine::{Node, NodeOutput, Time, sessions_go_to};
use host::{AnyCore, DaemonNode, Hosted, PORT_TIME_MAX, StorageIo, StreamEvent, StreamOutput};
use mon::{DiskSpace, Monitor};
use rt::{DiskResult, SocketId};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use types::ParticipantName;
use web::{Connection, Request, Response, Status};

/// Connections at a time; the one that has been silent for longest makes place for another.
const CONNECTIONS_MAX: usize = 32;
/// A text is served to all who come so soon after it was made: metrics cost no more than one text per time.
const TEXT_KEPT: Duration = Duration::from_secs(1);
/// Interval at which the space of the monitor's directory is looked at.
const DISK_INTERVAL: Duration = Duration::from_secs(10);
/// Time after which another port is taken. That of a killed predecessor is free again when the monitor's own
/// is, which was waited for.
const OTHER_PORT_AFTER: Duration = Duration::from_millis(500);

/// Where metrics are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricsAddr {
    /// Not at all.
    Nowhere,
    /// There, or at another port if that is taken.
    Preferably(SocketAddr),
    /// There, or the monitor does not start.
    Exactly(SocketAddr),
}

impl MetricsAddr {
    /// Listens for the node of this number; returns the address.
    pub fn listen(self, core: &mut AnyCore, node: usize) -> Result<Option<SocketAddr>> {
        match self {
            MetricsAddr::Nowhere => Ok(None),
            MetricsAddr::Exactly(addr) => listen(core, addr, node, PORT_TIME_MAX).map(Some),
            MetricsAddr::Preferably(addr) => {
                let listening = listen(core, addr, node, OTHER_PORT_AFTER);
                if !listening.as_ref().is_err_and(is_taken) {
                    return listening.map(Some);
                }
                let any = SocketAddr::new(addr.ip(), 0);
                let local = listen(core, any, node, Duration::ZERO)?;
                tracing::warn!(%addr, %local, "the port of the metrics is taken: they are served at another");
                Ok(Some(local))
            }
        }
    }
}

fn listen(
    core: &mut AnyCore,
    addr: SocketAddr,
    node: usize,
    patience: Duration,
) -> Result<SocketAddr> {
    core.listen_for_streams(addr, node, patience).context("serving metrics (--metrics)")
}

fn is_taken(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::AddrInUse)
}

/// A monitor on its control store, with connections that scrape it.
pub struct MonitorNode {
    inner: DaemonNode<Monitor, Control>,
    /// The one that has been silent for longest first.
    connections: VecDeque<(SocketId, Connection)>,
    /// The last text, and when it was made.
    text: Option<(Time, Bytes)>,
    outputs: VecDeque<(SocketId, StreamOutput)>,
    /// The monitor's directory, and when its space is looked at next.
    directory: PathBuf,
    next_look: Time,
}

impl MonitorNode {
    /// The monitor of a directory, before anything connects.
    pub fn new(inner: DaemonNode<Monitor, Control>, directory: &Path) -> Self {
        let (connections, outputs) = (VecDeque::new(), VecDeque::new());
        let (directory, next_look) = (directory.to_owned(), Time::ZERO);
        MonitorNode { inner, connections, text: None, outputs, directory, next_look }
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

    fn accepted(&mut self, socket: SocketId) {
        if self.connections.len() >= CONNECTIONS_MAX
            && let Some((oldest, _)) = self.connections.pop_front()
        {
            self.outputs.push_back((oldest, StreamOutput::Close));
        }
        self.connections.push_back((socket, Connection::new()));
    }

    fn received(&mut self, now: Time, socket: SocketId, bytes: &[u8]) {
        let Some(mut connection) = self.take(socket) else { return };
        connection.handle_received(bytes);
        let was_over = connection.is_over();
        while let Some(request) = connection.poll_request() {
            let response = self.answer(now, &request);
            connection.respond(response);
        }
        let mut pieces = Vec::new();
        connection.poll_transmit(&mut pieces);
        self.outputs.extend(pieces.into_iter().map(|piece| (socket, StreamOutput::Send(piece))));
        match connection.is_over() {
            // The text may be longer than what the kernel takes at once.
            true if !was_over => self.outputs.push_back((socket, StreamOutput::Finish)),
            true => {}
            false => self.outputs.push_back((socket, StreamOutput::Flush)),
        }
        self.connections.push_back((socket, connection));
    }

    fn take(&mut self, socket: SocketId) -> Option<Connection> {
        let place = self.connections.iter().position(|(known, _)| *known == socket)?;
        self.connections.remove(place).map(|(_, connection)| connection)
    }

    fn answer(&mut self, now: Time, request: &Request) -> Response {
        match request.path.as_str() {
            "/metrics" => Response {
                status: Status::Ok,
                content_type: mon::METRICS_TYPE,
                body: self.text(now),
            },
            "/" => Response::text(Status::Ok, "Metrics for Prometheus are at /metrics.\n"),
            _ => Response::text(Status::NotFound, "There is nothing but /metrics.\n"),
        }
    }

    fn text(&mut self, now: Time) -> Bytes {
        if let Some((made, text)) = &self.text
            && now.since(*made) < TEXT_KEPT
        {
            return text.clone();
        }
        let text = Bytes::from(self.inner.daemon_mut().scrape(now));
        self.text = Some((now, text.clone()));
        text
    }
}

impl Node for MonitorNode {
    sessions_go_to!(inner);

    fn handle_timeout(&mut self, now: Time) {
        self.look_at_disk(now);
        self.inner.handle_timeout(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.inner.poll_timeout()
    }

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        self.inner.poll_output(now)
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
        match event {
            StreamEvent::Accepted => self.accepted(socket),
            StreamEvent::Received(bytes) => self.received(now, socket, &bytes),
            StreamEvent::Closed => drop(self.take(socket)),
            StreamEvent::Idle => self.outputs.push_back((socket, StreamOutput::Receive)),
            // No further request is taken until it has read the texts that it has requested.
            StreamEvent::Behind => self.outputs.push_back((socket, StreamOutput::Pause(true))),
            StreamEvent::Drained => self.outputs.push_back((socket, StreamOutput::Pause(false))),
            StreamEvent::Filled(_) => {}
        }
    }

    fn poll_stream(&mut self) -> Option<(SocketId, StreamOutput)> {
        self.outputs.pop_front()
    }

    fn is_open(&self) -> Result<bool> {
        self.inner.is_open()
    }

    fn check(&mut self) -> Result<()> {
        self.inner.check()
    }

    fn close(&mut self) {
        for (socket, _) in std::mem::take(&mut self.connections) {
            self.outputs.push_back((socket, StreamOutput::Close));
        }
        self.inner.close();
    }

    fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}
