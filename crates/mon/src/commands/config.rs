//! `config`: the configuration database.
//!
//! Options are stored as text. Those that this cluster's daemons read are in [`wire::options::TABLE`]; all
//! other options of Ceph, such as those of clients, are passed on to the clients. Unknown names and invalid
//! values are refused.

use super::config_values::{check_value, option_name, section};
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::keys;
use crate::state::{CONFIG_HISTORY_KEPT, shown_option as shown, stored_option as stored};
use crate::table::Table;
use serde_json::{Map, Value, json};
use types::{EntityName, EntityType};
use wire::options::{
    Description, Known, TABLE, can_update, known, level, upstream, upstream_names,
};

/// Default number of changes that `config log` shows.
const LOG_DEFAULT: i64 = 10;

pub const COMMANDS: &[Command] = &[
    command(
        "config set name=who,type=CephString name=name,type=CephString \
         name=value,type=CephString name=force,type=CephBool,req=false",
        "Set a configuration option for one or more entities",
        "config",
        "rw",
        set,
    ),
    command(
        "config rm name=who,type=CephString name=name,type=CephString",
        "Clear a configuration option for one or more entities",
        "config",
        "rw",
        remove,
    ),
    command(
        "config get name=who,type=CephString name=key,type=CephString,req=false",
        "Show configuration option(s) for an entity",
        "config",
        "r",
        get,
    ),
    command("config dump", "Show all configuration option(s)", "mon", "r", dump),
    command(
        "config help name=key,type=CephString",
        "Describe a configuration option",
        "config",
        "r",
        help,
    ),
    command("config ls", "List available configuration options", "config", "r", list),
    command(
        "config log name=num,type=CephInt,req=false",
        "Show recent history of config changes",
        "config",
        "r",
        log,
    ),
    command(
        "config show name=who,type=CephString name=key,type=CephString,req=false",
        "Show running configuration",
        "mgr",
        "r",
        show,
    ),
    command(
        "config show-with-defaults name=who,type=CephString",
        "Show running configuration (including compiled-in defaults)",
        "mgr",
        "r",
        show_with_defaults,
    ),
    command(
        "config assimilate-conf",
        "Assimilate options from a conf, and return a new, minimal conf file",
        "config",
        "rw",
        assimilate,
    ),
    command(
        "config generate-minimal-conf",
        "Generate a minimal ceph.conf file",
        "config",
        "r",
        minimal,
    ),
];

/// Writes options, and appends their old values to the history.
fn write(context: &mut Context<'_>, changes: Vec<(String, String, Option<String>)>) {
    let mut log = Vec::new();
    for (who, name, value) in changes {
        let before = context.state.config.get(&who).and_then(|options| options.get(&name));
        if before == value.as_ref() {
            continue;
        }
        let mut entry = Map::new();
        entry.insert("name".to_owned(), json!(format!("{who}/{}", shown(&name))));
        if let Some(before) = before {
            entry.insert("previous_value".to_owned(), json!(before));
        }
        match value {
            Some(value) => {
                entry.insert("new_value".to_owned(), json!(value));
                context.change.put(keys::config(&who, &name), value);
            }
            None => context.change.delete(keys::config(&who, &name)),
        }
        log.push(Value::Object(entry));
    }
    if log.is_empty() {
        return;
    }
    let history = &context.state.config_history;
    let version = history.last_key_value().map_or(1, |(newest, _)| newest + 1);
    let step = json!({
        "version": version,
        "timestamp": context.now.wall().to_iso(),
        "name": "",
        "changes": log,
    });
    context.change.put(keys::config_history(version), step.to_string());
    for old in history.range(..version.saturating_sub(CONFIG_HISTORY_KEPT as u64)) {
        context.change.delete(keys::config_history(*old.0));
    }
}

fn set(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let who = section(context.arguments.text("who"))?;
    let name = option_name(context.arguments.text("name"))?;
    if name.contains('/') && !name.starts_with("mgr/") {
        return Err(Refusal::invalid(format!("unrecognized config option '{name}'")));
    }
    let value = context.arguments.text("value");
    let value = match context.arguments.flag("force")
        && known(&name).is_none()
        && upstream(&name).is_none()
    {
        true => value.to_owned(),
        false => check_value(&name, value)?,
    };
    write(context, vec![(who, stored(&name), Some(value))]);
    Ok(Answer::default())
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let who = section(context.arguments.text("who"))?;
    let name = option_name(context.arguments.text("name"))?;
    write(context, vec![(who, stored(&name), None)]);
    Ok(Answer::default())
}

/// The options that apply to an entity, or to a type such as `mon`: name, value and section.
fn options_for(context: &Context<'_>, who: &str) -> Vec<(String, String, String)> {
    let entity: EntityName = match who.parse() {
        Ok(entity) => entity,
        Err(()) => EntityName::new(EntityType::from_name(who).unwrap_or_default(), ""),
    };
    let options = context.state.config_for(&entity);
    options.into_iter().map(|(name, (value, section))| (shown(&name), value, section)).collect()
}

fn get(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let who = section(context.arguments.text("who"))?;
    let options = options_for(context, &who);
    if let Some(key) = context.arguments.optional("key") {
        let name = option_name(key)?;
        return value_of(&options, &name).map(|value| Answer::output(format!("{value}\n")));
    }
    let json = || {
        let entry = |(name, value, section): &(String, String, String)| {
            let (section, mask) = section.split_once('/').unwrap_or((section, ""));
            let entry = json!({
                "value": value,
                "section": section,
                "mask": mask_parts(mask),
                "can_update_at_runtime": can_update(name),
            });
            (name.clone(), entry)
        };
        Value::Object(options.iter().map(entry).collect())
    };
    let rows =
        || options.iter().map(|(name, value, who)| (who.clone(), name.clone(), value.clone()));
    Ok(context.show(json, || option_table(rows())))
}

fn value_of(options: &[(String, String, String)], name: &str) -> Result<String, Refusal> {
    let set = options.iter().find(|(known, ..)| known == name).map(|(_, value, _)| value.clone());
    let default = || {
        known(name)
            .map(|known| known.default)
            .or_else(|| upstream(name).map(|option| option.default))
    };
    set.or_else(|| default().map(str::to_owned))
        .ok_or_else(|| Refusal::missing(format!("unrecognized key '{name}'")))
}

fn option_table(rows: impl Iterator<Item = (String, String, String)>) -> String {
    let mut table = Table::new(&["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"]);
    for (who, name, value) in rows {
        let (section, mask) = who.split_once('/').unwrap_or((&who, ""));
        let read_only = if can_update(&name) { "" } else { "*" };
        table.row([section, mask, level(&name), &name, &value, read_only]);
    }
    table.to_string()
}

/// Sections of single daemons follow that of their type; `rbd config` depends on this order.
const KINDS_IN_ORDER: [&str; 6] = ["global", "mon", "mgr", "osd", "mds", "client"];

fn dump(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let order = |who: &str| {
        let (section, mask) = who.split_once('/').unwrap_or((who, ""));
        let kind = section.split('.').next().unwrap_or_default();
        let place = KINDS_IN_ORDER.iter().position(|known| *known == kind);
        (
            place.unwrap_or(KINDS_IN_ORDER.len()),
            section.to_owned(),
            mask.is_empty(),
            mask.to_owned(),
        )
    };
    let mut rows: Vec<(String, String, String)> = context
        .state
        .config
        .iter()
        .flat_map(|(who, options)| {
            options.iter().map(|(name, value)| (who.clone(), shown(name), value.clone()))
        })
        .collect();
    rows.sort_by_cached_key(|(who, name, _)| {
        let (kind, section, unmasked, mask) = order(who);
        (kind, section, name.clone(), unmasked, mask)
    });
    let json = || {
        let entry = |(who, name, value): &(String, String, String)| {
            let (section, mask) = who.split_once('/').unwrap_or((who, ""));
            let mut entry = json!({
                "section": section,
                "name": name,
                "value": value,
                "level": level(name),
                "can_update_at_runtime": can_update(name),
                "mask": mask,
            });
            if let (Value::Object(entry), Value::Object(parts)) = (&mut entry, mask_parts(mask)) {
                entry.extend(parts);
            }
            entry
        };
        Value::from(rows.iter().map(entry).collect::<Vec<_>>())
    };
    Ok(context.show(json, || option_table(rows.iter().cloned())))
}

/// The JSON fields for a mask such as `class:ssd` or `host:a`.
fn mask_parts(mask: &str) -> Value {
    match mask.split_once(':') {
        Some(("class", class)) => json!({ "device_class": class }),
        Some((kind, name)) => json!({ "location_type": kind, "location_value": name }),
        None => json!({}),
    }
}

fn help(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let key = option_name(context.arguments.text("key"))?;
    let missing = || Refusal::missing(format!("configuration option '{key}' not recognized"));
    let description = Description::of(&key).ok_or_else(missing)?;
    Ok(context.show(|| description.to_json(), || description.to_text()))
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let mut names: Vec<&str> =
        TABLE.iter().map(|known| known.name).chain(upstream_names()).collect();
    names.sort_unstable();
    names.dedup();
    Ok(context.show(|| json!(names), || format!("{}\n", names.join("\n"))))
}

fn log(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let count = context.arguments.int("num").unwrap_or(LOG_DEFAULT).max(0) as usize;
    let steps: Vec<&Value> = context.state.config_history.values().rev().take(count).collect();
    let plain = || {
        let mut text = String::new();
        for step in &steps {
            let stamp = step["timestamp"].as_str().unwrap_or_default();
            text += &format!("--- {} --- {stamp} ---\n", step["version"]);
            for change in step["changes"].as_array().into_iter().flatten() {
                let name = change["name"].as_str().unwrap_or_default();
                if let Some(before) = change["previous_value"].as_str() {
                    text += &format!("- {name} = {before}\n");
                }
                if let Some(after) = change["new_value"].as_str() {
                    text += &format!("+ {name} = {after}\n");
                }
            }
        }
        text
    };
    Ok(context.show(|| json!(steps), plain))
}

/// The section of a daemon that must exist.
fn running_daemon(context: &Context<'_>) -> Result<String, Refusal> {
    let who = section(context.arguments.text("who"))?;
    let osd = who.strip_prefix("osd.").and_then(|id| id.parse().ok()).map(types::OsdId);
    match osd {
        Some(osd) if !context.state.osdmap.exists(osd) => {
            Err(Refusal::missing(format!("no config state for daemon {who}: there is no such OSD")))
        }
        _ => Ok(who),
    }
}

fn show(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let who = running_daemon(context)?;
    let options = options_for(context, &who);
    if let Some(key) = context.arguments.optional("key") {
        return value_of(&options, &option_name(key)?)
            .map(|value| Answer::output(format!("{value}\n")));
    }
    Ok(running(context, options))
}

fn show_with_defaults(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let who = running_daemon(context)?;
    let mut options = options_for(context, &who);
    for Known { name, default, .. } in TABLE {
        if !options.iter().any(|(set, ..)| set == name) {
            options.push(((*name).to_owned(), (*default).to_owned(), String::new()));
        }
    }
    options.sort();
    Ok(running(context, options))
}

fn running(context: &Context<'_>, options: Vec<(String, String, String)>) -> Answer {
    let source = |section: &str| if section.is_empty() { "default" } else { "mon" };
    let json = || {
        let entry = |(name, value, section): &(String, String, String)| json!({ "name": name, "value": value, "source": source(section), "overrides": [], "ignores": "" });
        Value::from(options.iter().map(entry).collect::<Vec<_>>())
    };
    let plain = || {
        let mut table = Table::new(&["NAME", "VALUE", "SOURCE", "OVERRIDES", "IGNORES"]);
        for (name, value, section) in &options {
            table.row([name.as_str(), value, source(section), "", ""]);
        }
        table.to_string()
    };
    context.show(json, plain)
}

/// Stores the options of a configuration file, and returns a file with those that cannot be stored: unknown
/// or invalid ones, and those needed before a monitor is reached.
fn assimilate(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let text = String::from_utf8_lossy(&context.input).into_owned();
    let mut who = "global".to_owned();
    let mut changes = Vec::new();
    let mut rest: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            who = section(name.trim())?;
        } else if let Some((name, value)) = line.split_once('=') {
            let (name, value) = (option_name(name)?, value.trim());
            match check_value(&name, value) {
                Ok(value) => changes.push((who.clone(), stored(&name), Some(value))),
                Err(_) => {
                    if rest.last().is_none_or(|(section, _)| *section != who) {
                        rest.push((who.clone(), Vec::new()));
                    }
                    rest.last_mut()
                        .into_iter()
                        .for_each(|(_, lines)| lines.push(format!("\t{name} = {value}\n")));
                }
            }
        }
    }
    write(context, changes);
    let text: String =
        rest.iter().map(|(section, lines)| format!("[{section}]\n{}", lines.concat())).collect();
    Ok(Answer::output(text))
}

fn minimal(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    Ok(Answer::output(minimal_text(context)))
}

fn minimal_text(context: &Context<'_>) -> String {
    let map = &context.state.monmap;
    let bracketed = |mon: &maps::MonInfo| match mon.public_addrs.0.len() {
        1 => format!("[{}]", mon.public_addrs),
        _ => mon.public_addrs.to_string(),
    };
    let hosts: Vec<String> = map.mons().map(bracketed).collect();
    let fsid = map.fsid;
    let hosts = hosts.join(" ");
    format!("# minimal ceph.conf for {fsid}\n[global]\n\tfsid = {fsid}\n\tmon_host = {hosts}\n")
}
