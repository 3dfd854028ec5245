//! The metrics of a monitor for Prometheus, served over HTTP on the monitor's core.

use bytes::Bytes;
use engine::Time;
use host::{StreamEvent, StreamOutput};
use mon::Monitor;
use rt::SocketId;
use std::collections::VecDeque;
use std::time::Duration;
use web::{Connection, Request, Response, Status};

/// Connections at a time; the one that has been silent for longest makes place for another.
const CONNECTIONS_MAX: usize = 32;
/// A text is served to all who come so soon after it was made: metrics cost no more than one text per time.
const TEXT_KEPT: Duration = Duration::from_secs(1);

/// The connections that scrape a monitor.
#[derive(Default)]
pub struct MetricsPort {
    /// The one that has been silent for longest first.
    connections: VecDeque<(SocketId, Connection)>,
    /// The last text, and when it was made.
    text: Option<(Time, Bytes)>,
    outputs: VecDeque<(SocketId, StreamOutput)>,
}

impl MetricsPort {
    /// Handles an event of one of its connections.
    pub fn handle_stream(
        &mut self,
        now: Time,
        monitor: &mut Monitor,
        socket: SocketId,
        event: StreamEvent,
    ) {
        match event {
            StreamEvent::Accepted { .. } => self.accepted(socket),
            StreamEvent::Received(bytes) => self.received(now, monitor, socket, &bytes),
            StreamEvent::Closed => drop(self.take(socket)),
            StreamEvent::Idle => self.outputs.push_back((socket, StreamOutput::Receive)),
            // No further request is taken until it has read the texts that it has requested.
            StreamEvent::Behind => self.outputs.push_back((socket, StreamOutput::Pause(true))),
            StreamEvent::Drained => self.outputs.push_back((socket, StreamOutput::Pause(false))),
            StreamEvent::Filled(_) => {}
        }
    }

    /// The next action.
    pub fn poll_stream(&mut self) -> Option<(SocketId, StreamOutput)> {
        self.outputs.pop_front()
    }

    /// Closes all connections.
    pub fn close(&mut self) {
        for (socket, _) in std::mem::take(&mut self.connections) {
            self.outputs.push_back((socket, StreamOutput::Close));
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

    fn received(&mut self, now: Time, monitor: &mut Monitor, socket: SocketId, bytes: &[u8]) {
        let Some(mut connection) = self.take(socket) else { return };
        connection.handle_received(bytes);
        let was_over = connection.is_over();
        while let Some(request) = connection.poll_request() {
            let response = self.answer(now, monitor, &request);
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

    fn answer(&mut self, now: Time, monitor: &mut Monitor, request: &Request) -> Response {
        match request.path.as_str() {
            "/metrics" => Response::new(Status::Ok, mon::METRICS_TYPE, self.text(now, monitor)),
            "/" => Response::text(Status::Ok, "Metrics for Prometheus are at /metrics.\n"),
            _ => Response::text(Status::NotFound, "There is nothing but /metrics.\n"),
        }
    }

    fn text(&mut self, now: Time, monitor: &mut Monitor) -> Bytes {
        if let Some((made, text)) = &self.text
            && now.since(*made) < TEXT_KEPT
        {
            return text.clone();
        }
        let text = Bytes::from(monitor.scrape(now));
        self.text = Some((now, text.clone()));
        text
    }
}
