//! The console: requests of browsers in, responses and messages to the monitor out.

use crate::sessions::{Session, Sessions};
use crate::streams::{Streams, event};
use crate::{assets, guard};
use auth::Entropy;
use bytes::Bytes;
use engine::{ConnId, Message, Peer, Time};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use types::{
    EntityAddr, EntityAddrVec, EntityName, EntityType, Errno, ParticipantName, Uuid, features,
};
use web::{Method, Request, Response, Status};
use wire::{MessageBody, MonCommand, MonCommandAck, decode_from_peer};

/// A browser's connection, numbered by the host.
pub type ClientId = u64;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
/// The header field that carries the secret which the page has read.
const CSRF: &str = "x-sepiola-csrf";
/// Requests of one session that wait for the monitor.
const WAITING_MAX: usize = 16;

/// The monitor's part in signing in.
pub trait Authority {
    /// The entity that a one-time link was made for. The link is spent.
    fn redeem(&mut self, now: Time, token: &str) -> Option<EntityName>;
    /// The present capabilities of an entity, as in [`Peer::caps`]; `None` if there is no such entity.
    fn caps(&self, entity: &EntityName) -> Option<Bytes>;
}

/// An action of the host.
#[derive(Debug)]
pub enum Output {
    /// Answer the request of a browser.
    Respond(ClientId, Response),
    /// Answer it by a stream.
    Stream(ClientId, Response),
    /// Continue the stream.
    Push(ClientId, Bytes),
    /// End the stream.
    End(ClientId),
    /// Open a session with the monitor.
    Open(ConnId, Box<Peer>),
    /// Deliver a message to the monitor.
    Send(ConnId, Message),
    /// End the session.
    Close(ConnId),
}

/// The request or stream that waits for the answer to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asker {
    Request(ClientId),
    Stream(ClientId),
}

/// The console.
pub struct Console {
    cookie: String,
    entropy: Entropy,
    sessions: Sessions,
    streams: Streams,
    waiting: BTreeMap<(ConnId, u64), Asker>,
    asked: u64,
    outputs: VecDeque<Output>,
}

impl Console {
    /// The console at a port, without any session. `seed` must come from the system's random source. Browsers
    /// send cookies to all ports of a host, so the name has the port.
    pub fn new(seed: [u8; 32], port: u16) -> Self {
        Console {
            cookie: format!("__Host-sepiola-{port}"),
            entropy: Entropy::from_seed(seed),
            sessions: Sessions::default(),
            streams: Streams::default(),
            waiting: BTreeMap::new(),
            asked: 0,
            outputs: VecDeque::new(),
        }
    }

    /// Whether a session of the monitor is one of the console.
    pub fn owns(conn: ConnId) -> bool {
        Sessions::is_own(conn)
    }

    /// Handles a request. It is answered by [`Output::Respond`] or [`Output::Stream`], perhaps later.
    pub fn handle_request(
        &mut self,
        now: Time,
        authority: &mut dyn Authority,
        client: ClientId,
        from: IpAddr,
        request: &Request,
    ) {
        if matches!(request.method, Method::Get | Method::Head)
            && let Some(file) = assets::find(&request.path)
        {
            return self.respond(client, file);
        }
        if !guard::is_same_origin(request) {
            return self.refuse(client, Status::Forbidden, "the request comes from another site");
        }
        if matches!((request.method, request.path.as_str()), (Method::Post, "/api/session")) {
            return self.sign_in(now, authority, client, from, request);
        }
        let known =
            guard::cookie(request, &self.cookie).and_then(|it| self.sessions.find(it, from));
        let Some(conn) = known.filter(|conn| self.is_valid(now, authority, *conn)) else {
            let text = "not signed in: 'sepiola console' prints a link";
            return self.refuse(client, Status::Unauthorized, text);
        };
        self.sessions.touch(now, conn);
        match (request.method, request.path.as_str()) {
            (Method::Get, "/api/session") => self.show_session(client, conn),
            (Method::Get, "/api/stream") => self.stream(now, client, conn, request),
            (Method::Post | Method::Delete, _) if !self.knows_csrf(conn, request) => {
                self.refuse(client, Status::Forbidden, "the request does not come from the page");
            }
            (Method::Delete, "/api/session") => self.sign_out(client, conn),
            (Method::Post, "/api/command") => self.command(client, conn, request),
            _ => self.refuse(client, Status::NotFound, "there is no such thing"),
        }
    }

    /// A browser's connection has ended.
    pub fn handle_gone(&mut self, client: ClientId) {
        self.streams.close(client);
        self.waiting.retain(
            |_, asker| !matches!(asker, Asker::Request(it) | Asker::Stream(it) if *it == client),
        );
    }

    /// A browser does not read what it is sent, or has caught up.
    pub fn handle_behind(&mut self, client: ClientId, is_behind: bool) {
        self.streams.set_behind(client, is_behind);
    }

    /// Handles a message of the monitor.
    pub fn handle_message(&mut self, now: Time, conn: ConnId, message: &Message) {
        if message.kind != MonCommandAck::KIND {
            return;
        }
        let Some(asker) = self.waiting.remove(&(conn, message.tid)) else { return };
        let Ok(ack) = decode_from_peer::<MonCommandAck>(message) else { return };
        match asker {
            Asker::Request(client) => self.respond(client, answer(&ack)),
            Asker::Stream(client) if ack.result == 0 => {
                if let Some(event) = self.streams.answered(now, client, &ack.output) {
                    self.outputs.push_back(Output::Push(client, event));
                }
            }
            Asker::Stream(client) => {
                let data = json!({ "result": ack.result, "text": ack.text }).to_string();
                self.end_stream(client, "refused", &data);
            }
        }
    }

    /// The monitor has ended a session.
    pub fn handle_closed(&mut self, conn: ConnId) {
        self.forget(conn);
    }

    /// Asks for the views of streams, and ends sessions whose time is over.
    pub fn handle_timeout(&mut self, now: Time, authority: &dyn Authority) {
        self.sessions.expired(now).into_iter().for_each(|conn| self.end(conn));
        for (client, conn, command) in self.streams.take_due(now) {
            if self.is_valid(now, authority, conn) {
                self.sessions.touch(now, conn);
                self.ask(conn, command, Asker::Stream(client));
            }
        }
        let signs = self.streams.take_signs(now);
        let pushes = signs.into_iter().map(|(client, event)| Output::Push(client, event));
        self.outputs.extend(pushes);
    }

    /// Time at which [`Console::handle_timeout`] has work to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        [self.streams.next_due(), self.sessions.next_end()].into_iter().flatten().min()
    }

    /// The next output.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn respond(&mut self, client: ClientId, response: Response) {
        self.outputs.push_back(Output::Respond(client, assets::secured(response)));
    }

    fn refuse(&mut self, client: ClientId, status: Status, text: &str) {
        let body = json!({ "text": text }).to_string();
        self.respond(client, Response::new(status, JSON, body));
    }

    fn sign_in(
        &mut self,
        now: Time,
        authority: &mut dyn Authority,
        client: ClientId,
        from: IpAddr,
        request: &Request,
    ) {
        let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        let token = body["token"].as_str().filter(|_| guard::is_json(request));
        let entity = token.and_then(|token| authority.redeem(now, token));
        let found = entity.and_then(|entity| Some((authority.caps(&entity)?, entity)));
        let Some((caps, entity)) = found else {
            tracing::warn!(%from, "a link of the console was refused");
            let text = "the link was used before, or is older than a minute: 'sepiola console' prints another";
            return self.refuse(client, Status::Unauthorized, text);
        };
        if let Some(conn) = self.sessions.surplus(&entity) {
            self.end(conn);
        }
        tracing::info!(%entity, %from, "signed in to the console");
        let begun = self.sessions.begin(now, &mut self.entropy, entity.clone(), caps.clone(), from);
        let (conn, secret) = begun;
        let peer = peer(conn, entity, caps, from);
        self.outputs.push_back(Output::Open(conn, Box::new(peer)));
        let cookie = format!("{}={secret}; {COOKIE_ATTRIBUTES}", self.cookie);
        let mut response = Response::new(Status::Ok, JSON, self.session_text(conn));
        response.fields.push(("Set-Cookie", cookie));
        self.respond(client, response);
    }

    fn session_text(&self, conn: ConnId) -> String {
        let session = self.sessions.get(conn).expect("a session that was found is open");
        let ends = session.ends_at_last().wall().to_iso();
        let entity = session.entity.to_string();
        json!({ "entity": entity, "csrf": session.csrf, "ends": ends }).to_string()
    }

    fn show_session(&mut self, client: ClientId, conn: ConnId) {
        let text = self.session_text(conn);
        self.respond(client, Response::new(Status::Ok, JSON, text));
    }

    fn sign_out(&mut self, client: ClientId, conn: ConnId) {
        self.end(conn);
        let mut response = Response::new(Status::NoContent, JSON, "");
        let cookie = format!("{}=; Max-Age=0; {COOKIE_ATTRIBUTES}", self.cookie);
        response.fields.push(("Set-Cookie", cookie));
        self.respond(client, response);
    }

    fn knows_csrf(&self, conn: ConnId, request: &Request) -> bool {
        let said = request.field(CSRF);
        let session = self.sessions.get(conn);
        said.is_some_and(|said| session.is_some_and(|session| session.knows(said)))
    }

    fn command(&mut self, client: ClientId, conn: ConnId, request: &Request) {
        if !guard::is_json(request) {
            return self.refuse(client, Status::BadRequest, "a command is application/json");
        }
        let of_session = |(at, _): &&(ConnId, u64)| *at == conn;
        if self.waiting.keys().filter(of_session).count() >= WAITING_MAX {
            return self.refuse(
                client,
                Status::TooManyRequests,
                "too many commands are in progress",
            );
        }
        match guard::command(&request.body) {
            Ok(command) => self.ask(conn, command, Asker::Request(client)),
            Err(text) => self.refuse(client, Status::Forbidden, &text),
        }
    }

    fn stream(&mut self, now: Time, client: ClientId, conn: ConnId, request: &Request) {
        let view = request.query.strip_prefix("view=").unwrap_or_default();
        if !self.streams.open(now, client, conn, view) {
            let text = "there is no such view, or too many are open";
            return self.refuse(client, Status::TooManyRequests, text);
        }
        let response = assets::secured(Response::new(Status::Ok, EVENTS, "retry: 2000\n\n"));
        self.outputs.push_back(Output::Stream(client, response));
    }

    fn ask(&mut self, conn: ConnId, command: String, asker: Asker) {
        self.asked += 1;
        let tid = self.asked;
        let message = MonCommand {
            version: 0,
            fsid: Uuid::default(),
            command: vec![command],
            input: Bytes::new(),
        };
        self.waiting.insert((conn, tid), asker);
        let message = message.encode(features::SUPPORTED).with_tid(tid);
        self.outputs.push_back(Output::Send(conn, message));
    }

    /// Whether a session may go on. It ends if its time is over, or if its entity was removed or has other
    /// capabilities now.
    fn is_valid(&mut self, now: Time, authority: &dyn Authority, conn: ConnId) -> bool {
        let Some(session) = self.sessions.get(conn) else { return false };
        let is_same = authority.caps(&session.entity).is_some_and(|caps| caps == session.caps);
        let is_valid = is_same && session.ends() > now;
        if !is_valid {
            self.end(conn);
        }
        is_valid
    }

    fn end(&mut self, conn: ConnId) {
        self.forget(conn);
        self.outputs.push_back(Output::Close(conn));
    }

    /// Ends what depends on a session; its streams and requests are told.
    fn forget(&mut self, conn: ConnId) {
        let Some(Session { entity, .. }) = self.sessions.end(conn) else { return };
        tracing::info!(%entity, "a session of the console has ended");
        for client in self.streams.of(conn) {
            self.end_stream(client, "ended", "{}");
        }
        let (over, kept) =
            std::mem::take(&mut self.waiting).into_iter().partition(|((at, _), _)| *at == conn);
        self.waiting = kept;
        let over: BTreeMap<(ConnId, u64), Asker> = over;
        for asker in over.into_values() {
            if let Asker::Request(client) = asker {
                self.refuse(client, Status::Unauthorized, "the session has ended");
            }
        }
    }

    fn end_stream(&mut self, client: ClientId, name: &str, data: &str) {
        if self.streams.close(client) {
            self.outputs.push_back(Output::Push(client, event(name, data.as_bytes())));
            self.outputs.push_back(Output::End(client));
        }
    }

    /// Panics if an answer is waited for without a session.
    pub fn check_invariants(&self) {
        for ((conn, _), asker) in &self.waiting {
            assert!(self.sessions.get(*conn).is_some(), "{asker:?} waits in a session");
        }
    }
}

/// Scripts do not see the cookie, and other sites do not send it.
const COOKIE_ATTRIBUTES: &str = "Path=/; Secure; HttpOnly; SameSite=Strict";

fn peer(conn: ConnId, name: EntityName, caps: Bytes, from: IpAddr) -> Peer {
    let addr = EntityAddr::msgr2(SocketAddr::new(from, 0), conn.0 as u32);
    let participant = ParticipantName::new(EntityType::CLIENT, conn.0 as i64);
    let addrs = EntityAddrVec::one(addr);
    Peer { participant, name, addrs, features: features::SUPPORTED, caps, seen_addr: addr }
}

/// The answer to a command: `output` is its JSON, or text if it has none.
fn answer(ack: &MonCommandAck) -> Response {
    let output = match serde_json::from_slice::<Value>(&ack.output) {
        Ok(value) => value,
        Err(_) => String::from_utf8_lossy(&ack.output).into(),
    };
    let status = match -ack.result {
        0 => Status::Ok,
        denied if [Errno::ACCES, Errno::PERM].map(|it| it.0).contains(&denied) => Status::Forbidden,
        _ => Status::BadRequest,
    };
    let body = json!({ "result": ack.result, "text": ack.text, "output": output });
    Response::new(status, JSON, body.to_string())
}

#[cfg(test)]
mod tests;
