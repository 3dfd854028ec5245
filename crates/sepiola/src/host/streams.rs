//! Connections that are no sessions: a daemon speaks another protocol over them, byte by byte.

use super::core::Core;
use super::node::Hosted;
use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use rt::{Event, ListenerId, Reactor, SocketId};
use std::net::SocketAddr;
use std::path::Path;
use stdx::FastMap;

/// A daemon that has queued more than this is told that its peer does not read.
const BEHIND: usize = 8 << 20;

/// What happened to a connection.
#[derive(Debug)]
pub enum StreamEvent {
    Accepted,
    Received(Bytes),
    /// What [`StreamOutput::ReceiveInto`] was given, with more in it.
    Filled(BytesMut),
    /// Nothing is being received: the daemon says how to go on.
    Idle,
    /// More is queued than should be; `Drained` follows.
    Behind,
    Drained,
    /// Nothing more is heard of it.
    Closed,
}

/// What a daemon does with a connection.
#[derive(Debug)]
pub enum StreamOutput {
    Send(Bytes),
    /// What was queued goes out.
    Flush,
    Pause(bool),
    /// Ends receiving as it is; `Idle` follows.
    StopReceiving,
    Receive,
    ReceiveInto(BytesMut, usize),
    Close,
}

/// Which daemon has which connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    listeners: FastMap<ListenerId, usize>,
    sockets: FastMap<SocketId, usize>,
}

impl Streams {
    /// Sorts out what is about a stream; the rest is about sessions.
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

    /// Does what a daemon wants. Whether it is to be told that its peer is behind.
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
    /// Listens for connections of another protocol to a daemon.
    pub fn listen_for_streams(&mut self, addr: SocketAddr, node: usize) -> Result<SocketAddr> {
        let listening = self.reactor.listen(addr);
        let (id, local) = listening.with_context(|| format!("listening on {addr}"))?;
        self.streams.add_listener(id, node);
        Ok(local)
    }

    /// The same at a Unix socket.
    pub fn listen_for_streams_at(&mut self, path: &Path, node: usize) -> Result<()> {
        let listening = self.reactor.listen_unix(path);
        let id = listening.with_context(|| format!("listening on {}", path.display()))?;
        self.streams.add_listener(id, node);
        Ok(())
    }
}
