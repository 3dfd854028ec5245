//! Streams: connections for other protocols than msgr, which a daemon serves byte by byte.

use crate::contract::{StreamEvent, StreamOutput};
use rt::{Event, ListenerId, Reactor, SocketId};
use std::net::SocketAddr;
use stdx::FastMap;

/// Queued bytes from which a daemon is informed that its peer does not read.
const BEHIND: usize = 8 << 20;

/// Daemons by stream.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    listeners: FastMap<ListenerId, (usize, Option<SocketAddr>)>,
    sockets: FastMap<SocketId, usize>,
}

impl Streams {
    /// Separates events of streams from those of sessions.
    pub(crate) fn take(&mut self, event: Event) -> Result<(usize, SocketId, StreamEvent), Event> {
        if self.listeners.is_empty() {
            return Err(event);
        }
        let socket = match &event {
            Event::Accepted { listener, socket, .. } => {
                if let Some((node, _)) = self.listeners.get(listener).copied() {
                    self.sockets.insert(*socket, node);
                }
                *socket
            }
            Event::Received { socket, .. }
            | Event::Filled { socket, .. }
            | Event::ReceiveIdle { socket }
            | Event::Drained { socket }
            | Event::Closed { socket, .. } => *socket,
            _ => return Err(event),
        };
        let Some(node) = self.sockets.get(&socket).copied() else { return Err(event) };
        let event = match event {
            Event::Accepted { listener, peer, .. } => {
                let listener = self.listeners.get(&listener).and_then(|(_, addr)| *addr);
                StreamEvent::Accepted { listener, peer }
            }
            Event::Received { bytes, .. } => StreamEvent::Received(bytes),
            Event::Filled { buffer, .. } => StreamEvent::Filled(buffer),
            Event::ReceiveIdle { .. } => StreamEvent::Idle,
            Event::Drained { .. } => StreamEvent::Drained,
            Event::Closed { .. } => {
                self.sockets.remove(&socket);
                StreamEvent::Closed
            }
            other => return Err(other),
        };
        Ok((node, socket, event))
    }

    /// Performs an action; true if the daemon must be informed that its peer is behind.
    pub(crate) fn perform(
        &mut self,
        reactor: &mut Reactor,
        socket: SocketId,
        output: StreamOutput,
    ) -> bool {
        match output {
            StreamOutput::Send(bytes) => {
                let before = reactor.send_queue_len(socket);
                reactor.send(socket, bytes);
                return before <= BEHIND && reactor.send_queue_len(socket) > BEHIND;
            }
            StreamOutput::Flush => reactor.flush(socket),
            StreamOutput::Pause(paused) => reactor.pause(socket, paused),
            StreamOutput::StopReceiving => reactor.stop_receiving(socket),
            StreamOutput::Receive => reactor.receive(socket),
            StreamOutput::ReceiveInto(buffer, length) => {
                reactor.receive_into(socket, buffer, length);
            }
            StreamOutput::Finish => reactor.finish(socket),
            StreamOutput::Close => {
                self.sockets.remove(&socket);
                reactor.close(socket);
            }
        }
        false
    }

    pub(crate) fn add_listener(
        &mut self,
        listener: ListenerId,
        node: usize,
        addr: Option<SocketAddr>,
    ) {
        self.listeners.insert(listener, (node, addr));
    }
}
