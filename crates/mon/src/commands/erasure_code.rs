//! Profiles of erasure codes, and the rules that follow from them.

use super::crush_rules::refused;
use crate::bootstrap::DEFAULT_ROOT;
use crate::change::Change;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::state::State;
use crush::{RuleKind, SimpleRule};
use maps::ErasureCodeProfile;
use serde_json::json;
use types::Errno;

/// Shards of one object.
const SHARDS_MAX: u8 = 32;
const PLUGINS: [&str; 6] = ["jerasure", "isa", "lrc", "shec", "clay", "example"];

pub const COMMANDS: &[Command] = &[
    command(
        "osd erasure-code-profile set name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
         name=profile,type=CephString,n=N,req=false name=force,type=CephBool,req=false \
         name=yes_i_really_mean_it,type=CephBool,req=false",
        "create erasure code profile <name> with [<key[=value]> ...] pairs. Add a --force at the end to \
         override an existing profile (VERY DANGEROUS)",
        "osd",
        "rw",
        set,
    ),
    command(
        "osd erasure-code-profile get name=name,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "get erasure code profile <name>",
        "osd",
        "r",
        get,
    ),
    command(
        "osd erasure-code-profile rm name=name,type=CephString,goodchars=[A-Za-z0-9-_.]",
        "remove erasure code profile <name>",
        "osd",
        "rw",
        remove,
    ),
    command("osd erasure-code-profile ls", "list all erasure code profiles", "osd", "r", list),
];

/// How many data and coding shards a profile means.
pub fn profile_shape(profile: &ErasureCodeProfile) -> Result<(u8, u8), Refusal> {
    let shards = |name: &str, default: u8| match profile.get(name) {
        None => Ok(default),
        Some(text) => text.parse::<u8>().map_err(|_| {
            Refusal::invalid(format!(
                "could not convert {name}={text} to int, expected a small number"
            ))
        }),
    };
    let (data, coding) = (shards("k", 2)?, shards("m", 1)?);
    if data == 0 || coding == 0 || data.saturating_add(coding) > SHARDS_MAX {
        let text = format!(
            "k={data} m={coding} is not possible: both must be at least 1, their sum at most {SHARDS_MAX}"
        );
        return Err(Refusal::invalid(text));
    }
    Ok((data, coding))
}

/// The rule `name`, which is made from the profile if there is none of that name.
pub fn rule_for_profile(
    state: &State,
    change: &mut Change,
    name: &str,
    profile: &ErasureCodeProfile,
) -> Result<u8, Refusal> {
    let setting =
        |name: &str| profile.get(name).map(String::as_str).filter(|value| !value.is_empty());
    let known = change.crush_after(state).rule_id(name);
    let id = match known {
        Some(id) => id,
        None => {
            let rule = SimpleRule {
                name,
                root: setting("crush-root").unwrap_or(DEFAULT_ROOT),
                failure_domain: setting("crush-failure-domain").unwrap_or("host"),
                class: setting("crush-device-class"),
                kind: RuleKind::Erasure,
            };
            let mut map = change.crush_after(state).clone();
            let id = map.add_simple_rule(&rule).map_err(refused)?;
            *change.crush(state) = map;
            id
        }
    };
    u8::try_from(id).map_err(|_| Refusal::new(Errno::NOSPC, "all crush rule ids are taken"))
}

fn set(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("name").to_owned();
    let mut profile = ErasureCodeProfile::new();
    for pair in context.arguments.list("profile") {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        profile.insert(key.to_owned(), value.to_owned());
    }
    profile_shape(&profile)?;
    let defaults = [
        ("crush-device-class", ""),
        ("crush-failure-domain", "host"),
        ("crush-root", "default"),
        ("k", "2"),
        ("m", "2"),
        ("plugin", "jerasure"),
        ("technique", "reed_sol_van"),
        ("w", "8"),
    ];
    for (key, value) in defaults {
        profile.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
    if !PLUGINS.contains(&profile["plugin"].as_str()) {
        let text =
            format!("plugin '{}' is unknown, known are {}", profile["plugin"], PLUGINS.join(", "));
        return Err(Refusal::missing(text));
    }
    match context.state.osdmap.erasure_code_profiles.get(&name) {
        Some(existing) if *existing == profile => return Ok(Answer::default()),
        Some(_) if !context.arguments.flag("force") => {
            let text = format!(
                "will not override erasure code profile {name} because the existing profile differs; use --force"
            );
            return Err(Refusal::new(Errno::PERM, text));
        }
        _ => {}
    }
    context.change.osdmap(context.state).new_erasure_code_profiles.insert(name, profile);
    Ok(Answer::default())
}

fn get(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("name");
    let missing = || Refusal::missing(format!("unknown erasure code profile '{name}'"));
    let profile = context.state.osdmap.erasure_code_profiles.get(name).ok_or_else(missing)?;
    let plain = || profile.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    Ok(context.show(|| json!(profile), plain))
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("name").to_owned();
    let map = &context.state.osdmap;
    if !map.erasure_code_profiles.contains_key(&name) {
        return Ok(Answer::said(format!("erasure-code-profile {name} does not exist")));
    }
    let user = map.pools.iter().find(|(_, pool)| pool.erasure_code_profile == name);
    if let Some((id, _)) = user {
        let pool = map.pool_name(*id).unwrap_or_default();
        let text = format!("{pool} pool(s) are using the erasure code profile '{name}'");
        return Err(Refusal::new(Errno::BUSY, text));
    }
    context.change.osdmap(context.state).old_erasure_code_profiles.push(name);
    Ok(Answer::default())
}

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let names: Vec<&String> = context.state.osdmap.erasure_code_profiles.keys().collect();
    Ok(context.show(|| json!(names), || names.iter().map(|name| format!("{name}\n")).collect()))
}
