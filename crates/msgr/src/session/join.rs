//! From an authenticated connection to an open session, new or resumed.

use super::{Session, State};
use crate::admission::{Decision, Existing, Newcomer};
use crate::event::{CloseReason, Event};
use crate::idents;
use crate::introduction::{Admission, Introduction, IntroductionKind};
use engine::Policy;
use wire::frame::{ClientIdent, Control, Frame, Reconnect, ServerIdent, Tag};

impl Session {
    /// Connecting: the connection is authentic.
    pub(super) fn begin_session(&mut self) {
        match self.numbers.is_accepted() {
            true => self.send_reconnect(),
            false => self.send_client_ident(),
        }
    }

    /// A frame between the handshake and the open session.
    pub(super) fn handle_introduction(&mut self, frame: Frame) -> Result<(), CloseReason> {
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
                self.numbers.connect_after(connect_seq);
                self.send_reconnect();
            }
            (State::Reconnecting, Control::SessionRetryGlobal { global_seq }) => {
                self.numbers.attempt_after(global_seq);
                self.send_reconnect();
            }
            (State::Reconnecting, Control::SessionReconnectOk { message_seq }) => {
                self.acknowledge(message_seq)?;
                self.resume();
            }
            (_, control) => return Err(unexpected(control.tag())),
        }
        Ok(())
    }

    fn send_client_ident(&mut self) {
        let (config, policy) = (&self.config, self.policy);
        let ident = idents::client_ident(config, &self.identity, &mut self.numbers, policy);
        self.state = State::Identifying;
        self.send_control(&ident);
    }

    fn send_reconnect(&mut self) {
        let last = self.receipts.last();
        let reconnect = idents::reconnect(&self.config, &self.identity, &self.numbers, last);
        self.state = State::Reconnecting;
        self.send_control(&reconnect);
    }

    fn handle_server_ident(&mut self, ident: ServerIdent) -> Result<(), CloseReason> {
        idents::check_server_ident(&ident, &self.config, self.identity.seen_addr())?;
        if idents::is_lossy(ident.flags) {
            self.set_policy(Policy::Lossy);
        }
        self.numbers.accepted(ident.cookie, ident.global_seq);
        self.peer = Some(idents::server_peer(ident, &self.config, &self.identity));
        self.open();
        Ok(())
    }

    /// The peer does not know the session.
    fn handle_reset(&mut self, full: bool) {
        if full {
            return self.finish(CloseReason::Forgotten);
        }
        self.numbers.restart();
        self.receipts.restart();
        self.send_client_ident();
    }

    fn handle_client_ident(&mut self, ident: ClientIdent) -> Result<(), CloseReason> {
        idents::check_addrs(&ident.addrs)?;
        if idents::is_lossy(ident.flags) {
            // A peer may have further sessions besides its lossless one that it need not keep.
            self.set_policy(Policy::Lossy);
        }
        idents::check_target(&ident, &self.config)?;
        let missing = self.config.required_features & !ident.supported_features;
        if missing != 0 {
            self.send_control(&Control::IdentMissingFeatures { features: missing });
            return Ok(());
        }
        self.introduced(idents::of_client(ident, &self.config, &self.identity));
        Ok(())
    }

    fn handle_reconnect(&mut self, reconnect: Reconnect) -> Result<(), CloseReason> {
        idents::check_addrs(&reconnect.addrs)?;
        self.introduced(idents::of_reconnect(reconnect));
        Ok(())
    }

    /// A lossy peer needs no admission; for a lossless one the host is asked.
    fn introduced(&mut self, introduction: Introduction) {
        self.state = State::Introduced(introduction.clone());
        match self.policy {
            Policy::Lossy => {
                self.admit(None);
            }
            Policy::Lossless => self.ask_host(Event::Introduced(introduction)),
        }
    }

    /// Accepting: answers `Introduced`. `existing` is the host's lossless session with that peer, whichever
    /// end started it.
    pub fn admit(&mut self, mut existing: Option<&mut Session>) -> Admission {
        let State::Introduced(introduction) = std::mem::replace(&mut self.state, State::Handshake)
        else {
            return Admission::Refused;
        };
        self.awaits_host = false;
        let known = existing.as_deref().and_then(Session::as_existing);
        let newcomer = Newcomer {
            config: &self.config,
            identity: &self.identity,
            introduction: &introduction,
        };
        match newcomer.decide(known.as_ref()) {
            Decision::Open => self.open_accepted(introduction),
            Decision::Replace => {
                let existing = existing.expect("only an existing session is replaced");
                existing.finish(CloseReason::Replaced);
                self.open_accepted(introduction)
            }
            Decision::Adopt => {
                let existing = existing.expect("only an existing session adopts");
                existing.adopt(self, introduction);
                Admission::Adopted
            }
            Decision::Answer(control) => {
                self.send_control(&control);
                Admission::Answered
            }
            Decision::Wait => {
                if let Some(existing) = &mut existing {
                    existing.hurry();
                }
                self.send_control(&Control::Wait);
                Admission::Answered
            }
            Decision::Refuse(reason) => {
                self.finish(reason);
                Admission::Refused
            }
        }
    }

    /// This session in view of a newer connection of its peer; `None` if it is closed.
    fn as_existing(&self) -> Option<Existing<'_>> {
        (!self.is_closed()).then(|| Existing {
            identity: &self.identity,
            numbers: &self.numbers,
            policy: self.policy,
            target: self.target.as_ref().map(|target| &target.addrs),
            is_settled: matches!(self.state, State::Open | State::Standby(_)),
            highest_sent: self.queue.highest_sent(),
        })
    }

    fn open_accepted(&mut self, introduction: Introduction) -> Admission {
        match introduction.kind {
            IntroductionKind::New { cookie, peer } => {
                self.numbers.accept(cookie, introduction.global_seq);
                self.peer = Some(peer);
            }
            IntroductionKind::Again { .. } => unreachable!("a reconnect never opens a session"),
        }
        self.send_server_ident();
        self.open();
        Admission::Opened
    }

    /// Continues this session on the connection of `other`.
    fn adopt(&mut self, other: &mut Session, introduction: Introduction) {
        assert!(!self.is_closed() && other.link.is_some(), "a session goes on with a connection");
        self.drop_link();
        self.now = self.now.max(other.now);
        self.link = other.link.take();
        other.state = State::Closed;
        if self.target.is_none() {
            self.identity.moved(other.identity.seen_addr());
        }
        match introduction.kind {
            IntroductionKind::New { cookie, peer } => {
                self.numbers.accept(cookie, introduction.global_seq);
                self.identity.adopt_credentials(&mut other.identity);
                self.peer = Some(peer);
                self.send_server_ident();
            }
            IntroductionKind::Again { connect_seq, message_seq, .. } => {
                self.numbers.resumed(connect_seq, introduction.global_seq);
                self.queue.acknowledge(message_seq);
                let message_seq = self.receipts.last();
                self.send_control(&Control::SessionReconnectOk { message_seq });
            }
        }
        self.open();
    }

    fn send_server_ident(&mut self) {
        self.receipts.restart();
        self.numbers.answer(self.now, self.policy == Policy::Lossless);
        let ident = idents::server_ident(&self.config, &self.identity, &self.numbers, self.policy);
        self.send_control(&ident);
    }

    /// The peer requests the session that this end is about to open: skips the delay.
    fn hurry(&mut self) {
        if let State::Backoff(_) = self.state {
            self.dial();
        }
    }

    /// The peer has received everything up to `seq`.
    pub(super) fn acknowledge(&mut self, seq: u64) -> Result<(), CloseReason> {
        if self.policy == Policy::Lossless {
            let sent = self.queue.highest_sent();
            if seq > sent {
                return Err(CloseReason::AckBeyondSent { claimed: seq, sent });
            }
            self.queue.acknowledge(seq);
        }
        Ok(())
    }
}

fn unexpected(tag: Tag) -> CloseReason {
    CloseReason::Unexpected(tag)
}
