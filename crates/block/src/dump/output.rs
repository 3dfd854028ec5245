//! Text output shared by several writers.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Arguments, Write};

/// Accepts lines until a write fails.
pub(super) struct Output<'a> {
    out: RefCell<&'a mut dyn Write>,
    result: Cell<fmt::Result>,
}

impl<'a> Output<'a> {
    /// Output without errors so far.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Output { out: RefCell::new(out), result: Cell::new(Ok(())) }
    }

    /// Writes the text and a line break, unless a former write failed.
    pub fn line(&self, text: Arguments<'_>) {
        if self.result.get().is_ok() {
            let mut out = self.out.borrow_mut();
            self.result.set(out.write_fmt(text).and_then(|()| out.write_char('\n')));
        }
    }

    /// The first failure of the writer.
    pub fn finish(self) -> fmt::Result {
        self.result.get()
    }
}

/// Renders mostly printable bytes, shortened if they are many.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 64;
    let shown = &bytes[..bytes.len().min(SHOWN_MAX)];
    let more = if bytes.len() > SHOWN_MAX { "…" } else { "" };
    format!("\"{}\"{more}", shown.escape_ascii())
}
