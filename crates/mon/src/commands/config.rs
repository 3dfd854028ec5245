//! The configuration database.
//!
//! Options are kept as text. Those in [`wire::options`] have a type that is checked and a default that is
//! shown; others are options of clients, which this monitor hands on without knowing them.

use crate::command::{Answer, Command, Context, Refusal, command};
use crate::keys;
use crate::state::{CONFIG_HISTORY_KEPT, shown_option as shown, stored_option as stored};
use crate::table::Table;
use serde_json::{Map, Value, json};
use types::{EntityName, EntityType};
use wire::options::{Known, TABLE, known};

/// Steps that `config log` shows unless told otherwise.
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

/// An option's name with blanks and dashes as underscores, as in configuration files.
fn option_name(text: &str) -> Result<String, Refusal> {
    let name = text.trim().replace([' ', '-'], "_");
    let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.');
    if name.is_empty() || !name.chars().all(is_valid) {
        return Err(Refusal::invalid(format!("unrecognized config option '{text}'")));
    }
    Ok(name)
}

fn section(text: &str) -> Result<String, Refusal> {
    let (section, _mask) = text.split_once('/').unwrap_or((text, ""));
    let kind = section.split('.').next().unwrap_or_default();
    if section == "global" || EntityType::from_name(kind).is_some() {
        return Ok(text.to_owned());
    }
    Err(Refusal::invalid(format!(
        "unrecognized config target '{text}', expected global, a type such as osd, or a name such as osd.0"
    )))
}

fn check_value(name: &str, value: &str) -> Result<(), Refusal> {
    match known(name) {
        Some(known) if !known.kind.accepts(value) => {
            let kind = known.kind.name();
            Err(Refusal::invalid(format!(
                "error parsing value '{value}' of {name}: expected a value of type {kind}"
            )))
        }
        _ => Ok(()),
    }
}

/// Writes options and remembers what they were.
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
    let value = context.arguments.text("value").to_owned();
    check_value(&name, &value)?;
    write(context, vec![(who, stored(&name), Some(value))]);
    Ok(Answer::default())
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let who = section(context.arguments.text("who"))?;
    let name = option_name(context.arguments.text("name"))?;
    write(context, vec![(who, stored(&name), None)]);
    Ok(Answer::default())
}

/// What an entity, or a type such as `mon`, is told.
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
            let entry = json!({
                "value": value,
                "section": section,
                "mask": {},
                "can_update_at_runtime": true,
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
    let default = || known(name).map(|known| known.default.to_owned());
    set.or_else(default).ok_or_else(|| Refusal::missing(format!("unrecognized key '{name}'")))
}

fn option_table(rows: impl Iterator<Item = (String, String, String)>) -> String {
    let mut table = Table::new(&["WHO", "MASK", "LEVEL", "OPTION", "VALUE", "RO"]);
    for (who, name, value) in rows {
        let (section, mask) = who.split_once('/').unwrap_or((&who, ""));
        table.row([section, mask, "advanced", &name, &value, ""]);
    }
    table.to_string()
}

fn dump(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let sections = || {
        context.state.config.iter().flat_map(|(who, options)| {
            options.iter().map(|(name, value)| (who.clone(), shown(name), value.clone()))
        })
    };
    let json = || {
        let entry = |(who, name, value): (String, String, String)| {
            let (section, mask) = who.split_once('/').unwrap_or((&who, ""));
            json!({
                "section": section,
                "name": name,
                "value": value,
                "level": "advanced",
                "can_update_at_runtime": true,
                "mask": mask,
            })
        };
        Value::from(sections().map(entry).collect::<Vec<_>>())
    };
    Ok(context.show(json, || option_table(sections())))
}

fn help(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let key = context.arguments.text("key");
    let Known { name, kind, default, meaning } = known(key)
        .ok_or_else(|| Refusal::missing(format!("configuration option '{key}' not recognized")))?;
    let kind = kind.name();
    let json = || {
        json!({
            "name": name,
            "type": kind,
            "level": "advanced",
            "desc": meaning,
            "long_desc": "",
            "default": default,
            "daemon_default": "",
            "tags": [],
            "services": [],
            "see_also": [],
            "min": "",
            "max": "",
            "can_update_at_runtime": true,
            "flags": ["runtime"],
        })
    };
    let plain = || {
        format!(
            "{name} - {meaning}\n  ({kind}, advanced)\n  Default: {default}\n  Can update at runtime: true\n"
        )
    };
    Ok(context.show(json, plain))
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let names: Vec<&str> = TABLE.iter().map(|known| known.name).collect();
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

fn show(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let who = section(context.arguments.text("who"))?;
    let options = options_for(context, &who);
    if let Some(key) = context.arguments.optional("key") {
        return value_of(&options, &option_name(key)?)
            .map(|value| Answer::output(format!("{value}\n")));
    }
    Ok(running(context, options))
}

fn show_with_defaults(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let who = section(context.arguments.text("who"))?;
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
        let entry = |(name, value, section): &(String, String, String)| json!({ "name": name, "value": value, "source": source(section) });
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

fn assimilate(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let text = String::from_utf8_lossy(&context.input).into_owned();
    let mut who = "global".to_owned();
    let mut changes = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            who = section(name.trim())?;
        } else if let Some((name, value)) = line.split_once('=') {
            let name = option_name(name)?;
            // What a client needs to reach the monitor stays in its file.
            if !matches!(name.as_str(), "fsid" | "mon_host" | "keyring") {
                check_value(&name, value.trim())?;
                changes.push((who.clone(), name, Some(value.trim().to_owned())));
            }
        }
    }
    write(context, changes);
    Ok(Answer::output(minimal_text(context)))
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
