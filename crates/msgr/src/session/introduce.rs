//! From the signatures to an open session, new or resumed.

use super::admission::{Introduction, IntroductionKind};
use super::{Session, State, Step};
use crate::config::contains;
use crate::event::{CloseReason, Event};
use auth::Side;
use engine::{Duration, Peer, Policy};
use types::{AddrType, EntityAddr, EntityAddrVec, EntityName, EntityType};
use wire::frame::{CONNECT_FLAG_LOSSY, ClientIdent, Control, Frame, Reconnect, ServerIdent, Tag};

impl Session {
    /// The connection is authenticated.
    pub(super) fn begin_session(&mut self) {
        let side = self.link.as_ref().expect("it has just become authentic").side;
        if side == Side::Connecting {
            match self.server_cookie {
                0 => self.send_client_ident(),
                _ => self.send_reconnect(),
            }
        }
    }

    pub(super) fn introduce(&mut self, frame: Frame) -> Result<Step, CloseReason> {
        let Frame::Control(control) = frame else { return Err(unexpected(Tag::Message)) };
        match (&self.state, control) {
            (State::Handshake, Control::CompressionRequest { .. }) => {
                self.send_control(&Control::CompressionDone { agreed: false, method: 0 });
            }
            (State::Handshake, Control::ClientIdent(ident)) => self.handle_client_ident(ident)?,
            (State::Handshake, Control::SessionReconnect(reconnect)) => {
                self.handle_reconnect(reconnect)?
            }
            (State::Identifying, Control::ServerIdent(ident)) => self.handle_server_ident(ident)?,
            (State::Identifying, Control::IdentMissingFeatures { features }) => {
                return Err(CloseReason::MissingFeatures(features));
            }
            (State::Identifying | State::Reconnecting, Control::Wait) => self.lose_race(),
            (State::Reconnecting, Control::SessionReset { full }) => self.handle_reset(full),
            (State::Reconnecting, Control::SessionRetry { connect_seq }) => {
                self.connect_seq = connect_seq.saturating_add(1);
                self.send_reconnect();
            }
            (State::Reconnecting, Control::SessionRetryGlobal { global_seq }) => {
                self.global_seq = self.global_seq.max(global_seq.saturating_add(1));
                self.send_reconnect();
            }
            (State::Reconnecting, Control::SessionReconnectOk { message_seq }) => {
                self.acknowledge(message_seq)?;
                self.resume();
            }
            (_, control) => return Err(unexpected(control.tag())),
        }
        Ok(Step::Progress)
    }

    fn send_client_ident(&mut self) {
        let lossy = self.policy == Policy::Lossy;
        if !lossy && self.client_cookie == 0 {
            self.client_cookie = self.new_cookie();
        }
        let number = match self.config.kind {
            EntityType::CLIENT => i64::try_from(self.credentials.global_id).unwrap_or(-1),
            _ => self.config.number,
        };
        let ident = ClientIdent {
            addrs: self.own_addrs(),
            target: self.seen_addr,
            number,
            global_seq: self.global_seq,
            supported_features: self.config.supported_features,
            required_features: self.config.required_features,
            flags: if lossy { CONNECT_FLAG_LOSSY } else { 0 },
            cookie: self.client_cookie,
        };
        self.state = State::Identifying;
        self.send_control(&Control::ClientIdent(ident));
    }

    fn send_reconnect(&mut self) {
        let reconnect = Reconnect {
            addrs: self.own_addrs(),
            client_cookie: self.client_cookie,
            server_cookie: self.server_cookie,
            global_seq: self.global_seq,
            connect_seq: self.connect_seq,
            message_seq: self.in_seq,
        };
        self.state = State::Reconnecting;
        self.send_control(&Control::SessionReconnect(reconnect));
    }

    /// A client without an address sends the one under which the peer sees it, without the port, which is of
    /// no use to others.
    fn own_addrs(&self) -> EntityAddrVec {
        if !self.config.addrs.0.is_empty() {
            return self.config.addrs.clone();
        }
        let mut socket = self.own_addr.socket;
        if let Some(socket) = &mut socket {
            socket.set_port(0);
        }
        let (kind, nonce) = (AddrType::Msgr2, self.config.nonce);
        EntityAddrVec::one(EntityAddr { kind, nonce, socket })
    }

    pub(super) fn new_cookie(&mut self) -> u64 {
        self.prng.next_u64().max(1)
    }

    fn handle_server_ident(&mut self, ident: ServerIdent) -> Result<(), CloseReason> {
        if !contains(&ident.addrs, &self.seen_addr) {
            return Err(CloseReason::WrongTarget { target: self.seen_addr });
        }
        let missing = ident.required_features & !self.config.supported_features;
        if missing != 0 {
            return Err(CloseReason::MissingFeatures(missing));
        }
        if ident.flags & CONNECT_FLAG_LOSSY != 0 {
            self.policy = Policy::Lossy;
            self.queue.retain = false;
        }
        self.server_cookie = ident.cookie;
        self.peer_global_seq = ident.global_seq;
        let participant = types::ParticipantName::new(self.peer_kind, ident.number);
        let features = ident.supported_features & self.config.supported_features;
        let name = EntityName::new(self.peer_kind, ident.number.to_string());
        self.peer = Some(Peer {
            participant,
            name,
            addrs: ident.addrs,
            features,
            caps: Default::default(),
            seen_addr: self.seen_addr,
        });
        self.open();
        Ok(())
    }

    /// The peer does not know the session.
    fn handle_reset(&mut self, full: bool) {
        if full {
            return self.finish(CloseReason::Forgotten);
        }
        self.server_cookie = 0;
        self.connect_seq = 0;
        self.in_seq = 0;
        self.send_client_ident();
    }

    fn handle_client_ident(&mut self, ident: ClientIdent) -> Result<(), CloseReason> {
        check_addrs(&ident.addrs)?;
        if ident.flags & CONNECT_FLAG_LOSSY != 0 {
            // A peer may have further sessions besides its lossless one that it need not keep.
            self.policy = Policy::Lossy;
            self.queue.retain = false;
        }
        if !self.config.is_at(&ident.target) {
            return Err(CloseReason::WrongTarget { target: ident.target });
        }
        let missing = self.config.required_features & !ident.supported_features;
        if missing != 0 {
            self.send_control(&Control::IdentMissingFeatures { features: missing });
            return Ok(());
        }
        let participant = self.participant(ident.number);
        let peer = Peer {
            participant,
            name: self.credentials.name.clone(),
            addrs: ident.addrs.clone(),
            features: ident.supported_features & self.config.supported_features,
            caps: self.credentials.caps.clone(),
            seen_addr: self.seen_addr,
        };
        let (addrs, global_seq) = (ident.addrs, ident.global_seq);
        let kind = IntroductionKind::New { cookie: ident.cookie, peer };
        self.introduced(Introduction { addrs, global_seq, kind });
        Ok(())
    }

    fn handle_reconnect(&mut self, reconnect: Reconnect) -> Result<(), CloseReason> {
        check_addrs(&reconnect.addrs)?;
        let (addrs, global_seq) = (reconnect.addrs, reconnect.global_seq);
        let kind = IntroductionKind::Again {
            client_cookie: reconnect.client_cookie,
            connect_seq: reconnect.connect_seq,
            message_seq: reconnect.message_seq,
        };
        self.introduced(Introduction { addrs, global_seq, kind });
        Ok(())
    }

    /// A lossy peer needs no admission; for a lossless one the host is asked.
    fn introduced(&mut self, introduction: Introduction) {
        self.state = State::Introduced(introduction.clone());
        match self.policy {
            Policy::Lossy => {
                self.admit(None);
            }
            Policy::Lossless => {
                self.awaits_host = true;
                self.events.push_back(Event::Introduced(introduction));
            }
        }
    }

    /// Accepting: sends SERVER_IDENT.
    pub(crate) fn send_server_ident(&mut self) {
        let lossy = self.policy == Policy::Lossy;
        if !lossy {
            self.server_cookie = self.new_cookie();
        }
        self.in_seq = 0;
        self.next_global_seq();
        let ident = ServerIdent {
            addrs: self.own_addrs(),
            number: self.config.number,
            global_seq: self.global_seq,
            supported_features: self.config.supported_features,
            required_features: self.config.required_features,
            flags: if lossy { CONNECT_FLAG_LOSSY } else { 0 },
            cookie: self.server_cookie,
        };
        self.send_control(&Control::ServerIdent(ident));
    }

    /// The time serves as the sequence: it grows, also across restarts.
    pub(super) fn next_global_seq(&mut self) {
        self.global_seq = self.now.0.max(self.global_seq.saturating_add(1));
    }

    /// Opens the session; the host gets `Opened` once.
    pub(crate) fn open(&mut self) {
        let peer = self.peer.clone().expect("the peer has introduced itself");
        if !std::mem::replace(&mut self.announced, true) {
            self.events.push_back(Event::Opened(peer));
        }
        self.resume();
    }

    /// Messages can be sent again.
    pub(crate) fn resume(&mut self) {
        self.state = State::Open;
        self.awaits_host = false;
        self.backoff = Duration::ZERO;
        self.last_received = self.now;
        if let Some(link) = &mut self.link {
            link.allow_messages();
        }
    }
}

fn check_addrs(addrs: &EntityAddrVec) -> Result<(), CloseReason> {
    match addrs.0.first() {
        Some(addr) if *addr != EntityAddr::default() => Ok(()),
        _ => Err(CloseReason::NoAddress),
    }
}

fn unexpected(tag: Tag) -> CloseReason {
    CloseReason::Unexpected(tag)
}
