//! Digest of all outputs of a daemon, in order: equal for equal behaviour.
//!
//! The trace of a run has the arrivals of messages. The digest also has their content, storage requests and
//! what daemons do with sessions, so that a change that must not alter behaviour can be held to an equal
//! digest for equal seeds (`soak --digest`).

use crate::trace::Brief;
use engine::{Message, NodeOutput};
use std::fmt::{Debug, Write};
use std::hash::Hasher;
use stdx::FastHasher;

/// Digest of outputs so far.
#[derive(Default)]
pub struct Digest(FastHasher);

impl Digest {
    /// The digest of all outputs so far.
    pub fn value(&self) -> u64 {
        self.0.finish()
    }

    /// Adds a request to the daemon's disk: the beginning of its debug output.
    pub fn request(&mut self, request: &impl Debug) {
        self.text(&Brief(request));
    }

    /// Adds an output.
    pub fn output(&mut self, output: &NodeOutput) {
        match output {
            NodeOutput::Send { conn, message } => {
                self.0.write_u64(conn.0);
                self.message(message);
            }
            other => self.text(&Brief(other)),
        }
    }

    fn message(&mut self, message: &Message) {
        let Message { kind, priority, version, compat_version, tid, front, middle, data } = message;
        for number in [*kind, *priority, *version, *compat_version] {
            self.0.write_u64(number.into());
        }
        self.0.write_u64(*tid);
        for segment in [front, middle, data] {
            self.0.write_usize(segment.len());
            self.0.write(segment);
        }
    }

    fn text(&mut self, text: &impl std::fmt::Display) {
        write!(Text(&mut self.0), "{text}").expect("a hasher takes everything");
    }
}

/// Writes text into a hasher.
struct Text<'a>(&'a mut FastHasher);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}
