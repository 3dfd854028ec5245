//! Reads of whole objects for `COPY_FROM`, from this OSD or another, as a client of the source's primary.

use crate::cx::cx;
use crate::execute::{Answer, CopiedObject, CopyRequest, Need};
use crate::operations::request::{Origin, Request};
use crate::work::Work;
use crate::{Osd, limits};
use bytes::Bytes;
use classes::Caller;
use codec::{Reader, Writer};
use engine::Time;
use maps::OsdMapFlags;
use std::collections::BTreeMap;
use types::features::SUPPORTED;
use types::{Epoch, Errno, HObject, OsdId, PgId, PgShard};
use wire::copy::{CopyCursor, CopyData};
use wire::op::{OpCode, request_flags};
use wire::{MessageBody, OsdOp, OsdReply, OsdRequest};

/// The copies in progress.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    last: u64,
    /// By the tid of the request for the present piece, so that a reply to an earlier one is ignored.
    active: BTreeMap<u64, Copy>,
    /// The epoch at which targets were last compared.
    epoch: Epoch,
}

#[derive(Debug)]
struct Copy {
    request: u64,
    attempt: u32,
    wanted: CopyRequest,
    /// The source with its hash.
    source: HObject,
    cursor: CopyCursor,
    copied: CopiedObject,
    /// Bytes reserved for it.
    reserved: u64,
    /// The target of the request for the present piece; `None` if it must be sent again.
    asked: Option<Target>,
    /// When the piece is requested again if no reply has come, and how often it was.
    retry_at: Time,
    tries: u32,
}

/// The OSD that should answer, with the epoch since which it is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Target {
    osd: OsdId,
    up_from: Epoch,
    pg: PgId,
}

impl Copies {
    /// Whether a request waits for a copy.
    pub fn waits(&self, request: u64) -> bool {
        self.active.values().any(|copy| copy.request == request)
    }

    /// When the next piece must be requested again.
    pub fn due(&self) -> Option<Time> {
        self.active.values().map(|copy| copy.retry_at).min()
    }

    fn insert(&mut self, copy: Copy) -> u64 {
        self.last += 1;
        self.active.insert(self.last, copy);
        self.last
    }

    /// The tids of all current requests for pieces.
    #[cfg(test)]
    pub fn questions(&self) -> Vec<u64> {
        self.active.keys().copied().collect()
    }

    /// The request for a piece was dropped: it is sent again with the next map, or soon.
    pub fn interrupt(&mut self, id: u64, now: Time) {
        if let Some(copy) = self.active.get_mut(&id) {
            copy.interrupt(now);
        }
    }

    /// The session with an OSD has ended: its pieces are requested again soon, when a new session
    /// may be known.
    pub fn interrupt_at(&mut self, osd: OsdId, now: Time) {
        let is_asked = |copy: &&mut Copy| copy.asked.is_some_and(|target| target.osd == osd);
        self.active.values_mut().filter(is_asked).for_each(|copy| copy.interrupt(now));
    }

    /// Whether a request for a piece is still current.
    pub fn is_known(&self, copy: u64) -> bool {
        self.active.contains_key(&copy)
    }
}

impl Osd {
    /// Begins to copy an object for an attempt of a request. The outcome reaches it by
    /// `need_loaded`.
    pub(crate) fn begin_copy(&mut self, now: Time, key: u64, attempt: u32, wanted: CopyRequest) {
        let source = wanted.source.clone();
        let hash = self
            .maps
            .map()
            .pool(source.pool)
            .map(|pool| pool.object_hash(&source.namespace, &source.key, &source.name));
        let copy = Copy {
            request: key,
            attempt,
            source: HObject { hash: hash.unwrap_or_default(), ..source },
            wanted,
            cursor: CopyCursor::default(),
            copied: CopiedObject::default(),
            reserved: self.env.config.sizes.copy_chunk_max,
            asked: None,
            retry_at: now + limits::COPY_RETRY,
            tries: 0,
        };
        let id = self.operations.copies.insert(copy);
        match hash {
            Some(_) => self.ask_for_piece(now, id),
            None => self.end_copy(id, Err(Errno::NOENT.negative())),
        }
    }

    /// Requests the next piece from the source's primary. If there is none, or the map tells
    /// clients to wait, a later map leads to another attempt.
    fn ask_for_piece(&mut self, now: Time, id: u64) {
        let chunk_max = self.env.config.sizes.copy_chunk_max;
        let Some(mut copy) = self.operations.copies.active.remove(&id) else { return };
        let target = self.copy_target(&copy);
        let is_there = self.maps.map().pool(copy.source.pool).is_some();
        let wait = limits::COPY_RETRY * (1 << copy.tries.min(limits::COPY_RETRY_DOUBLINGS));
        (copy.asked, copy.retry_at) = (target, now + wait);
        let request =
            copy.question(self.epoch(), target.map_or(PgId::default(), |to| to.pg), chunk_max);
        let id = self.operations.copies.insert(copy);
        match target {
            _ if !is_there => self.end_copy(id, Err(Errno::NOENT.negative())),
            Some(Target { osd, .. }) if osd == self.env.config.id => {
                let caller = Caller { features: SUPPORTED, ..Caller::default() };
                let request = Request::new(Origin::Copy { copy: id }, request, id, caller);
                let key = self.operations.requests.insert(request);
                self.work.push(Work::Admit(key));
            }
            Some(Target { osd, .. }) => {
                self.peers.send(cx!(self), osd, request.encode(SUPPORTED).with_tid(id));
            }
            None => {}
        }
    }

    /// The OSD to ask for a piece, if one would answer.
    fn copy_target(&self, copy: &Copy) -> Option<Target> {
        if self.maps.map().flags.contains(OsdMapFlags::PAUSERD) {
            return None;
        }
        let pool = self.maps.map().pool(copy.source.pool)?;
        let pg = pool.pg_of_hash(copy.source.pool, copy.source.hash);
        let osd = self.maps.map().pg_to_osds(pg).acting_primary?;
        let up_from = self.maps.map().osd(osd)?.info.up_from;
        Some(Target { osd, up_from, pg })
    }

    /// Handles the reply to the request for a piece.
    pub(crate) fn copy_replied(&mut self, id: u64, reply: OsdReply) {
        let Some(copy) = self.operations.copies.active.get_mut(&id) else { return };
        if reply.result == Errno::AGAIN.negative() {
            return self.operations.copies.interrupt(id, self.env.now);
        }
        copy.tries = 0;
        if reply.result < 0 {
            return self.end_copy(id, Err(reply.result));
        }
        let output = reply.ops.last().map(|op| op.output.clone()).unwrap_or_default();
        let piece = codec::decode_all::<CopyData>("copy", &output);
        let size = piece.as_ref().map_or(0, |piece| piece.size);
        match piece.and_then(|piece| copy.take(piece, reply.user_version)) {
            Err(error) => {
                tracing::error!(%error, "a piece of a copy does not decode");
                self.end_copy(id, Err(Errno::IO.negative()));
            }
            Ok(is_last) => match self.make_room(id, size, is_last) {
                Err(errno) => self.end_copy(id, Err(errno.negative())),
                Ok(false) => {}
                Ok(true) if is_last => self.end_copy(id, Ok(())),
                Ok(true) => self.ask_for_piece(self.env.now, id),
            },
        }
    }

    /// Reserves memory for all that a copy has and will have. False if its request must wait for
    /// memory: it restarts then, and this copy ends.
    fn make_room(&mut self, id: u64, size: u64, is_last: bool) -> Result<bool, Errno> {
        let copy = self.operations.copies.active.get_mut(&id).expect("the caller has it");
        let next = if is_last { 0 } else { self.env.config.sizes.copy_chunk_max };
        let needed = (copy.copied.bytes() + next).max(size).max(copy.reserved);
        let (key, more) = (copy.request, needed - copy.reserved);
        let request =
            self.operations.requests.get(key).filter(|request| request.attempt == copy.attempt);
        let Some(request) = request else {
            self.operations.copies.active.remove(&id);
            return Ok(false);
        };
        copy.reserved = needed;
        let all = request.reserved + more;
        let has_room = self.operations.reserve(&self.env.config.sizes.budgets, key, all)?;
        if !has_room {
            self.operations.requests.get_mut(key).expect("it waits").expected = all;
            self.operations.copies.active.retain(|_, copy| copy.request != key);
        }
        Ok(has_room)
    }

    fn end_copy(&mut self, id: u64, outcome: Result<(), i32>) {
        let Some(copy) = self.operations.copies.active.remove(&id) else { return };
        let need = Need::Copy(Box::new(copy.wanted));
        let answer = match outcome {
            Ok(()) => Answer::Copied(Box::new(copy.copied)),
            Err(code) => Answer::Failed(code),
        };
        if self.operations.need_loaded(copy.request, copy.attempt, need, answer) {
            self.work.push(Work::Continue(copy.request));
        }
    }

    /// Requests pieces again after a new map, if their target has changed or may have dropped the request.
    pub(crate) fn resend_copies(&mut self, now: Time) {
        let epoch = self.epoch();
        let is_gap = epoch != self.operations.copies.epoch.next();
        self.operations.copies.epoch = epoch;
        let is_forced = |copy: &Copy| {
            let pool = self.maps.map().pool(copy.source.pool);
            pool.is_none_or(|pool| pool.last_force_op_resend == epoch)
        };
        let active = self
            .operations
            .copies
            .active
            .iter()
            .map(|(id, copy)| (*id, copy, self.copy_target(copy)));
        let moved =
            active.filter(|(_, copy, target)| is_gap || is_forced(copy) || copy.asked != *target);
        let moved: Vec<u64> = moved.map(|(id, ..)| id).collect();
        moved.into_iter().for_each(|id| self.ask_for_piece(now, id));
    }

    /// Requests pieces again whose replies are overdue: the request may be lost.
    pub(crate) fn retry_copies_if_due(&mut self, now: Time) {
        let late = self.operations.copies.active.iter().filter(|(_, copy)| copy.retry_at <= now);
        let late: Vec<u64> = late.map(|(id, _)| *id).collect();
        for id in late {
            let Some(copy) = self.operations.copies.active.get_mut(&id) else { continue };
            copy.tries += 1;
            self.ask_for_piece(now, id);
        }
    }

    /// Ends copies whose requests have restarted, were abandoned, or are of blocklisted clients.
    pub(crate) fn end_vain_copies(&mut self) {
        let is_vain = |copy: &Copy| match self.operations.requests.get(copy.request) {
            Some(request) if request.attempt == copy.attempt => {
                self.is_abandoned(copy.request) || self.checks().check_blocklist(request).is_err()
            }
            _ => true,
        };
        let vain = self.operations.copies.active.iter().filter(|(_, copy)| is_vain(copy));
        let vain: Vec<u64> = vain.map(|(id, _)| *id).collect();
        vain.into_iter().for_each(|id| self.end_copy(id, Err(Errno::IO.negative())));
    }
}

impl Copy {
    fn interrupt(&mut self, now: Time) {
        self.asked = None;
        self.retry_at = self.retry_at.min(now + limits::STALL_RETRY);
    }

    fn question(&self, map_epoch: Epoch, pg: PgId, chunk_max: u64) -> OsdRequest {
        OsdRequest {
            pg: PgShard::replicated(pg),
            map_epoch,
            flags: request_flags::READ | request_flags::ACK | self.wanted.request_flags,
            request_id: Default::default(),
            client_incarnation: 0,
            mtime: Default::default(),
            object: self.source.clone(),
            ops: self.ops(chunk_max),
            snap_context: Default::default(),
            retry_attempt: 0,
            features: SUPPORTED,
        }
    }

    fn ops(&self, chunk_max: u64) -> Vec<OsdOp> {
        let mut ops = Vec::with_capacity(2);
        // Later pieces must be of the same version as the first.
        let version = match self.copied.user_version {
            0 => self.wanted.version,
            known => known,
        };
        if version != 0 {
            let mut assert = OsdOp::new(OpCode::ASSERT_VER);
            assert.arguments[8..16].copy_from_slice(&version.to_le_bytes());
            ops.push(assert);
        }
        let mut w = Writer::new();
        w.value(&self.cursor);
        w.u64(chunk_max);
        ops.push(OsdOp::new(OpCode::COPY_GET).with_input(w.into_bytes()));
        ops
    }

    /// Adds a piece; true if it was the last one.
    fn take(&mut self, piece: CopyData, user_version: u64) -> codec::Result<bool> {
        let copied = &mut self.copied;
        if !self.cursor.attrs_complete {
            copied.user_version = user_version;
            copied.mtime = piece.mtime;
            copied.truncate_seq = piece.truncate_seq as u32;
            copied.truncate_size = piece.truncate_size;
            copied.xattrs = piece.attrs;
        }
        if !piece.data.is_empty() {
            copied.data.push(piece.data);
        }
        if !piece.omap_header.is_empty() {
            copied.omap_header = piece.omap_header;
        }
        if !piece.omap.is_empty() {
            let pairs: BTreeMap<Bytes, Bytes> = Reader::new(&piece.omap).value()?;
            copied.omap.extend(pairs);
        }
        self.cursor = piece.cursor;
        Ok(self.cursor.is_complete())
    }
}
