//! Inputs that wait: for the groups to handle a map, or for a map that has not come yet.

mod waiting_for_map;

use crate::cx::cx;
use crate::{Budgets, Osd, limits};
use engine::{ConnId, Message, Peer, Time};
use std::collections::VecDeque;
use store::Completion;
use wire::internal::{Heartbeat, RotatingSecrets};
use wire::{AuthReply, MessageBody, OsdMapMessage, OsdRequest};

/// A held input.
#[derive(Debug)]
enum Input {
    Opened(ConnId, Peer),
    Message(ConnId, Message),
    /// A client's request, charged to its session.
    Request(ConnId, Message),
    /// A group message of another OSD, charged to its session.
    Group(ConnId, Message),
    Closed(ConnId),
    Completion(Completion),
}

impl Input {
    /// Length of its message.
    fn bytes(&self) -> usize {
        match self {
            Input::Message(_, message) | Input::Request(_, message) | Input::Group(_, message) => {
                message.len()
            }
            Input::Opened(..) | Input::Closed(_) | Input::Completion(_) => 0,
        }
    }
}

/// Inputs in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Held until all groups have handled the map.
    waiting: VecDeque<Input>,
    /// Message bytes of `waiting`.
    bytes: usize,
    /// Inputs that wait for a newer map.
    early: waiting_for_map::Waiting,
}

impl Inbox {
    fn push(&mut self, input: Input) {
        self.bytes += input.bytes();
        self.waiting.push_back(input);
    }

    fn pop(&mut self) -> Option<Input> {
        let input = self.waiting.pop_front()?;
        self.bytes -= input.bytes();
        Some(input)
    }

    /// Message bytes of held requests that are charged to their sessions.
    pub fn charged(&self) -> impl Iterator<Item = usize> {
        let is_request = |input: &&Input| matches!(input, Input::Request(..));
        self.waiting.iter().filter(is_request).map(Input::bytes)
    }

    /// Whether the map of some inputs has come that waited for it.
    pub fn has_ready(&self) -> bool {
        self.early.is_ready()
    }

    /// Describes a session that exceeds its bound for group messages from ahead of the map.
    pub fn excess(&self, budgets: &Budgets) -> Option<String> {
        self.early.excess(budgets, self.largest_of_group())
    }

    /// Number of inputs that wait for a map.
    #[cfg(test)]
    pub fn early_len(&self) -> usize {
        self.early.len()
    }

    /// Bytes of the largest held group message.
    fn largest_of_group(&self) -> usize {
        let is_of_group = |input: &&Input| matches!(input, Input::Group(..));
        self.waiting.iter().filter(is_of_group).map(Input::bytes).max().unwrap_or(0)
    }
}

impl Osd {
    /// Whether work is left for the next turn that must precede further inputs; the host should
    /// call at once.
    pub(crate) fn is_behind(&self) -> bool {
        let is_empty = !self.maps.has_waiting() && self.inbox.waiting.is_empty();
        self.maps.is_telling() || self.inbox.has_ready() || !is_empty
    }

    /// Registers an accepted session immediately: if groups of this OSD send to that peer
    /// meanwhile, they must use it, because a session of ours beside it would end it.
    pub(crate) fn hold_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        match conn.is_accepted() {
            true => self.take_opened(now, conn, peer),
            false => self.hold(now, Input::Opened(conn, peer)),
        }
    }

    /// Handles a message, or holds it while work remains for the groups.
    pub(crate) fn hold_message_input(&mut self, now: Time, conn: ConnId, message: Message) {
        if !self.is_behind() || self.is_urgent(conn, message.kind) {
            self.take_message(now, conn, message);
            return self.finish_input(now);
        }
        if message.kind == OsdMapMessage::KIND && self.monitor.is(conn) {
            return self.hold_maps(now, conn, &message);
        }
        // Held messages, too, count for the throttle of their session.
        if pg::message::is_pg_message(message.kind) {
            if self.peers.of(conn).is_none() {
                self.note_offered(conn, pg::message::sender_epoch(&message).ok());
            }
            // Messages of a session that has ended are dropped later, and are not counted.
            if self.clients.contains(conn) {
                self.charge_group_message(conn, message.len());
                return self.hold(now, Input::Group(conn, message));
            }
        }
        if message.kind == OsdRequest::KIND && self.clients.contains(conn) {
            cx!(self).charge(conn, message.len());
            return self.hold(now, Input::Request(conn, message));
        }
        self.hold(now, Input::Message(conn, message));
    }

    /// Maps precede all other held inputs, as these seldom depend on an older map.
    fn hold_maps(&mut self, now: Time, conn: ConnId, message: &Message) {
        match OsdMapMessage::decode(message) {
            Ok(maps) => self.maps.push(maps, message.len()),
            Err(error) => self.end_session(now, conn, &error),
        }
        while self.holds_too_much() {
            self.place_turn(now);
        }
    }

    /// Whether a message must not be held, as it changes no state of groups and others depend on it:
    /// a heartbeat, or the secrets without which this OSD refuses sessions.
    fn is_urgent(&self, conn: ConnId, kind: u16) -> bool {
        let has_secrets = [RotatingSecrets::KIND, AuthReply::KIND].contains(&kind);
        kind == Heartbeat::KIND || has_secrets && self.monitor.is(conn)
    }

    pub(crate) fn hold_closed(&mut self, now: Time, conn: ConnId) {
        self.hold(now, Input::Closed(conn));
    }

    pub(crate) fn hold_completion(&mut self, now: Time, completion: Completion) {
        self.hold(now, Input::Completion(completion));
    }

    fn holds_too_much(&self) -> bool {
        let (maps, map_bytes) = self.maps.waiting();
        let (inputs, bytes) = (self.inbox.waiting.len() + maps, self.inbox.bytes + map_bytes);
        bytes > limits::HELD_BYTES_MAX || inputs > limits::HELD_INPUTS_MAX
    }

    fn hold(&mut self, now: Time, input: Input) {
        if !self.is_behind() {
            self.take_input(now, input);
            return self.finish_input(now);
        }
        self.inbox.push(input);
        while self.holds_too_much() {
            self.place_turn(now);
        }
    }

    pub(crate) fn take_held(&mut self, now: Time) {
        for _ in 0..limits::HELD_INPUTS_PER_TURN {
            if self.maps.is_telling() || self.inbox.early.is_ready() || self.maps.has_waiting() {
                return;
            }
            let Some(input) = self.inbox.pop() else { return };
            self.take_input(now, input);
        }
    }

    fn take_input(&mut self, now: Time, input: Input) {
        match input {
            Input::Opened(conn, peer) => self.take_opened(now, conn, peer),
            Input::Message(conn, message) => self.take_message(now, conn, message),
            Input::Request(conn, message) => {
                self.clients.uncharge(conn, message.len());
                self.take_message(now, conn, message);
                cx!(self).throttle(conn);
            }
            Input::Group(conn, message) => {
                self.uncharge_group_message(conn, message.len());
                self.take_message(now, conn, message);
                self.resume_member(conn);
            }
            Input::Closed(conn) => self.take_closed(now, conn),
            Input::Completion(completion) => self.take_completion(now, completion),
        }
    }
}
