//! The writer: records of turns become frames, frames are written to segments, a bounded number at a time.

use crate::frame::{Chain, FRAME_MAX_BYTES, HEADER_BYTES, RawRecord, Sealed, encode_frame};
use crate::{Resume, Segment, Span, segment_name};
use bytes::Bytes;
use std::collections::VecDeque;

/// Sizes of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of records at which a frame takes no more, unless a group alone has more.
    pub frame_bytes: usize,
    /// Bytes of a segment; a frame behind which there is no room for a usual one is its last.
    pub segment_bytes: u64,
    /// Frames whose writes are not answered. Records of further turns collect meanwhile.
    pub frames_in_flight: usize,
    /// Bytes of those frames.
    pub bytes_in_flight: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            frame_bytes: 1 << 20,
            segment_bytes: 4 << 20,
            frames_in_flight: 8,
            bytes_in_flight: 4 << 20,
        }
    }
}

/// Records that belong together have more bytes than a frame can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a change of {bytes} bytes fits into no frame of the journal; make smaller changes")]
pub struct RecordsTooLarge {
    /// Bytes of the records.
    pub bytes: usize,
}

/// A frame that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentWrite {
    /// Id of the write; [`Journal::handle_written`] takes it.
    pub id: u64,
    /// Name of the object.
    pub object: String,
    /// Where the frame begins.
    pub offset: u64,
    /// The frame.
    pub frame: Bytes,
}

#[derive(Debug)]
struct Group {
    records: Vec<RawRecord>,
    bytes: usize,
}

#[derive(Debug)]
struct InFlight {
    id: u64,
    /// LSN of its last record.
    last: u64,
    bytes: usize,
    is_stored: bool,
}

/// The journal of a rank, as its owner writes it.
#[derive(Debug)]
pub struct Journal {
    rank: u32,
    limits: Limits,
    /// The chain behind the last frame.
    chain: Chain,
    /// LSN of the last record that was appended.
    last: u64,
    durable: u64,
    collected: VecDeque<Group>,
    in_flight: VecDeque<InFlight>,
    last_id: u64,
    writes: VecDeque<SegmentWrite>,
    /// All segments that are not removed; the last one is written.
    segments: VecDeque<Segment>,
    /// Sum of the bytes of all segments and of what waits for a frame.
    bytes: u64,
    checkpoint: u64,
}

impl Journal {
    /// The journal of a new rank: generation 1, the first record has LSN 1.
    pub fn create(rank: u32, limits: Limits) -> Self {
        let chain = Chain { generation: 1, lsn: 1, crc: 0 };
        Journal::resume(rank, limits, Resume { segments: Vec::new(), next: chain, checkpoint: 0 })
    }

    /// Continues a journal that was read, with a generation of its own. [`Journal::spans`] must be in the
    /// head before anything is written.
    pub fn resume(rank: u32, limits: Limits, resume: Resume) -> Self {
        let mut segments: VecDeque<Segment> = resume.segments.into();
        segments.push_back(Segment::empty(0, resume.next));
        let last = resume.next.lsn - 1;
        let bytes = segments.iter().map(|segment| segment.bytes).sum();
        Journal {
            rank,
            limits,
            chain: resume.next,
            last,
            durable: last,
            collected: VecDeque::new(),
            in_flight: VecDeque::new(),
            last_id: 0,
            writes: VecDeque::new(),
            segments,
            bytes,
            checkpoint: resume.checkpoint,
        }
    }

    /// Appends records that belong together; returns the LSN of the last one.
    ///
    /// # Errors
    ///
    /// They do not fit into a frame. Nothing was appended.
    pub fn append(&mut self, records: Vec<RawRecord>) -> Result<u64, RecordsTooLarge> {
        let bytes = records.iter().map(RawRecord::len).sum();
        if bytes > FRAME_MAX_BYTES - HEADER_BYTES {
            return Err(RecordsTooLarge { bytes });
        }
        self.last += records.len() as u64;
        if !records.is_empty() {
            self.bytes += bytes as u64;
            self.collected.push_back(Group { records, bytes });
        }
        Ok(self.last)
    }

    /// Makes frames of what was appended, as far as they may be in flight. Called at the end of a turn.
    pub fn flush(&mut self) {
        while !self.collected.is_empty() && self.has_room() {
            self.make_frame();
        }
    }

    fn has_room(&self) -> bool {
        let bytes: usize = self.in_flight.iter().map(|frame| frame.bytes).sum();
        self.in_flight.len() < self.limits.frames_in_flight && bytes < self.limits.bytes_in_flight
    }

    fn make_frame(&mut self) {
        let (mut records, mut bytes) = (Vec::new(), 0);
        while let Some(group) = self.collected.front()
            && (bytes == 0 || bytes + group.bytes <= self.limits.frame_bytes)
        {
            bytes += group.bytes;
            records.extend(self.collected.pop_front().expect("it was seen").records);
        }
        let room = (HEADER_BYTES + self.limits.frame_bytes) as u64;
        let segment = self.segments.back_mut().expect("one segment is written");
        let end = segment.bytes + (HEADER_BYTES + bytes) as u64;
        let sealed = if end + room > self.limits.segment_bytes { Sealed::Yes } else { Sealed::No };
        let (frame, chain) = encode_frame(&self.chain, sealed, &records);
        let (number, offset) = (segment.number, segment.bytes);
        segment.bytes = end;
        self.bytes += HEADER_BYTES as u64;
        segment.end = chain.lsn;
        self.chain = chain;
        self.last_id += 1;
        let id = self.last_id;
        let (last, bytes) = (chain.lsn - 1, frame.len());
        self.in_flight.push_back(InFlight { id, last, bytes, is_stored: false });
        let object = segment_name(self.rank, chain.generation, number);
        self.writes.push_back(SegmentWrite { id, object, offset, frame });
        if sealed == Sealed::Yes {
            self.segments.push_back(Segment::empty(number + 1, chain));
        }
    }

    /// The next frame that is to be written.
    pub fn poll_write(&mut self) -> Option<SegmentWrite> {
        self.writes.pop_front()
    }

    /// A write was stored.
    pub fn handle_written(&mut self, id: u64) {
        if let Some(frame) = self.in_flight.iter_mut().find(|frame| frame.id == id) {
            frame.is_stored = true;
        }
        while let Some(frame) = self.in_flight.front()
            && frame.is_stored
        {
            self.durable = frame.last;
            self.in_flight.pop_front();
        }
    }

    /// The last record up to which all are stored.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// The last record that was appended.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The last record in a frame. Later ones wait for [`Journal::flush`].
    pub fn framed(&self) -> u64 {
        self.chain.lsn - 1
    }

    /// The last checkpoint whose head is stored.
    pub fn checkpoint(&self) -> u64 {
        self.checkpoint
    }

    /// Bytes of all segments that are not removed, and of what waits for a frame.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Segments that are not removed.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// The spans of a head for a checkpoint. Segments that it covers are not in them.
    pub fn spans(&self, checkpoint: u64) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for segment in self.needed(checkpoint) {
            let generation = segment.start.generation;
            match spans.last_mut().filter(|span| span.start.generation == generation) {
                Some(span) => span.end = Some(segment.end),
                None => spans.push(Span {
                    segment: segment.number,
                    start: segment.start,
                    end: Some(segment.end),
                }),
            }
        }
        let newest = spans.last_mut().expect("the segment that is written is always needed");
        newest.end = None;
        spans
    }

    fn needed(&self, checkpoint: u64) -> impl Iterator<Item = &Segment> {
        let newest = self.segments.len() - 1;
        let needed = move |(at, segment): &(usize, &Segment)| {
            *at == newest || !segment.is_covered(checkpoint)
        };
        self.segments.iter().enumerate().filter(needed).map(|(_, segment)| segment)
    }

    /// The head with a checkpoint is stored: returns the objects that may be removed.
    pub fn trim(&mut self, checkpoint: u64) -> Vec<String> {
        self.checkpoint = self.checkpoint.max(checkpoint);
        let mut names = Vec::new();
        while self.segments.len() > 1 && self.segments[0].is_covered(checkpoint) {
            let segment = self.segments.pop_front().expect("there are two");
            self.bytes -= segment.bytes;
            names.push(segment_name(self.rank, segment.start.generation, segment.number));
        }
        names
    }

    /// Panics if its parts contradict each other.
    pub fn check_invariants(&self) {
        assert!(self.durable <= self.last, "only appended records are durable");
        assert!(self.checkpoint <= self.durable, "rows have durable records only");
        assert!(self.in_flight.len() <= self.limits.frames_in_flight, "few frames are in flight");
        let collected: usize = self.collected.iter().map(|group| group.records.len()).sum();
        assert_eq!(self.chain.lsn + collected as u64, self.last + 1, "LSNs are consecutive");
        let collected: usize = self.collected.iter().map(|group| group.bytes).sum();
        let stored: u64 = self.segments.iter().map(|segment| segment.bytes).sum();
        assert_eq!(self.bytes, stored + collected as u64, "the sum is kept");
        let chains = self.segments.iter().zip(self.segments.iter().skip(1));
        for (one, next) in chains {
            assert_eq!(one.end, next.start.lsn, "a segment begins where the one before ends");
        }
    }
}
