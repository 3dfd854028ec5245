//! The options that this cluster's daemons read, as `ceph config help` shows them.
//!
//! One table for both sides: the monitor checks values against it and shows its defaults, and daemons read
//! their values through it. Options of clients, and of Ceph's daemons only, are in [`upstream`].

mod description;
mod document;
mod known;
mod running;
mod table;
mod upstream;

pub use description::{Description, can_update, level};
pub use document::document;
pub use known::{Kind, Known, Permitted, parse_switch as switch};
pub use running::{COMMANDS as RUNNING_COMMANDS, Running, RunningAnswer};
pub use table::TABLE;
pub use upstream::{Upstream, names as upstream_names, upstream};

use known::{parse_real as real, parse_seconds as seconds};

use std::collections::BTreeMap;
use std::time::Duration;

/// The option of this name, if daemons of this cluster read it.
pub fn known(name: &str) -> Option<&'static Known> {
    TABLE.iter().find(|known| known.name == name)
}

/// Values by name, with the table's defaults for unset and unreadable ones.
///
/// A name that is not in the table has the value zero, which the tests of the caller detect.
#[derive(Debug, Clone, Copy)]
pub struct Values<F>(pub F);

impl<'a, F: Fn(&str) -> Option<&'a str>> Values<F> {
    fn read<T>(&self, name: &str, parse: fn(&str) -> Option<T>) -> Option<T> {
        let set = (self.0)(name).and_then(parse);
        set.or_else(|| known(name).and_then(|known| parse(known.default)))
    }

    /// Value of an option of type [`Kind::Number`].
    pub fn number(&self, name: &str) -> u64 {
        self.read(name, |text| text.parse().ok()).unwrap_or_default()
    }

    /// Value of an option of type [`Kind::Real`].
    pub fn real(&self, name: &str) -> f64 {
        self.read(name, real).unwrap_or_default()
    }

    /// Value of an option of type [`Kind::Seconds`].
    pub fn duration(&self, name: &str) -> Duration {
        self.read(name, seconds).unwrap_or_default()
    }

    /// Value in bytes of an option of type [`Kind::Size`].
    pub fn size(&self, name: &str) -> u64 {
        self.read(name, stdx::parse_bytes).unwrap_or_default()
    }

    /// Value of an option of type [`Kind::Switch`].
    pub fn switch(&self, name: &str) -> bool {
        self.read(name, switch).unwrap_or_default()
    }

    /// Value of an option of type [`Kind::Text`].
    pub fn text(&self, name: &str) -> &'a str {
        let default = known(name).map_or("", |known| known.default);
        (self.0)(name).unwrap_or(default)
    }
}

/// The values of a configuration message.
pub fn values<'a>(set: &'a BTreeMap<String, String>) -> Values<impl Fn(&str) -> Option<&'a str>> {
    Values(move |name: &str| set.get(name).map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_defaults_are_permitted_and_options_are_described() {
        for (index, known) in TABLE.iter().enumerate() {
            assert_eq!(known.check(known.default), Ok(()), "{}", known.name);
            assert!(known.meaning.ends_with('.') && known.advice.ends_with('.'), "{}", known.name);
            assert!(TABLE[..index].iter().all(|other| other.name != known.name), "{}", known.name);
        }
    }

    #[test]
    fn what_is_set_wins_unless_it_cannot_be_read() {
        let set = [("osd_max_backfills", "4"), ("osd_heartbeat_grace", "soon")];
        let set = set.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let values = values(&set);
        assert_eq!(values.number("osd_max_backfills"), 4);
        assert_eq!(values.duration("osd_heartbeat_grace"), Duration::from_secs(2));
        assert_eq!(values.duration("osd_heartbeat_interval"), Duration::from_millis(500));
        assert!(values.switch("osd_scrub_auto_repair"));
        assert_eq!(values.text("mon_osd_reporter_subtree_level"), "host");
    }
}
