//! Parsing of command descriptions: `osd pool create name=pool,type=CephPoolname …`.

use super::answer::Refusal;
use serde_json::{Map, Value, json};
use types::PgId;

/// A parsed description.
#[derive(Debug, Clone)]
pub struct Signature {
    /// The leading words that name the command, joined by blanks.
    pub prefix: String,
    pub params: Vec<Param>,
}

/// One parameter of a command.
#[derive(Debug, Clone)]
pub struct Param {
    pub name: String,
    pub kind: Kind,
    pub required: bool,
    /// Whether it takes a list (`n=N`).
    pub many: bool,
    /// All attributes as written, for `get_command_descriptions`.
    attributes: Vec<(&'static str, &'static str)>,
}

/// The type of a parameter's value (`Ceph…` types).
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Int { min: Option<i64>, max: Option<i64> },
    Float { min: Option<f64>, max: Option<f64> },
    Text { allowed: Option<&'static str> },
    Choices(Vec<&'static str>),
    Bool,
    PgId,
    OsdName,
}

impl Signature {
    /// Parses a description, which is part of the program and valid.
    pub fn parse(text: &'static str) -> Signature {
        let mut words = Vec::new();
        let mut params = Vec::new();
        for part in text.split_whitespace() {
            if part.contains('=') {
                params.push(Param::parse(part));
            } else {
                words.push(part);
            }
        }
        Signature { prefix: words.join(" "), params }
    }
}

impl Param {
    fn parse(text: &'static str) -> Param {
        let attributes: Vec<(&str, &str)> =
            text.split(',').filter_map(|attribute| attribute.split_once('=')).collect();
        let find = |name: &str| {
            attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
        };
        Param {
            name: find("name").unwrap_or_default().to_owned(),
            kind: Kind::parse(find("type").unwrap_or("CephString"), &find),
            required: find("req") != Some("false"),
            many: find("n") == Some("N"),
            attributes,
        }
    }

    /// Its attributes as in `get_command_descriptions`.
    pub fn describe(&self) -> Value {
        let mut described = Map::new();
        for (name, value) in &self.attributes {
            let value = if *name == "req" { Value::from(self.required) } else { json!(value) };
            described.insert((*name).to_owned(), value);
        }
        Value::Object(described)
    }
}

impl Kind {
    fn parse(kind: &str, find: &impl Fn(&str) -> Option<&'static str>) -> Kind {
        let range = find("range").unwrap_or_default();
        let (low, high) = range.split_once('|').unwrap_or((range, ""));
        match kind {
            "CephInt" => Kind::Int { min: low.parse().ok(), max: high.parse().ok() },
            "CephFloat" => Kind::Float { min: low.parse().ok(), max: high.parse().ok() },
            "CephChoices" => Kind::Choices(find("strings").unwrap_or("").split('|').collect()),
            "CephBool" => Kind::Bool,
            "CephPgid" => Kind::PgId,
            "CephOsdName" => Kind::OsdName,
            _ => Kind::Text { allowed: find("goodchars") },
        }
    }

    /// The expected value, as part of an error message.
    fn expectation(&self) -> String {
        let bounds = |min: Option<String>, max: Option<String>| match (min, max) {
            (Some(min), Some(max)) => format!(" from {min} to {max}"),
            (Some(min), None) => format!(" of at least {min}"),
            _ => String::new(),
        };
        match self {
            Kind::Int { min, max } => {
                let text = |bound: &Option<i64>| bound.map(|bound| bound.to_string());
                format!("an integer{}", bounds(text(min), text(max)))
            }
            Kind::Float { min, max } => {
                let text = |bound: &Option<f64>| bound.map(|bound| bound.to_string());
                format!("a number{}", bounds(text(min), text(max)))
            }
            Kind::Text { allowed: Some(allowed) } => format!("text of the characters {allowed}"),
            Kind::Text { allowed: None } => "text".to_owned(),
            Kind::Choices(choices) => format!("one of {}", choices.join(", ")),
            Kind::Bool => "true or false".to_owned(),
            Kind::PgId => "a placement group such as 1.2f".to_owned(),
            Kind::OsdName => "an OSD such as osd.3 or 3".to_owned(),
        }
    }

    /// The normalized value, or the reason it is invalid.
    pub fn check(&self, name: &str, value: &Value) -> Result<String, Refusal> {
        let text = match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            _ => None,
        };
        text.as_deref().and_then(|text| self.normalize(text)).ok_or_else(|| {
            let given = text.unwrap_or_else(|| value.to_string());
            let expected = self.expectation();
            Refusal::invalid(format!("parameter '{name}' is '{given}', expected {expected}"))
        })
    }

    fn normalize(&self, text: &str) -> Option<String> {
        match self {
            Kind::Int { min, max } => {
                let number: i64 = text.parse().ok()?;
                let fits =
                    min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max);
                fits.then(|| number.to_string())
            }
            Kind::Float { min, max } => {
                let number: f64 = text.parse().ok()?;
                let fits =
                    min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max);
                (fits && number.is_finite()).then(|| text.to_owned())
            }
            Kind::Text { allowed: Some(allowed) } if !matches_class(allowed, text) => None,
            Kind::Text { .. } => Some(text.to_owned()),
            Kind::Choices(choices) => choices.contains(&text).then(|| text.to_owned()),
            // Older clients repeat the flag's own spelling instead of `true`.
            Kind::Bool => match text.to_ascii_lowercase().as_str() {
                "false" | "no" | "0" => Some("false".to_owned()),
                "true" | "yes" | "1" => Some("true".to_owned()),
                flag => flag.starts_with("--").then(|| "true".to_owned()),
            },
            Kind::PgId => text.parse::<PgId>().ok().map(|pg| pg.to_string()),
            Kind::OsdName => {
                let number: u32 = text.strip_prefix("osd.").unwrap_or(text).parse().ok()?;
                (number < i32::MAX as u32).then(|| number.to_string())
            }
        }
    }
}

/// Whether all characters of `text` are in a class such as `[A-Za-z0-9-_.]`; a class without ranges that is a
/// word, `[range]`, means its letters, as in the clients.
fn matches_class(class: &str, text: &str) -> bool {
    let inner: Vec<char> = class.trim_matches(|c| c == '[' || c == ']').chars().collect();
    let contains = |wanted: char| {
        let mut rest = inner.as_slice();
        while let Some((first, tail)) = rest.split_first() {
            match tail {
                ['-', last, after @ ..] if first <= last => {
                    if (*first..=*last).contains(&wanted) {
                        return true;
                    }
                    rest = after;
                }
                _ if *first == wanted => return true,
                _ => rest = tail,
            }
        }
        false
    };
    text.chars().all(contains)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_taken_apart() {
        let signature = Signature::parse(
            "osd pool set name=pool,type=CephPoolname name=var,type=CephChoices,strings=a|b \
             name=val,type=CephInt,range=0|5,req=false name=ids,type=CephString,n=N",
        );
        assert_eq!(signature.prefix, "osd pool set");
        let [pool, var, val, ids] = signature.params.as_slice() else { panic!() };
        assert_eq!(pool.kind, Kind::Text { allowed: None });
        assert_eq!(var.kind, Kind::Choices(vec!["a", "b"]));
        assert_eq!(val.kind, Kind::Int { min: Some(0), max: Some(5) });
        assert!(!val.required && ids.many && ids.required);
    }

    #[test]
    fn character_classes_hold_ranges_and_single_characters() {
        assert!(matches_class("[A-Za-z0-9-_.]", "a-Z_9."));
        assert!(!matches_class("[A-Za-z0-9-_.]", "a=b"));
        assert!(matches_class("[A-Za-z0-9-_.=]", "host=x"));
        assert!(matches_class("[range]", "range"));
    }

    #[test]
    fn values_that_do_not_fit_are_named_with_what_is_expected() {
        let kind = Kind::Float { min: Some(0.0), max: Some(1.0) };
        let refusal = kind.check("weight", &json!(1.5)).unwrap_err();
        assert_eq!(refusal.text, "parameter 'weight' is '1.5', expected a number from 0 to 1");
        assert_eq!(Kind::OsdName.check("id", &json!("osd.3")).unwrap(), "3");
        assert_eq!(Kind::Bool.check("sure", &json!("--yes-i-mean-it")).unwrap(), "true");
    }
}
