//! A new map is told to the groups a bounded number at a time, so that an OSD with very many of them neither looks silent
//! meanwhile nor holds its core.
//!
//! No input is taken before all groups know the map, but for heartbeats and secrets: inputs wait in their
//! order. So nothing sees that it takes several turns. If too much would wait, all is done at once.
//!
//! Of several maps that are there, all are told before the groups store the interval they are in then: most
//! of the others were over before anything could be done in them. Nothing happens in between, so it is as if
//! there had been one map.

use crate::{Osd, limits};
use engine::{ConnId, Message, Peer, Time};
use maps::Incremental;
use pg::Osds;
use std::collections::VecDeque;
use std::sync::Arc;
use store::Completion;
use types::PgId;
use wire::internal::{Heartbeat, RotatingSecrets};
use wire::{AuthReply, MessageBody, OsdMapMessage, OsdRequest};

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
    pub task: Task,
    pub then: Then,
}

#[derive(Debug)]
pub(crate) enum Task {
    Tell(Telling),
    /// Intervals that began are stored.
    Store,
}

/// The map that all groups are told.
#[derive(Debug)]
pub(crate) struct Telling {
    pub osds: Arc<Osds>,
    /// Whether maps before this one were passed over.
    pub is_gap: bool,
}

#[derive(Debug)]
enum Input {
    Opened(ConnId, Peer),
    Message(ConnId, Message),
    /// A client's request, which counts among those in work.
    Request(ConnId, Message),
    Closed(ConnId),
    Completion(Completion),
}

impl Input {
    /// Of its message.
    fn bytes(&self) -> usize {
        match self {
            Input::Message(_, message) | Input::Request(_, message) => message.len(),
            Input::Opened(..) | Input::Closed(_) | Input::Completion(_) => 0,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Placing {
    job: Option<Job>,
    /// The continuation when the intervals are stored that began with the maps told so far.
    told: Option<Then>,
    /// Groups with such intervals, and how many maps they were told.
    unstored: Vec<PgId>,
    maps_told: usize,
    /// Maps that follow, with the length of their messages.
    maps: VecDeque<(OsdMapMessage, usize)>,
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

    /// Whether groups do not know the map yet, or have not stored what it means.
    pub fn is_on(&self) -> bool {
        self.job.is_some() || self.told.is_some()
    }

    /// A group was told a map that begins an interval of it.
    pub fn must_store(&mut self, pg: PgId) {
        self.unstored.push(pg);
    }

    fn is_too_much(&self) -> bool {
        let inputs = self.waiting.len() + self.maps.len();
        self.bytes > limits::HELD_BYTES_MAX || inputs > limits::HELD_INPUTS_MAX
    }

    fn push_maps(&mut self, maps: OsdMapMessage, bytes: usize) {
        self.bytes += bytes;
        self.maps.push_back((maps, bytes));
    }

    /// The message with the next map, and what is held of it.
    fn pop_maps(&mut self) -> Option<(OsdMapMessage, usize)> {
        let (maps, bytes) = self.maps.pop_front()?;
        self.bytes -= bytes;
        Some((maps, bytes))
    }

    fn push(&mut self, input: Input) {
        self.bytes += input.bytes();
        self.waiting.push_back(input);
    }

    fn pop(&mut self) -> Option<Input> {
        let input = self.waiting.pop_front()?;
        self.bytes -= input.bytes();
        Some(input)
    }

    /// The messages of requests that wait here and count among those in work.
    pub fn charged(&self) -> impl Iterator<Item = usize> {
        let is_request = |input: &&Input| matches!(input, Input::Request(..));
        self.waiting.iter().filter(is_request).map(Input::bytes)
    }
}

impl Osd {
    /// Whether there is more to be done before the next input, in the next turn, which should come at once.
    pub(crate) fn is_behind(&self) -> bool {
        let placing = &self.placing;
        let is_empty = placing.maps.is_empty() && placing.waiting.is_empty();
        placing.is_on() || self.early.is_ready() || !is_empty
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
        if message.kind == OsdMapMessage::KIND && self.monitor.is(conn) {
            return self.hold_maps(now, conn, &message);
        }
        if pg::message::is_pg_message(message.kind) && self.peers.of(conn).is_none() {
            self.note_offered(conn, pg::message::sender_epoch(&message).ok());
        }
        // A client is throttled by what waits, too.
        let is_request = message.kind == OsdRequest::KIND && self.sessions.contains_key(&conn);
        if !is_request {
            return self.hold(now, Input::Message(conn, message));
        }
        self.charge(conn, message.len());
        self.hold(now, Input::Request(conn, message));
    }

    /// Maps come before all else that waits, for what others say is seldom of an older one.
    fn hold_maps(&mut self, now: Time, conn: ConnId, message: &Message) {
        match OsdMapMessage::decode(message) {
            Ok(maps) => self.placing.push_maps(maps, message.len()),
            Err(error) => self.end_session(now, conn, &error),
        }
        while self.placing.is_too_much() {
            self.place_turn(now);
        }
    }

    /// Whether a message changes nothing that groups know, and others depend on it: heartbeats, and the
    /// secrets without which this OSD refuses all that the map has told of it.
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
            self.go_on_with_maps(now);
        } else if self.early.is_ready() {
            self.take_ready(now);
        } else if !self.placing.maps.is_empty() {
            self.go_on_with_maps(now);
        } else {
            self.take_held(now);
        }
        self.placing.is_on()
    }

    /// Takes the maps one by one, so that no change of members goes unnoticed.
    pub(crate) fn take_maps(&mut self, now: Time, maps: OsdMapMessage) {
        self.placing.push_maps(maps, 0);
        self.go_on_with_maps(now);
    }

    /// Begins to tell the next map, or to store what those mean that were told, unless one of that is under
    /// way.
    pub(crate) fn go_on_with_maps(&mut self, now: Time) {
        while self.placing.job.is_none() && !self.early.is_ready() {
            if self.placing.told.is_some() && !self.next_map_joins() {
                self.store_intervals(now);
                continue;
            }
            let Some((maps, bytes)) = self.placing.pop_maps() else { return };
            if self.apply_next(&maps) {
                self.placing.bytes += bytes;
                self.placing.maps.push_front((maps, bytes));
                self.map_changed(now);
            }
        }
    }

    /// Whether the next map is told before anything is stored because of those before it. A group is divided
    /// or merged only after it has stored all before that.
    fn next_map_joins(&mut self) -> bool {
        let next = self.epoch().next();
        let known = self.placing.maps.iter().find_map(|(maps, _)| maps.incrementals.get(&next));
        let Some(encoded) = known.filter(|_| self.placing.maps_told < limits::MAPS_TOLD_MAX) else {
            return false;
        };
        let increment = codec::decode_all::<Incremental>("increment", encoded);
        let is_plain = |map: Incremental| map.new_pools.is_empty() && map.old_pools.is_empty();
        self.reshaping.is_idle() && increment.is_ok_and(is_plain)
    }

    /// All groups know the map.
    pub(crate) fn told(&mut self, then: Then) {
        self.placing.maps_told += 1;
        self.placing.told = Some(then);
    }

    fn store_intervals(&mut self, now: Time) {
        let Some(then) = self.placing.told.take() else { return };
        self.placing.maps_told = 0;
        let mut groups = std::mem::take(&mut self.placing.unstored);
        groups.sort_unstable();
        groups.dedup();
        self.placing.begin(Job { rest: groups.into_iter(), task: Task::Store, then });
        self.go_on_placing(now);
    }

    fn take_held(&mut self, now: Time) {
        for _ in 0..limits::HELD_INPUTS_PER_TURN {
            if self.placing.is_on() || self.early.is_ready() || !self.placing.maps.is_empty() {
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
        let some: Vec<PgId> = job.rest.by_ref().take(self.config.sizes.groups_placed).collect();
        match &job.task {
            Task::Tell(telling) => self.tell_some(now, &some, telling),
            Task::Store => self.store_some(now, &some),
        }
        match (job.rest.as_slice().is_empty(), &job.task) {
            (false, _) => self.placing.job = Some(job),
            (true, Task::Tell(_)) => self.told_all(now, job.then),
            (true, Task::Store) => self.placed_all(now, job.then),
        }
    }

    fn store_some(&mut self, now: Time, some: &[PgId]) {
        for pg in some {
            if let Some(group) = self.groups.get_mut(pg) {
                group.pg.store_interval();
                self.pump_and_release(now, *pg);
            }
        }
    }

    /// Does what a group wants done, as all groups do after a map, and frees the memory of its outputs.
    pub(crate) fn pump_and_release(&mut self, now: Time, pg: PgId) {
        self.pump_group(now, pg);
        if let Some(group) = self.groups.get_mut(&pg) {
            group.pg.release_outputs();
        }
    }

    fn take_input(&mut self, now: Time, input: Input) {
        match input {
            Input::Opened(conn, peer) => self.take_opened(now, conn, peer),
            Input::Message(conn, message) => self.take_message(now, conn, message),
            Input::Request(conn, message) => {
                self.uncharge(conn, message.len());
                self.take_message(now, conn, message);
                self.throttle(conn);
            }
            Input::Closed(conn) => self.take_closed(now, conn),
            Input::Completion(completion) => self.take_completion(now, completion),
        }
    }
}
