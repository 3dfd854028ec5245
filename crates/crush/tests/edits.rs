//! Edits of which `crushtool` made the same, with the maps it left behind.
//!
//! Each `golden/NAME.edits` is a dialogue: a line with an edit, then a line with the map after it,
//! in hex behind `= `, or `error`. The first line is the map to begin with. Every edit starts from
//! the map that `crushtool` had, not from ours, so that one difference does not hide the others.

use codec::{EncodeFor, Writer, decode_all};
use crush::{CrushMap, Location, RuleKind, SimpleRule, weight};
use std::fs;
use std::path::Path;
use types::features;

#[test]
fn edits_leave_the_map_that_crushtool_leaves() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut edits = 0;
    for path in files.filter(|path| path.extension().is_some_and(|e| e == "edits")) {
        let text = fs::read_to_string(&path).unwrap();
        let mut lines = text.lines();
        let mut before = unhex(lines.next().unwrap());
        while let (Some(edit), Some(expected)) = (lines.next(), lines.next()) {
            let mut map: CrushMap = decode_all("map", &before).unwrap();
            let outcome = apply(&mut map, edit);
            edits += 1;
            if expected == "error" {
                assert_eq!(outcome, None, "{path:?}: {edit}");
                continue;
            }
            before = unhex(expected);
            assert_eq!(outcome, Some(()), "{path:?}: {edit}");
            map.check_invariants();
            let after: CrushMap = decode_all("map", &before)
                .unwrap_or_else(|e| panic!("{path:?}: {edit}: {e} {map:?}"));
            if encode(&map) != encode(&after) {
                assert_eq!(map, after, "{path:?}: {edit}");
            }
        }
    }
    assert!(edits > 0);
}

/// As of Quincy, which no longer tells how small and large a rule's pools may be: the versions of
/// `crushtool` give new rules different limits.
fn encode(map: &CrushMap) -> Vec<u8> {
    let mut w = Writer::new();
    map.encode_for(&mut w, features::SUPPORTED);
    w.into_vec()
}

fn unhex(line: &str) -> Vec<u8> {
    let digits = line.strip_prefix("= ").unwrap().as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn apply(map: &mut CrushMap, edit: &str) -> Option<()> {
    let words: Vec<&str> = edit.split(' ').collect();
    let place = |from: usize| Location::parse(words[from..].iter().copied()).ok();
    let weight = |index: usize| weight::from_float(words[index].parse().ok()?);
    let item = |map: &CrushMap| map.item_id(words[1]);
    match words[0] {
        "add-item" => {
            map.insert_item(words[1].parse().ok()?, weight(2)?, words[3], &place(4)?).ok()
        }
        "update-item" => {
            map.update_item(words[1].parse().ok()?, weight(2)?, words[3], &place(4)?).ok()?;
            Some(())
        }
        "remove-item" => map.remove_item(item(map)?).ok(),
        "reweight-item" => {
            map.set_item_weight(item(map)?, weight(2)?).ok()?;
            Some(())
        }
        "add-bucket" => {
            let bucket = map.add_bucket(words[1], map.type_id(words[2])?).ok()?;
            if words.len() > 3 { map.move_bucket(bucket, &place(3)?).ok() } else { Some(()) }
        }
        "move" => move_item(map, item(map)?, words[1], &place(2)?),
        "reweight" => map.reweight().ok(),
        "class" => map.set_subtree_class(item(map)?, words[2]).ok(),
        "create-rule" => {
            let class = words.get(4).copied();
            let (name, root, failure_domain) = (words[1], words[2], words[3]);
            let kind = RuleKind::Replicated;
            map.add_simple_rule(&SimpleRule { name, root, failure_domain, class, kind }).ok()?;
            Some(())
        }
        "remove-rule" => map.remove_rule(map.rule_id(words[1])?).then_some(()),
        unknown => panic!("no edit is called {unknown}"),
    }
}

fn move_item(map: &mut CrushMap, item: i32, name: &str, place: &Location) -> Option<()> {
    if map.weight_at(item, place).is_some() {
        return Some(());
    }
    if item < 0 {
        return map.move_bucket(item, place).ok();
    }
    map.create_or_move_item(item, 0, name, place).ok()?;
    Some(())
}
