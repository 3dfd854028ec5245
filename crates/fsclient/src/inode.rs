//! An inode of which the client has a capability, and calls that wait for it.

use crate::call::{Answer, Call, CallId, Outcome};
use crate::cap_snap::CapSnap;
use crate::striping;
use bytes::Bytes;
use rados::Place;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{Errno, UTime};
use wire::{CapBits, CapItem, CapOp, ClientCaps, InodeStat, SnapContext};

/// Bits that a client wants of a file that it has open.
pub(crate) const WANTED: CapBits = CapBits(
    CapBits::FILE_SHARED.0
        | CapBits::FILE_READ.0
        | CapBits::FILE_CACHE.0
        | CapBits::FILE_WRITE.0
        | CapBits::FILE_BUFFER.0
        | CapBits::FILE_EXCL.0,
);
/// Bits of which none is given back before all data is on the OSDs.
const WRITING: CapBits = CapBits::ANY_FILE_WRITE;
const READING: CapBits = CapBits(CapBits::FILE_READ.0 | CapBits::FILE_CACHE.0);
/// Bits that show the size.
const SIZING: CapBits = CapBits(CapBits::FILE_SHARED.0 | CapBits::FILE_EXCL.0);

/// A call on an open file that waits for a capability or for data.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) id: CallId,
    pub(crate) call: Call,
    /// Of a read without a capability that shows the size: the size was asked for.
    pub(crate) asks: bool,
    /// The size, as the answer told it since the client may read.
    pub(crate) size: Option<u64>,
    /// Bytes that were read up to a size that was told before, which may have grown meanwhile.
    pub(crate) read: Option<(u64, Bytes)>,
    /// The range for a write was asked for.
    pub(crate) asked_range: bool,
}

impl Waiting {
    pub(crate) fn new(id: CallId, call: Call) -> Self {
        Waiting { id, call, asks: false, size: None, read: None, asked_range: false }
    }
}

/// An `fsync` of which all data is on the OSDs.
#[derive(Debug)]
pub(crate) struct Syncing {
    pub(crate) id: CallId,
    /// The last flush that must be acknowledged; 0 for none.
    pub(crate) flush: u64,
    /// The request that must be durable.
    pub(crate) request: Option<u64>,
}

/// A write of which the data is not on its way.
#[derive(Debug)]
pub(crate) struct Buffered {
    /// Its place among the writes to the inode.
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) data: Bytes,
    /// Snapshots that it must preserve: those that the client knew when it was made.
    pub(crate) context: SnapContext,
}

/// The next step of a waiting call.
pub(crate) enum Step {
    Waits,
    Write,
    /// So many bytes; fewer than asked for if a size that was told cuts them, which is then told as well.
    Read(u64, Option<u64>),
    AsksSize,
    AsksRange(u64),
    Flushes,
    Ends(Outcome),
}

/// An inode with a capability.
#[derive(Debug, Default)]
pub(crate) struct Inode {
    pub(crate) stat: InodeStat,
    pub(crate) cap_id: u64,
    pub(crate) mseq: u32,
    pub(crate) seq: u32,
    pub(crate) issue_seq: u32,
    /// Bits that the server lets the client have.
    pub(crate) issued: CapBits,
    /// Bits that the client has not given back; more than `issued` while it gives some back.
    pub(crate) held: CapBits,
    /// Its snap realm.
    pub(crate) realm: u64,
    /// How often it is open.
    pub(crate) opens: u32,
    /// Written data that is not on its way.
    pub(crate) buffer: Vec<Buffered>,
    /// Numbers of writes on their way.
    pub(crate) writes: BTreeSet<u64>,
    /// Number of the last write.
    pub(crate) last_write: u64,
    /// Reads on their way.
    pub(crate) reads: usize,
    /// Attributes as of snapshots that are not on their way, oldest first.
    pub(crate) cap_snaps: VecDeque<CapSnap>,
    /// Size and times have changed and are not on their way.
    pub(crate) is_dirty: bool,
    /// Messages with changes that are not acknowledged, by number.
    pub(crate) flushes: BTreeMap<u64, ClientCaps>,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) syncing: Vec<Syncing>,
    /// Bytes that the client has locked.
    pub(crate) locks: BTreeSet<u64>,
}

impl Inode {
    /// Bits that may be used.
    pub(crate) fn usable(&self) -> CapBits {
        self.issued & self.held
    }

    /// Bits that the client wants now.
    pub(crate) fn wanted(&self) -> CapBits {
        if self.opens > 0 { WANTED } else { CapBits::NONE }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.stat.mode & 0o170_000 == 0o040_000
    }

    /// Whether its size is known here.
    pub(crate) fn shows_size(&self) -> bool {
        self.usable().intersects(SIZING)
    }

    /// Whether data must go to the OSDs now.
    pub(crate) fn must_write(&self) -> bool {
        let syncs = |waiting: &Waiting| !matches!(waiting.call, Call::Write { .. });
        self.gives_back().intersects(WRITING) || self.opens == 0 || self.waiting.iter().any(syncs)
    }

    /// Bits that the server wants back.
    pub(crate) fn gives_back(&self) -> CapBits {
        self.held - self.issued
    }

    /// Whether all data is on the OSDs.
    pub(crate) fn is_written(&self) -> bool {
        self.buffer.is_empty() && self.writes.is_empty()
    }

    /// Whether nothing depends on the bits that the server wants back.
    pub(crate) fn can_give_back(&self) -> bool {
        let lost = self.gives_back();
        !lost.is_empty()
            && (!lost.intersects(WRITING) || self.is_written())
            && (!lost.intersects(READING) || self.reads == 0)
    }

    /// Whether the client has no more use for it.
    pub(crate) fn is_unused(&self) -> bool {
        self.opens == 0
            && self.is_written()
            && self.reads == 0
            && !self.is_dirty
            && self.flushes.is_empty()
            && self.cap_snaps.is_empty()
            && self.waiting.is_empty()
            && self.syncing.is_empty()
            && self.locks.is_empty()
    }

    /// Whether the server and the OSDs have everything durable.
    pub(crate) fn is_clean(&self) -> bool {
        self.is_written() && !self.is_dirty && self.flushes.is_empty()
    }

    /// The capability is claimed at the next server, which begins to count anew. What the former one wanted
    /// back is still held, and said so.
    pub(crate) fn restart(&mut self) {
        (self.seq, self.issue_seq, self.mseq) = (0, 0, 0);
        self.issued = self.held;
    }

    /// Whether all flushes up to one are acknowledged.
    pub(crate) fn is_flushed(&self, flush: u64) -> bool {
        self.flushes.keys().next().is_none_or(|oldest| *oldest > flush)
    }

    /// The next step of the first call that waits.
    pub(crate) fn next(&self, waiting: &Waiting) -> Step {
        match &waiting.call {
            Call::Write { offset, data, .. } => self.next_of_write(waiting, *offset, data.len()),
            Call::Read { offset, length, .. } => self.next_of_read(waiting, *offset, *length),
            Call::Fsync(_) if self.is_written() => Step::Flushes,
            Call::Fsync(_) => Step::Waits,
            _ => Step::Ends(Err(Errno::INVAL)),
        }
    }

    /// A write that crosses objects, or units of a stripe, is refused.
    fn next_of_write(&self, waiting: &Waiting, offset: u64, length: usize) -> Step {
        let (end, layout) = (offset + length as u64, &self.stat.layout);
        if striping::extents(layout, offset, length as u64).len() != 1 {
            return Step::Ends(Err(Errno::INVAL));
        }
        match self.usable().contains(CapBits::FILE_WRITE) {
            true if end <= self.stat.max_size => Step::Write,
            true if !waiting.asked_range => Step::AsksRange(end),
            _ => Step::Waits,
        }
    }

    fn next_of_read(&self, waiting: &Waiting, offset: u64, length: u64) -> Step {
        if !self.is_written() {
            return Step::Waits;
        }
        // A size from before the capability may be older than the bytes that it allows to read.
        if !self.usable().contains(CapBits::FILE_READ) {
            return Step::Waits;
        }
        let told = if self.shows_size() { Some(self.stat.size) } else { waiting.size };
        let Some(size) = told else {
            return if waiting.asks { Step::Waits } else { Step::AsksSize };
        };
        match (&waiting.read, size.saturating_sub(offset).min(length)) {
            (Some((known, data)), _) if *known == size => {
                Step::Ends(Ok(Answer::Data(data.clone())))
            }
            (_, 0) => Step::Ends(Ok(Answer::Data(Bytes::new()))),
            (_, left) => {
                let is_cut = left < length && !self.shows_size();
                Step::Read(left, is_cut.then_some(size))
            }
        }
    }

    /// Sizes that were told for reads do not count any more if the client may not read.
    pub(crate) fn forget_sizes(&mut self) {
        if !self.usable().contains(CapBits::FILE_READ) {
            self.waiting.iter_mut().for_each(|waiting| waiting.size = None);
        }
    }

    /// Takes what a reply or a message tells, without bits.
    pub(crate) fn learn(&mut self, told: InodeStat) {
        let known = self.stat.size;
        let is_ahead = self.is_dirty || !self.flushes.is_empty() || !self.is_written();
        let is_own = self.held.contains(CapBits::FILE_EXCL) || is_ahead;
        self.stat = told;
        if is_own {
            self.stat.size = self.stat.size.max(known);
        }
    }

    /// Takes what a message about the capability tells.
    pub(crate) fn learn_message(&mut self, message: &ClientCaps) {
        if message.op != CapOp::TRUNC {
            self.seq = message.seq;
            self.issue_seq = self.issue_seq.max(message.issue_seq);
            self.mseq = message.mseq;
            self.issued = message.caps;
            self.held |= message.caps;
            self.forget_sizes();
        }
        let stat = InodeStat {
            max_size: message.max_size,
            truncate_seq: message.truncate_seq,
            truncate_size: message.truncate_size,
            size: message.size,
            mtime: message.mtime,
            atime: message.atime,
            ctime: message.ctime,
            time_warp_seq: message.time_warp_seq,
            change_attr: message.change_attr,
            mode: message.mode,
            uid: message.uid,
            gid: message.gid,
            nlink: message.nlink,
            ..self.stat.clone()
        };
        self.learn(stat);
    }

    /// A write up to an end of the file changes its size and its times. Returns its number.
    pub(crate) fn note_write(&mut self, now: UTime, end: u64) -> u64 {
        self.last_write += 1;
        let stat = &mut self.stat;
        stat.size = stat.size.max(end);
        stat.mtime = stat.mtime.max(now);
        stat.ctime = stat.ctime.max(now);
        stat.change_attr += 1;
        self.is_dirty = true;
        self.last_write
    }

    /// A snapshot was taken since the writes with this context: it shows what has changed until now.
    pub(crate) fn note_snapshot(&mut self, before: &SnapContext) {
        if self.is_dirty {
            let attributes = self.message(CapOp::FLUSHSNAP);
            self.cap_snaps.push_back(CapSnap::new(self.last_write, attributes, before));
        }
    }

    /// The oldest attributes as of a snapshot, if they may be told.
    pub(crate) fn take_cap_snap(&mut self) -> Option<ClientCaps> {
        let buffered = self.buffer.first().map(|write| write.number);
        let oldest = self.writes.first().copied().into_iter().chain(buffered).min();
        let is_ready = |snap: &CapSnap| snap.is_ready(oldest);
        self.cap_snaps.front().filter(|snap| is_ready(snap))?;
        self.cap_snaps.pop_front().map(CapSnap::into_message)
    }

    /// The capability, as it is returned.
    pub(crate) fn item(&self) -> CapItem {
        let Inode { cap_id, mseq, issue_seq, .. } = *self;
        CapItem { ino: self.stat.ino, cap_id, mseq, issue_seq }
    }

    /// A message about it.
    pub(crate) fn message(&self, op: CapOp) -> ClientCaps {
        let stat = &self.stat;
        ClientCaps {
            op,
            ino: stat.ino,
            realm: self.realm,
            cap_id: self.cap_id,
            seq: self.seq,
            issue_seq: self.issue_seq,
            mseq: self.mseq,
            caps: self.issued,
            wanted: self.wanted(),
            uid: stat.uid,
            gid: stat.gid,
            mode: stat.mode,
            nlink: stat.nlink,
            xattr_version: stat.xattr_version,
            size: stat.size,
            truncate_size: stat.truncate_size,
            truncate_seq: stat.truncate_seq,
            mtime: stat.mtime,
            atime: stat.atime,
            ctime: stat.ctime,
            layout: stat.layout.clone(),
            time_warp_seq: stat.time_warp_seq,
            btime: stat.btime,
            change_attr: stat.change_attr,
            ..ClientCaps::default()
        }
    }
}

/// The object with an offset of a file, and the offset in it.
pub(crate) fn place(stat: &InodeStat, offset: u64) -> (Place, u64) {
    let (object, within) = striping::locate(&stat.layout, offset);
    (striping::place(&stat.layout, stat.ino, object), within)
}
