//! Malformed maps: a map that decodes can be walked and edited without harm.

use codec::{Decode, EncodeFor, Reader, Writer, decode_all};
use crush::{CrushMap, Location, RuleKind, SimpleRule, TREE_DEPTH_MAX, TreeView};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use types::features;

fn golden(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)).unwrap()
}

fn encode(map: &CrushMap) -> Vec<u8> {
    let mut w = Writer::new();
    map.encode_for(&mut w, features::SUPPORTED);
    w.into_vec()
}

fn location(text: &str) -> Location {
    Location::parse(text.split(' ')).unwrap()
}

/// Uses everything once; results do not matter.
fn exercise(map: &mut CrushMap) {
    let weights = vec![0x8000; map.max_devices().clamp(0, 64) as usize];
    let rules: Vec<u32> = map.rules().map(|(id, _)| id).collect();
    for rule in rules {
        map.do_rule(rule, 1, 4, &weights, map.choose_args_for(0));
    }
    TreeView { shadows: true, ..TreeView::default() }.items(map, |_| true);
    map.insert_item(70, 0x1_0000, "osd.70", &location("host=new root=default")).ok();
    map.set_device_class(70, "fresh").ok();
    map.set_item_weight(0, 0x2_0000).ok();
    map.reweight().ok();
    map.remove_item(1).ok();
    map.move_bucket(-2, &location("root=default")).ok();
    let (name, root, failure_domain) = ("new", "default", "host");
    let (class, kind) = (Some("fresh"), RuleKind::Erasure);
    map.add_simple_rule(&SimpleRule { name, root, failure_domain, class, kind }).ok();
    let bytes = encode(map);
    let again: CrushMap = decode_all("map", &bytes).expect("what was edited is sound");
    assert!(encode(&again) == bytes);
}

#[test]
fn a_number_that_stands_for_no_device_is_no_item() {
    const ITEM: i32 = 0x0012_3456;
    let mut map = decode_all::<CrushMap>("map", &golden("classes.map")).unwrap();
    map.insert_item(ITEM, 0x1_0000, "osd.1193046", &location("host=new root=default")).unwrap();
    let bytes = encode(&map);
    for none in [i32::MAX, i32::MAX - 1] {
        let mut bytes = bytes.clone();
        let places = (0..bytes.len() - 4).filter(|at| bytes[*at..*at + 4] == ITEM.to_le_bytes());
        let at = places.min().expect("it is in a bucket");
        bytes[at..at + 4].copy_from_slice(&none.to_le_bytes());
        let error = CrushMap::decode(&mut Reader::new(&bytes)).unwrap_err();
        assert!(error.to_string().contains("bucket.item"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_map_is_refused_or_harmless(
        name in prop::sample::select(vec!["classes.map", "mixed-legacy.map", "weight-sets.map", "msr-tentacle.map"]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = golden(name);
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(mut map) = CrushMap::decode(&mut Reader::new(&bytes)) {
            map.check_invariants();
            exercise(&mut map);
            map.check_invariants();
        }
    }

    #[test]
    fn a_name_without_letters_is_refused(id: i32) {
        let mut w = Writer::new();
        // No buckets, no rules, no devices, no types; one name.
        [0x0001_0000, 0, 0, 0, 0, 1].into_iter().for_each(|number| w.u32(number));
        w.i32(id);
        w.zeros(8);
        assert!(CrushMap::decode(&mut Reader::new(w.as_slice())).is_err());
    }

    #[test]
    fn noise_is_refused(mut bytes: Vec<u8>) {
        bytes.splice(0..0, [0, 0, 1, 0]);
        prop_assume!(bytes.len() < 200);
        CrushMap::decode(&mut Reader::new(&bytes)).ok();
    }
}

/// A map of straw2 buckets with one item each, the last field of which is given.
fn chain(children: &[i32]) -> Vec<u8> {
    let mut w = Writer::new();
    [0x1_0000, children.len() as u32, 0, 0].into_iter().for_each(|word| w.u32(word));
    for (slot, &child) in children.iter().enumerate() {
        w.u32(5);
        w.i32(-1 - slot as i32);
        w.u16(1);
        w.raw(&[5, 0]);
        [0x1_0000, 1, child as u32, 0x1_0000].into_iter().for_each(|word| w.u32(word));
    }
    w.zeros(12);
    w.into_vec()
}

fn refused(bytes: &[u8]) -> bool {
    decode_all::<CrushMap>("map", bytes).is_err()
}

#[test]
fn trees_without_end_are_refused() {
    assert!(!refused(&chain(&[-2, -3, 0])));
    assert!(refused(&chain(&[-2, -3, -1])), "a cycle");
    assert!(refused(&chain(&[-1])), "a bucket in itself");
    assert!(refused(&chain(&[-2, -4, 0])), "a child that does not exist");
    let deep = |levels: i32| chain(&(2..levels).map(|id| -id).chain([0]).collect::<Vec<_>>());
    assert!(!refused(&deep(TREE_DEPTH_MAX as i32)));
    assert!(refused(&deep(TREE_DEPTH_MAX as i32 + 1)));
    assert!(refused(&deep(100_000)), "without exhausting the stack");
}

/// Buckets that each hold the next one twice: few bytes, exponentially many paths.
#[test]
fn trees_that_multiply_are_refused() {
    let mut w = Writer::new();
    [0x1_0000, 40, 0, 0].into_iter().for_each(|word| w.u32(word));
    for slot in 0..40i32 {
        let child = if slot == 39 { 0 } else { -2 - slot };
        w.u32(5);
        w.i32(-1 - slot);
        w.u16(1);
        w.raw(&[5, 0]);
        [0, 2, child as u32, child as u32, 0, 0].into_iter().for_each(|word| w.u32(word));
    }
    w.zeros(12);
    assert!(refused(&w.into_vec()));
}

/// Huge numbers of tries terminate soon.
#[test]
fn absurd_tries_come_to_an_end() {
    let mut map = CrushMap::new();
    map.insert_item(0, 0x1_0000, "osd.0", &location("host=a root=default")).unwrap();
    map.tunables.choose_total_tries = u32::MAX;
    map.tunables.choose_local_tries = u32::MAX;
    for kind in [RuleKind::Replicated, RuleKind::Erasure] {
        let name = if kind == RuleKind::Erasure { "erasure" } else { "replicated" };
        let simple =
            SimpleRule { name, root: "default", failure_domain: "host", class: None, kind };
        let rule = map.add_simple_rule(&simple).unwrap();
        assert_eq!(map.do_rule(rule, 1, 3, &[0x1_0000], None)[0], 0);
    }
}
