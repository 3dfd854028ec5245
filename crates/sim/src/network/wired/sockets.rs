//! Connections between sessions: two byte streams each, delayed and delivered in pieces.

use crate::event::{Event, NetworkEvent};
use crate::network::context::Context;
use crate::node::{NodeId, Way};
use bytes::{Bytes, BytesMut};
use engine::{Duration, Time};
use std::collections::{BTreeMap, VecDeque};
use types::ParticipantName;

/// Largest piece of a stream that arrives at once, in bytes.
const CHUNK_MAX: u64 = 16 << 10;
/// Some pieces are at most this many bytes, so that headers of frames are cut too.
const CHUNK_TINY: u64 = 40;

/// For delays without a direction.
const NOWHERE: Way = (usize::MAX, usize::MAX);

/// Connections by number.
#[derive(Default)]
pub struct Sockets {
    sockets: BTreeMap<u64, Socket>,
    made: u64,
}

struct Socket {
    /// End 0 is the connecting one.
    sessions: [Option<u64>; 2],
    acceptor: Option<(NodeId, ParticipantName)>,
    /// Bytes in flight to each end.
    streams: [Stream; 2],
}

#[derive(Default)]
struct Stream {
    chunks: VecDeque<(Time, Bytes)>,
    is_scheduled: bool,
}

impl Sockets {
    /// Starts a connection to a listener.
    pub fn make(&mut self, acceptor: Option<(NodeId, ParticipantName)>) -> u64 {
        self.made += 1;
        let socket = Socket { sessions: [None, None], acceptor, streams: Default::default() };
        self.sockets.insert(self.made, socket);
        self.made
    }

    /// The process that listens at the target of a connection, with the name that it has there.
    pub fn acceptor(&self, socket: u64) -> Option<(NodeId, ParticipantName)> {
        self.sockets.get(&socket)?.acceptor
    }

    /// Both ends have a session from now on.
    pub fn join(&mut self, socket: u64, sessions: [u64; 2]) {
        if let Some(socket) = self.sockets.get_mut(&socket) {
            socket.sessions = sessions.map(Some);
        }
    }

    /// Transfers the connection to another session of the same process.
    pub fn hand_over(&mut self, socket: u64, from: u64, to: u64) {
        let Some(socket) = self.sockets.get_mut(&socket) else { return };
        for session in &mut socket.sessions {
            if *session == Some(from) {
                *session = Some(to);
            }
        }
    }

    /// The session at that end, and the one at the other end.
    pub fn ends(&self, socket: u64, end: usize) -> Option<(u64, Option<u64>)> {
        let socket = self.sockets.get(&socket)?;
        Some((socket.sessions[end]?, socket.sessions[1 - end]))
    }

    /// Forgets a connection.
    pub fn remove(&mut self, socket: u64) {
        self.sockets.remove(&socket);
    }

    /// Drops the bytes in flight. Both ends are notified, except the one that closes.
    pub fn close(&mut self, cx: &mut Context<'_>, id: u64, closer: Option<u64>) {
        self.close_after(cx, id, closer, Duration::ZERO);
    }

    /// The same, with notification after the given delay.
    pub fn close_after(
        &mut self,
        cx: &mut Context<'_>,
        id: u64,
        closer: Option<u64>,
        silence: Duration,
    ) {
        let Some(socket) = self.sockets.remove(&id) else { return };
        for session in socket.sessions.into_iter().flatten() {
            if Some(session) != closer {
                let delay = cx.delay(NOWHERE) + silence;
                let lost = NetworkEvent::Lost { session, socket: id };
                cx.agenda.after(delay, Event::Network(lost));
            }
        }
    }

    /// The session at the other end than `own`.
    pub fn peer(&self, socket: u64, own: u64) -> Option<u64> {
        let sessions = self.sockets.get(&socket)?.sessions;
        sessions.into_iter().flatten().find(|session| *session != own)
    }

    /// Puts bytes on their way to the other end.
    pub fn send(&mut self, cx: &mut Context<'_>, id: u64, from: u64, way: Way, pieces: Vec<Bytes>) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        let end = if socket.sessions[0] == Some(from) { 1 } else { 0 };
        let mut bytes = BytesMut::new();
        pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        let mut bytes = bytes.freeze();
        let stream = &mut socket.streams[end];
        let mut due = cx.agenda.now() + cx.delay(way);
        while !bytes.is_empty() {
            let longest = if cx.prng.chance(1, 8) { CHUNK_TINY } else { CHUNK_MAX };
            let length = (1 + cx.prng.below(longest)).min(bytes.len() as u64) as usize;
            due = due.max(stream.chunks.back().map_or(due, |(last, _)| *last));
            stream.chunks.push_back((due, bytes.split_to(length)));
            if cx.prng.chance(1, 4) {
                due = due + cx.delay(way);
            }
        }
        self.schedule(cx, id, end);
    }

    fn schedule(&mut self, cx: &mut Context<'_>, id: u64, end: usize) {
        let Some(socket) = self.sockets.get_mut(&id) else { return };
        let stream = &mut socket.streams[end];
        if let (false, Some((due, _))) = (stream.is_scheduled, stream.chunks.front()) {
            stream.is_scheduled = true;
            let event = NetworkEvent::Bytes { socket: id, end };
            cx.agenda.at(*due, Event::Network(event));
        }
    }

    /// Takes the due chunk, unless the receiver is `held` back: then `resume` continues.
    pub fn take(&mut self, cx: &mut Context<'_>, id: u64, end: usize, held: bool) -> Option<Bytes> {
        let stream = &mut self.sockets.get_mut(&id)?.streams[end];
        stream.is_scheduled = false;
        if held {
            return None;
        }
        let (_, chunk) = stream.chunks.pop_front()?;
        self.schedule(cx, id, end);
        Some(chunk)
    }

    /// Delivers bytes that were held back.
    pub fn resume(&mut self, cx: &mut Context<'_>) {
        let ids: Vec<u64> = self.sockets.keys().copied().collect();
        for id in ids {
            self.schedule(cx, id, 0);
            self.schedule(cx, id, 1);
        }
    }
}
