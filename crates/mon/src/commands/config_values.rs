//! Names, sections and values of options, as commands give them.

use crate::command::Refusal;
use crate::state::parse_switch;
use types::EntityType;
use wire::options::{Kind, known, upstream};

/// Normalizes an option's name: blanks and dashes become underscores, as in configuration files.
pub(super) fn option_name(text: &str) -> Result<String, Refusal> {
    let name = text.trim().replace([' ', '-'], "_");
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.');
    if name.is_empty() || !name.chars().all(is_valid) {
        return Err(Refusal::invalid(format!("unrecognized config option '{text}'")));
    }
    Ok(name)
}

/// Checks the section that a command names: `global`, a type or a daemon, with an optional mask.
pub(super) fn section(text: &str) -> Result<String, Refusal> {
    let (section, _mask) = text.split_once('/').unwrap_or((text, ""));
    let kind = section.split('.').next().unwrap_or_default();
    if section == "global" || EntityType::from_name(kind).is_some() {
        return Ok(text.to_owned());
    }
    Err(Refusal::invalid(format!(
        "unrecognized config target '{text}', expected global, a type such as osd, or a name such as osd.0"
    )))
}

/// The value as it is stored, if the option exists and can be set in the database.
pub(super) fn check_value(name: &str, value: &str) -> Result<String, Refusal> {
    let wrong =
        |why: &str| Refusal::invalid(format!("error parsing value '{value}' of {name}: {why}"));
    if let Some(known) = known(name) {
        known.check(value).map_err(|why| wrong(&why))?;
        let level = name.starts_with("debug_").then(|| upstream(name)).flatten();
        return Ok(match known.kind {
            Kind::Size => stdx::parse_bytes(value).unwrap_or_default().to_string(),
            Kind::Switch => parse_switch(value).unwrap_or_default().to_string(),
            _ => {
                return level
                    .map_or(Ok(value.to_owned()), |level| level.normalize(value))
                    .map_err(|why| wrong(&why));
            }
        });
    }
    if name.starts_with("mgr/") {
        return Ok(value.to_owned());
    }
    let Some(option) = upstream(name) else {
        return Err(Refusal::invalid(format!(
            "unrecognized config option '{name}': 'ceph config ls' lists what there is; --force sets it nevertheless"
        )));
    };
    if option.is_local {
        return Err(Refusal::invalid(format!(
            "{name} is special and cannot be stored by the mon: it is read before the monitors are reached, so set it in ceph.conf"
        )));
    }
    option.normalize(value).map_err(|why| wrong(&why))
}
