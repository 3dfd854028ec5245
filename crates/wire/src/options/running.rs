//! The options of one running daemon, and the commands that show and change them there (`ceph tell osd.0
//! config …`).
//!
//! A value set at the daemon overrides the configuration database, is known to no other daemon, and is lost
//! when the daemon ends.

use super::{Description, Kind, Known, TABLE, Upstream, Values, known, upstream};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::Errno;

/// Signature and help of each command.
pub const COMMANDS: [(&str, &str); 8] = [
    ("config diff", "dump diff of current config and default config"),
    (
        "config diff get name=var,type=CephString",
        "dump diff get <field>: dump diff of current and default config setting <field>",
    ),
    ("config show", "dump current config settings"),
    ("config get name=var,type=CephString", "config get <field>: get the config value"),
    (
        "config help name=var,type=CephString,req=false",
        "get config setting schema and descriptions",
    ),
    (
        "config set name=var,type=CephString name=val,type=CephString,n=N",
        "config set <field> <val> [<val> ...]: set a config variable",
    ),
    ("config unset name=var,type=CephString", "config unset <field>: unset a config variable"),
    (
        "injectargs name=injected_args,type=CephString,n=N",
        "inject configuration arguments into running daemon",
    ),
];

/// Values of the configuration database, and of the daemon itself, which win.
#[derive(Debug, Clone, Default)]
pub struct Running {
    database: BTreeMap<String, String>,
    overrides: BTreeMap<String, String>,
}

/// The output with a text for the user; or the error.
pub type RunningAnswer = Result<(Value, String), (Errno, String)>;

impl Running {
    /// Replaces the values from the configuration database.
    pub fn take_database(&mut self, set: BTreeMap<String, String>) {
        self.database = set;
    }

    /// All values that are set, from either source.
    pub fn set(&self) -> BTreeMap<String, String> {
        let mut set = self.database.clone();
        set.extend(self.overrides.clone());
        set
    }

    /// Values set at this daemon alone.
    pub fn overrides(&self) -> &BTreeMap<String, String> {
        &self.overrides
    }

    /// Values by name, with the defaults of the table.
    pub fn values<'a>(&'a self) -> Values<impl Fn(&str) -> Option<&'a str>> {
        Values(|name: &str| self.set_value(name))
    }

    fn set_value(&self, name: &str) -> Option<&str> {
        self.overrides.get(name).or_else(|| self.database.get(name)).map(String::as_str)
    }

    fn value<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.set_value(name).unwrap_or(default)
    }

    fn value_of<'a>(&'a self, option: &'a Found) -> &'a str {
        self.value(&option.name, option.default)
    }

    /// Runs one of [`COMMANDS`]; `None` if it is none of them.
    pub fn command(
        &mut self,
        prefix: &str,
        arguments: &Map<String, Value>,
    ) -> Option<RunningAnswer> {
        let var = arguments.get("var").and_then(Value::as_str).unwrap_or_default();
        Some(match prefix {
            "config show" => Ok(plain(self.show())),
            "config diff" => {
                let options = TABLE.iter().map(Found::own);
                Ok(plain(json!({ "diff": self.diff(options) })))
            }
            "config diff get" => {
                find(var).map(|option| plain(json!({ "diff": self.diff([option].into_iter()) })))
            }
            "config get" => find(var).map(|option| {
                let value = self.value_of(&option).to_owned();
                plain(json!({ option.name: value }))
            }),
            "config help" if var.is_empty() => {
                let options: Vec<Value> =
                    TABLE.iter().map(|own| Description::own(own).to_json()).collect();
                Ok(plain(json!({ "options": options })))
            }
            "config help" => find(var).map(|option| {
                let description = Description::of(&option.name).map(|found| found.to_json());
                plain(json!({ "option": description }))
            }),
            "config set" => self.set_one(var, &words(arguments.get("val")).join(" ")),
            "config unset" => find(var).map(|option| {
                self.overrides.remove(&option.name);
                plain(json!({}))
            }),
            "injectargs" => self.inject(&words(arguments.get("injected_args"))),
            _ => return None,
        })
    }

    fn show(&self) -> Value {
        let pair = |option: &Known| {
            (option.name.to_owned(), json!(self.value(option.name, option.default)))
        };
        let mut pairs: Vec<_> = TABLE.iter().map(pair).collect();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        Value::Object(pairs.into_iter().collect())
    }

    /// Options that differ from their defaults, with the source of each value.
    fn diff(&self, options: impl Iterator<Item = Found>) -> Value {
        let mut found = Map::new();
        for option in options.filter(|option| self.value_of(option) != option.default) {
            let mut levels = Map::new();
            levels.insert("default".to_owned(), json!(option.default));
            for (level, values) in [("mon", &self.database), ("override", &self.overrides)] {
                if let Some(value) = values.get(&option.name) {
                    levels.insert(level.to_owned(), json!(value));
                }
            }
            levels.insert("final".to_owned(), json!(self.value_of(&option)));
            found.insert(option.name.clone(), Value::Object(levels));
        }
        Value::Object(found)
    }

    fn set_one(&mut self, name: &str, value: &str) -> RunningAnswer {
        let option = find(name)?;
        let value = option.accept(value).map_err(|(errno, why)| {
            (errno, format!("error setting '{name}' to '{value}': {why}"))
        })?;
        self.overrides.insert(option.name, value);
        Ok(plain(json!({ "success": "" })))
    }

    /// Parses `--osd-max-backfills 2`, `--osd_max_backfills=2`, and a switch alone. Applies all or none.
    fn inject(&mut self, given: &[String]) -> RunningAnswer {
        let mut words = given.iter().flat_map(|text| text.split_whitespace()).peekable();
        let mut changes = Vec::new();
        while let Some(word) = words.next() {
            let failed = || (Errno::INVAL, format!("failed to parse arguments: {word}"));
            let text = word.strip_prefix("--").ok_or_else(failed)?;
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (text, None),
            };
            let option = find(name).map_err(|_| failed())?;
            let value = match value {
                Some(value) => value,
                None => match words.next_if(|next| !next.starts_with("--")) {
                    Some(next) => next.to_owned(),
                    None if option.is_switch() => "true".to_owned(),
                    None => return Err((Errno::INVAL, format!("option {word} needs a value"))),
                },
            };
            let value = option
                .accept(&value)
                .map_err(|(errno, why)| (errno, format!("{word} '{value}': {why}")))?;
            changes.push((option.name, value));
        }
        let said = changes.iter().map(|(name, value)| format!("{name} = '{value}' "));
        let said = said.collect::<String>();
        self.overrides.extend(changes);
        Ok((json!({}), said))
    }
}

fn plain(value: Value) -> (Value, String) {
    (value, String::new())
}

/// An option that this cluster's daemons read, or one that only Ceph's do.
struct Found {
    name: String,
    default: &'static str,
    own: Option<&'static Known>,
    upstream: Option<&'static Upstream>,
}

impl Found {
    fn own(own: &'static Known) -> Self {
        Found { name: own.name.to_owned(), default: own.default, own: Some(own), upstream: None }
    }

    fn is_switch(&self) -> bool {
        self.own.is_some_and(|own| own.kind == Kind::Switch)
            || self.upstream.is_some_and(|upstream| upstream.kind == "bool")
    }

    fn accept(&self, value: &str) -> Result<String, (Errno, String)> {
        match (self.own, self.upstream) {
            (Some(own), _) => {
                own.check(value).map(|()| value.to_owned()).map_err(|why| (Errno::INVAL, why))
            }
            (None, Some(upstream)) => upstream.normalize(value).map_err(|why| (Errno::INVAL, why)),
            (None, None) => Err((Errno::NOENT, "there is no such option".to_owned())),
        }
    }
}

fn find(name: &str) -> Result<Found, (Errno, String)> {
    let name = name.replace('-', "_");
    if let Some(own) = known(&name) {
        return Ok(Found::own(own));
    }
    let missing = || (Errno::NOENT, format!("error: unrecognized option '{name}'"));
    let upstream = upstream(&name).ok_or_else(missing)?;
    Ok(Found { default: upstream.default, name, own: None, upstream: Some(upstream) })
}

/// A string or a list of strings, as clients send both.
fn words(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(words)) => {
            words.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        Some(Value::Null) | None => Vec::new(),
        Some(other) => vec![other.to_string()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(running: &mut Running, prefix: &str, arguments: &Value) -> RunningAnswer {
        let Value::Object(arguments) = arguments else { panic!("{arguments}") };
        running.command(prefix, arguments).expect("it is one of them")
    }

    fn backfills(running: &mut Running) -> Value {
        let (value, _) =
            ask(running, "config get", &json!({ "var": "osd_max_backfills" })).unwrap();
        value["osd_max_backfills"].clone()
    }

    #[test]
    fn what_is_set_at_the_daemon_wins_until_it_is_unset() {
        let mut running = Running::default();
        running.take_database([("osd_max_backfills".to_owned(), "3".to_owned())].into());
        assert_eq!(backfills(&mut running), "3");
        let set = json!({ "var": "osd-max-backfills", "val": ["5"] });
        ask(&mut running, "config set", &set).unwrap();
        running.take_database(BTreeMap::new());
        assert_eq!(backfills(&mut running), "5");
        let (diff, _) = ask(&mut running, "config diff", &json!({})).unwrap();
        let expected = json!({ "default": "1", "override": "5", "final": "5" });
        assert_eq!(diff["diff"]["osd_max_backfills"], expected);
        ask(&mut running, "config unset", &json!({ "var": "osd_max_backfills" })).unwrap();
        assert_eq!(backfills(&mut running), "1");
    }

    #[test]
    fn arguments_are_injected_all_or_none() {
        let mut running = Running::default();
        for (given, expected) in [
            (json!(["--osd-max-backfills 2 --osd_scrub_auto_repair"]), Ok(())),
            (json!(["--osd_max_backfills=4"]), Ok(())),
            (json!("--osd_max_backfills=7 --no_such_option=2"), Err(Errno::INVAL)),
            (json!(["--osd_max_backfills", "many"]), Err(Errno::INVAL)),
            (json!(["--osd_max_backfills"]), Err(Errno::INVAL)),
            (json!(["osd_max_backfills=7"]), Err(Errno::INVAL)),
        ] {
            let answer = ask(&mut running, "injectargs", &json!({ "injected_args": given }));
            assert_eq!(answer.map(drop).map_err(|(errno, _)| errno), expected, "{given}");
        }
        assert_eq!(backfills(&mut running), "4");
    }

    #[test]
    fn an_option_is_described_as_the_monitors_do() {
        let mut running = Running::default();
        let mut option = |name: &str| {
            ask(&mut running, "config help", &json!({ "var": name })).unwrap().0["option"].clone()
        };
        let grace = option("osd_heartbeat_grace");
        assert_eq!((&grace["min"], &grace["max"]), (&json!(0.2), &json!(3600)), "{grace}");
        assert_eq!(grace["services"], json!(["mon", "osd"]));
        assert_eq!(option("osd_scrub_auto_repair")["min"], "");
        assert_eq!(option("rbd_cache")["default"], json!(true));
    }

    #[test]
    fn unknown_options_and_impossible_values_are_refused() {
        let mut running = Running::default();
        for (prefix, arguments, errno) in [
            ("config get", json!({ "var": "nonsense" }), Errno::NOENT),
            ("config help", json!({ "var": "nonsense" }), Errno::NOENT),
            ("config set", json!({ "var": "nonsense", "val": "1" }), Errno::NOENT),
            ("config set", json!({ "var": "osd_max_backfills", "val": "x" }), Errno::INVAL),
            ("config unset", json!({ "var": "nonsense" }), Errno::NOENT),
        ] {
            assert_eq!(ask(&mut running, prefix, &arguments).unwrap_err().0, errno, "{arguments}");
        }
    }
}
