//! The output formats.

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::PrettyFormatter;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    #[default]
    Plain,
    Json,
    JsonPretty,
}

impl Format {
    /// `None` for what is not understood (XML).
    pub fn from_name(name: &str) -> Option<Format> {
        match name {
            "" | "plain" => Some(Format::Plain),
            "json" | "json-compact" => Some(Format::Json),
            "json-pretty" => Some(Format::JsonPretty),
            _ => None,
        }
    }

    pub fn write(self, value: &Value) -> String {
        match self {
            Format::Json => value.to_string(),
            Format::Plain | Format::JsonPretty => pretty(value),
        }
    }
}

/// Indented by four, as Ceph does, with a line's end.
pub fn pretty(value: &Value) -> String {
    let mut text = Vec::new();
    let formatter = PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    // Writing a value to memory fails only for maps with keys that are not text.
    if value.serialize(&mut serializer).is_err() {
        return value.to_string();
    }
    text.push(b'\n');
    String::from_utf8(text).unwrap_or_default()
}

/// A number that is written without a fraction if it has none, as Ceph does.
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
