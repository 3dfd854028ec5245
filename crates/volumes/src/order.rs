//! Orders: commands as the monitor hands them over, and their outcomes.

use crate::failure::Failure;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A pool of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Pool {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Bytes that it uses on disks.
    #[serde(default)]
    pub used: u64,
    /// Bytes that can still be written.
    #[serde(default)]
    pub available: u64,
}

/// Facts of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Volume {
    /// Number of the file system.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// The pool of its metadata.
    #[serde(default)]
    pub metadata_pool: Pool,
    /// The pools of its data; the first one is the default.
    pub data_pools: Vec<Pool>,
    /// Addresses of monitors.
    #[serde(default)]
    pub mon_addrs: Vec<String>,
}

/// A command with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct Order {
    /// The words that name it.
    pub prefix: String,
    /// Its arguments by name, as text.
    pub arguments: BTreeMap<String, String>,
    /// The volume.
    pub volume: Volume,
}

/// Output of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Printed {
    /// Standard output.
    pub output: String,
}

impl Printed {
    /// Nothing.
    pub(crate) fn none() -> Self {
        Printed::default()
    }

    /// A text without a newline.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Printed { output: text.into() }
    }

    /// JSON with four blanks and keys in order, as Ceph's module writes it in any format.
    pub(crate) fn json(value: &Value) -> Self {
        let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
        let mut text = Vec::new();
        let mut writer = serde_json::Serializer::with_formatter(&mut text, formatter);
        let sorted = sorted(value);
        let written = serde::Serialize::serialize(&sorted, &mut writer);
        written.expect("JSON is written to memory");
        Printed { output: String::from_utf8_lossy(&text).into_owned() }
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut pairs: Vec<_> = object.iter().collect();
            pairs.sort_by_key(|(key, _)| key.as_str());
            let pairs = pairs.into_iter().map(|(key, value)| (key.clone(), sorted(value)));
            Value::Object(pairs.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// The outcome of a command.
pub type Outcome = Result<Printed, Failure>;

impl Order {
    /// An argument; empty if it was not given.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.optional(name).unwrap_or_default()
    }

    /// An argument that was given and is not empty.
    pub(crate) fn optional(&self, name: &str) -> Option<&str> {
        self.arguments.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Whether a switch was given.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.optional(name) == Some("true")
    }

    /// A number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Failure> {
        let parse = |text: &str| {
            let invalid =
                || Failure::invalid(format!("invalid {name} '{text}': it is no number from 0"));
            text.parse().map_err(|_| invalid())
        };
        self.optional(name).map(parse).transpose()
    }

    /// A number of a user or a group.
    pub(crate) fn id(&self, name: &str) -> Result<Option<u32>, Failure> {
        let narrow = |id: u64| {
            u32::try_from(id)
                .map_err(|_| Failure::invalid(format!("invalid {name} '{id}': it is too large")))
        };
        self.number(name)?.map(narrow).transpose()
    }

    /// Permissions in octal digits.
    pub(crate) fn mode(&self) -> Result<Option<u32>, Failure> {
        let parse = |text: &str| {
            let digits = text.strip_prefix("0o").unwrap_or(text);
            let mode = u32::from_str_radix(digits, 8).ok().filter(|mode| *mode <= 0o7777);
            mode.ok_or_else(|| {
                Failure::invalid(format!("Invalid mode '{text}': it has up to four octal digits"))
            })
        };
        self.optional("mode").map(parse).transpose()
    }

    /// The data pool that files are to lie in.
    pub(crate) fn pool_layout(&self) -> Result<Option<&str>, Failure> {
        let Some(name) = self.optional("pool_layout") else { return Ok(None) };
        match self.volume.data_pools.iter().any(|pool| pool.name == name) {
            true => Ok(Some(name)),
            false => Err(Failure::invalid(format!(
                "Invalid pool layout '{name}'. It must be a valid data pool: 'ceph fs add_data_pool' adds one"
            ))),
        }
    }

    /// Name of a pool.
    pub(crate) fn pool_name(&self, id: i64) -> String {
        let pool = self.volume.data_pools.iter().find(|pool| pool.id == id);
        pool.map_or_else(String::new, |pool| pool.name.clone())
    }
}

/// A command that this release does not know.
pub(crate) fn unknown(order: &Order) -> Failure {
    let text = format!("this worker does not know '{}': it is of another release", order.prefix);
    Failure::new(types::Errno::NOTSUPP, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_is_printed_with_keys_in_order() {
        let printed = Printed::json(&json!([{ "b": 1, "a": [] }]));
        assert_eq!(printed.output, "[\n    {\n        \"a\": [],\n        \"b\": 1\n    }\n]");
    }

    #[test]
    fn arguments_are_checked() {
        let order = |name: &str, value: &str| Order {
            arguments: [(name.to_owned(), value.to_owned())].into(),
            ..Order::default()
        };
        assert_eq!(order("mode", "755").mode(), Ok(Some(0o755)));
        for bad in ["8", "77777", "x"] {
            assert!(order("mode", bad).mode().is_err(), "{bad}");
        }
        assert!(order("size", "-1").number("size").is_err());
        assert!(order("uid", "5000000000").id("uid").is_err());
        assert_eq!(order("uid", "").id("uid"), Ok(None));
        assert!(order("pool_layout", "none").pool_layout().is_err());
    }
}
