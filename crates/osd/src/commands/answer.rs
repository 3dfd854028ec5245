//! Arguments and outcomes of commands.

use serde_json::{Map, Value};
use types::Errno;

/// Arguments of a command by name, with its `prefix`.
pub(crate) type Arguments = Map<String, Value>;

/// A reply in words, normally a refusal.
#[derive(Debug)]
pub(crate) struct Sentence {
    pub errno: Errno,
    pub text: String,
    /// The reply follows when the command is complete.
    pub is_later: bool,
}

impl Sentence {
    /// A refusal.
    pub fn new(errno: Errno, text: impl Into<String>) -> Self {
        Sentence { errno, text: text.into(), is_later: false }
    }

    /// No reply now; [`Osd::tell`] sends it later.
    pub fn later() -> Self {
        Sentence { errno: Errno(0), text: String::new(), is_later: true }
    }
}

/// The output of a command.
#[derive(Debug)]
pub(crate) enum Told {
    Json(Value),
    /// Verbatim, whatever format was requested.
    Plain(String),
    /// JSON, and a sentence as status.
    Both(Value, String),
    /// A sentence as status alone.
    Said(String),
}

impl From<Value> for Told {
    fn from(value: Value) -> Self {
        Told::Json(value)
    }
}

impl Told {
    /// Success, without output.
    pub fn nothing() -> Self {
        Told::Said(String::new())
    }
}
