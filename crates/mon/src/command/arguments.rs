//! Validated arguments of a command.

use super::answer::Refusal;
use super::signature::Signature;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use types::{OsdId, PgId};

/// Values by parameter name. All required ones are present and all have their declared type, so the accessors
/// for required parameters cannot fail in a handler that uses the names of its signature; any other name
/// gives an empty value.
#[derive(Debug, Clone, Default)]
pub struct Arguments {
    values: BTreeMap<String, Vec<String>>,
}

impl Arguments {
    /// Checks `given` against a signature. Unknown names are ignored, as clients add some of their own.
    pub fn validate(signature: &Signature, given: &Map<String, Value>) -> Result<Self, Refusal> {
        let mut values = BTreeMap::new();
        for param in &signature.params {
            let items = match given.get(&param.name) {
                None | Some(Value::Null) if param.required => {
                    let (name, prefix) = (&param.name, &signature.prefix);
                    let text = format!("command '{prefix}' needs parameter '{name}'");
                    return Err(Refusal::invalid(text));
                }
                None | Some(Value::Null) => continue,
                Some(Value::Array(items)) if param.many => items.as_slice(),
                Some(single) => std::slice::from_ref(single),
            };
            let checked = items.iter().map(|item| param.kind.check(&param.name, item));
            values.insert(param.name.clone(), checked.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(Arguments { values })
    }

    /// A required text; empty for an unknown name.
    pub fn text(&self, name: &str) -> &str {
        self.optional(name).unwrap_or_default()
    }

    /// An optional text.
    pub fn optional(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.first().map(String::as_str)
    }

    /// All values of a list parameter.
    pub fn list(&self, name: &str) -> &[String] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }

    /// An optional integer.
    pub fn int(&self, name: &str) -> Option<i64> {
        self.optional(name)?.parse().ok()
    }

    /// An optional number.
    pub fn float(&self, name: &str) -> Option<f64> {
        self.optional(name)?.parse().ok()
    }

    /// Whether a boolean parameter was given as true.
    pub fn flag(&self, name: &str) -> bool {
        self.optional(name) == Some("true")
    }

    /// A required OSD id; [`OsdId::NONE`] for an unknown name.
    pub fn osd(&self, name: &str) -> OsdId {
        self.optional_osd(name).unwrap_or(OsdId::NONE)
    }

    /// An optional OSD id.
    pub fn optional_osd(&self, name: &str) -> Option<OsdId> {
        self.optional(name)?.parse().ok().map(OsdId)
    }

    /// A required placement group id.
    pub fn pg(&self, name: &str) -> PgId {
        self.text(name).parse().unwrap_or_default()
    }

    /// The arguments as text, for the conditions of capabilities. The capabilities of a new entity can also
    /// be matched one by one, as `caps_mon`.
    pub fn flattened(&self) -> BTreeMap<String, String> {
        let plain = self.values.iter().map(|(name, items)| (name.clone(), items.join(" ")));
        let pairs = self.list("caps").chunks_exact(2);
        let caps = pairs.map(|pair| (format!("caps_{}", pair[0]), pair[1].clone()));
        plain.chain(caps).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn validate(given: Value) -> Result<Arguments, Refusal> {
        let signature = Signature::parse(
            "osd down name=ids,type=CephString,n=N name=dead,type=CephBool,req=false",
        );
        let Value::Object(given) = given else { panic!() };
        Arguments::validate(&signature, &given)
    }

    #[test]
    fn single_values_and_lists_are_understood_and_strangers_ignored() {
        let arguments = validate(json!({"ids": ["1", 2], "dead": true, "width": 80})).unwrap();
        assert_eq!(arguments.list("ids"), ["1", "2"]);
        assert!(arguments.flag("dead"));
        assert_eq!(validate(json!({"ids": "all"})).unwrap().list("ids"), ["all"]);
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        assert_eq!(
            validate(json!({})).unwrap_err().text,
            "command 'osd down' needs parameter 'ids'"
        );
        let wrong = validate(json!({"ids": [{"a": 1}]})).unwrap_err();
        assert!(wrong.text.contains("'ids'"), "{wrong}");
    }
}
