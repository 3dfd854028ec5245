//! Tests of tables, and a strategy for changes.

use super::*;
use proptest::prelude::*;

/// A strategy for few keys, some of which are prefixes of others.
pub fn any_key() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xff)], 0..4).prop_map(Bytes::from)
}

pub fn any_ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (any_key(), any::<u16>()).prop_map(|(key, number)| {
            Op::Put { key: key.into(), value: number.to_le_bytes().to_vec().into() }
        }),
        2 => any_key().prop_map(|key| Op::Delete { key: key.into() }),
        1 => (any_key(), any_key()).prop_map(|(first, last)| Op::DeleteRange { first, last }),
    ];
    prop::collection::vec(op, 0..32)
}

pub fn table_of(ops: &[Op]) -> Table {
    let mut table = Table::default();
    ops.iter().for_each(|op| table.apply(op.clone()));
    table
}

/// Applies the operations to a model of the layers below.
pub fn apply_to(model: &mut BTreeMap<Bytes, Bytes>, ops: &[Op]) {
    for op in ops.iter().cloned() {
        match op {
            Op::Put { key, value } => drop(model.insert(Bytes::copy_from_slice(&key), value)),
            Op::Delete { key } => drop(model.remove(&key[..])),
            Op::DeleteRange { first, last } => {
                model.retain(|key, _| *key < first || last <= *key);
            }
        }
    }
}

fn replay(model: &mut BTreeMap<Bytes, Bytes>, table: &Table) {
    for entry in table.iter() {
        let op = match entry {
            Entry::Range { first, last } => {
                Op::DeleteRange { first: first.clone(), last: last.clone() }
            }
            Entry::Value { key, value } => Op::Put { key: key.into(), value: value.clone() },
            Entry::Removed { key } => Op::Delete { key: key.into() },
        };
        apply_to(model, &[op]);
    }
}

proptest! {
    #[test]
    fn a_view_over_a_tree_shows_all_changes(
        tree in prop::collection::btree_map(any_key(), any_key(), 0..16),
        (older, newer) in (any_ops(), any_ops()),
    ) {
        let mut model = tree.clone();
        apply_to(&mut model, &older);
        apply_to(&mut model, &newer);
        let (frozen, active) = (table_of(&older), table_of(&newer));
        frozen.check_invariants();
        active.check_invariants();
        let view = View { active: &active, frozen: Some(&frozen) };
        let known = model.keys().chain(tree.keys()).map(|key| &key[..]);
        for key in known.chain(frozen.points.keys().map(|key| &**key)) {
            let found = view.get_or(key, |key| Ok::<_, ()>(tree.get(key).cloned())).unwrap();
            prop_assert_eq!(found.as_ref(), model.get(key));
        }
    }

    #[test]
    fn entries_reproduce_the_operations(
        tree in prop::collection::btree_map(any_key(), any_key(), 0..16), ops in any_ops(),
    ) {
        let (mut expected, mut found) = (tree.clone(), tree);
        apply_to(&mut expected, &ops);
        replay(&mut found, &table_of(&ops));
        prop_assert_eq!(found, expected);
    }
}

fn get(table: &Table, key: &'static [u8]) -> Lookup {
    table.get(&key.into())
}

#[test]
fn ranges_that_touch_become_one_and_hold_no_points() {
    let mut table = Table::default();
    table.put(b"b5", "gone".into());
    table.delete_range(b"b", b"c");
    table.delete_range(b"d", b"e");
    table.delete_range(b"c", b"d");
    assert_eq!(table.ranges, [("b".into(), "e".into())].into());
    table.delete(b"b6");
    assert!(table.points.is_empty());
    table.put(b"c1", "new".into());
    assert_eq!(get(&table, b"c1"), Lookup::Value("new".into()));
    assert_eq!((get(&table, b"c2"), get(&table, b"e")), (Lookup::Removed, Lookup::Unknown));
    table.check_invariants();
    table.clear();
    assert!(table.is_empty() && table.bytes == 0);
}

#[test]
fn stored_values_do_not_keep_their_message_alive() {
    let message = Bytes::from(vec![7; 3 * COPIED_MAX]);
    let mut table = Table::default();
    let key = message.slice(..10);
    table.apply(Op::Put { key: key.into(), value: message.slice(..COPIED_MAX) });
    assert!(message.is_unique());
    let long = message.slice(..COPIED_MAX + 1);
    table.put(b"long", long.clone());
    assert_eq!(get(&table, b"long"), Lookup::Value(long.clone()));
    let Lookup::Value(stored) = get(&table, b"long") else { panic!("it was put") };
    assert_eq!(stored.as_ptr(), long.as_ptr());
}

#[test]
fn a_pair_that_the_tree_cannot_have_leaves_nothing_when_it_is_removed() {
    let mut table = Table::above(7);
    let held = |id| {
        let version = types::EVersion::new(1, id);
        crate::keys::held(3, store::HeldChange { version, hash: 5 }, id)
    };
    for id in [6, 7] {
        table.put(&held(id), Bytes::from_static(b"value"));
        table.delete(&held(id));
        table.check_invariants();
    }
    assert_eq!(table.get(&held(6)), Lookup::Removed, "it may be in the tree");
    assert_eq!(table.get(&held(7)), Lookup::Unknown);
    // A repair removes pairs whose ids no counter knows.
    table.delete(&held(8));
    assert_eq!(table.get(&held(8)), Lookup::Removed);
}
