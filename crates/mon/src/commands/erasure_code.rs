//! `osd erasure-code-profile`: named sets of properties for erasure-coded pools.
//!
//! A profile is stored with all defaults, so that equal profiles compare equal.

use super::erasure_rule::{self, Placement};
use crate::bootstrap::DEFAULT_CODE;
use crate::command::{Answer, Command, Context, Refusal, command};
use crate::state::State;
use maps::{ErasureCode, ErasureCodeError, ErasureCodeProfile, OsdMap};
use serde_json::json;
use types::Errno;

/// Defaults of profiles that name this plugin.
const DEFAULTS_JERASURE: [(&str, &str); 5] = [
    ("technique", "reed_sol_van"),
    ("k", "7"),
    ("m", "3"),
    ("w", "8"),
    ("jerasure-per-chunk-alignment", "false"),
];

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
    let users = users(map, &name);
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
    let mut profile = properties(context.arguments.list("profile"))?;
    complete(&mut profile);
    let code = check(state, &profile)?;
    if let Some(existing) = state.osdmap.erasure_code_profiles.get(&name) {
        let mut existing = existing.clone();
        complete(&mut existing);
        if existing == profile {
            return Ok(Answer::default());
        }
        keeps_code(&state.osdmap, &name, &existing, &code)?;
        let is_sure = context.arguments.flag("yes_i_really_mean_it");
        may_replace(&name, &existing, &profile, force, is_sure)?;
    }
    context.change.osdmap(state).new_erasure_code_profiles.insert(name, profile);
    Ok(Answer::default())
}

/// The pools with a profile.
fn users<'a>(map: &'a OsdMap, profile: &str) -> Vec<&'a str> {
    let users = map.pools.iter().filter(|(_, pool)| pool.erasure_code_profile == profile);
    users.filter_map(|(id, _)| map.pool_name(*id)).collect()
}

/// Refuses another code for a profile that pools have: OSDs would decode with a matrix by which the objects
/// were not encoded.
fn keeps_code(
    map: &OsdMap,
    name: &str,
    existing: &ErasureCodeProfile,
    code: &ErasureCode,
) -> Result<(), Refusal> {
    let is_same = ErasureCode::parse(existing)
        .is_ok_and(|known| ErasureCode { stripe_unit: code.stripe_unit, ..known } == *code);
    let users = users(map, name);
    if is_same || users.is_empty() {
        return Ok(());
    }
    let property = |key: &str| existing.get(key).map_or("", String::as_str);
    let text = format!(
        "erasure code profile '{name}' keeps plugin={} technique={} k={} m={} while pool(s) {} use it: \
         their objects are encoded that way and could not be read any more. Set a profile of another \
         name, create a pool with it, and copy the data there",
        property("plugin"),
        property("technique"),
        property("k"),
        property("m"),
        users.join(" ")
    );
    Err(Refusal::new(Errno::BUSY, text))
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

/// The given properties.
fn properties(given: &[String]) -> Result<ErasureCodeProfile, Refusal> {
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
    Ok(given_map)
}

fn fill(profile: &mut ErasureCodeProfile, defaults: &[(&str, &str)]) {
    for (key, value) in defaults {
        profile.entry((*key).to_owned()).or_insert_with(|| (*value).to_owned());
    }
}

/// Adds the defaults of the plugin and of placement.
fn complete(profile: &mut ErasureCodeProfile) {
    match profile.get("plugin").map(String::as_str) {
        None | Some("isa") => fill(profile, &DEFAULT_CODE),
        Some("jerasure") => fill(profile, &DEFAULTS_JERASURE),
        _ => {}
    }
    fill(profile, &erasure_rule::DEFAULTS);
}

/// The code of a complete profile; refuses one that no pool could use.
fn check(state: &State, profile: &ErasureCodeProfile) -> Result<ErasureCode, Refusal> {
    let code = ErasureCode::parse(profile).map_err(|error| profile_refused(&error))?;
    if let Some(domain) = profile.get("crush-failure-domain")
        && state.osdmap.crush.type_id(domain).is_none()
    {
        return Err(Refusal::invalid(format!(
            "erasure-code-profile {} contains an invalid failure-domain \"{domain}\"",
            written(profile)
        )));
    }
    Placement::of(profile)?.check(&code)?;
    Ok(code)
}

/// The refusal of a profile, with Ceph's error numbers.
pub(super) fn profile_refused(error: &ErasureCodeError) -> Refusal {
    let errno = match error {
        ErasureCodeError::UnknownPlugin(_) => Errno::IO,
        ErasureCodeError::UnknownTechnique { .. } | ErasureCodeError::UnknownProfile(_) => {
            Errno::NOENT
        }
        ErasureCodeError::UnservedPlugin(_)
        | ErasureCodeError::UnservedTechnique { .. }
        | ErasureCodeError::UnservedProperty { .. } => Errno::NOTSUPP,
        ErasureCodeError::NotANumber { .. } | ErasureCodeError::OutOfBounds(_) => Errno::INVAL,
    };
    Refusal::new(errno, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{run, state, text};
    use super::*;

    const SET: &str = "osd erasure-code-profile set";

    #[test]
    fn a_profile_is_stored_complete() {
        let mut state = state();
        let mut stored = |name: &str, given: &[&str]| {
            let profile = json!({ "name": name, "profile": given });
            assert_eq!(run(&mut state, SET, profile).unwrap(), Answer::default());
            let get = run(&mut state, "osd erasure-code-profile get", json!({ "name": name }));
            text(&get.unwrap())
        };
        let placement = "crush-device-class=\ncrush-failure-domain=host\n\
             crush-num-failure-domains=0\ncrush-osds-per-failure-domain=0\ncrush-root=default\n";
        let isa = "k=4\nm=2\nplugin=isa\ntechnique=reed_sol_van\n";
        assert_eq!(stored("p1", &["k=4", "m=2"]), format!("{placement}{isa}"));
        let jerasure = "jerasure-per-chunk-alignment=false\nk=7\nm=3\nplugin=jerasure\n\
             technique=reed_sol_van\nw=8\n";
        assert_eq!(stored("p2", &["plugin=jerasure"]), format!("{placement}{jerasure}"));
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
    fn the_code_of_a_profile_in_use_stays_even_by_force() {
        let mut state = state();
        let mut other = maps::Pool::new(maps::PoolType::Erasure, 3, 8, 0);
        other.erasure_code_profile = "p".to_owned();
        state.osdmap.pools.insert(types::PoolId(1), other);
        state.osdmap.pool_names.insert(types::PoolId(1), "x".to_owned());
        let mut set = |profile: &[&str]| {
            let given = json!({
                "name": "p", "profile": profile, "force": true, "yes_i_really_mean_it": true,
            });
            run(&mut state, SET, given)
        };
        for changed in [
            ["plugin=jerasure", "k=3", "m=1"],
            ["plugin=jerasure", "k=2", "m=2"],
            ["plugin=isa", "k=2", "m=1"],
        ] {
            let refusal = set(&changed).unwrap_err();
            assert_eq!(refusal.errno, Errno::BUSY);
            let says =
                "keeps plugin=jerasure technique=reed_sol_van k=2 m=1 while pool(s) x use it";
            assert!(refusal.text.contains(says), "{refusal}");
        }
        set(&["plugin=jerasure", "k=2", "m=1", "stripe_unit=16K", "crush-root=other"]).unwrap();
        assert_eq!(state.osdmap.erasure_code_profiles["p"]["stripe_unit"], "16K");
    }

    #[test]
    fn a_profile_that_no_pool_could_use_is_refused_with_the_reason() {
        let mut state = state();
        let mut refused = |profile: &[&str]| {
            run(&mut state, SET, json!({ "name": "p1", "profile": profile })).unwrap_err()
        };
        assert_eq!(refused(&["k=1"]), Refusal::invalid("k=1 must be >= 2"));
        assert_eq!(refused(&["plugin=lrc"]).errno, Errno::NOTSUPP);
        assert_eq!(refused(&["plugin=nonsense"]).errno, Errno::IO);
        assert_eq!(refused(&["technique=xor"]).errno, Errno::NOENT);
        let domain = refused(&["crush-failure-domain=shelf"]).text;
        assert!(domain.ends_with("failure-domain \"shelf\""));
        assert!(refused(&["ruleset-root=ssd"]).text.contains("try 'crush-root'"));
        assert!(refused(&["stripe_unit=5000"]).text.contains("multiple of 4096"));
    }

    #[test]
    fn bounded_failure_domains_have_a_place_for_each_shard() {
        let mut state = state();
        let mut set =
            |profile: &[&str]| run(&mut state, SET, json!({ "name": "p1", "profile": profile }));
        let (domains, each) = ("crush-num-failure-domains=3", "crush-osds-per-failure-domain=2");
        let refusal = set(&["k=4", "m=2", each]).unwrap_err();
        let expected = "crush-num-failure-domains 0 must be >= 1 if crush-osds-per-failure-domain \
             specified";
        assert_eq!(refusal, Refusal::invalid(expected));
        let refusal = set(&["k=4", "m=2", domains]).unwrap_err().text;
        assert!(refusal.contains("places for 3 of k+m=6 shards"), "{refusal}");
        assert!(refusal.contains("set crush-osds-per-failure-domain=2"), "{refusal}");
        let osds = set(&["k=4", "m=2", domains, each, "crush-failure-domain=osd"]).unwrap_err();
        assert!(osds.text.contains("an OSD holds one shard"), "{osds}");
        let text = set(&["k=4", "m=2", "crush-num-failure-domains=x"]).unwrap_err().text;
        assert_eq!(text, "could not convert crush-num-failure-domains=x to int");
        set(&["k=4", "m=2", domains, each]).unwrap();
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
