//! A new map is told to the groups a bounded number at a time, so that an OSD with very many of them neither looks silent
//! meanwhile nor holds its core.
//!
//! No input is taken before all groups know the map, but for heartbeats and secrets: inputs wait in their order. So nothing
//! sees that it takes several turns. If too much would wait, all is done at once.

use crate::{Osd, limits};
use engine::{ConnId, Message, Peer, Time};
use pg::Osds;
use std::collections::VecDeque;
use std::sync::Arc;
use store::Completion;
use types::PgId;
use wire::internal::{Heartbeat, RotatingSecrets};
use wire::{AuthReply, MessageBody, OsdMapMessage};

/// The continuation when all groups know the map.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    /// The rest of what a new map means.
    Map,
    /// The first word to a monitor.
    Boot,
}

#[derive(Debug)]
pub(crate) struct Job {
    pub rest: std::vec::IntoIter<PgId>,
    pub osds: Arc<Osds>,
    /// Whether maps before this one were passed over.
    pub is_gap: bool,
    pub then: Then,
}

#[derive(Debug)]
enum Input {
    Opened(ConnId, Peer),
    Message(ConnId, Message),
    /// The rest of a message with maps: those that follow the one that is being told.
    Maps(OsdMapMessage),
    Closed(ConnId),
    Completion(Completion),
}

#[derive(Debug, Default)]
pub(crate) struct Placing {
    job: Option<Job>,
    waiting: VecDeque<Input>,
    /// Of messages that wait.
    bytes: usize,
    /// Turns that told groups.
    #[cfg(test)]
    pub turns: usize,
}

impl Placing {
    pub fn begin(&mut self, job: Job) {
        assert!(self.job.is_none(), "maps are told one after the other");
        self.job = Some(job);
    }

    /// Whether groups do not know the map yet.
    pub fn is_on(&self) -> bool {
        self.job.is_some()
    }

    /// The maps that follow come before all that waits already.
    pub fn put_back(&mut self, maps: OsdMapMessage) {
        self.waiting.push_front(Input::Maps(maps));
    }

    fn is_too_much(&self) -> bool {
        self.bytes > limits::HELD_BYTES_MAX || self.waiting.len() > limits::HELD_INPUTS_MAX
    }

    fn push(&mut self, input: Input) {
        if let Input::Message(_, message) = &input {
            self.bytes += message.len();
        }
        self.waiting.push_back(input);
    }

    fn pop(&mut self) -> Option<Input> {
        let input = self.waiting.pop_front()?;
        if let Input::Message(_, message) = &input {
            self.bytes -= message.len();
        }
        Some(input)
    }
}

impl Osd {
    /// Whether there is more to be done before the next input, in the next turn, which should come at once.
    pub(crate) fn is_behind(&self) -> bool {
        self.placing.is_on() || self.early.is_ready() || !self.placing.waiting.is_empty()
    }

    /// A session that another one opens is known at once: if groups of this OSD have something to say meanwhile, they say
    /// it there, for a session of ours beside it would end it.
    pub(crate) fn hold_opened(&mut self, now: Time, conn: ConnId, peer: Peer) {
        match conn.is_accepted() {
            true => self.take_opened(now, conn, peer),
            false => self.hold(now, Input::Opened(conn, peer)),
        }
    }

    pub(crate) fn hold_message_input(&mut self, now: Time, conn: ConnId, message: Message) {
        if !self.is_behind() || self.is_urgent(conn, message.kind) {
            self.take_message(now, conn, message);
            return self.finish_input(now);
        }
        if pg::message::is_pg_message(message.kind) && self.peers.of(conn).is_none() {
            self.note_offered(conn, pg::message::sender_epoch(&message).ok());
        }
        self.hold(now, Input::Message(conn, message));
    }

    /// Whether a message changes nothing that groups know, and others depend on it: heartbeats, and the secrets without
    /// which this OSD refuses all that the map has told of it.
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

    fn hold(&mut self, now: Time, input: Input) {
        if !self.is_behind() {
            self.take_input(now, input);
            return self.finish_input(now);
        }
        self.placing.push(input);
        while self.placing.is_too_much() {
            self.place_turn(now);
        }
    }

    /// One turn's share of what is left; true if groups still do not know the map.
    pub(crate) fn place_turn(&mut self, now: Time) -> bool {
        if self.placing.is_on() {
            self.go_on_placing(now);
        } else if self.early.is_ready() {
            self.take_ready(now);
        } else {
            self.take_held(now);
        }
        self.placing.is_on()
    }

    fn take_held(&mut self, now: Time) {
        for _ in 0..limits::HELD_INPUTS_PER_TURN {
            if self.placing.is_on() || self.early.is_ready() {
                return;
            }
            let Some(input) = self.placing.pop() else { return };
            self.take_input(now, input);
        }
    }

    pub(crate) fn go_on_placing(&mut self, now: Time) {
        let Some(mut job) = self.placing.job.take() else { return };
        #[cfg(test)]
        {
            self.placing.turns += 1;
        }
        match self.place_some(now, &mut job) {
            true => self.placing.job = Some(job),
            false => self.placed_all(now, job.then),
        }
    }

    fn take_input(&mut self, now: Time, input: Input) {
        match input {
            Input::Opened(conn, peer) => self.take_opened(now, conn, peer),
            Input::Message(conn, message) => self.take_message(now, conn, message),
            Input::Maps(maps) => self.take_maps(now, maps),
            Input::Closed(conn) => self.take_closed(now, conn),
            Input::Completion(completion) => self.take_completion(now, completion),
        }
    }
}
