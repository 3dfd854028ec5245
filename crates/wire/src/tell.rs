//! Commands to one daemon (`ceph tell …`): their arguments, their answers, and their descriptions.
//!
//! A daemon lists its commands as pairs of a signature, `perf dump name=logger,type=CephString`, and a
//! line of help.

use crate::{Command, CommandReply};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use types::Errno;

/// Arguments of a command by name, with its `prefix`.
pub type Arguments = Map<String, Value>;

/// A reply in words, normally a refusal.
#[derive(Debug)]
pub struct Sentence {
    /// Why.
    pub errno: Errno,
    /// The reason, and a way out.
    pub text: String,
}

impl Sentence {
    /// A refusal.
    pub fn new(errno: Errno, text: impl Into<String>) -> Self {
        Sentence { errno, text: text.into() }
    }
}

/// The output of a command.
#[derive(Debug)]
pub enum CommandOutput {
    /// A value, printed as JSON.
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

/// The reply with an answer.
pub fn reply(answer: Result<CommandOutput, Sentence>) -> CommandReply {
    let reply = |text, output| CommandReply { result: 0, text, output };
    match answer {
        Ok(CommandOutput::Json(value)) => reply(String::new(), printed(&value)),
        Ok(CommandOutput::Plain(text)) => reply(String::new(), text.into()),
        Ok(CommandOutput::Both(value, text)) => reply(text, printed(&value)),
        Ok(CommandOutput::Status(text)) => reply(text, Bytes::new()),
        Err(Sentence { errno, text }) => {
            CommandReply { result: errno.negative(), text, output: Bytes::new() }
        }
    }
}

/// The prefix of a command, and its arguments.
///
/// # Errors
///
/// The command is not a JSON object.
pub fn parse(command: &Command) -> Result<(String, Arguments), Sentence> {
    let text = command.command.concat();
    let Ok(Value::Object(arguments)) = serde_json::from_str(&text) else {
        let text = format!("{text:?} is not a JSON object");
        return Err(Sentence::new(Errno::INVAL, text));
    };
    let prefix = arguments.get("prefix").and_then(Value::as_str).unwrap_or_default();
    Ok((prefix.to_owned(), arguments))
}

/// A text; empty if it is missing.
pub fn text<'a>(arguments: &'a Arguments, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A number; clients also send it as text.
///
/// # Errors
///
/// The argument is something else.
pub fn integer(arguments: &Arguments, name: &str) -> Result<Option<i64>, Sentence> {
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
pub fn words(value: Option<&Value>) -> Vec<String> {
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

/// The words of a signature before its first argument.
pub fn prefix_of(signature: &str) -> String {
    let words = signature.split(' ').take_while(|word| !word.contains('='));
    words.collect::<Vec<_>>().join(" ")
}

/// A command with its signature, as `ceph` parses it, for daemons of one kind (`module`).
pub fn described(signature: &str, help: &str, module: &str) -> Value {
    let words = signature.split_whitespace();
    let words = words.map(|word| if word.contains('=') { argument(word) } else { json!(word) });
    description(words.collect(), help, module)
}

/// A command whose signature is given in parts: words, and arguments by [`argument`].
pub fn description(signature: Vec<Value>, help: &str, module: &str) -> Value {
    json!({ "sig": signature, "help": help, "module": module, "perm": "r", "flags": 0 })
}

/// Descriptions under the names that the answer to `get_command_descriptions` has for them.
pub fn numbered(descriptions: impl IntoIterator<Item = Value>) -> Value {
    let named = descriptions.into_iter().enumerate();
    Value::Object(named.map(|(index, value)| (format!("cmd{index:03}"), value)).collect())
}

/// `name=…,type=…` as an object.
pub fn argument(text: &str) -> Value {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let value = |name: &str, value: &str| match name {
        "req" => json!(value == "true"),
        _ => json!(value),
    };
    Value::Object(pairs.map(|(name, text)| (name.to_owned(), value(name, text))).collect())
}
