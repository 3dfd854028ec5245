//! Arguments and outcomes of commands.

use crate::outbox::Outbox;
use crate::sessions::clients::Clients;
use bytes::Bytes;
use engine::ConnId;
use serde_json::{Map, Value};
use types::features::SUPPORTED;
use types::{Errno, OsdId};
use wire::{Command, CommandReply, MessageBody};

/// Arguments of a command by name, with its `prefix`.
pub(crate) type Arguments = Map<String, Value>;

/// A reply in words, normally a refusal.
#[derive(Debug)]
pub(crate) struct Sentence {
    pub errno: Errno,
    pub text: String,
}

/// The session and the tid of a command, for its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requester {
    pub conn: ConnId,
    pub tid: u64,
}

impl Sentence {
    /// A refusal.
    pub fn new(errno: Errno, text: impl Into<String>) -> Self {
        Sentence { errno, text: text.into() }
    }
}

/// The output of a command.
#[derive(Debug)]
pub(crate) enum CommandOutput {
    Json(Value),
    /// Verbatim, whatever format was requested.
    Plain(String),
    /// JSON, and a sentence as status.
    Both(Value, String),
    /// A sentence as status alone.
    Status(String),
}

impl From<Value> for CommandOutput {
    fn from(value: Value) -> Self {
        CommandOutput::Json(value)
    }
}

impl CommandOutput {
    /// Success, without output.
    pub fn nothing() -> Self {
        CommandOutput::Status(String::new())
    }
}

impl Requester {
    /// Replies to the command, unless its session has ended.
    pub fn tell(
        self,
        clients: &Clients,
        out: &mut Outbox,
        answer: Result<CommandOutput, Sentence>,
    ) {
        if !clients.contains(self.conn) {
            return;
        }
        let reply = |text, output| CommandReply { result: 0, text, output };
        let reply = match answer {
            Ok(CommandOutput::Json(value)) => reply(String::new(), printed(&value)),
            Ok(CommandOutput::Plain(text)) => reply(String::new(), text.into()),
            Ok(CommandOutput::Both(value, text)) => reply(text, printed(&value)),
            Ok(CommandOutput::Status(text)) => reply(text, Bytes::new()),
            Err(Sentence { errno, text }) => {
                CommandReply { result: errno.negative(), text, output: Bytes::new() }
            }
        };
        out.send(self.conn, reply.encode(SUPPORTED).with_tid(self.tid));
    }
}

/// The prefix of a command, and its arguments.
pub(crate) fn parse(command: &Command) -> Result<(String, Arguments), Sentence> {
    let text = command.command.concat();
    let Ok(Value::Object(arguments)) = serde_json::from_str(&text) else {
        let text = format!("{text:?} is not a JSON object");
        return Err(Sentence::new(Errno::INVAL, text));
    };
    let prefix = arguments.get("prefix").and_then(Value::as_str).unwrap_or_default();
    Ok((prefix.to_owned(), arguments))
}

/// The refusal of a command that OSDs do not have.
pub(crate) fn unknown(osd: OsdId, prefix: &str) -> Sentence {
    let id = osd.0;
    let text = format!("osd.{id} has no command {prefix:?}; see `ceph tell osd.{id} help`");
    Sentence::new(Errno::INVAL, text)
}

/// A text; empty if it is missing.
pub(crate) fn text<'a>(arguments: &'a Arguments, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A number; clients also send it as text.
pub(crate) fn integer(arguments: &Arguments, name: &str) -> Result<Option<i64>, Sentence> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let number = value.as_i64().or_else(|| value.as_str()?.parse().ok());
            let refusal = || Sentence::new(Errno::INVAL, format!("{name} is no number: {value}"));
            number.map(Some).ok_or_else(refusal)
        }
    }
}

/// A text, or the texts of a list.
pub(crate) fn words(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(words)) => {
            words.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

fn printed(output: &Value) -> Bytes {
    let mut text = serde_json::to_string_pretty(output).expect("values have no odd keys");
    text.push('\n');
    text.into()
}
