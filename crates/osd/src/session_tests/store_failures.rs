//! A store that is full, refuses a transaction, fails, or needs a feature that this version does not know.

use super::lone::{Lone, POOL};
use super::{append, failed, read};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::mem::MemStore;
use types::Errno;
use wire::OsdOp;
use wire::op::request_flags;

#[test]
fn a_nearly_full_disk_refuses_what_adds_and_takes_it_again_after_deletions() {
    let mut lone = Lone::with(MemStore::with_capacity(1 << 20), false);
    let conn = lone.client("allow *");
    lone.wait(1);
    let names: Vec<String> = (0..64).map(|number| format!("object{number}")).collect();
    let results: Vec<_> = names.iter().map(|name| lone.call(conn, name, append(40_000))).collect();
    let written = results.iter().take_while(|result| **result == Some(0)).count();
    assert!((10..27).contains(&written), "{written}");
    assert!(results[written..].iter().all(|result| *result == failed(Errno::NOSPC)));
    lone.wait(1);
    let overwrite = vec![OsdOp::write_full(Bytes::from_static(b"small"))];
    assert_eq!(lone.call(conn, &names[0], overwrite.clone()), failed(Errno::NOSPC));
    assert_eq!(lone.call_with(conn, &names[0], overwrite, request_flags::FULL_FORCE), Some(0));
    for name in &names[..written] {
        assert_eq!(lone.call(conn, name, vec![OsdOp::remove()]), Some(0));
    }
    lone.wait(6);
    assert_eq!(lone.call(conn, "a", append(40_000)), Some(0));
    assert!(lone.is_active());
}

#[test]
fn a_write_that_the_store_refuses_never_happened_and_its_client_is_told() {
    let mut lone = Lone::new();
    let conn = lone.client("allow *");
    assert_eq!(lone.call(conn, "a", append(1)), Some(0));
    lone.refusals = 1;
    assert_eq!(lone.call(conn, "a", append(2)), None);
    assert!(!lone.is_active());
    lone.wait(3);
    assert!(lone.is_active());
    let (_, reply) = lone.replies.pop_front().expect("it is answered now");
    assert_eq!(reply.result, Errno::NOSPC.negative());
    lone.send(conn, "a", vec![OsdOp::stat()], 0);
    let (_, reply) = lone.replies.pop_front().unwrap();
    assert_eq!(reply.ops[0].output[..8], 1u64.to_le_bytes());
}

/// Otherwise the copy would not know the interval after a restart.
#[test]
fn a_map_is_stored_only_behind_the_interval_that_it_began() {
    let mut lone = Lone::new();
    let stored = |lone: &mut Lone| match lone.store.execute(crate::stored_map_request()) {
        Ok(store::Outcome::OmapPage(page)) => crate::stored_map(&page).unwrap().unwrap().epoch,
        other => panic!("{other:?}"),
    };
    let before = lone.map.epoch;
    assert_eq!(stored(&mut lone), before);
    lone.refusals = 1;
    let mut pool = lone.map.pools[&POOL].clone();
    pool.size = 2;
    lone.publish(|increment| drop(increment.new_pools.insert(POOL, pool)));
    assert!(lone.map.epoch > before && !lone.is_active());
    assert_eq!(stored(&mut lone), before);
    lone.wait(3);
    assert!(lone.is_active());
    assert_eq!(stored(&mut lone), lone.map.epoch);
}

#[test]
fn an_osd_whose_disk_fails_leaves_says_why_and_answers_nobody() {
    let mut lone = Lone::new();
    let client = lone.client("allow *");
    assert_eq!(lone.call(client, "object", append(100)), Some(0));
    lone.is_broken = true;
    assert_eq!(lone.call(client, "object", append(100)), None);
    assert!(!lone.osd.is_up());
    assert!(lone.leaves.last().is_some_and(|leave| leave.down_and_dead));
    assert_eq!(lone.call(client, "object", read()), None);
    // Repeated while it runs, in case a monitor has not got it.
    lone.leaves.clear();
    lone.wait(20);
    assert!(!lone.leaves.is_empty());
    let health = &lone.health["OSD_STORE_FAILED"];
    assert!(health.contains("input/output error") && health.contains("replace --id 0"), "{health}");
}

/// The store, with a feature that no version has yet.
fn with_feature(mut store: MemStore, bit: u32) -> MemStore {
    let store::RequestKind::OmapList { collection, object, .. } = crate::stored_map_request()
    else {
        unreachable!("the map is a list of pairs")
    };
    let mut value = codec::Writer::new();
    value.u8(1);
    value.u64(1 << bit);
    value.string("sepiola version 9");
    let key = Bytes::from_static(b"features");
    let pairs = BTreeMap::from([(key, value.into_bytes())]);
    let changes = vec![(collection, store::Change::OmapSet { object, pairs })];
    let commit = store::RequestKind::Commit(store::Transaction { changes });
    store.execute(commit).expect("the map is stored");
    store
}

#[test]
fn an_osd_does_not_start_with_a_store_whose_feature_it_does_not_know() {
    let mut lone = Lone::new();
    assert!(lone.is_active());
    let store = with_feature(std::mem::take(&mut lone.store), 40);
    let mut lone = Lone::with(store, true);
    lone.wait(20);
    assert!(lone.osd.has_failed() && !lone.osd.is_up());
    assert_eq!((lone.commits, lone.other_commits), (0, 0), "the store is left as it is");
    let health = &lone.health["OSD_STORE_FAILED"];
    assert!(health.contains("feature bit 40"), "{health}");
    assert!(health.contains("sepiola version 9"), "{health}");
}

#[test]
fn a_disk_that_does_not_even_say_what_it_has_takes_its_osd_out_of_service() {
    let mut lone = Lone::new();
    let client = lone.client("allow *");
    lone.is_broken = true;
    assert_eq!(
        lone.call(client, "object", read()),
        None,
        "no error is told that others need not tell"
    );
    assert!(!lone.osd.is_up() && !lone.leaves.is_empty());
}

/// Otherwise the members would replace their stamps by none.
#[test]
fn scrub_stamps_that_could_not_be_read_are_unknown_until_they_can_be() {
    let mut lone = Lone::new();
    let are_known = |lone: &Lone| lone.osd.scrubs().all(|(_, stamps, _)| stamps.is_some());
    lone.fails_omap_reads = true;
    lone.wait(5);
    assert!(!are_known(&lone));
    lone.fails_omap_reads = false;
    lone.wait(10);
    assert!(are_known(&lone));
}
