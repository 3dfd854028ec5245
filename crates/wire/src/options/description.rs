//! The description of an option, as `config help` shows it: at the monitors, and at each daemon.

use super::known::{Known, Permitted};
use super::{Upstream, known, upstream};
use serde_json::{Value, json};

/// The description of one option, from this cluster's table or from Ceph's.
#[derive(Debug, Clone)]
pub struct Description {
    name: String,
    kind: &'static str,
    default: &'static str,
    meaning: &'static str,
    advice: &'static str,
    services: Vec<&'static str>,
    permitted: Vec<&'static str>,
    least: String,
    most: String,
}

impl Description {
    /// The description of an option; `None` if neither table has it.
    pub fn of(name: &str) -> Option<Self> {
        let theirs = || upstream(name).map(|theirs| Description::theirs(name, theirs));
        known(name).map(Description::own).or_else(theirs)
    }

    pub(super) fn own(own: &'static Known) -> Self {
        let (least, most) = own.bounds();
        let permitted = match own.permitted {
            Permitted::OneOf(texts) => texts.to_vec(),
            _ => Vec::new(),
        };
        Description {
            name: own.name.to_owned(),
            kind: own.kind.name(),
            default: own.default,
            meaning: own.meaning,
            advice: own.advice,
            services: own.readers(),
            permitted,
            least,
            most,
        }
    }

    fn theirs(name: &str, theirs: &'static Upstream) -> Self {
        Description {
            name: name.to_owned(),
            kind: theirs.kind,
            default: theirs.default,
            meaning: "read by Ceph's clients or daemons; see Ceph's documentation",
            advice: "",
            services: Vec::new(),
            permitted: theirs.permitted().collect(),
            least: theirs.min.to_owned(),
            most: theirs.max.to_owned(),
        }
    }

    fn level(&self) -> &'static str {
        level(&self.name)
    }

    fn can_update(&self) -> bool {
        can_update(&self.name)
    }

    /// The fields that Ceph has.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "level": self.level(),
            "desc": self.meaning,
            "long_desc": self.advice,
            "default": typed(self.kind, self.default),
            "daemon_default": "",
            "tags": [],
            "services": self.services,
            "see_also": [],
            "enum_values": self.permitted,
            "min": typed(self.kind, &self.least),
            "max": typed(self.kind, &self.most),
            "can_update_at_runtime": self.can_update(),
            "flags": if self.can_update() { vec!["runtime"] } else { vec![] },
        })
    }

    /// The lines that Ceph prints, without those that would be empty.
    pub fn to_text(&self) -> String {
        let services = match self.services.is_empty() {
            true => String::new(),
            false => format!("[{}]", self.services.join(", ")),
        };
        let facts = [
            ("Default", self.default.to_owned()),
            ("Possible values", self.permitted.join(" ")),
            ("Minimum", self.least.clone()),
            ("Maximum", self.most.clone()),
            ("Can update at runtime", self.can_update().to_string()),
            ("Services", services),
        ];
        let mut text = format!("{} - {}\n", self.name, self.meaning);
        text += &format!("  ({}, {})\n", self.kind, self.level());
        for (name, fact) in facts.iter().filter(|(_, fact)| !fact.is_empty()) {
            text += &format!("  {name}: {fact}\n");
        }
        if !self.advice.is_empty() {
            text += &format!("\n{}\n", self.advice);
        }
        text
    }
}

/// Ceph's level of an option.
pub fn level(name: &str) -> &'static str {
    upstream(name).map_or("advanced", |option| option.level)
}

/// Whether a new value takes effect without a restart.
pub fn can_update(name: &str) -> bool {
    match known(name) {
        Some(known) => known.can_change,
        None => {
            name.starts_with("mgr/")
                || upstream(name).is_some_and(|option| option.can_update_at_runtime)
        }
    }
}

/// The value of an option in its JSON type; a text if it is none.
fn typed(kind: &str, text: &str) -> Value {
    let number = || {
        let whole = text.parse::<u64>().map(Value::from).ok();
        let signed = || text.parse::<i64>().map(Value::from).ok();
        whole.or_else(signed).or_else(|| text.parse::<f64>().map(Value::from).ok())
    };
    let value = match kind {
        "bool" if !text.is_empty() => Some(json!(text == "true")),
        "size" => number().or_else(|| stdx::parse_bytes(text).map(Value::from)),
        "int" | "uint" | "secs" | "millisecs" | "float" => number(),
        _ => None,
    };
    value.unwrap_or_else(|| json!(text))
}
