//! Erasure-coded pools in a whole monitor, whose OSDs say that they keep shards.

mod cluster;

use cluster::Cluster;
use serde_json::{Value, json};
use std::time::Duration;
use types::{Errno, OsdId, PgId, PoolId};
use wire::OsdPgTemp;
use wire::internal::{PgStat, pg_state};

/// Three OSDs with a pool of 2+1, one shard on each, whose groups have four objects of 100 bytes each.
fn with_pool() -> Cluster {
    let mut cluster = Cluster::empty();
    cluster.abilities.push("holds_shards");
    (0..3).for_each(|osd| cluster.boot(osd));
    let profile = ["k=2", "m=1", "crush-failure-domain=osd"];
    for command in [
        json!({ "prefix": "osd erasure-code-profile set", "name": "p", "profile": profile }),
        json!({
            "prefix": "osd pool create", "pool": "data", "pg_num": 8, "pool_type": "erasure",
            "erasure_code_profile": "p",
        }),
        json!({ "prefix": "osd pool application enable", "pool": "data", "app": "rbd" }),
    ] {
        assert_eq!(cluster.command(command.clone()).result, 0, "{command}");
    }
    (0..3).for_each(|osd| cluster.report(osd, 4));
    cluster
}

fn refused(cluster: &mut Cluster, command: Value, text: &str) {
    let reply = cluster.command(command.clone());
    assert_eq!((reply.result, reply.text.as_str()), (Errno::INVAL.negative(), text), "{command}");
}

#[test]
fn usage_counts_parity_and_no_more() {
    let mut cluster = with_pool();
    let usage = cluster.json(json!({ "prefix": "df", "detail": "detail" }));
    let stats = &usage["pools"][0]["stats"];
    assert_eq!((&stats["stored"], &stats["bytes_used"]), (&json!(3200), &json!(4800)));
    // Of each OSD 3 GiB are free, less 5 % of 4 GiB: three times that is raw, two thirds of it are data.
    let free = (3u64 << 30) as f64 - 0.05 * (4u64 << 30) as f64;
    let available = stats["max_avail"].as_f64().unwrap();
    assert!((available - 2.0 * free).abs() < 1000.0, "{available}");
    let status = cluster.json(json!({ "prefix": "osd pool autoscale-status", "format": "json" }));
    assert_eq!(status[0]["raw_used_rate"], 1.5, "{status}");
    let quota = json!({
        "prefix": "osd pool set-quota", "pool": "data", "field": "max_bytes", "val": "3000",
    });
    assert_eq!(cluster.command(quota).result, 0);
    cluster.advance(Duration::from_secs(10));
    let checks = cluster.json(json!({ "prefix": "health", "detail": "detail" }))["checks"].clone();
    assert!(checks["POOL_FULL"].is_object(), "{checks}");
}

#[test]
fn an_osd_that_keeps_no_shards_does_not_join() {
    let mut cluster = with_pool();
    cluster.abilities.clear();
    cluster.boot(3);
    cluster.advance(Duration::from_secs(5));
    assert!(!cluster.monitor.state().osdmap.is_up(OsdId(3)));
    cluster.abilities.push("holds_shards");
    cluster.boot(3);
    cluster.advance(Duration::from_secs(5));
    assert!(cluster.monitor.state().osdmap.is_up(OsdId(3)));
}

#[test]
fn temporary_sets_have_holes_and_name_a_member_for_each_shard() {
    let mut cluster = with_pool();
    let pg = PgId { pool: PoolId(1), seed: 0 };
    let none = OsdId::NONE.0;
    let ask = |cluster: &mut Cluster, osds: &[i32]| {
        let pg_temp = [(pg, osds.iter().copied().map(OsdId).collect())].into();
        let wish = OsdPgTemp { map_epoch: cluster.epoch(), pg_temp, ..OsdPgTemp::default() };
        cluster.send(Cluster::osd_conn(1), 0, &wish);
        cluster.advance(Duration::from_secs(2));
        let known = &cluster.monitor.state().osdmap.pg_temp;
        known.get(&pg).map(|osds| osds.iter().map(|osd| osd.0).collect::<Vec<_>>())
    };
    assert_eq!(ask(&mut cluster, &[none, none, 1]), Some(vec![none, none, 1]));
    assert_eq!(ask(&mut cluster, &[2, 1, 2]), Some(vec![2, 1, 2]));
    assert_eq!(ask(&mut cluster, &[2, 1]), Some(vec![2, 1, 2]), "a set without a shard is ignored");
    assert_eq!(ask(&mut cluster, &[]), None);
    for prefix in ["osd pg-temp", "osd pg-upmap"] {
        let short = json!({ "prefix": prefix, "pgid": "1.0", "id": ["2", "1"] });
        refused(&mut cluster, short, "num of osds (2) < pool size (3): name one for each shard");
    }
    let primary = json!({ "prefix": "osd pg-upmap-primary", "pgid": "1.0", "id": 2 });
    cluster.command(json!({ "prefix": "osd set-require-min-compat-client", "version": "reef" }));
    refused(&mut cluster, primary, "pg-upmap-primary is only supported for replicated pools");
}

#[test]
fn an_osd_may_stop_while_min_size_shards_are_left() {
    let mut cluster = with_pool();
    let may_stop = |cluster: &mut Cluster, ids: &[&str]| {
        cluster.command(json!({ "prefix": "osd ok-to-stop", "ids": ids })).result
    };
    let busy = Errno::BUSY.negative();
    assert_eq!(may_stop(&mut cluster, &["1"]), 0);
    assert_eq!(may_stop(&mut cluster, &["1", "2"]), busy);
    let raise = json!({ "prefix": "osd pool set", "pool": "data", "var": "min_size", "val": "3" });
    assert_eq!(cluster.command(raise).result, 0);
    assert_eq!(may_stop(&mut cluster, &["1"]), busy);
    let destroy = json!({ "prefix": "osd safe-to-destroy", "ids": ["1"] });
    assert_eq!(cluster.command(destroy).result, busy);
}

#[test]
fn health_says_how_many_shards_a_group_lacks() {
    let mut cluster = with_pool();
    let raise = json!({ "prefix": "osd pool set", "pool": "data", "var": "min_size", "val": "3" });
    assert_eq!(cluster.command(raise).result, 0);
    cluster.command(json!({ "prefix": "osd down", "ids": ["2"] }));
    cluster.advance(Duration::from_secs(2));
    let state = pg_state::PEERED | pg_state::UNDERSIZED | pg_state::DEGRADED;
    let stat = PgStat { state, objects: 4, ..PgStat::default() };
    (0..2).for_each(|osd| cluster.report_groups(osd, 3 << 30, |_| stat.clone()));
    let checks = cluster.json(json!({ "prefix": "health", "detail": "detail" }))["checks"].clone();
    let check = &checks["PG_AVAILABILITY"];
    assert_eq!(check["summary"]["message"], "Reduced data availability: 8 pgs inactive");
    let details = check["detail"].as_array().unwrap();
    let says = "; of 3 shards 2 are up, needed are 3 (min_size), 2 hold the data (k)";
    let line = details[0]["message"].as_str().unwrap();
    assert!(line.contains("NONE") && line.ends_with(says), "{line}");
    let next = details.last().unwrap()["message"].as_str().unwrap();
    assert!(next.contains("'ceph osd pool set POOL min_size'"), "{next}");
}

#[test]
fn health_says_that_an_erasure_rule_finds_too_few_hosts() {
    let mut cluster = with_pool();
    let profile = json!({
        "prefix": "osd erasure-code-profile set", "name": "hosts", "profile": ["k=2", "m=1"],
    });
    let rule =
        json!({ "prefix": "osd crush rule create-erasure", "name": "hosts", "profile": "hosts" });
    let mut set =
        json!({ "prefix": "osd pool set", "pool": "data", "var": "crush_rule", "val": "hosts" });
    for command in [profile, rule] {
        assert_eq!(cluster.command(command).result, 0);
    }
    let refusal = cluster.command(set.clone());
    assert!(refusal.text.contains("each on another host"), "{}", refusal.text);
    set["yes_i_really_mean_it"] = json!(true);
    assert_eq!(cluster.command(set).result, 0);
    let state = pg_state::PEERED | pg_state::UNDERSIZED;
    let stat = PgStat { state, ..PgStat::default() };
    (0..3).for_each(|osd| cluster.report_groups(osd, 3 << 30, |_| stat.clone()));
    let checks = cluster.json(json!({ "prefix": "health", "detail": "detail" }))["checks"].clone();
    let details = checks["PG_AVAILABILITY"]["detail"].as_array().unwrap();
    let says =
        "pool 'data' wants 3 shards, each on another host, and its rule 'hosts' finds 1 host";
    assert_eq!(details[0]["message"], says);
    let next = details.last().unwrap()["message"].as_str().unwrap();
    assert!(
        next.contains("osd crush rule create-erasure") && !next.contains("replicated"),
        "{next}"
    );
}
