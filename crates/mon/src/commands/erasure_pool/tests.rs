//! Creation and settings of erasure-coded pools, on three OSDs of one host.

use super::super::testing::{run, set_option, state, text};
use super::*;
use crate::command::Answer;
use maps::{OsdState, PoolFlags};
use serde_json::{Value, json};
use types::PoolId;

/// Three OSDs on one host that are up and keep shards.
fn serving() -> State {
    let mut state = state();
    for osd in 0..3 {
        state.osdmap.osds[osd as usize].state.insert(OsdState::UP);
        let said = [(HOLDS_SHARDS.to_owned(), "1".to_owned())].into();
        state.osd_metadata.insert(OsdId(osd), said);
    }
    state
}

fn create(state: &mut State, pool: &str, more: Value) -> Result<Answer, Refusal> {
    let mut given = json!({ "pool": pool, "pg_num": 8, "pool_type": "erasure" });
    let (Value::Object(all), Value::Object(more)) = (&mut given, more) else { panic!("objects") };
    all.extend(more);
    run(state, "osd pool create", given)
}

fn set_profile(state: &mut State, name: &str, profile: &[&str]) {
    let given = json!({ "name": name, "profile": profile });
    run(state, "osd erasure-code-profile set", given).unwrap();
}

fn pool(state: &State, name: &str) -> Pool {
    state.osdmap.pools[&state.osdmap.pool_id(name).unwrap()].clone()
}

#[test]
fn pools_are_refused_while_an_osd_that_is_up_keeps_no_shards() {
    let refused = |state: &mut State, reason: &str| {
        let refusal = create(state, "e", json!({ "erasure_code_profile": "p" })).unwrap_err();
        assert_eq!(refusal.errno, Errno::NOTSUPP);
        assert!(refusal.text.contains(reason), "{refusal}");
    };
    refused(&mut state(), "no OSD is up");
    let mut state = serving();
    state.osd_metadata.remove(&OsdId(1));
    refused(&mut state, "osd.1 runs a version that keeps no shards");
    state.osdmap.osds[1].state.remove(OsdState::UP);
    create(&mut state, "e", json!({ "erasure_code_profile": "p" })).unwrap();
}

#[test]
fn the_profile_decides_sizes_and_the_pool_has_a_rule_of_its_name() {
    let mut state = serving();
    let given = json!({ "erasure_code_profile": "p", "size": 7, "bulk": true });
    assert_eq!(create(&mut state, "e", given).unwrap().text, "pool 'e' created");
    let one = pool(&state, "e");
    assert_eq!((one.size, one.min_size, one.stripe_width, one.pg_num), (3, 2, 8192, 8));
    assert_eq!(one.erasure_code_profile, "p");
    assert!(one.flags.contains(PoolFlags::EC_OVERWRITES | PoolFlags::BULK));
    assert!(!one.flags.contains(PoolFlags::EC_OPTIMIZATIONS));
    assert_eq!(state.osdmap.crush.rule_name(one.crush_rule.into()), Some("e"));
    let listed = text(&run(&mut state, "osd pool ls", json!({ "detail": "detail" })).unwrap());
    let line = "pool 1 'e' erasure profile p size 3 min_size 2 crush_rule 1 object_hash rjenkins \
                pg_num 8 pgp_num 8 autoscale_mode off last_change 1 flags \
                hashpspool,ec_overwrites,bulk stripe_width 8192";
    assert!(listed.starts_with(line), "{listed}");
    let given = json!({ "erasure_code_profile": "p" });
    assert_eq!(create(&mut state, "e", given).unwrap().text, "pool 'e' already exists");
}

#[test]
fn an_option_makes_pools_to_which_objects_can_only_be_appended() {
    let mut state = serving();
    set_option(&mut state, "osd_pool_default_flag_ec_overwrites", "false");
    create(&mut state, "e", json!({ "erasure_code_profile": "p" })).unwrap();
    assert!(!pool(&state, "e").flags.contains(PoolFlags::EC_OVERWRITES));
}

#[test]
fn the_default_profile_has_a_rule_of_another_name_and_is_made_anew() {
    let mut state = serving();
    let refusal = create(&mut state, "e", json!({})).unwrap_err();
    let expected = "pool 'e' was not created: profile 'default' wants 4 shards, each on another \
                    host, and rule 'erasure-code' finds 1 host. Next: add hosts; or with \
                    --yes-i-really-mean-it create it before they are there";
    assert_eq!(refusal, Refusal::invalid(expected));
    assert!(state.osdmap.crush.rule_id("erasure-code").is_none(), "a refusal changes nothing");
    for name in ["e", "f"] {
        create(&mut state, name, json!({ "yes_i_really_mean_it": true })).unwrap();
    }
    let rule = state.osdmap.crush.rule_id("erasure-code").unwrap();
    assert_eq!(
        [pool(&state, "e"), pool(&state, "f")].map(|pool| u32::from(pool.crush_rule)),
        [rule; 2]
    );
    assert_eq!(state.osdmap.erasure_code_profiles["default"]["plugin"], "isa");
}

#[test]
fn too_few_hosts_are_named_with_the_command_that_does_with_osds() {
    let mut state = serving();
    set_profile(&mut state, "hosts", &["k=2", "m=1"]);
    let refusal = create(&mut state, "e", json!({ "erasure_code_profile": "hosts" })).unwrap_err();
    let says = "wants 3 shards, each on another host, and rule 'e' finds 1 host. Next: add hosts; to \
                be content with different OSDs, 'ceph osd erasure-code-profile set NAME k=2 m=1 \
                crush-failure-domain=osd'";
    assert!(refusal.text.contains(says), "{refusal}");
    state.osdmap.osds[1].weight = 0;
    let refusal = create(&mut state, "e", json!({ "erasure_code_profile": "p" })).unwrap_err();
    assert!(refusal.text.contains("finds 2 osds. Next: add osds; or with"), "{refusal}");
}

#[test]
fn a_rule_by_name_must_exist_and_serve_such_pools() {
    let mut state = serving();
    let with = |rule: &str| json!({ "erasure_code_profile": "p", "rule": rule });
    let refusal = create(&mut state, "e", with("none")).unwrap_err();
    assert_eq!(refusal, Refusal::missing("specified rule none doesn't exist"));
    let refusal = create(&mut state, "e", with("replicated_rule")).unwrap_err();
    assert_eq!(refusal, Refusal::invalid("crush rule 0 type does not match pool"));
    let rule = json!({ "name": "mine", "profile": "p" });
    run(&mut state, "osd crush rule create-erasure", rule).unwrap();
    create(&mut state, "e", with("mine")).unwrap();
    assert_eq!(pool(&state, "e").crush_rule, 1);
    assert!(state.osdmap.crush.rule_id("e").is_none());
}

#[test]
fn profiles_that_do_not_exist_or_are_not_served_make_no_pool() {
    let mut state = serving();
    let refusal = create(&mut state, "e", json!({ "erasure_code_profile": "none" })).unwrap_err();
    assert_eq!(refusal.errno, Errno::NOENT);
    // Earlier versions stored such profiles.
    let old = state.osdmap.erasure_code_profiles.get_mut("p").unwrap();
    old.insert("technique".to_owned(), "cauchy_good".to_owned());
    let refusal = create(&mut state, "e", json!({ "erasure_code_profile": "p" })).unwrap_err();
    assert_eq!(refusal.errno, Errno::NOTSUPP);
    assert!(refusal.text.contains("served are plugin=isa"), "{refusal}");
}

#[test]
fn several_shards_on_a_host_need_clients_that_know_such_rules() {
    let mut state = serving();
    let bounds = ["crush-num-failure-domains=2", "crush-osds-per-failure-domain=2"];
    set_profile(&mut state, "dense", &["k=2", "m=2", bounds[0], bounds[1]]);
    let given = json!({ "erasure_code_profile": "dense" });
    let refusal = create(&mut state, "e", given.clone()).unwrap_err();
    assert!(
        refusal.text.contains("'ceph osd set-require-min-compat-client squid' first"),
        "{refusal}"
    );
    let raise = |version: &str| json!({ "version": version });
    run(&mut state, "osd set-require-min-compat-client", raise("squid")).unwrap();
    let refusal = create(&mut state, "e", given.clone()).unwrap_err();
    let says = "wants 4 shards, at most 2 on each host, and rule 'e' finds places for 2 on 1 host";
    assert!(refusal.text.contains(says), "{refusal}");
    let mut sure = given;
    sure["yes_i_really_mean_it"] = json!(true);
    create(&mut state, "e", sure).unwrap();
    let refusal = run(&mut state, "osd set-require-min-compat-client", raise("reef")).unwrap_err();
    assert!(refusal.text.contains("features that require squid"), "{refusal}");
    let dump = run(&mut state, "osd crush rule dump", json!({ "name": "e" })).unwrap();
    let dump: Value = serde_json::from_slice(&dump.output).unwrap();
    assert_eq!(dump["type"], 5);
    let steps = json!([
        { "op": "take", "item": -1, "item_name": "default" },
        { "op": "choosemsr", "num": 2, "type": "host" },
        { "op": "choosemsr", "num": 2, "type": "osd" },
        { "op": "emit" },
    ]);
    assert_eq!(dump["steps"], steps);
}

#[test]
fn settings_of_an_erasure_coded_pool_keep_its_data_readable() {
    let mut state = serving();
    create(&mut state, "e", json!({ "erasure_code_profile": "p" })).unwrap();
    let mut set = |variable: &str, value: &str| {
        run(&mut state, "osd pool set", json!({ "pool": "e", "var": variable, "val": value }))
    };
    let refusal = set("size", "4").unwrap_err();
    assert_eq!(refusal.text, "can not change the size of an erasure-coded pool");
    for outside in ["1", "4"] {
        let refusal = set("min_size", outside).unwrap_err();
        assert_eq!(refusal.text, "pool min_size must be between 2 and size, which is set to 3");
    }
    set("min_size", "3").unwrap();
    set("min_size", "2").unwrap();
    let refusal = set("allow_ec_overwrites", "false").unwrap_err();
    assert_eq!(refusal, Refusal::invalid("ec overwrites cannot be disabled once enabled"));
    set("allow_ec_optimizations", "false").unwrap();
    set("allow_ec_optimizations", "true").unwrap();
    let refusal = set("allow_ec_optimizations", "false").unwrap_err();
    assert_eq!(refusal.text, "allow_ec_optimizations cannot be disabled once enabled");
    set("fast_read", "1").unwrap();
    let refusal = set("crush_rule", "replicated_rule").unwrap_err();
    assert_eq!(refusal.text, "crush rule 0 type does not match pool");
    let all = run(&mut state, "osd pool get", json!({ "pool": "e", "var": "all" })).unwrap();
    let all = text(&all);
    let shown = "erasure_code_profile: p\nfast_read: 1\n";
    assert!(all.contains("allow_ec_overwrites: true\n") && all.contains(shown), "{all}");
    assert!(all.ends_with("bulk: false\nallow_ec_optimizations: true\n"), "{all}");
    let one = pool(&state, "e");
    assert!(one.flags.contains(PoolFlags::EC_OPTIMIZATIONS));
    assert_eq!(one.nonprimary_shards, [0; 2], "sets are stored as they are");
    let tier = json!({ "pool": "e", "tierpool": "e" });
    let refusal = run(&mut state, "osd tier add", tier).unwrap_err();
    assert_eq!(refusal.text, "tier pool 'e' is an ec pool, which cannot be a tier");
    assert_eq!(crate::usage::raw_bytes_per_byte(&state.osdmap, PoolId(1)), 1.5);
}

#[test]
fn a_rule_of_the_pools_name_is_used_though_it_is_not_as_the_profile_says() {
    let mut state = serving();
    set_profile(&mut state, "hosts", &["k=2", "m=1"]);
    let rule = json!({ "name": "e", "profile": "hosts" });
    run(&mut state, "osd crush rule create-erasure", rule).unwrap();
    let given = json!({ "erasure_code_profile": "p" });
    let refusal = create(&mut state, "e", given).unwrap_err();
    assert!(refusal.text.contains("rule 'e' finds 1 host"), "{refusal}");
    assert!(refusal.text.contains("'ceph osd crush rule rm e'"), "{refusal}");
    let sure = json!({ "erasure_code_profile": "p", "yes_i_really_mean_it": true });
    let said = create(&mut state, "e", sure).unwrap().text;
    assert_eq!(
        said,
        "pool 'e' created with a crush rule that existed and is not as its profile says"
    );
}

#[test]
fn a_pool_keeps_its_rule_if_another_one_has_places_for_fewer_shards() {
    let mut state = serving();
    create(&mut state, "e", json!({ "erasure_code_profile": "p" })).unwrap();
    set_profile(&mut state, "hosts", &["k=2", "m=1"]);
    for (name, profile) in [("hosts", "hosts"), ("osds", "p")] {
        let rule = json!({ "name": name, "profile": profile });
        run(&mut state, "osd crush rule create-erasure", rule).unwrap();
    }
    let set = |state: &mut State, rule: &str, is_sure: bool| {
        let mut given = json!({ "pool": "e", "var": "crush_rule", "val": rule });
        given["yes_i_really_mean_it"] = json!(is_sure);
        run(state, "osd pool set", given)
    };
    let before = pool(&state, "e").crush_rule;
    let refusal = set(&mut state, "hosts", false).unwrap_err();
    let expected = "pool 'e' keeps its rule: it wants 3 shards, each on another host, and rule 'hosts' finds \
                    1 host, so its groups would be degraded for good. Next: add hosts, or choose another \
                    rule; or with --yes-i-really-mean-it set it before they are there";
    assert_eq!(refusal, Refusal::invalid(expected));
    assert_eq!(pool(&state, "e").crush_rule, before);
    set(&mut state, "osds", false).unwrap();
    set(&mut state, "hosts", true).unwrap();
    set(&mut state, "hosts", false).unwrap();
}

#[test]
fn groups_per_osd_are_counted_by_the_rule_that_comes_with_the_pool() {
    let mut state = serving();
    set_option(&mut state, "mon_max_pg_per_osd", "7");
    let refusal = create(&mut state, "e", json!({ "erasure_code_profile": "p" })).unwrap_err();
    let says = "8 size 3 for this pool would result in 8 cumulative PGs per OSD (24 total PG replicas \
                on 3 'in' root OSDs by crush rule)";
    assert!(refusal.errno == Errno::RANGE && refusal.text.contains(says), "{refusal}");
}
