//! Output formats of commands.

use super::xml;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::PrettyFormatter;

/// The output format that the client requested.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Format {
    #[default]
    Plain,
    Json,
    JsonPretty,
    /// `section` is the name of the outermost element.
    Xml {
        section: String,
        pretty: bool,
    },
}

impl Format {
    /// The format of this name, for the command with this prefix. An unknown name means plain text, as in
    /// Ceph.
    pub fn from_name(name: &str, prefix: &str) -> Format {
        match name {
            "json" | "json-compact" => Format::Json,
            "json-pretty" => Format::JsonPretty,
            "xml" => Format::Xml { section: xml::section(prefix), pretty: false },
            "xml-pretty" => Format::Xml { section: xml::section(prefix), pretty: true },
            _ => Format::Plain,
        }
    }

    /// Formats a value; [`Format::Plain`] writes indented JSON.
    pub fn write(&self, value: &Value) -> String {
        match self {
            Format::Json => value.to_string(),
            Format::Plain | Format::JsonPretty => pretty(value),
            Format::Xml { section, pretty } => xml::write(section, value, *pretty),
        }
    }
}

/// Indented by four, as Ceph does, with a trailing newline.
pub fn pretty(value: &Value) -> String {
    let mut text = Vec::new();
    let formatter = PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    // Serializing to memory fails only for maps with keys that are not text.
    if value.serialize(&mut serializer).is_err() {
        return value.to_string();
    }
    text.push(b'\n');
    String::from_utf8(text).unwrap_or_default()
}

/// A number that is written without a fraction if it is whole, as Ceph does.
pub fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return Value::from(value as i64);
    }
    Value::from(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn whole_numbers_have_no_fraction() {
        assert_eq!(number(1.0).to_string(), "1");
        assert_eq!(number(0.25).to_string(), "0.25");
    }

    #[test]
    fn pretty_text_is_indented_by_four() {
        assert_eq!(pretty(&json!({"a": [1]})), "{\n    \"a\": [\n        1\n    ]\n}\n");
    }
}
