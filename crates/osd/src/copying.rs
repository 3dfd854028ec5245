//! Fetching whole objects for `COPY_FROM`, from this OSD or another, as a client of their primary.

use crate::Osd;
use crate::execute::{Answer, CopiedObject, CopyRequest, Need};
use crate::request::{Origin, Request};
use bytes::Bytes;
use classes::Caller;
use codec::{Reader, Writer};
use engine::Time;
use std::collections::BTreeMap;
use types::features::SUPPORTED;
use types::{Errno, HObject, OsdId, PgId};
use wire::copy::{CopyCursor, CopyData};
use wire::op::{OpCode, request_flags};
use wire::{MessageBody, OsdOp, OsdReply, OsdRequest, ShardPgId};

#[derive(Debug, Default)]
pub(crate) struct Copies {
    last: u64,
    active: BTreeMap<u64, Copy>,
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
    /// What is reserved for it.
    reserved: u64,
    /// Whom the present piece was asked of, as which group's primary.
    asked: Option<(OsdId, PgId)>,
}

impl Copies {
    pub fn is_known(&self, copy: u64) -> bool {
        self.active.contains_key(&copy)
    }
}

impl Osd {
    pub(crate) fn begin_copy(&mut self, now: Time, key: u64, attempt: u32, wanted: CopyRequest) {
        self.copies.last += 1;
        let id = self.copies.last;
        let source = wanted.source.clone();
        let hash = self
            .map
            .pool(source.pool)
            .map(|pool| pool.object_hash(&source.namespace, &source.key, &source.name));
        let copy = Copy {
            request: key,
            attempt,
            source: HObject { hash: hash.unwrap_or_default(), ..source },
            wanted,
            cursor: CopyCursor::default(),
            copied: CopiedObject::default(),
            reserved: self.config.sizes.copy_chunk_max,
            asked: None,
        };
        self.copies.active.insert(id, copy);
        match hash {
            Some(_) => self.ask_for_piece(now, id),
            None => self.end_copy(id, Err(Errno::NOENT.negative())),
        }
    }

    /// Asks the source's primary for the next piece; if there is none, a later map will tell one.
    fn ask_for_piece(&mut self, now: Time, id: u64) {
        let Some(copy) = self.copies.active.get(&id) else { return };
        let Some(pool) = self.map.pool(copy.source.pool) else {
            return self.end_copy(id, Err(Errno::NOENT.negative()));
        };
        let pg = pool.pg_of_hash(copy.source.pool, copy.source.hash);
        let primary = self.map.pg_to_osds(pg).acting_primary;
        let message = OsdRequest {
            pg: ShardPgId::replicated(pg),
            map_epoch: self.epoch(),
            flags: request_flags::READ | request_flags::ACK | copy.wanted.request_flags,
            request_id: Default::default(),
            client_incarnation: 0,
            mtime: Default::default(),
            object: copy.source.clone(),
            ops: copy.ops(self.config.sizes.copy_chunk_max),
            snap_context: Default::default(),
            retry_attempt: 0,
            features: SUPPORTED,
        };
        let copy = self.copies.active.get_mut(&id).expect("it was just there");
        copy.asked = primary.map(|primary| (primary, pg));
        match primary {
            Some(osd) if osd == self.config.id => {
                let caller = Caller { features: SUPPORTED, ..Caller::default() };
                let request = Request::new(Origin::Copy { copy: id }, message, id, caller);
                let key = self.requests.insert(request);
                self.admit(now, key);
            }
            Some(osd) => self.send_to_osd(osd, message.encode(SUPPORTED).with_tid(id)),
            None => {}
        }
    }

    pub(crate) fn copy_replied(&mut self, id: u64, reply: OsdReply) {
        let Some(copy) = self.copies.active.get_mut(&id) else { return };
        if reply.result == Errno::AGAIN.negative() {
            copy.asked = None;
            return;
        }
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
                Ok(true) => self.ask_for_piece(self.now, id),
            },
        }
    }

    /// Reserves memory for all that a copy has and is going to have. If its request must wait for that, it
    /// begins anew then, and this copy ends.
    fn make_room(&mut self, id: u64, size: u64, is_last: bool) -> Result<bool, Errno> {
        let copy = self.copies.active.get_mut(&id).expect("the caller has it");
        let next = if is_last { 0 } else { self.config.sizes.copy_chunk_max };
        let needed = (copy.copied.bytes() + next).max(size).max(copy.reserved);
        let (key, more) = (copy.request, needed - copy.reserved);
        let request = self.requests.get(key).filter(|request| request.attempt == copy.attempt);
        let Some(request) = request else {
            self.copies.active.remove(&id);
            return Ok(false);
        };
        copy.reserved = needed;
        let all = request.reserved + more;
        let has_room = self.reserve_memory(key, all)?;
        if !has_room {
            self.requests.get_mut(key).expect("it waits").expected = all;
            self.copies.active.retain(|_, copy| copy.request != key);
        }
        Ok(has_room)
    }

    fn end_copy(&mut self, id: u64, outcome: Result<(), i32>) {
        let Some(copy) = self.copies.active.remove(&id) else { return };
        let need = Need::Copy(Box::new(copy.wanted));
        let answer = match outcome {
            Ok(()) => Answer::Copied(Box::new(copy.copied)),
            Err(code) => Answer::Failed(code),
        };
        self.need_loaded(self.now, copy.request, copy.attempt, need, answer);
    }

    /// Our own request for a piece was dropped; it is asked for again with the next map.
    pub(crate) fn copy_interrupted(&mut self, id: u64) {
        if let Some(copy) = self.copies.active.get_mut(&id) {
            copy.asked = None;
        }
    }

    /// Pieces are asked for again of those who are primary now.
    pub(crate) fn resend_copies(&mut self, now: Time) {
        let requests = &self.requests;
        let wanted =
            |copy: &Copy| requests.get(copy.request).is_some_and(|r| r.attempt == copy.attempt);
        self.copies.active.retain(|_, copy| wanted(copy));
        let moved = self.copies.active.iter().filter(|(_, copy)| {
            let pool = self.map.pool(copy.source.pool);
            let pg = pool.map(|pool| pool.pg_of_hash(copy.source.pool, copy.source.hash));
            let primary = pg.and_then(|pg| Some((self.map.pg_to_osds(pg).acting_primary?, pg)));
            copy.asked != primary || primary.is_none()
        });
        let moved: Vec<u64> = moved.map(|(id, _)| *id).collect();
        moved.into_iter().for_each(|id| self.ask_for_piece(now, id));
    }
}

impl Copy {
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
