//! The host's calls: inputs, timers, received frames, and bytes to send.

use super::{SendError, Session, State};
use crate::event::{CloseReason, Event};
use crate::identity::Shaken;
use crate::link::{Link, Phase};
use crate::silence::Next;
use auth::Side;
use bytes::{Bytes, BytesMut};
use engine::{AuthVerdict, ConnectingAnswer, Message, Policy, Time};
use wire::frame::{COPY_LENGTH_MAX, Control, Frame, MessageHeader};

/// Bytes for one system call; a larger message is returned whole.
const TRANSMIT_LENGTH: usize = 1 << 20;
/// Pieces that a host passes to one system call.
const TRANSMIT_PIECES: usize = 62;

/// Result of parsing received bytes.
enum Step {
    /// More bytes are needed.
    Idle,
    Progress,
    Arrived(Message),
}

impl Session {
    /// The connection of [`Event::Connect`] is established.
    pub fn handle_connected(&mut self, now: Time) {
        self.now = now;
        if self.state == State::Dialing {
            self.link = Some(Link::new(Side::Connecting, now));
            self.state = State::Handshake;
            self.awaits_host = false;
            self.silence.heard(now);
        }
    }

    /// The connection ended, or could not be established.
    pub fn handle_disconnected(&mut self, now: Time) {
        self.now = now;
        if self.link.is_some() || self.state == State::Dialing {
            self.fail(CloseReason::ConnectionLost);
        }
    }

    /// Bytes of the current connection, in order, in any fragments. They are decoded by `poll_event`.
    pub fn handle_received(&mut self, now: Time, chunk: Bytes) {
        self.now = now;
        let Some(link) = &mut self.link else { return };
        self.silence.heard(now);
        if let Err(reason) = link.receive(chunk) {
            self.fail(reason);
        }
    }

    /// Valid after `poll_event` returned `None`: the number of missing bytes of a large message. The host may
    /// receive them straight into [`Session::take_receive_buffer`].
    pub fn receive_hint(&self) -> Option<usize> {
        self.link.as_ref()?.direct_length()
    }

    /// The start of that message, with capacity for the rest of it. The host appends up to
    /// [`Session::receive_hint`] bytes (more are harmless) and hands it back with
    /// [`Session::handle_filled`], full or not.
    pub fn take_receive_buffer(&mut self) -> Option<BytesMut> {
        self.link.as_mut()?.lend_buffer()
    }

    /// Valid only for a buffer of the current connection.
    pub fn handle_filled(&mut self, now: Time, buffer: BytesMut) {
        self.now = now;
        let Some(link) = &mut self.link else { return };
        self.silence.heard(now);
        link.return_buffer(buffer);
    }

    /// Queues a message; allowed before the session is open. The session ends if more bytes wait than the
    /// configuration allows, since dropping single messages would break the order that it guarantees.
    pub fn send(&mut self, message: Message) -> Result<(), SendError> {
        if self.state == State::Closed {
            return Err(SendError::Closed);
        }
        self.queue.push(message);
        let limit = match self.policy {
            Policy::Lossy => self.config.queued_bytes_max,
            Policy::Lossless => self.config.retained_bytes_max,
        };
        if self.queue.queued_bytes() > limit {
            self.finish(CloseReason::QueueFull { limit });
            return Err(SendError::Closed);
        }
        Ok(())
    }

    /// Acts if the time of [`Session::poll_timeout`] has come; harmless before. The host drains events and
    /// bytes afterwards.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        if self.poll_timeout().is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.state {
            State::Closed => {}
            State::Open => self.check_silence(),
            State::Backoff(_) => self.dial(),
            State::Standby(_) => self.finish(CloseReason::StandbyTimeout),
            _ => self.fail(CloseReason::HandshakeTimeout),
        }
    }

    /// Time of the next call of [`Session::handle_timeout`]; `None` if the session is closed.
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Closed => None,
            State::Open => Some(self.open_deadline()),
            State::Backoff(until) | State::Standby(until) => Some(until),
            State::Dialing => Some(self.silence.since() + self.config.handshake_timeout),
            _ => {
                let started = self.link.as_ref().map_or(self.now, Link::started);
                Some(started + self.config.handshake_timeout)
            }
        }
    }

    /// The end that has opened the connection; the accepting one if there is none.
    fn side(&self) -> Side {
        self.link.as_ref().map_or(Side::Accepting, Link::side)
    }

    fn open_deadline(&self) -> Time {
        let silence = self.silence.deadline(&self.config, self.side());
        self.ack_deadline().map_or(silence, |deadline| deadline.min(silence))
    }

    /// Latest time for the acknowledgement of received messages.
    fn ack_deadline(&self) -> Option<Time> {
        match self.policy {
            Policy::Lossy => None,
            Policy::Lossless => self.receipts.deadline(self.now),
        }
    }

    /// An acknowledgement that is due goes out with the next `poll_transmit`.
    fn check_silence(&mut self) {
        match self.silence.next(self.now, &self.config, self.side()) {
            Next::Wait => {}
            Next::Keepalive => {
                self.send_control(&Control::Keepalive2 { stamp: self.now.wall() });
            }
            Next::End(reason) => self.fail(reason),
        }
    }

    /// The next event. Decodes received bytes; the host drains it after every input.
    pub fn poll_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.awaits_host {
                return None;
            }
            match self.advance() {
                Ok(Step::Idle) => return None,
                Ok(Step::Progress) => {}
                Ok(Step::Arrived(message)) => return Some(Event::Message(message)),
                Err(reason) => self.fail(reason),
            }
        }
    }

    fn advance(&mut self) -> Result<Step, CloseReason> {
        let Some(link) = &mut self.link else { return Ok(Step::Idle) };
        if link.phase() == Phase::Banner {
            return self.advance_banner();
        }
        let Some(frame) = link.next_frame()? else { return Ok(Step::Idle) };
        match link.phase() {
            Phase::Session if self.state == State::Open => return self.handle_frame(frame),
            Phase::Session => self.handle_introduction(frame)?,
            _ => self.handle_handshake(frame)?,
        }
        Ok(Step::Progress)
    }

    fn advance_banner(&mut self) -> Result<Step, CloseReason> {
        let Some(link) = &mut self.link else { return Ok(Step::Idle) };
        if link.take_banner()?.is_none() {
            return Ok(Step::Idle);
        }
        link.enter(Phase::Hello);
        let (kind, peer_addr) = (self.config.kind, self.identity.seen_addr());
        link.send(&Control::Hello { kind, peer_addr });
        Ok(Step::Progress)
    }

    fn handle_handshake(&mut self, frame: Frame) -> Result<(), CloseReason> {
        let link = self.link.as_mut().expect("a frame came from it");
        match self.identity.handle_frame(link, frame)? {
            Shaken::Greeted => self.set_policy(self.config.accepted_policy(self.identity.kind())),
            Shaken::Asks(event) => self.ask_host(event),
            Shaken::Authentic if link.side() == Side::Connecting => self.begin_session(),
            // The connecting peer introduces itself first.
            Shaken::Authentic => {}
        }
        Ok(())
    }

    fn is_authenticating(&self, side: Side) -> bool {
        let link = self.link.as_ref();
        let in_phase = |link: &Link| (link.phase(), link.side()) == (Phase::Auth, side);
        self.awaits_host && link.is_some_and(in_phase)
    }

    /// Connecting: answers `Connecting`. The session ends if the host refuses to authenticate.
    pub fn answer(&mut self, answer: ConnectingAnswer) {
        if !self.is_authenticating(Side::Connecting) {
            return;
        }
        self.awaits_host = false;
        let link = self.link.as_mut().expect("it is authenticating");
        match self.identity.answer(link, answer) {
            Ok(()) => {}
            Err(reason @ CloseReason::Unauthenticated) => self.finish(reason),
            Err(reason) => self.fail(reason),
        }
    }

    /// Accepting: answers `AuthRequest`.
    pub fn handle_auth_verdict(&mut self, now: Time, verdict: AuthVerdict) {
        self.now = now;
        if !self.is_authenticating(Side::Accepting) {
            return;
        }
        self.awaits_host = false;
        let link = self.link.as_mut().expect("it is authenticating");
        if let Err(reason) = self.identity.handle_verdict(link, verdict) {
            self.fail(reason);
        }
    }

    /// A frame of the open session.
    fn handle_frame(&mut self, frame: Frame) -> Result<Step, CloseReason> {
        match frame {
            Frame::Message { header, front, middle, data } => {
                return self.handle_message(header, front, middle, data);
            }
            Frame::Control(Control::Ack { seq }) => self.acknowledge(seq)?,
            Frame::Control(Control::Keepalive2 { stamp }) => {
                self.send_control(&Control::Keepalive2Ack { stamp });
            }
            Frame::Control(Control::Keepalive2Ack { .. }) => {}
            Frame::Control(other) => return Err(CloseReason::Unexpected(other.tag())),
        }
        Ok(Step::Progress)
    }

    fn handle_message(
        &mut self,
        header: MessageHeader,
        front: Bytes,
        middle: Bytes,
        data: Bytes,
    ) -> Result<Step, CloseReason> {
        self.acknowledge(header.ack_seq)?;
        if !self.receipts.receive(header.seq, self.now) {
            return Ok(Step::Progress);
        }
        Ok(Step::Arrived(Message {
            kind: header.kind,
            priority: header.priority,
            version: header.version,
            compat_version: header.compat_version,
            tid: header.tid,
            front,
            middle,
            data,
        }))
    }

    /// Appends the next bytes to send to `pieces`, enough for about one system call, and returns their
    /// length; 0 if there are none. Returned bytes count as sent.
    pub fn poll_transmit(&mut self, pieces: &mut Vec<Bytes>) -> usize {
        let start = pieces.len();
        if self.state == State::Open {
            self.transmit_messages(pieces);
        }
        if let Some(link) = &mut self.link {
            link.flush(pieces);
        }
        pieces[start..].iter().map(Bytes::len).sum()
    }

    fn transmit_messages(&mut self, pieces: &mut Vec<Bytes>) {
        assert!(self.state == State::Open, "messages are sent on an open session");
        let Some(link) = &mut self.link else { return };
        let (start, mut length) = (pieces.len(), 0);
        while length < TRANSMIT_LENGTH && pieces.len() - start < TRANSMIT_PIECES {
            let Some((seq, message)) = self.queue.take_next() else { break };
            link.send_message(seq, self.receipts.acknowledge(), &message, pieces);
            length += message.len() + COPY_LENGTH_MAX / 8;
        }
        if self.ack_deadline().is_some_and(|deadline| self.now >= deadline) {
            let seq = self.receipts.acknowledge();
            self.send_control(&Control::Ack { seq });
        }
    }
}
