//! All options of Ceph 18.2, with type, level, range and default, as printed by `ceph config help`.
//!
//! Clients read their options from this cluster's configuration too, so the monitor must know their names and
//! types: a misspelt name, or a value that a client cannot read, is refused when it is set.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use stdx::parse_bytes;

/// One option per line: name, type, level, flag (`r` changes at runtime, `n` is not for the monitors to set),
/// minimum, maximum, permitted values, default; separated by tabs, sorted by name.
const LINES: &str = include_str!("upstream.txt");

static OPTIONS: LazyLock<BTreeMap<&'static str, Upstream>> =
    LazyLock::new(|| LINES.lines().map(parse).map(|option| (option.name, option)).collect());

/// An option of Ceph's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upstream {
    /// Name of the option.
    pub name: &'static str,
    /// Ceph's name of the type: `str`, `int`, `uint`, `float`, `bool`, `size`, `secs`, `millisecs`, `uuid`,
    /// `addr`, `addrvec`.
    pub kind: &'static str,
    /// `basic`, `advanced` or `dev`.
    pub level: &'static str,
    /// True if daemons apply a new value without a restart.
    pub can_update_at_runtime: bool,
    /// Read before a daemon reaches the monitors, so that a value in the database has no effect.
    pub is_local: bool,
    /// Least value as text; empty if there is none.
    pub min: &'static str,
    /// Greatest value as text; empty if there is none.
    pub max: &'static str,
    permitted: &'static str,
    /// Default value as text.
    pub default: &'static str,
}

/// Looks up an option by name. `debug_…` stands for the log level of any subsystem of Ceph, which the list
/// omits.
pub fn upstream(name: &str) -> Option<&'static Upstream> {
    OPTIONS.get(name).or_else(|| name.strip_prefix("debug_").map(|_| &LOG_LEVEL))
}

const LOG_LEVEL: Upstream = Upstream {
    name: "debug_",
    kind: "str",
    level: "advanced",
    can_update_at_runtime: true,
    is_local: false,
    min: "",
    max: "",
    permitted: "",
    default: "1/5",
};

/// The names of all options, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    OPTIONS.keys().copied()
}

fn parse(line: &'static str) -> Upstream {
    let mut fields = line.split('\t');
    let mut field = || fields.next().unwrap_or_default();
    let (name, kind, level, flag) = (field(), field(), field(), field());
    let level = match level {
        "b" => "basic",
        "d" => "dev",
        _ => "advanced",
    };
    let (min, max, permitted, default) = (field(), field(), field(), field());
    let (can_update_at_runtime, is_local) = (flag == "r", flag == "n");
    Upstream { name, kind, level, can_update_at_runtime, is_local, min, max, permitted, default }
}

impl Upstream {
    /// The permitted values, if the option is an enumeration.
    pub fn permitted(&self) -> impl Iterator<Item = &'static str> {
        self.permitted.split(',').filter(|value| !value.is_empty())
    }

    /// Normalizes `value` as Ceph does: switches to `true` or `false`, sizes to bytes, log levels to pairs.
    ///
    /// # Errors
    ///
    /// A sentence that names the expected form.
    pub fn normalize(&self, value: &str) -> Result<String, String> {
        match self.kind {
            "bool" => switch(value).map(|on| on.to_string()),
            "uint" | "int" => integer(value).and_then(|number| self.in_range(number as f64, value)),
            "size" => size(value).and_then(|bytes| self.in_range(bytes as f64, &bytes.to_string())),
            "float" => {
                real(value).and_then(|number| self.in_range(number, &format!("{number:.6}")))
            }
            "secs" | "millisecs" => duration(value).and_then(|number| self.in_range(number, value)),
            "uuid" => uuid(value),
            "str" if self.name.starts_with("debug_") => log_level(value),
            _ => self.one_of(value),
        }
    }

    fn one_of(&self, value: &str) -> Result<String, String> {
        if self.permitted.is_empty() || self.permitted().any(|permitted| permitted == value) {
            return Ok(value.to_owned());
        }
        let permitted: Vec<&str> = self.permitted().collect();
        Err(format!("'{value}' is not one of the permitted values: {}", permitted.join(", ")))
    }

    fn in_range(&self, number: f64, text: &str) -> Result<String, String> {
        if self.kind != "int" && number < 0.0 && self.kind != "float" {
            return Err(format!("'{text}' is negative"));
        }
        if self.min.parse().is_ok_and(|min: f64| number < min) {
            return Err(format!("Value '{text}' is below minimum {}", self.min));
        }
        if self.max.parse().is_ok_and(|max: f64| number > max) {
            return Err(format!("Value '{text}' exceeds maximum {}", self.max));
        }
        Ok(text.to_owned())
    }
}

/// Ceph's clients read `true`, `false` and numbers only; daemons also take `yes` and `on`.
fn switch(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" => Ok(true),
        "false" | "no" | "off" => Ok(false),
        _ => integer(value)
            .map(|number| number != 0)
            .map_err(|_| format!("Expected option value to be true or false, got '{value}'")),
    }
}

/// A whole number, with a decimal unit as `10K` is.
fn integer(value: &str) -> Result<i128, String> {
    let wrong = || format!("Expected option value to be integer, got '{value}'");
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale: i128 = match &value[digits.len()..] {
        "" | "B" => 1,
        "K" | "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    let number = digits.parse::<i128>().map_err(|_| wrong())?;
    let number = number.checked_mul(scale).ok_or_else(wrong)?;
    let fits = number >= i128::from(i64::MIN) && number <= i128::from(u64::MAX);
    if fits { Ok(number) } else { Err(wrong()) }
}

fn size(value: &str) -> Result<u64, String> {
    parse_bytes(value)
        .ok_or_else(|| format!("Expected a size such as 4096, 64K or 1Gi, got '{value}'"))
}

fn real(value: &str) -> Result<f64, String> {
    let number: Option<f64> = value.parse().ok();
    let finite = number.filter(|number| number.is_finite());
    finite.ok_or_else(|| format!("Expected option value to be a number, got '{value}'"))
}

/// Seconds or milliseconds, or a number with a unit: `90`, `2h`, `1day`.
fn duration(value: &str) -> Result<f64, String> {
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = value[digits.len()..].trim();
    let is_unit = [
        "", "s", "sec", "secs", "second", "seconds", "m", "min", "mins", "minute", "minutes", "h",
        "hr", "hour",
    ]
    .into_iter()
    .chain([
        "hours", "d", "day", "days", "w", "week", "weeks", "ms", "mo", "month", "months", "y",
        "year", "years",
    ])
    .any(|known| known == unit);
    let number = if is_unit { real(digits).ok() } else { None };
    number.ok_or_else(|| format!("Expected a time such as 90, 2h or 1day, got '{value}'"))
}

fn uuid(value: &str) -> Result<String, String> {
    let is_uuid = value.len() == 36
        && value.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    if is_uuid { Ok(value.to_owned()) } else { Err(format!("Expected a UUID, got '{value}'")) }
}

/// The level of logging, and of the log in memory: `5` or `1/5`.
fn log_level(value: &str) -> Result<String, String> {
    let wrong = || format!("Expected levels of 0 to 99 such as 5 or 1/5, got '{value}'");
    let level = |text: &str| text.parse::<u8>().ok().filter(|level| *level <= 99).ok_or_else(wrong);
    let (log, memory) = value.split_once('/').unwrap_or((value, value));
    Ok(format!("{}/{}", level(log)?, level(memory)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalize(name: &str, value: &str) -> Result<String, String> {
        upstream(name).expect("a known option").normalize(value)
    }

    #[test]
    fn names_are_sorted_and_defaults_are_accepted() {
        assert!(names().is_sorted() && names().count() > 1800);
        for name in names() {
            let option = upstream(name).expect("listed");
            let default = option.default;
            assert!(default.is_empty() || option.normalize(default).is_ok(), "{name}: {default}");
        }
    }

    #[test]
    fn values_are_kept_as_ceph_keeps_them() {
        assert_eq!(normalize("mds_cache_memory_limit", "4Gi").as_deref(), Ok("4294967296"));
        assert_eq!(normalize("rbd_cache", "1").as_deref(), Ok("true"));
        assert_eq!(normalize("debug_osd", "3").as_deref(), Ok("3/3"));
        assert_eq!(normalize("osd_objectstore", "memstore").as_deref(), Ok("memstore"));
    }

    #[test]
    fn impossible_values_are_refused() {
        for (name, value) in [
            ("osd_scrub_begin_hour", "25"),
            ("osd_memory_target", "10"),
            ("osd_max_backfills", "many"),
            ("osd_max_backfills", "9999999999999999999999"),
            ("osd_scrub_auto_repair", "perhaps"),
            ("osd_objectstore", "blah"),
            ("fsid", "12"),
            ("debug_osd", "1/x"),
        ] {
            assert!(normalize(name, value).is_err(), "{name} = {value}");
        }
    }
}
