//! The reader: walks through the segments that a head names, and finds the end of the journal.

use crate::frame::{Chain, RawRecord, Sealed, decode};
use crate::{Head, Segment, Span, segment_name};
use bytes::Bytes;
use codec::DecodeError;
use std::collections::VecDeque;

/// The journal does not have all that its head names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A record that was durable is not there.
    #[error(
        "object {object} of the journal ends before record {expected}, which was durable; restore it, or run a repair"
    )]
    Ends {
        /// The object.
        object: String,
        /// The first record that is missing.
        expected: u64,
    },
    /// A whole frame does not decode.
    #[error("object {object} of the journal does not decode: {error}")]
    Undecodable {
        /// The object.
        object: String,
        /// The reason.
        error: DecodeError,
    },
}

/// A journal that was read, for the writer that continues it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// Segments that are still needed, the oldest first.
    pub segments: Vec<Segment>,
    /// The chain that the first frame of the next generation continues.
    pub next: Chain,
    /// Records up to this LSN are in rows.
    pub checkpoint: u64,
}

/// Reads a journal, one object after another.
#[derive(Debug)]
pub struct Replay {
    rank: u32,
    checkpoint: u64,
    spans: VecDeque<Span>,
    number: u64,
    chain: Chain,
    segments: Vec<Segment>,
    is_over: bool,
}

impl Replay {
    /// Begins where a head says.
    pub fn new(head: &Head) -> Self {
        let spans: VecDeque<Span> = head.spans.iter().copied().collect();
        let first = *spans.front().expect("a head has a span");
        Replay {
            rank: head.rank,
            checkpoint: head.checkpoint,
            spans,
            number: first.segment,
            chain: first.start,
            segments: Vec::new(),
            is_over: false,
        }
    }

    /// The object that must be read next; `None` at the end of the journal.
    pub fn next_object(&self) -> Option<String> {
        let name = || segment_name(self.rank, self.chain.generation, self.number);
        (!self.is_over).then(name)
    }

    /// Takes the data of that object, or that there is none; returns the records behind the checkpoint, each
    /// with its LSN.
    ///
    /// # Errors
    ///
    /// The journal is damaged.
    pub fn feed(&mut self, data: Option<&Bytes>) -> Result<Vec<(u64, RawRecord)>, Damage> {
        let object = self.next_object().expect("the journal has not ended");
        let mut rest = data.cloned().unwrap_or_default();
        let mut segment = Segment::empty(self.number, self.chain);
        let mut found = Vec::new();
        let mut sealed = Sealed::No;
        while sealed == Sealed::No && !self.is_at_end_of_span() {
            let frame = decode(&rest, &self.chain)
                .map_err(|error| Damage::Undecodable { object: object.clone(), error })?;
            let Ok(frame) = frame else { break };
            let lsns = self.chain.lsn..;
            found.extend(lsns.zip(frame.records).filter(|(lsn, _)| *lsn > self.checkpoint));
            segment.bytes += frame.bytes as u64;
            (self.chain, sealed) = (frame.chain, frame.sealed);
            rest = rest.slice(frame.bytes..);
        }
        segment.end = self.chain.lsn;
        self.segments.push(segment);
        self.go_on(object, sealed)?;
        Ok(found)
    }

    /// Whether all records of a generation that has a known end were read.
    fn is_at_end_of_span(&self) -> bool {
        self.spans[0].end.is_some_and(|end| self.chain.lsn >= end)
    }

    fn go_on(&mut self, object: String, sealed: Sealed) -> Result<(), Damage> {
        if self.is_at_end_of_span() {
            self.spans.pop_front();
            let Some(next) = self.spans.front() else {
                return self.end(object);
            };
            (self.number, self.chain) = (next.segment, next.start);
        } else if sealed == Sealed::Yes {
            self.number += 1;
        } else if self.spans[0].end.is_some() {
            return Err(Damage::Ends { object, expected: self.chain.lsn });
        } else {
            return self.end(object);
        }
        Ok(())
    }

    /// Ends the journal where it is damaged: all records behind are lost, and the next generation continues.
    pub fn give_up(self) -> Resume {
        let newest = self.spans.back().map_or(0, |span| span.start.generation);
        let generation = newest.max(self.chain.generation) + 1;
        let segments = self.segments.into_iter().filter(|segment| segment.bytes > 0);
        // Records up to the checkpoint are in rows: what follows must not be taken for them.
        let lsn = self.chain.lsn.max(self.checkpoint + 1);
        let next = Chain { generation, lsn, ..self.chain };
        Resume { segments: segments.collect(), next, checkpoint: self.checkpoint }
    }

    /// No frame follows. Records up to the checkpoint were durable when the head named it.
    fn end(&mut self, object: String) -> Result<(), Damage> {
        self.is_over = true;
        match self.chain.lsn > self.checkpoint {
            true => Ok(()),
            false => Err(Damage::Ends { object, expected: self.chain.lsn }),
        }
    }

    /// The end that the writer of the next generation continues.
    ///
    /// # Panics
    ///
    /// If the journal was not read to its end.
    pub fn finish(self) -> Resume {
        assert!(self.is_over, "the journal was read to its end");
        let next = Chain { generation: self.chain.generation + 1, ..self.chain };
        let segments = self.segments.into_iter().filter(|segment| segment.bytes > 0);
        Resume { segments: segments.collect(), next, checkpoint: self.checkpoint }
    }
}
