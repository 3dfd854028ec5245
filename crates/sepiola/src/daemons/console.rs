//! The connections of browsers to the console of a monitor: HTTP over TLS on the monitor's core.

use bytes::Bytes;
use engine::Time;
use host::{StreamEvent, StreamOutput};
use mon::Monitor;
use rt::SocketId;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tls::{Identity, Tls};
use types::EntityName;
use web::{Connection, Response};
use webconsole::{Authority, BODY_BYTES_MAX, ClientId, Console, Output};

/// Connections at a time. Beyond it the oldest one without a stream makes place for another; a new one is
/// refused if all have streams.
const CONNECTIONS_MAX: usize = 128;
/// A new connection ends if its first request is not complete in this time.
const FIRST_REQUEST_MAX: Duration = Duration::from_secs(15);
/// A connection ends if no further request is complete in this time.
const NEXT_REQUEST_MAX: Duration = Duration::from_secs(75);
/// A browser that does not read what it was sent is given up after this time.
const BEHIND_MAX: Duration = Duration::from_secs(60);

/// The console of a monitor with its connections.
pub struct ConsolePort {
    addr: SocketAddr,
    identity: Identity,
    console: Console,
    /// The oldest first.
    clients: VecDeque<Client>,
    accepted: ClientId,
    outputs: VecDeque<(SocketId, StreamOutput)>,
}

/// One connection.
struct Client {
    id: ClientId,
    socket: SocketId,
    from: IpAddr,
    tls: Tls,
    http: Connection,
    /// When the last request came, and when the connection was accepted.
    last: Option<Time>,
    began: Time,
    behind: Option<Time>,
    has_stream: bool,
    /// Whether it was answered since its input was looked at.
    is_answered: bool,
    /// Whether its last piece was sent.
    is_finished: bool,
}

/// The monitor as the console needs it.
struct Signing<'a>(&'a mut Monitor);

impl Authority for Signing<'_> {
    fn redeem(&mut self, now: Time, token: &str) -> Option<EntityName> {
        self.0.redeem_link(now, token)
    }

    fn caps(&self, entity: &EntityName) -> Option<Bytes> {
        self.0.caps_of(entity)
    }
}

impl Client {
    /// When it ends if nothing comes; `None` while it waits for an answer or has a stream.
    fn gives_up(&self) -> Option<Time> {
        match (self.behind, self.last) {
            (Some(behind), _) => Some(behind + BEHIND_MAX),
            (None, _) if self.http.is_busy() => None,
            (None, None) => Some(self.began + FIRST_REQUEST_MAX),
            (None, Some(last)) => Some(last + NEXT_REQUEST_MAX),
        }
    }
}

impl ConsolePort {
    /// The console at this address.
    pub fn new(addr: SocketAddr, identity: Identity, seed: [u8; 32]) -> Self {
        let console = Console::new(seed, addr.port());
        let (clients, outputs) = (VecDeque::new(), VecDeque::new());
        ConsolePort { addr, identity, console, clients, accepted: 0, outputs }
    }

    /// Whether a stream with this first event, or of this socket, is one of the console.
    pub fn owns(&self, socket: SocketId, event: &StreamEvent) -> bool {
        match event {
            StreamEvent::Accepted { listener, .. } => *listener == Some(self.addr),
            _ => self.clients.iter().any(|client| client.socket == socket),
        }
    }

    /// The engine, to be driven after each input.
    pub fn console(&mut self) -> &mut Console {
        &mut self.console
    }

    /// Handles an event of one of its connections.
    pub fn handle_stream(
        &mut self,
        now: Time,
        monitor: &mut Monitor,
        socket: SocketId,
        event: StreamEvent,
    ) {
        match event {
            StreamEvent::Accepted { peer, .. } => self.accepted(now, socket, peer),
            StreamEvent::Received(bytes) => self.received(now, monitor, socket, &bytes),
            StreamEvent::Closed => drop(self.forget(socket)),
            StreamEvent::Idle => self.outputs.push_back((socket, StreamOutput::Receive)),
            StreamEvent::Behind => self.set_behind(socket, Some(now)),
            StreamEvent::Drained => self.set_behind(socket, None),
            StreamEvent::Filled(_) => {}
        }
    }

    /// Closes connections that are silent for too long, and lets the console do what is due.
    pub fn handle_timeout(&mut self, now: Time, monitor: &mut Monitor) {
        let over = |client: &&Client| client.gives_up().is_some_and(|until| until <= now);
        let over: Vec<SocketId> =
            self.clients.iter().filter(over).map(|client| client.socket).collect();
        over.into_iter().for_each(|socket| self.drop_client(socket));
        self.console.handle_timeout(now, &Signing(monitor));
    }

    /// Time at which [`ConsolePort::handle_timeout`] has work to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        let clients = self.clients.iter().filter_map(Client::gives_up);
        clients.chain(self.console.poll_timeout()).min()
    }

    /// Performs an output of the console that concerns a connection; returns those for the monitor.
    pub fn perform(&mut self, output: Output) -> Option<Output> {
        match output {
            Output::Respond(id, response) => self.with(id, |client| client.http.respond(response)),
            Output::Stream(id, response) => self.with(id, |client| client.begin_stream(response)),
            Output::Push(id, bytes) => self.with(id, |client| client.http.push(bytes)),
            Output::End(id) => self.with(id, |client| client.http.end_stream()),
            for_monitor => return Some(for_monitor),
        }
        None
    }

    /// The next action.
    pub fn poll_stream(&mut self) -> Option<(SocketId, StreamOutput)> {
        self.outputs.pop_front()
    }

    /// Closes all connections.
    pub fn close(&mut self) {
        let sockets: Vec<SocketId> = self.clients.iter().map(|client| client.socket).collect();
        sockets.into_iter().for_each(|socket| self.drop_client(socket));
    }

    fn accepted(&mut self, now: Time, socket: SocketId, peer: Option<SocketAddr>) {
        let is_full = self.clients.len() >= CONNECTIONS_MAX;
        let idle = self.clients.iter().find(|client| !client.has_stream);
        match idle.map(|client| client.socket) {
            Some(oldest) if is_full => self.drop_client(oldest),
            None if is_full => return self.outputs.push_back((socket, StreamOutput::Close)),
            _ => {}
        }
        let tls = Tls::begin(self.identity.config());
        let (Some(peer), Ok(tls)) = (peer, tls) else {
            return self.outputs.push_back((socket, StreamOutput::Close));
        };
        self.accepted += 1;
        self.clients.push_back(Client {
            id: self.accepted,
            socket,
            from: peer.ip().to_canonical(),
            tls,
            http: Connection::with_bodies(BODY_BYTES_MAX),
            last: None,
            began: now,
            behind: None,
            has_stream: false,
            is_answered: false,
            is_finished: false,
        });
    }

    fn received(&mut self, now: Time, monitor: &mut Monitor, socket: SocketId, bytes: &[u8]) {
        let Some(client) = self.clients.iter_mut().find(|client| client.socket == socket) else {
            return;
        };
        let mut plain = Vec::new();
        let received = client.tls.receive(bytes, &mut plain);
        plain.iter().for_each(|piece| client.http.handle_received(piece));
        if let Err(error) = received {
            tracing::debug!(from = %client.from, %error, "a connection to the console fails");
            client.transmit(&mut self.outputs);
            return self.drop_client(socket);
        }
        // Requests that follow are taken when this one is answered: see `take_waiting`.
        let request = client.http.poll_request();
        client.transmit(&mut self.outputs);
        if let Some(request) = request {
            client.last = Some(now);
            let (id, from) = (client.id, client.from);
            self.console.handle_request(now, &mut Signing(monitor), id, from, &request);
        }
    }

    /// Takes requests that came before the last answer was made; true if there were any.
    pub fn take_waiting(&mut self, now: Time, monitor: &mut Monitor) -> bool {
        let mut waiting = Vec::new();
        for client in &mut self.clients {
            if !std::mem::take(&mut client.is_answered) {
                continue;
            }
            match client.http.poll_request() {
                Some(request) => {
                    client.last = Some(now);
                    waiting.push((client.id, client.from, request));
                }
                // It may have been refused.
                None => client.transmit(&mut self.outputs),
            }
        }
        let has_any = !waiting.is_empty();
        for (id, from, request) in waiting {
            self.console.handle_request(now, &mut Signing(monitor), id, from, &request);
        }
        has_any
    }

    fn set_behind(&mut self, socket: SocketId, behind: Option<Time>) {
        let Some(client) = self.clients.iter_mut().find(|client| client.socket == socket) else {
            return;
        };
        client.behind = behind;
        self.console.handle_behind(client.id, behind.is_some());
        self.outputs.push_back((socket, StreamOutput::Pause(behind.is_some())));
    }

    /// Changes a client, and sends what follows.
    fn with(&mut self, id: ClientId, change: impl FnOnce(&mut Client)) {
        if let Some(client) = self.clients.iter_mut().find(|client| client.id == id) {
            client.is_answered = true;
            change(client);
            client.transmit(&mut self.outputs);
        }
    }

    fn forget(&mut self, socket: SocketId) -> Option<Client> {
        let place = self.clients.iter().position(|client| client.socket == socket)?;
        let client = self.clients.remove(place)?;
        self.console.handle_gone(client.id);
        Some(client)
    }

    fn drop_client(&mut self, socket: SocketId) {
        if self.forget(socket).is_some() {
            self.outputs.push_back((socket, StreamOutput::Close));
        }
    }
}

impl Client {
    fn begin_stream(&mut self, response: Response) {
        self.has_stream = true;
        self.http.respond_by_stream(response);
    }

    /// Encrypts what there is to send. The connection ends after its last response.
    fn transmit(&mut self, outputs: &mut VecDeque<(SocketId, StreamOutput)>) {
        let mut pieces = Vec::new();
        self.http.poll_transmit(&mut pieces);
        let is_last = self.http.is_over() && !self.is_finished;
        for piece in pieces {
            // It is kept in memory, which cannot fail.
            let _ = self.tls.send(&piece);
        }
        if is_last {
            self.is_finished = true;
            self.tls.end();
        }
        let Some(encrypted) = self.tls.poll_transmit() else { return };
        outputs.push_back((self.socket, StreamOutput::Send(encrypted)));
        let next = if is_last { StreamOutput::Finish } else { StreamOutput::Flush };
        outputs.push_back((self.socket, next));
    }
}
