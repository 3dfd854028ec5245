//! Distribution of a new map to the groups, a bounded number per turn, so that an OSD with very
//! many groups neither misses heartbeats meanwhile nor blocks its core.
//!
//! Until all groups have handled the map, inputs are held in order, except for heartbeats and
//! secrets; so the several turns cannot be observed. Beyond a bound of held inputs, the rest is
//! done in one turn.
//!
//! If several maps are there, groups handle all of them before they store the intervals that began:
//! most of the earlier intervals ended before anything could happen in them. No input is handled in
//! between, so the effect is that of a single map.

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

/// The continuation when all groups have handled the map.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    /// Finish a map change.
    Map,
    /// Connect to a monitor for the first time.
    Boot,
}

/// Work that remains for a list of groups.
#[derive(Debug)]
pub(crate) struct Job {
    pub rest: std::vec::IntoIter<PgId>,
    pub task: Task,
    pub then: Then,
}

/// The kind of work.
#[derive(Debug)]
pub(crate) enum Task {
    Tell(Telling),
    /// Groups store the intervals that began.
    Store,
}

/// The map that groups handle.
#[derive(Debug)]
pub(crate) struct Telling {
    pub osds: Arc<Osds>,
    /// Maps before this one were skipped.
    pub is_gap: bool,
}

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

/// State of the distribution, and the inputs that it holds.
#[derive(Debug, Default)]
pub(crate) struct Placing {
    job: Option<Job>,
    /// The continuation when the intervals are stored that began with the maps handled so far.
    told: Option<Then>,
    /// Groups with such intervals, and the number of these maps.
    unstored: Vec<PgId>,
    maps_told: usize,
    /// Maps that follow, with the bytes of their messages that are counted in `bytes`.
    maps: VecDeque<(OsdMapMessage, usize)>,
    waiting: VecDeque<Input>,
    /// Message bytes of `maps` and `waiting`.
    bytes: usize,
    /// Number of turns that worked on groups.
    #[cfg(test)]
    pub turns: usize,
}

impl Placing {
    /// Starts a job. There must be none.
    pub fn begin(&mut self, job: Job) {
        assert!(self.job.is_none(), "maps are told one after the other");
        self.job = Some(job);
    }

    /// Whether groups have not handled the map, or have not stored the intervals that it began.
    pub fn is_on(&self) -> bool {
        self.job.is_some() || self.told.is_some()
    }

    /// Notes a group that has begun an interval and must store it.
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

    /// The message with the next map, and its bytes.
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

    /// Message bytes of held requests that are charged to their sessions.
    pub fn charged(&self) -> impl Iterator<Item = usize> {
        let is_request = |input: &&Input| matches!(input, Input::Request(..));
        self.waiting.iter().filter(is_request).map(Input::bytes)
    }

    /// Bytes of the largest held group message.
    pub fn largest_of_group(&self) -> usize {
        let is_of_group = |input: &&Input| matches!(input, Input::Group(..));
        self.waiting.iter().filter(is_of_group).map(Input::bytes).max().unwrap_or(0)
    }
}

impl Osd {
    /// Whether work is left for the next turn that must precede further inputs; the host should
    /// call at once.
    pub(crate) fn is_behind(&self) -> bool {
        let placing = &self.placing;
        let is_empty = placing.maps.is_empty() && placing.waiting.is_empty();
        placing.is_on() || self.early.is_ready() || !is_empty
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
            if self.sessions.contains_key(&conn) {
                self.charge_group_message(conn, message.len());
                return self.hold(now, Input::Group(conn, message));
            }
        }
        if message.kind == OsdRequest::KIND && self.sessions.contains_key(&conn) {
            self.charge(conn, message.len());
            return self.hold(now, Input::Request(conn, message));
        }
        self.hold(now, Input::Message(conn, message));
    }

    /// Maps precede all other held inputs, as these seldom depend on an older map.
    fn hold_maps(&mut self, now: Time, conn: ConnId, message: &Message) {
        match OsdMapMessage::decode(message) {
            Ok(maps) => self.placing.push_maps(maps, message.len()),
            Err(error) => self.end_session(now, conn, &error),
        }
        while self.placing.is_too_much() {
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

    /// One turn's share of the remaining work; true if groups have still not handled the map.
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

    /// Applies the maps one by one, so that no change of members is missed.
    pub(crate) fn take_maps(&mut self, now: Time, maps: OsdMapMessage) {
        self.placing.push_maps(maps, 0);
        self.go_on_with_maps(now);
    }

    /// Begins to distribute the next map, or to store the intervals that earlier ones began, unless
    /// a job is running.
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

    /// Whether groups handle the next map before they store the intervals of earlier ones. A group
    /// splits or merges only after it has stored all earlier intervals.
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

    /// All groups have handled the map.
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

    /// Performs one turn's share of the job.
    pub(crate) fn go_on_placing(&mut self, now: Time) {
        let Some(mut job) = self.placing.job.take() else { return };
        #[cfg(test)]
        {
            self.placing.turns += 1;
        }
        let some: Vec<PgId> = job.rest.by_ref().take(self.env.config.sizes.groups_placed).collect();
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

    /// Performs the outputs of a group, as for all groups after a map, and frees the memory that they used.
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
