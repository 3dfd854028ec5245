//! The log of a run: every line counts in a hash, the last lines are kept, all are printed on demand.

use engine::Time;
use std::collections::VecDeque;
use std::fmt::{Arguments, Write};
use std::hash::Hasher;
use stdx::FastHasher;

/// Lines that a failure shows.
const LINES_KEPT: usize = 400;

#[derive(Debug)]
pub struct Trace {
    /// The moment that lines are counted from.
    start: Time,
    lines: VecDeque<String>,
    hasher: FastHasher,
    count: u64,
    printed: bool,
}

impl Trace {
    pub fn new(start: Time, printed: bool) -> Self {
        let (lines, hasher) = (VecDeque::with_capacity(LINES_KEPT), FastHasher::default());
        Trace { start, lines, hasher, count: 0, printed }
    }

    pub fn line(&mut self, now: Time, what: Arguments<'_>) {
        let mut line = match self.lines.len() {
            LINES_KEPT => self.lines.pop_front().unwrap_or_default(),
            _ => String::new(),
        };
        line.clear();
        let nanos = now.since(self.start).as_nanos();
        let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        write!(line, "{seconds:4}.{nanos:09} {what}").expect("strings grow");
        self.hasher.write(line.as_bytes());
        self.count += 1;
        if self.printed {
            eprintln!("{line}");
        }
        self.lines.push_back(line);
    }

    /// Differs between runs that differ.
    pub fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The last lines, for a report.
    pub fn last_lines(&self) -> String {
        self.lines.iter().fold(String::new(), |text, line| text + line + "\n")
    }
}
