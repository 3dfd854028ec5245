//! The balancer, `pg_num` changes, and the removal of obsolete upmaps.

mod cluster;

use cluster::Cluster;
use serde_json::json;
use std::time::Duration;
use types::{OsdId, PgId, PoolId};
use wire::internal::{PgStat, pg_state};

const POOL: PoolId = PoolId(1);

/// Four hosts with two OSDs each and one pool over the OSDs.
fn cluster(abilities: &[&'static str], pg_num: u32) -> Cluster {
    let mut cluster = Cluster::empty();
    cluster.abilities = abilities.to_vec();
    for osd in 0..8 {
        cluster.boot_on(osd, 1, &format!("h{}", osd / 2));
    }
    run(
        &mut cluster,
        json!({ "prefix": "osd pool create", "pool": "data", "pg_num": pg_num, "size": 2 }),
    );
    cluster
}

fn run(cluster: &mut Cluster, command: serde_json::Value) -> String {
    let reply = cluster.command(command.clone());
    assert_eq!(reply.result, 0, "{command}: {}", reply.text);
    reply.text
}

/// Advances by a second in which all OSDs report healthy groups.
fn settle(cluster: &mut Cluster) {
    (0..8).for_each(|osd| cluster.report(osd, 4));
    cluster.advance(Duration::from_secs(1));
}

fn held(cluster: &Cluster) -> Vec<usize> {
    let map = &cluster.monitor.state().osdmap;
    let mut held = vec![0; 8];
    for pg in map.pgs(POOL) {
        map.pg_to_osds(pg).up.iter().for_each(|osd| held[osd.0 as usize] += 1);
    }
    held
}

#[test]
fn the_balancer_evens_out_in_small_steps_and_says_so() {
    let mut cluster = cluster(&[], 128);
    let before = held(&cluster);
    assert!(before.iter().max().unwrap() - before.iter().min().unwrap() > 6, "{before:?}");
    settle(&mut cluster);
    run(&mut cluster, json!({ "prefix": "balancer on" }));
    let status = cluster.json(json!({ "prefix": "balancer status" }));
    assert_eq!((&status["active"], &status["mode"]), (&json!(true), &json!("upmap")));
    let interval = json!({
        "prefix": "config set", "who": "mgr", "name": "mgr/balancer/sleep_interval", "value": "2",
    });
    run(&mut cluster, interval);
    let mut changed = 0;
    for _ in 0..40 {
        settle(&mut cluster);
        let now = cluster.monitor.state().osdmap.pg_upmap_items.len();
        assert!(now <= changed + 6, "five percent of 128 groups at once");
        changed = now;
    }
    let after = held(&cluster);
    assert!(after.iter().max().unwrap() - after.iter().min().unwrap() <= 2, "{after:?}");
    let status = cluster.json(json!({ "prefix": "balancer status" }));
    assert_eq!(status["no_optimization_needed"], true);
}

#[test]
fn the_balancer_rests_while_groups_are_degraded_or_when_it_is_off() {
    let mut cluster = cluster(&[], 128);
    run(&mut cluster, json!({ "prefix": "balancer on" }));
    let degraded = PgStat { state: pg_state::ACTIVE | pg_state::DEGRADED, ..PgStat::default() };
    for _ in 0..70 {
        (0..8).for_each(|osd| cluster.report_groups(osd, 3 << 30, |_| degraded.clone()));
        cluster.advance(Duration::from_secs(1));
    }
    assert!(cluster.monitor.state().osdmap.pg_upmap_items.is_empty());
    let status = cluster.json(json!({ "prefix": "balancer status" }));
    assert_eq!(status["optimize_result"], "Some objects are degraded; try again later");
    run(&mut cluster, json!({ "prefix": "balancer off" }));
    for _ in 0..70 {
        settle(&mut cluster);
    }
    assert!(cluster.monitor.state().osdmap.pg_upmap_items.is_empty());
}

#[test]
fn groups_double_once_they_have_settled_and_placement_follows_in_small_steps() {
    let mut cluster = cluster(&["splits_groups"], 32);
    run(
        &mut cluster,
        json!({ "prefix": "osd pool set", "pool": "data", "var": "pg_num", "val": "128" }),
    );
    let numbers = |cluster: &Cluster| {
        let pool = &cluster.monitor.state().osdmap.pools[&POOL];
        (pool.pg_num, pool.pgp_num)
    };
    cluster.advance(Duration::from_secs(5));
    assert_eq!(numbers(&cluster), (32, 32), "nothing is known of the groups yet");
    settle(&mut cluster);
    assert_eq!(numbers(&cluster), (64, 32));
    cluster.advance(Duration::from_secs(5));
    assert_eq!(numbers(&cluster), (64, 32), "the new ones are not known to be clean");
    settle(&mut cluster);
    assert_eq!(numbers(&cluster), (128, 32));
    settle(&mut cluster);
    assert_eq!(numbers(&cluster), (128, 38), "a twentieth of 128");
    for _ in 0..20 {
        settle(&mut cluster);
    }
    assert_eq!(numbers(&cluster), (128, 128));
}

#[test]
fn placement_waits_while_much_is_misplaced() {
    let mut cluster = cluster(&["splits_groups"], 32);
    run(
        &mut cluster,
        json!({ "prefix": "osd pool set", "pool": "data", "var": "pgp_num_actual", "val": "16" }),
    );
    run(
        &mut cluster,
        json!({ "prefix": "osd pool set", "pool": "data", "var": "pgp_num", "val": "32" }),
    );
    let moving = PgStat { state: pg_state::ACTIVE | pg_state::REMAPPED, ..PgStat::default() };
    for _ in 0..5 {
        (0..8).for_each(|osd| cluster.report_groups(osd, 3 << 30, |_| moving.clone()));
        cluster.advance(Duration::from_secs(1));
    }
    assert_eq!(cluster.monitor.state().osdmap.pools[&POOL].pgp_num, 16);
    settle(&mut cluster);
    assert_eq!(cluster.monitor.state().osdmap.pools[&POOL].pgp_num, 17);
}

#[test]
fn groups_merge_one_by_one_once_both_have_come_to_rest() {
    let mut cluster = cluster(&["splits_groups", "merges_groups"], 4);
    run(
        &mut cluster,
        json!({ "prefix": "osd pool set", "pool": "data", "var": "pg_num", "val": "2" }),
    );
    for _ in 0..5 {
        settle(&mut cluster);
    }
    let pool = |cluster: &Cluster| cluster.monitor.state().osdmap.pools[&POOL].clone();
    assert_eq!((pool(&cluster).pg_num, pool(&cluster).pgp_num), (4, 2));
    assert_eq!(pool(&cluster).pg_num_pending, 3, "the last group is asked to rest");
    let rests = PgStat {
        state: pg_state::ACTIVE | pg_state::CLEAN | pg_state::PREMERGE,
        ..PgStat::default()
    };
    for _ in 0..6 {
        (0..8).for_each(|osd| cluster.report_groups(osd, 3 << 30, |_| rests.clone()));
        cluster.advance(Duration::from_secs(1));
    }
    assert_eq!((pool(&cluster).pg_num, pool(&cluster).pg_num_pending), (2, 2));
    assert_eq!(pool(&cluster).last_pg_merge_meta.source, PgId { pool: POOL, seed: 2 });
}

/// Both groups are premerge, and answer no client, until they are merged; on different OSDs they never are.
#[test]
fn a_merge_is_withdrawn_when_an_upmap_parts_its_groups_and_tried_again_without_the_upmap() {
    let mut cluster = cluster(&["splits_groups", "merges_groups"], 4);
    let shrink = json!({ "prefix": "osd pool set", "pool": "data", "var": "pg_num", "val": "3" });
    run(&mut cluster, shrink);
    let pending = |cluster: &Cluster| cluster.monitor.state().osdmap.pools[&POOL].pg_num_pending;
    for _ in 0..5 {
        settle(&mut cluster);
    }
    assert_eq!(pending(&cluster), 3);
    let group = PgId { pool: POOL, seed: 3 };
    let up = cluster.monitor.state().osdmap.pg_to_osds(group).up;
    let is_on_other_host = |osd: &i32| up.iter().all(|member| member.0 / 2 != osd / 2);
    let other = (0..8).find(is_on_other_host).unwrap();
    let items = json!([up[0].0.to_string(), other.to_string()]);
    run(&mut cluster, json!({ "prefix": "osd pg-upmap-items", "pgid": "1.3", "id": items }));
    cluster.advance(Duration::from_secs(1));
    assert_eq!(pending(&cluster), 4, "its groups serve again");
    for _ in 0..5 {
        settle(&mut cluster);
    }
    assert_eq!(pending(&cluster), 3);
    assert!(cluster.monitor.state().osdmap.pg_upmap_items.is_empty());
}

#[test]
fn groups_with_clones_merge_if_all_osds_say_that_they_can() {
    for (abilities, result, target) in [
        (&["splits_groups", "merges_groups"][..], -95, 4),
        (&["splits_groups", "merges_groups", "merges_clones"], 0, 2),
    ] {
        let mut cluster = cluster(abilities, 4);
        run(&mut cluster, json!({ "prefix": "osd pool mksnap", "pool": "data", "snap": "s" }));
        let set = json!({ "prefix": "osd pool set", "pool": "data", "var": "pg_num", "val": "2" });
        let answer = cluster.command(set);
        assert_eq!(answer.result, result, "{}", answer.text);
        settle(&mut cluster);
        assert_eq!(cluster.monitor.state().osdmap.pools[&POOL].pg_num_target, target);
    }
}

#[test]
fn the_autoscaler_advises_and_acts_only_where_it_is_on() {
    let mut cluster = cluster(&["splits_groups"], 8);
    (0..8).for_each(|osd| cluster.report(osd, 4));
    run(
        &mut cluster,
        json!({ "prefix": "osd pool set", "pool": "data", "var": "bulk", "val": "true" }),
    );
    let advice = cluster.json(json!({ "prefix": "osd pool autoscale-status" }));
    assert_eq!((&advice[0]["pg_num_target"], &advice[0]["pg_num_final"]), (&json!(8), &json!(512)));
    assert_eq!(advice[0]["would_adjust"], true);
    settle(&mut cluster);
    assert_eq!(cluster.monitor.state().osdmap.pools[&POOL].pg_num_target, 8);
    run(
        &mut cluster,
        json!({ "prefix": "osd pool set", "pool": "data", "var": "pg_autoscale_mode", "val": "warn" }),
    );
    settle(&mut cluster);
    let health = cluster.json(json!({ "prefix": "health" }));
    assert_eq!(health["checks"]["POOL_TOO_FEW_PGS"]["summary"]["count"], 1);
    run(
        &mut cluster,
        json!({ "prefix": "osd pool set", "pool": "data", "var": "pg_autoscale_mode", "val": "on" }),
    );
    settle(&mut cluster);
    assert_eq!(cluster.monitor.state().osdmap.pools[&POOL].pg_num_target, 512);
}

#[test]
fn the_autoscaler_gives_no_advice_while_reports_are_missing() {
    let mut cluster = cluster(&["splits_groups", "merges_groups"], 128);
    let set = json!({ "prefix": "osd pool set", "pool": "data", "var": "pg_autoscale_mode", "val": "on" });
    run(&mut cluster, set);
    // By the report of the first of eight OSDs the pool has almost no data.
    cluster.report(0, 1000);
    cluster.advance(Duration::from_secs(5));
    assert_eq!(cluster.monitor.state().osdmap.pools[&POOL].pg_num_target, 128);
    let advice = cluster.json(json!({ "prefix": "osd pool autoscale-status" }));
    assert_eq!(advice[0]["would_adjust"], false);
    (0..8).for_each(|osd| cluster.report(osd, 1000));
    let advice = cluster.json(json!({ "prefix": "osd pool autoscale-status" }));
    assert_eq!(advice[0]["would_adjust"], true);
}

#[test]
fn mappings_of_what_is_gone_are_removed() {
    let mut cluster = cluster(&[], 8);
    let pg = |seed| PgId { pool: POOL, seed };
    let set = |cluster: &Cluster, seed| cluster.monitor.state().osdmap.pg_to_osds(pg(seed)).up;
    let (from, other) = (set(&cluster, 0)[0], set(&cluster, 0)[1]);
    let to = (0..8).map(OsdId).find(|osd| *osd != from && *osd != other).unwrap();
    let items =
        |cluster: &Cluster| cluster.monitor.state().osdmap.pg_upmap_items.get(&pg(0)).cloned();
    let upmap = json!({
        "prefix": "osd pg-upmap-items", "pgid": "1.0", "id": [from.to_string(), to.to_string()],
    });
    run(&mut cluster, upmap.clone());
    assert_eq!(items(&cluster), Some(vec![(from, to)]));
    run(&mut cluster, json!({ "prefix": "osd out", "ids": [to.to_string()] }));
    assert_eq!(items(&cluster), None, "nothing goes to who is out");

    run(&mut cluster, json!({ "prefix": "osd pg-temp", "pgid": "1.1", "id": ["3"] }));
    run(&mut cluster, json!({ "prefix": "osd primary-temp", "pgid": "1.1", "id": 3 }));
    run(&mut cluster, json!({ "prefix": "osd down", "ids": ["3"] }));
    let map = &cluster.monitor.state().osdmap;
    assert!(map.pg_temp.is_empty() && map.primary_temp.is_empty());
    cluster.boot_on(3, 2, "h1");
    run(&mut cluster, json!({ "prefix": "osd pg-temp", "pgid": "1.1", "id": ["3"] }));
    let really = json!({
        "prefix": "osd pool delete", "pool": "data", "pool2": "data",
        "yes_i_really_really_mean_it": true,
    });
    run(&mut cluster, really);
    assert!(cluster.monitor.state().osdmap.pg_temp.is_empty());
}

#[test]
fn whole_sets_that_break_the_rule_are_removed_and_others_stay() {
    let mut cluster = cluster(&[], 8);
    let rule = json!({
        "prefix": "osd crush rule create-replicated", "name": "hosts", "root": "default", "type": "host",
    });
    run(&mut cluster, rule);
    let use_it = |rule: &str| json!({ "prefix": "osd pool set", "pool": "data", "var": "crush_rule", "val": rule });
    run(&mut cluster, use_it("hosts"));
    let pg = PgId { pool: POOL, seed: 0 };
    let whole = |cluster: &Cluster| cluster.monitor.state().osdmap.pg_upmap.get(&pg).cloned();
    let upmap = |osds: [i32; 2]| {
        let ids = osds.map(|osd| osd.to_string());
        json!({ "prefix": "osd pg-upmap", "pgid": "1.0", "id": ids })
    };
    // Two OSDs of one host.
    run(&mut cluster, upmap([2, 3]));
    assert_eq!(whole(&cluster), None);
    let chosen = cluster.monitor.state().osdmap.pg_to_osds(pg).up;
    let turned = [chosen[1].0, chosen[0].0];
    run(&mut cluster, upmap(turned));
    assert_eq!(whole(&cluster), Some(turned.map(OsdId).to_vec()));
    // A set that CRUSH chooses anyway is removed.
    run(&mut cluster, upmap([chosen[0].0, chosen[1].0]));
    assert_eq!(whole(&cluster), None);
    run(&mut cluster, upmap(turned));
    // The host of one OSD becomes the other's.
    let host = format!("host=h{}", chosen[0].0 / 2);
    let moved = format!("osd.{}", chosen[1]);
    let to = json!({ "prefix": "osd crush move", "name": moved, "args": [host, "root=default"] });
    run(&mut cluster, to);
    assert_eq!(whole(&cluster), None);
    // Under a rule over OSDs these two may be together.
    run(&mut cluster, use_it("replicated_rule"));
    run(&mut cluster, upmap(turned));
    let chosen = cluster.monitor.state().osdmap.placement().pg_to_crush(pg);
    assert_eq!(whole(&cluster).is_some(), chosen != turned.map(OsdId));
}

#[test]
fn a_temporary_primary_is_a_member_of_the_acting_set() {
    let mut cluster = cluster(&[], 8);
    let pg = PgId { pool: POOL, seed: 1 };
    let acting = cluster.monitor.state().osdmap.pg_to_osds(pg).acting;
    let outside = (0..8).find(|osd| !acting.contains(&OsdId(*osd))).unwrap();
    let lead = |osd: i32| json!({ "prefix": "osd primary-temp", "pgid": "1.1", "id": osd });
    let reply = cluster.command(lead(outside));
    assert_eq!(reply.result, types::Errno::INVAL.negative(), "{}", reply.text);
    run(&mut cluster, lead(acting[1].0));
    assert_eq!(cluster.monitor.state().osdmap.pg_to_osds(pg).acting_primary, Some(acting[1]));
    // With another acting set, the map drops a primary that is not a member.
    let others: Vec<String> =
        (0..8).filter(|osd| *osd != acting[1].0).take(2).map(|osd| osd.to_string()).collect();
    run(&mut cluster, json!({ "prefix": "osd pg-temp", "pgid": "1.1", "id": others }));
    assert!(cluster.monitor.state().osdmap.primary_temp.is_empty());
}

#[test]
fn no_group_is_put_on_one_osd_twice() {
    let mut cluster = cluster(&[], 8);
    for prefix in ["osd pg-upmap", "osd pg-temp"] {
        let twice = json!({ "prefix": prefix, "pgid": "1.0", "id": ["2", "3", "2"] });
        let reply = cluster.command(twice);
        assert_eq!(reply.result, types::Errno::INVAL.negative(), "{prefix}");
        assert!(reply.text.contains("osd.2"), "{}", reply.text);
    }
}

#[test]
fn stopping_and_destroying_is_judged_by_what_groups_would_lose() {
    let mut cluster = cluster(&[], 8);
    (0..8).for_each(|osd| cluster.report(osd, 4));
    let stop = |cluster: &mut Cluster, command: serde_json::Value| {
        let reply = cluster.command(command);
        let value: serde_json::Value = serde_json::from_slice(&reply.output).unwrap();
        (reply.result, value["osds"].as_array().unwrap().len())
    };
    let one = json!({ "prefix": "osd ok-to-stop", "ids": ["0"] });
    assert_eq!(stop(&mut cluster, one), (0, 1));
    let all = json!({ "prefix": "osd ok-to-stop", "ids": ["all"] });
    assert_eq!(stop(&mut cluster, all), (-16, 8));
    let more = json!({ "prefix": "osd ok-to-stop", "ids": ["0"], "max": 2 });
    let (result, count) = stop(&mut cluster, more);
    assert_eq!(result, 0);
    assert!(count <= 2);

    let destroy = |cluster: &mut Cluster| {
        cluster.command(json!({ "prefix": "osd safe-to-destroy", "ids": ["0"] })).result
    };
    assert_eq!(destroy(&mut cluster), -16, "groups are mapped to it");
    run(&mut cluster, json!({ "prefix": "osd out", "ids": ["0"] }));
    let moving = PgStat { state: pg_state::ACTIVE | pg_state::REMAPPED, ..PgStat::default() };
    (1..8).for_each(|osd| cluster.report_groups(osd, 3 << 30, |_| moving.clone()));
    assert_eq!(destroy(&mut cluster), 0, "it holds no object");
    (1..8).for_each(|osd| cluster.report(osd, 4));
    assert_eq!(destroy(&mut cluster), 0);
}

#[test]
fn blockers_are_counted() {
    let mut cluster = cluster(&[], 8);
    let waits =
        PgStat { state: pg_state::PEERING, blocked_by: vec![OsdId(7)], ..PgStat::default() };
    (0..8).for_each(|osd| cluster.report_groups(osd, 3 << 30, |_| waits.clone()));
    let blocked = cluster.json(json!({ "prefix": "osd blocked-by" }));
    let infos = &blocked["osd_blocked_by"]["osd_blocked_by_infos"];
    assert_eq!(infos, &json!([{ "id": 7, "num_blocked": 8 }]));
}
