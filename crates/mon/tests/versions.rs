//! The cluster version: daemons of two releases in one cluster, and the end of an upgrade.

mod cluster;

use cluster::{Cluster, settings};
use mon::Monitor;
use serde_json::{Value, json};
use std::time::Duration;
use types::{Errno, OsdId, ServedVersions};

/// The versions that a later release serves.
const LATER: &str = "1-2";

fn later() -> ServedVersions {
    LATER.parse().expect("a range")
}

/// A cluster of this release whose monitor was upgraded, with three OSDs that were not.
fn upgraded_monitor() -> Cluster {
    let mut before = Cluster::empty();
    (0..3).for_each(|osd| before.boot(osd));
    before.advance(Duration::from_secs(10));
    restart(before, later())
}

fn monitor(served: ServedVersions) -> Monitor {
    Monitor::new(mon::Settings { served, ..settings() }, [7; 32])
}

fn restart(before: Cluster, served: ServedVersions) -> Cluster {
    let Cluster { control, now, .. } = before;
    let mut after = Cluster::run(monitor(served), control, now);
    after.advance(Duration::from_secs(20));
    after
}

fn upgrade(cluster: &mut Cluster, osd: i32) {
    cluster.facts = vec![(ServedVersions::FACT, LATER)];
    cluster.boot_as(osd, 2);
    cluster.advance(Duration::from_secs(5));
}

fn finalize(cluster: &mut Cluster) -> wire::MonCommandAck {
    cluster.command(json!({ "prefix": "cluster finalize" }))
}

fn checks(cluster: &mut Cluster) -> Value {
    cluster.json(json!({ "prefix": "health", "detail": "detail" }))["checks"].clone()
}

#[test]
fn the_version_is_raised_when_all_daemons_serve_the_next_one() {
    let mut cluster = upgraded_monitor();
    upgrade(&mut cluster, 0);
    let refused = finalize(&mut cluster);
    let text = "2 of the daemons do not serve cluster version 2: osd.1 (serves 1-1), osd.2 (serves 1-1); install the \
                new release there and restart them, or remove those that are gone";
    assert_eq!((refused.result, refused.text.as_str()), (Errno::PERM.negative(), text));
    assert!(checks(&mut cluster)["UPGRADE_NOT_FINALIZED"].is_null());
    upgrade(&mut cluster, 1);
    upgrade(&mut cluster, 2);
    assert!(checks(&mut cluster)["UPGRADE_NOT_FINALIZED"].is_object());
    assert_eq!(finalize(&mut cluster).text, "the cluster is finalized: its version is 2");
    let shown = cluster.json(json!({ "prefix": "cluster version" }));
    assert_eq!((&shown["cluster_version"], &shown["next"]), (&json!(2), &Value::Null));
    assert!(checks(&mut cluster)["UPGRADE_NOT_FINALIZED"].is_null());
    let again = finalize(&mut cluster);
    let text = "cluster version 2 is the newest that all daemons serve";
    assert_eq!((again.result, again.text.as_str()), (0, text));
}

#[test]
fn an_older_osd_joins_until_the_cluster_is_finalized() {
    let mut cluster = upgraded_monitor();
    (0..3).for_each(|osd| upgrade(&mut cluster, osd));
    cluster.facts.clear();
    cluster.boot_as(1, 3);
    cluster.advance(Duration::from_secs(5));
    assert!(cluster.monitor.state().osdmap.is_up(OsdId(1)), "it goes back to the release before");
    upgrade(&mut cluster, 1);
    assert_eq!(finalize(&mut cluster).result, 0);
    cluster.facts.clear();
    cluster.boot_as(3, 1);
    cluster.advance(Duration::from_secs(5));
    assert!(!cluster.monitor.state().osdmap.is_up(OsdId(3)));
}

#[test]
fn a_destroyed_osd_does_not_hold_up_the_end_of_an_upgrade() {
    let mut cluster = upgraded_monitor();
    (0..2).for_each(|osd| upgrade(&mut cluster, osd));
    assert_eq!(finalize(&mut cluster).result, Errno::PERM.negative());
    for prefix in ["osd down", "osd destroy"] {
        let gone = json!({
            "prefix": prefix, "ids": ["2"], "id": "2", "yes_i_really_mean_it": true,
        });
        assert_eq!(cluster.command(gone.clone()).result, 0, "{gone}");
    }
    assert_eq!(finalize(&mut cluster).result, 0);
}

#[test]
fn an_osd_that_skips_a_release_does_not_join() {
    let mut cluster = Cluster::empty();
    cluster.facts = vec![(ServedVersions::FACT, "2-3")];
    cluster.boot(0);
    cluster.advance(Duration::from_secs(5));
    assert!(!cluster.monitor.state().osdmap.is_up(OsdId(0)));
}

#[test]
fn a_monitor_of_the_release_before_changes_nothing_in_a_finalized_cluster() {
    let mut cluster = upgraded_monitor();
    (0..3).for_each(|osd| upgrade(&mut cluster, osd));
    assert_eq!(finalize(&mut cluster).result, 0);
    let epoch = cluster.epoch();
    let Cluster { control, now, .. } = cluster;
    let mut older = Cluster::run(monitor(ServedVersions::OWN), control, now);
    older.advance(Duration::from_secs(20));
    older.boot_as(0, 9);
    older.advance(Duration::from_secs(20));
    let later = Cluster::run(monitor(later()), older.control, older.now);
    assert_eq!(later.epoch(), epoch, "the older monitor has made no map");
}

#[test]
fn a_new_cluster_has_the_newest_version_of_its_release() {
    let mut cluster = Cluster::empty();
    let shown = cluster.json(json!({ "prefix": "cluster version" }));
    assert_eq!(shown["cluster_version"], json!(ServedVersions::OWN.newest.0));
}
