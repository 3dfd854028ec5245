//! The server on its core: NBD clients on one side, the cluster on the other.

use crate::client::Client;
use crate::served::ServedImage;
use crate::tls::TlsPolicy;
use access::ClientNode;
use anyhow::{Result, bail};
use bytes::Bytes;
use engine::{Node, NodeOutput, Time, sessions_go_to};
use host::{Hosted, StreamEvent, StreamOutput};
use nbd::{Event, Export, Exports};
use rbd::{ImageEvent, RequestRouter, RequestSource};
use rt::SocketId;
use std::collections::{BTreeSet, VecDeque};
use stdx::FastMap;
use types::ParticipantName;

/// Serves images to NBD clients as long as the core runs.
pub struct NbdNode {
    inner: ClientNode,
    router: RequestRouter<usize>,
    served: Vec<ServedImage>,
    tls: TlsPolicy,
    clients: FastMap<SocketId, Client>,
    /// Clients with changes.
    touched: Vec<SocketId>,
    outputs: VecDeque<(SocketId, StreamOutput)>,
    pieces: Vec<Bytes>,
    closed: BTreeSet<usize>,
    /// Set once the server cannot continue.
    fatal: Option<rbd::Error>,
}

struct ExportList<'a>(&'a [ServedImage]);

impl Exports for ExportList<'_> {
    fn find(&self, name: &[u8]) -> Option<Export> {
        let number = match name {
            b"" => 0,
            name => self.0.iter().position(|served| served.name() == name)?,
        };
        Some(self.0.get(number)?.export(number))
    }

    fn names(&self) -> Vec<Bytes> {
        self.0.iter().map(|served| served.name().clone()).collect()
    }
}

impl NbdNode {
    /// `inner` is the client of the cluster that all images share.
    pub fn new(inner: ClientNode, served: Vec<ServedImage>, tls: TlsPolicy) -> Self {
        NbdNode {
            inner,
            router: RequestRouter::default(),
            served,
            tls,
            clients: FastMap::default(),
            touched: Vec::new(),
            outputs: VecDeque::new(),
            pieces: Vec::new(),
            closed: BTreeSet::new(),
            fatal: None,
        }
    }

    fn touch(&mut self, socket: SocketId) {
        if let Some(client) = self.clients.get_mut(&socket)
            && !client.is_touched
        {
            client.is_touched = true;
            self.touched.push(socket);
        }
    }

    /// Moves requests and outcomes; true if requests were sent to the cluster.
    fn pump(&mut self, now: Time) -> bool {
        self.handle_completions(now);
        (0..self.served.len()).for_each(|number| self.deliver_completions(number));
        while !self.touched.is_empty() {
            for socket in std::mem::take(&mut self.touched) {
                self.serve_client(socket);
            }
            // Some commands complete without the cluster.
            (0..self.served.len()).for_each(|number| self.deliver_completions(number));
        }
        let mut any = false;
        for (number, served) in self.served.iter_mut().enumerate() {
            any |= self.router.send(self.inner.daemon_mut(), now, number, &mut served.image);
        }
        any
    }

    fn handle_completions(&mut self, now: Time) {
        while let Some((operation, answer)) = self.inner.daemon_mut().poll_completion() {
            if let Some((number, id)) = self.router.take(operation) {
                self.served[number].image.handle_response(id, answer);
            }
        }
        while let Some((number, id, answer)) = self.router.poll_due(now) {
            self.served[number].image.handle_response(id, answer);
        }
        while let Some(event) = self.inner.daemon_mut().poll_watch_event() {
            self.served.iter_mut().any(|served| served.image.handle_watch_event(&event));
        }
    }

    /// Passes outcomes and changes to clients.
    fn deliver_completions(&mut self, number: usize) {
        while let Some(((socket, id), outcome)) = self.served[number].poll() {
            if let Some(client) = self.clients.get_mut(&socket) {
                client.session.complete(id, outcome);
                self.touch(socket);
            }
        }
        while let Some(event) = self.served[number].image.poll_event() {
            match event {
                ImageEvent::Resized(size) => self.resized(number, size),
                ImageEvent::Failed(error) => {
                    let name = String::from_utf8_lossy(self.served[number].name());
                    tracing::error!(image = %name, %error, "an image can no longer be served");
                    let image = &self.served[number].image;
                    if image.keeps_lock() && !image.has_lock() {
                        self.fatal = Some(error);
                    }
                }
                ImageEvent::Closed => {
                    self.closed.insert(number);
                }
            }
        }
    }

    /// New clients and queries see the new size; commands are checked against it at once.
    fn resized(&mut self, number: usize, size: u64) {
        for client in self.clients.values_mut() {
            if client.session.export().is_some_and(|export| export.number == number) {
                client.session.set_size(size);
            }
        }
    }

    /// Processes a client's input as far as its bounds allow, and sends output.
    fn serve_client(&mut self, socket: SocketId) {
        let Some(client) = self.clients.get_mut(&socket) else { return };
        client.is_touched = false;
        let mut is_over = client.is_broken();
        while !client.is_behind
            && let Some(event) = client.session.poll_event(&ExportList(&self.served))
        {
            match event {
                Event::StartTls => {
                    queue(socket, client, &mut self.pieces, &mut self.outputs);
                    client.start_tls(&self.tls);
                }
                Event::Opened(export) => tracing::debug!(export.number, "a client has come"),
                Event::Command(id, command) => {
                    let Some(export) = client.session.export() else { continue };
                    let served = &mut self.served[export.number];
                    if let Some(outcome) = served.begin((socket, id), command) {
                        client.session.complete(id, outcome);
                    }
                }
                Event::Closed(reason) => {
                    tracing::debug!(%reason, "a client has gone");
                    is_over = true;
                }
            }
        }
        if is_over {
            client.end();
        }
        queue(socket, client, &mut self.pieces, &mut self.outputs);
        if is_over {
            self.outputs.push_back((socket, StreamOutput::Close));
            self.clients.remove(&socket);
            return;
        }
        let wants_pause = client.must_wait();
        if wants_pause != client.is_paused {
            client.is_paused = wants_pause;
            self.outputs.push_back((socket, StreamOutput::Pause(wants_pause)));
        }
        if client.receive_hint().is_some() {
            self.outputs.push_back((socket, StreamOutput::StopReceiving));
        }
    }

    fn receive(&mut self, socket: SocketId) {
        let Some(client) = self.clients.get_mut(&socket) else { return };
        let output = match client.take_receive_buffer() {
            Some((buffer, length)) => StreamOutput::ReceiveInto(buffer, length),
            None => StreamOutput::Receive,
        };
        self.outputs.push_back((socket, output));
    }
}

/// Queues output for a client.
fn queue(
    socket: SocketId,
    client: &mut Client,
    pieces: &mut Vec<Bytes>,
    outputs: &mut VecDeque<(SocketId, StreamOutput)>,
) {
    client.poll_transmit(pieces);
    if !pieces.is_empty() {
        outputs.extend(pieces.drain(..).map(|piece| (socket, StreamOutput::Send(piece))));
        outputs.push_back((socket, StreamOutput::Flush));
    }
}

impl Node for NbdNode {
    sessions_go_to!(inner);

    fn handle_timeout(&mut self, now: Time) {
        if self.inner.poll_timeout().is_some_and(|due| due <= now) {
            self.inner.handle_timeout(now);
        }
    }

    fn poll_output(&mut self, now: Time) -> Option<NodeOutput> {
        loop {
            if let Some(output) = self.inner.poll_output(now) {
                return Some(output);
            }
            if !self.pump(now) {
                return None;
            }
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.inner.poll_timeout().into_iter().chain(self.router.poll_timeout()).min()
    }
}

impl Hosted for NbdNode {
    fn participant(&self) -> ParticipantName {
        self.inner.participant()
    }

    fn pump_storage(&mut self, now: Time) -> bool {
        self.inner.pump_storage(now)
    }

    fn handle_stream(&mut self, _now: Time, socket: SocketId, event: StreamEvent) {
        match event {
            StreamEvent::Accepted { .. } => {
                self.clients.insert(socket, Client::new(&self.tls));
            }
            StreamEvent::Closed => {
                self.clients.remove(&socket);
            }
            StreamEvent::Idle => return self.receive(socket),
            StreamEvent::Received(bytes) => {
                if let Some(client) = self.clients.get_mut(&socket) {
                    client.received(bytes);
                }
            }
            StreamEvent::Filled(buffer) => {
                if let Some(client) = self.clients.get_mut(&socket) {
                    client.session.handle_filled(buffer);
                }
            }
            StreamEvent::Behind | StreamEvent::Drained => {
                if let Some(client) = self.clients.get_mut(&socket) {
                    client.is_behind = matches!(event, StreamEvent::Behind);
                }
            }
        }
        self.touch(socket);
    }

    fn poll_stream(&mut self) -> Option<(SocketId, StreamOutput)> {
        self.outputs.pop_front()
    }

    fn check(&mut self) -> Result<()> {
        if let Some(error) = self.fatal.take() {
            bail!(error);
        }
        match self.inner.daemon_mut().take_auth_failure() {
            Some(reason) => bail!(reason),
            None => Ok(()),
        }
    }

    /// Disconnects clients and closes the images.
    fn close(&mut self) {
        let sockets: Vec<SocketId> = self.clients.drain().map(|(socket, _)| socket).collect();
        for socket in sockets {
            self.outputs.push_back((socket, StreamOutput::Close));
        }
        self.served.iter_mut().for_each(|served| served.image.close());
    }

    fn is_closed(&self) -> bool {
        self.closed.len() == self.served.len()
    }
}
