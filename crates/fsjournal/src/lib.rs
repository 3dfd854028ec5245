//! The journal of a metadata server: frames in segments, the head that names them, a writer and a reader.
//!
//! ```text
//! Journal::append(records) -> LSN      flush, poll_write -> SegmentWrite
//!                                      handle_written -> durable()
//! Replay::next_object -> name          feed(its data) -> records;  finish -> where the next journal begins
//! ```
//!
//! Invariants:
//! * Records that were appended together are in one frame: after a crash all of them are there, or none.
//! * [`Journal::durable`] is the last record up to which every frame is stored; it never goes back.
//! * [`Replay`] returns a prefix of what was appended, which has at least every durable record.
//! * Frames of an earlier generation, or of an earlier life of an object, end the journal; they are never
//!   read as a part of it.
//!
//! Knows neither the meaning of records nor RADOS: objects are names and bytes.

#![warn(missing_docs)]

mod frame;
mod head;
mod names;
mod replay;
mod segment;
mod superblock;
#[cfg(test)]
mod tests;
mod writer;

pub use frame::{Chain, FRAME_MAX_BYTES, FrameEnd, RawRecord, Sealed, decode_frame, encode_frame};
pub use head::{HEAD_BYTES, Head, SPANS_MAX, Span};
pub use names::{SUPER, head_name, segment_name};
pub use replay::{Damage, Replay, Resume};
pub use segment::Segment;
pub use superblock::Super;
pub use writer::{Journal, Limits, RecordsTooLarge, SegmentWrite};
