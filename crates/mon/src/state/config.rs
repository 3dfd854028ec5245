//! Options with their history, and the key-value store of users.

use super::data::{Applied, Key, State};
use super::values::{json, set, text};
use crate::keys::VersionGroup;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EntityName, EntityType};
use wire::options::Values;
pub use wire::options::switch as parse_switch;

/// Options that are set on this monitor only; they are not in the store.
pub type Overrides = BTreeMap<String, String>;

pub(super) const KEYS: &[Key] = &[
    Key { name: "config", group: Some(VersionGroup::CONFIG), apply: apply_option },
    Key {
        name: "config-history",
        group: Some(VersionGroup::CONFIG),
        apply: |state, rest, value| {
            let number = rest.parse().map_err(|_| None)?;
            set(&mut state.config_history, number, value.map(json).transpose()?);
            Ok(())
        },
    },
    Key {
        name: "config-key",
        group: Some(VersionGroup::CONFIG_KEY),
        apply: |state, rest, value| {
            set(&mut state.config_keys, rest.to_owned(), value.cloned());
            Ok(())
        },
    },
];

/// A section may contain slashes (masks), the name of an option does not.
fn apply_option(state: &mut State, rest: &str, value: Option<&Bytes>) -> Applied {
    let (who, name) = rest.rsplit_once('/').ok_or(None)?;
    let section = state.config.entry(who.to_owned()).or_default();
    set(section, name.to_owned(), value.map(text).transpose()?);
    state.config.retain(|_, options| !options.is_empty());
    Ok(())
}

impl State {
    /// The options of an entity with the section each comes from; more specific sections override others.
    pub fn config_for(&self, who: &EntityName) -> BTreeMap<String, (String, String)> {
        let masks = self.masks(who);
        let mut sections = Vec::new();
        for section in ["global".to_owned(), who.kind.to_string()] {
            let masked = masks.iter().map(|mask| format!("{section}/{mask}"));
            let masked: Vec<String> = masked.collect();
            sections.push(section);
            sections.extend(masked);
        }
        sections.push(who.to_string());
        let mut options = BTreeMap::new();
        for section in sections {
            for (name, value) in self.config.get(&section).into_iter().flatten() {
                options.insert(name.clone(), (value.clone(), section.clone()));
            }
        }
        options
    }

    /// The masks that match an OSD: `rack:r1`, `host:a`, `class:ssd`. None for other entities.
    fn masks(&self, who: &EntityName) -> Vec<String> {
        let id = who.id.parse().ok().filter(|_| who.kind == EntityType::OSD);
        let Some(osd): Option<i32> = id else { return Vec::new() };
        let crush = &self.osdmap.crush;
        let places = crush.full_location(osd).into_iter().rev();
        let places = places.map(|(kind, name)| format!("{kind}:{name}"));
        places.chain(crush.item_class(osd).map(|class| format!("class:{class}"))).collect()
    }

    /// One option as it applies to this monitor: set on it alone, in section `mon`, or in `global`.
    pub fn mon_option<'a>(&'a self, running: &'a Overrides, name: &str) -> Option<&'a str> {
        let in_section = |section: &str| self.config.get(section)?.get(name).map(String::as_str);
        let running = running.get(name).map(String::as_str);
        running.or_else(|| in_section("mon")).or_else(|| in_section("global"))
    }

    /// An option of the manager's modules, such as `mgr/balancer/active`.
    pub fn mgr_option(&self, name: &str) -> Option<&str> {
        let name = stored_option(name);
        let sections = ["mgr", "global"].into_iter();
        sections
            .filter_map(|section| self.config.get(section)?.get(&name))
            .next()
            .map(String::as_str)
    }

    /// The options of the manager's modules.
    pub fn mgr_options<'a>(&'a self) -> Values<impl Fn(&str) -> Option<&'a str>> {
        Values(|name: &str| self.mgr_option(name))
    }

    /// Options as they apply to this monitor.
    pub fn options<'a>(
        &'a self,
        running: &'a Overrides,
    ) -> Values<impl Fn(&str) -> Option<&'a str>> {
        Values(|name: &str| self.mon_option(running, name))
    }

    /// Options of OSDs that the monitor's failure detection depends on as well.
    pub fn osd_options<'a>(
        &'a self,
        running: &'a Overrides,
    ) -> Values<impl Fn(&str) -> Option<&'a str>> {
        let of_osds = |name: &str| self.config.get("osd")?.get(name).map(String::as_str);
        Values(move |name: &str| of_osds(name).or_else(|| self.mon_option(running, name)))
    }

    /// Clock skew in seconds beyond which health warns.
    pub fn clock_drift_allowed(&self, running: &Overrides) -> f64 {
        self.options(running).real("mon_clock_drift_allowed")
    }

    /// A boolean option of the monitor. A value that is no boolean counts as not set.
    pub fn mon_switch(&self, running: &Overrides, name: &str, default: bool) -> bool {
        self.mon_option(running, name).and_then(parse_switch).unwrap_or(default)
    }
}

/// In keys of the store the last slash ends the section, so slashes in the names of manager modules' options
/// are replaced.
const STORED_SLASH: &str = "\u{1}";

/// The name of an option as it is written in keys.
pub fn stored_option(name: &str) -> String {
    name.replace('/', STORED_SLASH)
}

/// The inverse of [`stored_option`].
pub fn shown_option(name: &str) -> String {
    name.replace(STORED_SLASH, "/")
}
