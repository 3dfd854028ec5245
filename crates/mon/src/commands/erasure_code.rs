//! `osd erasure-code-profile`: named sets of properties for erasure-coded pools.
//!
//! A profile is stored with all defaults, so that equal profiles compare equal.

use crate::command::{Answer, Command, Context, Refusal, command};
use crate::state::State;
use maps::ErasureCodeProfile;
use serde_json::json;
use types::Errno;

/// Bound of data and coding shards; a shard's id must fit in a signed byte.
const SHARDS_MAX: u16 = 127;
const PLUGIN_DEFAULT: &str = "jerasure";
/// Properties that clients assume if the user gives none (`osd_pool_default_erasure_code_profile`).
const DEFAULTS: [(&str, &str); 4] =
    [("plugin", PLUGIN_DEFAULT), ("technique", "reed_sol_van"), ("k", "2"), ("m", "2")];
/// Stripe units must be a multiple of this, or they are slow on every disk.
const STRIPE_UNIT_ALIGNMENT: u64 = 4096;

const SET: &str = "osd erasure-code-profile set \
    name=name,type=CephString,goodchars=[A-Za-z0-9-_.] \
    name=profile,type=CephString,n=N,req=false name=force,type=CephBool,req=false \
    name=yes_i_really_mean_it,type=CephBool,req=false";

pub const COMMANDS: &[Command] = &[
    command(
        SET,
        "create erasure code profile <name> with [<key[=value]> ...] pairs. Add a --force at the \
         end to override an existing profile (VERY DANGEROUS)",
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

/// An erasure code plugin and the defaults of its profiles.
struct Plugin {
    name: &'static str,
    techniques: &'static [&'static str],
    defaults: &'static [(&'static str, &'static str)],
}

const PLUGINS: [Plugin; 2] = [
    Plugin {
        name: PLUGIN_DEFAULT,
        techniques: &["reed_sol_van", "reed_sol_r6_op", "cauchy_orig", "cauchy_good"],
        defaults: &[
            ("technique", "reed_sol_van"),
            ("k", "2"),
            ("m", "1"),
            ("w", "8"),
            ("jerasure-per-chunk-alignment", "false"),
        ],
    },
    Plugin {
        name: "isa",
        techniques: &["reed_sol_van", "cauchy"],
        defaults: &[("technique", "reed_sol_van"), ("k", "7"), ("m", "3")],
    },
];

const PLACEMENT_DEFAULTS: [(&str, &str); 3] =
    [("crush-root", "default"), ("crush-failure-domain", "host"), ("crush-device-class", "")];

fn list(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let names = context.state.osdmap.erasure_code_profiles.keys();
    let plain = || names.clone().map(|name| format!("{name}\n")).collect();
    Ok(context.show(|| json!(names.clone().collect::<Vec<_>>()), plain))
}

fn get(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("name");
    let profile = context.state.osdmap.erasure_code_profiles.get(name);
    let unknown = || Refusal::missing(format!("unknown erasure code profile '{name}'"));
    let profile = profile.ok_or_else(unknown)?;
    let plain = || profile.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    Ok(context.show(|| json!(profile), plain))
}

fn remove(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let name = context.arguments.text("name").to_owned();
    let map = &context.state.osdmap;
    let users = map.pools.iter().filter(|(_, pool)| pool.erasure_code_profile == name);
    let users: Vec<&str> = users.filter_map(|(id, _)| map.pool_name(*id)).collect();
    if !users.is_empty() {
        let users = users.join(" ");
        let text = format!("{users} pool(s) are using the erasure code profile '{name}'");
        return Err(Refusal::new(Errno::BUSY, text));
    }
    if !map.erasure_code_profiles.contains_key(&name) {
        return Ok(Answer::said(format!("erasure-code-profile {name} does not exist")));
    }
    context.change.osdmap(context.state).old_erasure_code_profiles.push(name);
    Ok(Answer::default())
}

fn set(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let state = context.state;
    let name = context.arguments.text("name").to_owned();
    let force = context.arguments.flag("force");
    let mut profile = with_defaults(context.arguments.list("profile"))?;
    complete(&mut profile)?;
    check(state, &profile, force)?;
    if let Some(existing) = state.osdmap.erasure_code_profiles.get(&name) {
        let mut existing = existing.clone();
        // A profile that cannot be completed differs in any case.
        complete(&mut existing).ok();
        if existing == profile {
            return Ok(Answer::default());
        }
        let is_sure = context.arguments.flag("yes_i_really_mean_it");
        may_replace(&name, &existing, &profile, force, is_sure)?;
    }
    context.change.osdmap(state).new_erasure_code_profiles.insert(name, profile);
    Ok(Answer::default())
}

fn may_replace(
    name: &str,
    existing: &ErasureCodeProfile,
    profile: &ErasureCodeProfile,
    force: bool,
    is_sure: bool,
) -> Result<(), Refusal> {
    let refused = |text: String| Err(Refusal::new(Errno::PERM, text));
    if !force {
        return refused(format!(
            "will not override erasure code profile {name} because the existing profile {} is \
             different from the proposed profile {}",
            written(existing),
            written(profile)
        ));
    }
    if !is_sure {
        return refused(
            "overriding erasure code profile can be DANGEROUS; add --yes-i-really-mean-it to do it \
             anyway"
                .to_owned(),
        );
    }
    Ok(())
}

/// `{k=2,m=1}`
fn written(profile: &ErasureCodeProfile) -> String {
    let pairs: Vec<String> = profile.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{{{}}}", pairs.join(","))
}

/// The given properties, with the defaults added unless they are for another plugin.
fn with_defaults(given: &[String]) -> Result<ErasureCodeProfile, Refusal> {
    let mut given_map = ErasureCodeProfile::new();
    for pair in given {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let Some(rest) = key.strip_prefix("ruleset-") {
            return Err(Refusal::invalid(format!(
                "property '{key}' is no longer supported; try 'crush-{rest}' instead"
            )));
        }
        given_map.insert(key.to_owned(), value.to_owned());
    }
    if given_map.get("plugin").is_none_or(|plugin| plugin == PLUGIN_DEFAULT) {
        fill(&mut given_map, &DEFAULTS);
    }
    Ok(given_map)
}

fn fill(profile: &mut ErasureCodeProfile, defaults: &[(&str, &str)]) {
    for (key, value) in defaults {
        profile.entry((*key).to_owned()).or_insert_with(|| (*value).to_owned());
    }
}

/// Adds the plugin's defaults.
fn complete(profile: &mut ErasureCodeProfile) -> Result<(), Refusal> {
    let name = profile.get("plugin").map_or("", String::as_str);
    let plugin = PLUGINS.iter().find(|plugin| plugin.name == name).ok_or_else(|| {
        let known = PLUGINS.map(|plugin| plugin.name).join(", ");
        let text = format!("erasure code plugin '{name}' is not known, known are {known}");
        Refusal::new(Errno::IO, text)
    })?;
    let name = plugin.name;
    fill(profile, plugin.defaults);
    fill(profile, &PLACEMENT_DEFAULTS);
    let technique = profile.get("technique").map_or("", String::as_str);
    if !plugin.techniques.contains(&technique) {
        let known = plugin.techniques.join(", ");
        let text = format!(
            "technique '{technique}' of erasure code plugin {name} is not known, known are {known}"
        );
        return Err(Refusal::invalid(text));
    }
    Ok(())
}

/// Refuses a complete profile that no pool could use.
fn check(state: &State, profile: &ErasureCodeProfile, force: bool) -> Result<(), Refusal> {
    check_shape(profile)?;
    if profile.contains_key("w") && ![8, 16, 32].contains(&number(profile, "w")?) {
        let width = &profile["w"];
        return Err(Refusal::invalid(format!("w={width} must be one of {{8, 16, 32}}")));
    }
    if let Some(domain) = profile.get("crush-failure-domain")
        && state.osdmap.crush.type_id(domain).is_none()
    {
        return Err(Refusal::invalid(format!(
            "erasure-code-profile {} contains an invalid failure-domain \"{domain}\"",
            written(profile)
        )));
    }
    profile.get("stripe_unit").map_or(Ok(()), |unit| check_stripe_unit(unit, force))
}

/// An object needs at least two data shards and one coding shard.
fn check_shape(profile: &ErasureCodeProfile) -> Result<(), Refusal> {
    let (data, coding) = (number(profile, "k")?, number(profile, "m")?);
    if data < 2 {
        return Err(Refusal::invalid(format!("k={data} must be >= 2")));
    }
    if coding < 1 {
        return Err(Refusal::invalid(format!("m={coding} must be >= 1")));
    }
    let shards = u16::from(data) + u16::from(coding);
    if shards > SHARDS_MAX {
        return Err(Refusal::invalid(format!("(k+m)={shards} must be <= {SHARDS_MAX}")));
    }
    Ok(())
}

fn number(profile: &ErasureCodeProfile, key: &str) -> Result<u8, Refusal> {
    let value = profile.get(key).map_or("", String::as_str);
    value.parse().map_err(|_| Refusal::invalid(format!("could not convert {key}={value} to int")))
}

fn check_stripe_unit(text: &str, force: bool) -> Result<(), Refusal> {
    let unit = binary_size(text).filter(|unit| (1..=u64::from(u32::MAX)).contains(unit));
    let unit =
        unit.ok_or_else(|| Refusal::invalid(format!("could not parse stripe_unit '{text}'")))?;
    if unit % STRIPE_UNIT_ALIGNMENT != 0 && !force {
        return Err(Refusal::invalid(format!(
            "stripe_unit {unit} should be a multiple of {STRIPE_UNIT_ALIGNMENT} bytes for best \
             performance; use --force to override this check"
        )));
    }
    Ok(())
}

/// `4096`, `4K`, `4Ki`, `1M`: suffixes are powers of 1024.
fn binary_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let shift = match &text[digits..] {
        "" | "B" => 0,
        "K" | "Ki" => 10,
        "M" | "Mi" => 20,
        "G" | "Gi" => 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run, state, text};
    use super::*;

    const SET: &str = "osd erasure-code-profile set";

    #[test]
    fn a_profile_is_stored_complete() {
        let mut state = state();
        let profile = json!({ "name": "p1", "profile": ["k=2", "m=1"] });
        assert_eq!(run(&mut state, SET, profile).unwrap(), Answer::default());
        let get = run(&mut state, "osd erasure-code-profile get", json!({ "name": "p1" }));
        assert_eq!(
            text(&get.unwrap()),
            "crush-device-class=\ncrush-failure-domain=host\ncrush-root=default\n\
             jerasure-per-chunk-alignment=false\nk=2\nm=1\nplugin=jerasure\n\
             technique=reed_sol_van\nw=8\n"
        );
    }

    #[test]
    fn only_force_replaces_a_profile_by_a_different_one() {
        let mut state = state();
        let mut set = |given| run(&mut state, SET, given).map_err(|refusal| refusal.errno);
        set(json!({ "name": "p1", "profile": ["k=2", "m=1"] })).unwrap();
        set(json!({ "name": "p1", "profile": ["m=1"] })).unwrap();
        let other = json!({ "name": "p1", "profile": ["k=3", "m=1"] });
        assert_eq!(set(other).unwrap_err(), Errno::PERM);
        let forced = json!({ "name": "p1", "profile": ["k=3", "m=1"], "force": true });
        assert_eq!(set(forced).unwrap_err(), Errno::PERM);
        let sure = json!({
            "name": "p1",
            "profile": ["k=3", "m=1"],
            "force": true,
            "yes_i_really_mean_it": true,
        });
        set(sure).unwrap();
        assert_eq!(state.osdmap.erasure_code_profiles["p1"]["k"], "3");
    }

    #[test]
    fn what_no_pool_could_use_is_refused_with_the_reason() {
        let mut state = state();
        let mut refused = |profile: &[&str]| {
            run(&mut state, SET, json!({ "name": "p1", "profile": profile })).unwrap_err().text
        };
        assert_eq!(refused(&["k=1"]), "k=1 must be >= 2");
        assert_eq!(refused(&["m=0"]), "m=0 must be >= 1");
        assert_eq!(refused(&["k=120", "m=8"]), "(k+m)=128 must be <= 127");
        assert_eq!(refused(&["k=many"]), "could not convert k=many to int");
        assert!(refused(&["plugin=lrc"]).ends_with("known are jerasure, isa"));
        assert!(refused(&["technique=xor"]).starts_with("technique 'xor'"));
        assert!(refused(&["crush-failure-domain=shelf"]).ends_with("failure-domain \"shelf\""));
        assert!(refused(&["ruleset-root=ssd"]).contains("try 'crush-root'"));
        assert!(refused(&["stripe_unit=5000"]).contains("multiple of 4096"));
    }

    #[test]
    fn profiles_come_and_go_unless_a_pool_has_them() {
        let mut state = state();
        let name = json!({ "name": "p" });
        let mut other = maps::Pool::new(maps::PoolType::Erasure, 3, 8, 0);
        other.erasure_code_profile = "p".to_owned();
        state.osdmap.pools.insert(types::PoolId(1), other);
        state.osdmap.pool_names.insert(types::PoolId(1), "x".to_owned());
        let remove = "osd erasure-code-profile rm";
        let refusal = run(&mut state, remove, name.clone()).unwrap_err();
        assert_eq!(refusal.text, "x pool(s) are using the erasure code profile 'p'");
        state.osdmap.pools.clear();
        run(&mut state, remove, name.clone()).unwrap();
        let again = run(&mut state, remove, name).unwrap();
        assert_eq!(again.text, "erasure-code-profile p does not exist");
        assert_eq!(text(&run(&mut state, "osd erasure-code-profile ls", json!({})).unwrap()), "");
    }
}
