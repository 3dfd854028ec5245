//! Trace of a run: every line enters a hash, the last lines are kept, and all are printed on demand.

use engine::Time;
use std::collections::VecDeque;
use std::fmt::{self, Arguments, Debug, Display, Formatter, Write};
use std::hash::Hasher;
use stdx::FastHasher;

/// Lines shown with a failure.
const LINES_KEPT: usize = 400;
/// Bytes of a value shown in brief: the names of payloads are at their beginnings.
const BRIEF_LEN: usize = 160;

/// The beginning of a value's debug output. Payloads may be long, and formatting all of them takes longer
/// than storing them.
pub struct Brief<'a, T>(pub &'a T);

impl<T: Debug> Display for Brief<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut beginning = Beginning { f, left: BRIEF_LEN };
        match write!(beginning, "{:?}", self.0) {
            Err(_) if beginning.left == 0 => f.write_char('…'),
            outcome => outcome,
        }
    }
}

/// Writer that passes on so many bytes, and then fails.
struct Beginning<'a, 'b> {
    f: &'a mut Formatter<'b>,
    left: usize,
}

impl Write for Beginning<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_boundary = |end: &usize| text.is_char_boundary(*end);
        let end = (0..=self.left.min(text.len())).rev().find(is_boundary).unwrap_or(0);
        self.f.write_str(&text[..end])?;
        self.left = if end < text.len() { 0 } else { self.left - end };
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// The trace of a run.
#[derive(Debug)]
pub struct Trace {
    /// The time that lines are relative to.
    start: Time,
    lines: VecDeque<String>,
    hasher: FastHasher,
    count: u64,
    printed: bool,
}

impl Trace {
    /// An empty trace.
    pub fn new(start: Time, printed: bool) -> Self {
        let (lines, hasher) = (VecDeque::with_capacity(LINES_KEPT), FastHasher::default());
        Trace { start, lines, hasher, count: 0, printed }
    }

    /// Adds a line.
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

    /// Hash of all lines so far.
    pub fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    /// Number of lines so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The last lines, for a report.
    pub fn last_lines(&self) -> String {
        self.lines.iter().fold(String::new(), |text, line| text + line + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_are_shown_in_brief() {
        assert_eq!(Brief(&"short").to_string(), "\"short\"");
        let long = Brief(&"ä".repeat(1000)).to_string();
        assert!(long.starts_with("\"ää") && long.ends_with("ä…") && long.len() <= BRIEF_LEN + 3);
    }
}
