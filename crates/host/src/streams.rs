//! Streams: connections for other protocols than msgr, which a daemon serves byte by byte.

use crate::core::Core;
use crate::node::Hosted;
use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use rt::{Event, ListenerId, Reactor, SocketId};
use std::net::SocketAddr;
use std::path::Path;
use stdx::FastMap;

/// Queued bytes from which a daemon is informed that its peer does not read.
const BEHIND: usize = 8 << 20;

/// An event of a stream.
#[derive(Debug)]
pub enum StreamEvent {
    Accepted,
    Received(Bytes),
    /// The buffer of [`StreamOutput::ReceiveInto`] with received bytes appended.
    Filled(BytesMut),
    /// No receive is armed: the daemon decides how to continue.
    Idle,
    /// Too many bytes are queued; `Drained` follows.
    Behind,
    Drained,
    /// Last event of the stream.
    Closed,
}

/// Action of a daemon on a stream.
#[derive(Debug)]
pub enum StreamOutput {
    Send(Bytes),
    /// Sends the queued bytes.
    Flush,
    Pause(bool),
    /// Stops receiving; `Idle` follows.
    StopReceiving,
    Receive,
    ReceiveInto(BytesMut, usize),
    Close,
}

/// Daemons by stream.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    listeners: FastMap<ListenerId, usize>,
    sockets: FastMap<SocketId, usize>,
}

impl Streams {
    /// Separates events of streams from those of sessions.
    pub fn take(&mut self, event: Event) -> Result<(usize, SocketId, StreamEvent), Event> {
        if self.listeners.is_empty() {
            return Err(event);
        }
        let socket = match &event {
            Event::Accepted { listener, socket, .. } => {
                if let Some(node) = self.listeners.get(listener).copied() {
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
            Event::Accepted { .. } => StreamEvent::Accepted,
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
    pub fn perform(
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
            StreamOutput::Close => {
                self.sockets.remove(&socket);
                reactor.close(socket);
            }
        }
        false
    }

    pub fn add_listener(&mut self, listener: ListenerId, node: usize) {
        self.listeners.insert(listener, node);
    }
}

impl<N: Hosted> Core<N> {
    /// Listens for streams to a daemon.
    pub fn listen_for_streams(&mut self, addr: SocketAddr, node: usize) -> Result<SocketAddr> {
        let listening = self.reactor.listen(addr);
        let (id, local) = listening.with_context(|| format!("listening on {addr}"))?;
        self.streams.add_listener(id, node);
        Ok(local)
    }

    /// Listens at a Unix socket.
    pub fn listen_for_streams_at(&mut self, path: &Path, node: usize) -> Result<()> {
        let listening = self.reactor.listen_unix(path);
        let id = listening.with_context(|| format!("listening on {}", path.display()))?;
        self.streams.add_listener(id, node);
        Ok(())
    }
}
