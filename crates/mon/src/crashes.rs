//! Crash reports of daemons, as they are stored among the configuration keys.

use crate::state::State;
use serde_json::{Map, Value};

/// The place where Ceph's manager stores them.
pub const PREFIX: &str = "mgr/crash/crash/";
/// `mgr/crash/warn_recent_interval`: age in seconds up to which health reports a crash that was not archived.
pub const RECENT_SECONDS: u64 = 14 * 24 * 3600;

/// One crash report.
pub struct Crash {
    pub id: String,
    pub meta: Map<String, Value>,
}

impl Crash {
    /// A field of the report; empty if it is absent.
    pub fn text(&self, field: &str) -> &str {
        self.meta.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether it has not been archived.
    pub fn is_new(&self) -> bool {
        !self.meta.contains_key("archived")
    }

    pub fn entity(&self) -> &str {
        self.text("entity_name")
    }

    pub fn host(&self) -> &str {
        self.text("utsname_hostname")
    }

    pub fn timestamp(&self) -> &str {
        self.text("timestamp")
    }

    /// Time of the crash in seconds since 1970; zero if the report has no valid timestamp.
    pub fn seconds(&self) -> u64 {
        seconds(self.timestamp()).unwrap_or(0)
    }

    /// The whole report.
    pub fn json(&self) -> Value {
        Value::Object(self.meta.clone())
    }
}

/// All reports, the oldest first.
pub fn crashes(state: &State) -> Vec<Crash> {
    let known = state.config_keys.range(PREFIX.to_owned()..);
    let known = known.take_while(|(key, _)| key.starts_with(PREFIX));
    let mut crashes: Vec<Crash> = known
        .filter_map(|(key, value)| {
            let meta = serde_json::from_slice(value).ok()?;
            Some(Crash { id: key[PREFIX.len()..].to_owned(), meta })
        })
        .collect();
    crashes.sort_by_key(|crash| (crash.seconds(), crash.id.clone()));
    crashes
}

/// Parses `2026-11-20T11:02:18.232233Z`, also with a blank between date and time, to seconds since 1970.
pub fn seconds(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let fits = (1970..=2105).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second);
    if !fits {
        return None;
    }
    // In years that begin in March, the leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    u64::try_from((days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_read_to_the_second() {
        assert_eq!(seconds("1970-01-01T00:00:00.000000Z"), Some(0));
        assert_eq!(seconds("2026-11-20 11:02:18.232233Z"), Some(1_795_172_538));
        assert_eq!(seconds("2024-02-29T23:59:59Z"), Some(1_709_251_199));
        for wrong in [
            "",
            "yesterday",
            "2024-13-01T00:00:00",
            "2024-01-01",
            "1969-12-31T00:00:00",
            "2024-01-01T\u{e9}0:00:00",
        ] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
