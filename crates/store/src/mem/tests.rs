//! Properties of the reference itself.

use super::*;
use crate::{HeldChange, HoldFault};
use proptest::prelude::*;
use std::collections::BTreeSet;
use types::{PgId, PoolId};

const PG: Collection = Collection::replicated(PgId { pool: PoolId(1), seed: 0 });

fn object(number: u8) -> HObject {
    let name = Bytes::from(vec![number]);
    HObject::head(PoolId(1), Bytes::new(), Bytes::new(), name, u32::from(number))
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn pairs(keys: &[&'static str]) -> BTreeMap<Bytes, Bytes> {
    keys.iter().map(|key| (bytes(key), bytes("value"))).collect()
}

fn transaction(changes: Vec<Change>) -> Transaction {
    Transaction { changes: changes.into_iter().map(|change| (PG, change)).collect() }
}

fn store_with(changes: Vec<Change>) -> MemStore {
    let mut store = MemStore::new();
    store.apply(&transaction(vec![Change::CreateCollection])).unwrap();
    store.apply(&transaction(changes)).unwrap();
    store
}

fn any_change() -> impl Strategy<Value = Change> {
    let object = || (0u8..4).prop_map(object);
    let key = || prop::collection::vec(0u8..3, 1..3).prop_map(Bytes::from);
    let value = || prop::collection::vec(any::<u8>(), 0..40).prop_map(Bytes::from);
    let map = || prop::collection::btree_map(key(), value(), 0..4);
    let range = || (0u64..100, 0u64..100);
    prop_oneof![
        object().prop_map(|object| Change::Touch { object }),
        (object(), 0u64..90, value()).prop_map(|(object, offset, data)| Change::Write {
            object,
            offset,
            data
        }),
        (object(), range()).prop_map(|(object, (offset, length))| Change::Zero {
            object,
            offset,
            length
        }),
        (object(), 0u64..90).prop_map(|(object, size)| Change::Truncate { object, size }),
        object().prop_map(|object| Change::Remove { object }),
        (object(), map()).prop_map(|(object, attrs)| Change::SetAttrs { object, attrs }),
        (object(), key()).prop_map(|(object, name)| Change::RemoveAttr { object, name }),
        (object(), value()).prop_map(|(object, header)| Change::OmapSetHeader { object, header }),
        (object(), map()).prop_map(|(object, pairs)| Change::OmapSet { object, pairs }),
        (object(), prop::collection::vec(key(), 0..3))
            .prop_map(|(object, keys)| Change::OmapRemove { object, keys }),
        (object(), key(), key()).prop_map(|(object, first, last)| Change::OmapRemoveRange {
            object,
            first,
            last
        }),
        object().prop_map(|object| Change::OmapClear { object }),
        (object(), object()).prop_map(|(object, target)| Change::Clone { object, target }),
    ]
}

fn any_changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec(any_change(), 0..20)
}

proptest! {
    #[test]
    fn a_transaction_equals_its_changes_one_by_one(changes in any_changes()) {
        let whole = store_with(changes.clone());
        let mut single = store_with(vec![]);
        for change in changes {
            single.apply(&transaction(vec![change])).unwrap();
            single.check_invariants();
        }
        prop_assert_eq!(whole, single);
    }

    #[test]
    fn a_refused_transaction_changes_nothing(before in any_changes(), after in any_changes()) {
        let store = store_with(before);
        let mut changed = store.clone();
        let mut refused = transaction(after);
        let elsewhere = Collection::replicated(PgId { pool: PoolId(9), seed: 9 });
        refused.push(elsewhere, Change::Touch { object: object(1) });
        prop_assert_eq!(changed.apply(&refused), Err(StoreError::NoCollection(elsewhere)));
        prop_assert_eq!(store, changed);
    }

    #[test]
    fn pages_put_together_are_the_whole(
        changes in any_changes(), entries_max in 1usize..4, bytes_max in 0usize..60
    ) {
        let mut store = store_with(changes);
        let (mut from, mut listed) = (Some(HObject::default()), Vec::new());
        while let Some(start) = from {
            let kind = RequestKind::List { collection: PG, from: start, entries_max };
            let Ok(Outcome::List(page, next)) = store.execute(kind) else { panic!() };
            listed.extend(page);
            from = next;
        }
        let names: Vec<_> = store.objects(PG).map(|(name, _)| name.clone()).collect();
        prop_assert_eq!(&listed, &names);
        for object in store.clone().objects(PG).map(|(_, object)| object) {
            let (mut all, mut after, mut more) = (BTreeMap::new(), None, true);
            while more {
                let page = object.omap_page(after.as_ref(), &Bytes::new(), entries_max, bytes_max);
                prop_assert!(page.pairs.len() <= entries_max);
                after = page.pairs.keys().next_back().cloned();
                all.extend(page.pairs);
                more = page.more;
            }
            prop_assert_eq!(&all, &object.omap);
        }
    }

    #[test]
    fn a_clone_is_exact_and_independent(changes in any_changes(), later in any_change()) {
        let mut store = store_with(changes);
        let copy = Change::Clone { object: object(0), target: object(9) };
        store.apply(&transaction(vec![copy])).unwrap();
        prop_assert_eq!(store.object(PG, &object(0)), store.object(PG, &object(9)));
        let before = store.object(PG, &object(9)).cloned();
        store.apply(&transaction(vec![later])).unwrap();
        prop_assert_eq!(store.object(PG, &object(9)), before.as_ref());
    }
}

#[test]
fn a_collection_that_the_transaction_removes_is_gone_for_what_follows() {
    let mut store = store_with(vec![]);
    let touch = Change::Touch { object: object(1) };
    let refused = transaction(vec![Change::RemoveCollection, touch.clone()]);
    assert_eq!(store.apply(&refused), Err(StoreError::NoCollection(PG)));
    let remade = vec![Change::RemoveCollection, Change::CreateCollection, touch];
    store.apply(&transaction(remade)).unwrap();
    assert_eq!(store.objects(PG).count(), 1);
}

#[test]
fn omap_pages_keep_to_prefix_and_cursor() {
    let keys = ["a", "b1", "b2", "b3", "c"];
    let store = store_with(vec![Change::OmapSet { object: object(1), pairs: pairs(&keys) }]);
    let object = store.object(PG, &object(1)).unwrap();
    let keys = |after: Option<&'static str>, entries_max| {
        let page = object.omap_page(after.map(bytes).as_ref(), &bytes("b"), entries_max, 1 << 20);
        (page.pairs.into_keys().collect::<Vec<_>>(), page.more)
    };
    assert_eq!(keys(None, 2), (vec![bytes("b1"), bytes("b2")], true));
    assert_eq!(keys(Some("a"), 3), (vec![bytes("b1"), bytes("b2"), bytes("b3")], false));
    assert_eq!(keys(Some("b2"), 9), (vec![bytes("b3")], false));
    assert_eq!(keys(Some("c"), 9), (vec![], false));
}

#[test]
fn a_full_store_refuses_bytes_but_not_removals() {
    let mut store = MemStore::with_capacity(100);
    let write =
        |length| Change::Write { object: object(1), offset: 0, data: Bytes::from(vec![1; length]) };
    store.apply(&transaction(vec![Change::CreateCollection, write(90)])).unwrap();
    let refused = StoreError::NoSpace { needed: 11, available: 10 };
    assert_eq!(store.apply(&transaction(vec![write(11)])), Err(refused));
    store.apply(&transaction(vec![Change::Remove { object: object(1) }])).unwrap();
    assert_eq!(store.usage().bytes_used, 0);
}

#[test]
fn nothing_happens_behind_a_refused_append_before_the_caller_resumes() {
    let mut store = MemStore::with_capacity(100);
    let write =
        |length| Change::Write { object: object(1), offset: 0, data: Bytes::from(vec![1; length]) };
    store.apply(&transaction(vec![Change::CreateCollection, write(10)])).unwrap();
    let append = |store: &mut MemStore, change| {
        store.execute(RequestKind::Append(transaction(vec![change])))
    };
    let before = store.clone();
    assert!(matches!(append(&mut store, write(200)), Err(StoreError::NoSpace { .. })));
    let behind = Err(StoreError::Behind(PG));
    assert_eq!(append(&mut store, write(5)), behind);
    assert_eq!(append(&mut store, Change::Remove { object: object(1) }), behind);
    let alone = RequestKind::Commit(transaction(vec![write(5)]));
    assert_eq!(store.execute(alone), behind);
    assert_eq!(store, before);
    assert_eq!(store.execute(RequestKind::Resume(PG)), Ok(Outcome::Resumed));
    assert_eq!(append(&mut store, write(5)), Ok(Outcome::Committed));
}

#[test]
fn what_is_absent_is_an_error_except_for_meta() {
    let mut store = store_with(vec![]);
    let (collection, object) = (PG, object(1));
    let meta = RequestKind::Meta { collection, object: object.clone() };
    assert_eq!(store.execute(meta), Ok(Outcome::Meta(None)));
    let header = RequestKind::OmapHeader { collection, object: object.clone() };
    assert_eq!(store.execute(header), Err(StoreError::NoObject { collection, object }));
    let list = RequestKind::List {
        collection: Collection::default(),
        from: HObject::default(),
        entries_max: 1,
    };
    assert_eq!(store.execute(list), Err(StoreError::NoCollection(Collection::default())));
}

fn version(number: u64) -> EVersion {
    EVersion::new(1, number)
}

fn hold(number: u64, changes: Vec<Change>) -> Change {
    Change::Hold { version: version(number), changes }
}

/// A clone of the object.
fn twin(number: u8) -> HObject {
    HObject { snap: types::SnapId(4), ..object(number) }
}

fn blocks(number: u8, offset: u64, length: usize) -> Change {
    Change::Write { object: object(number), offset, data: Bytes::from(vec![number; length]) }
}

#[test]
fn held_changes_are_not_read_before_they_are_settled_and_then_in_order() {
    let mut store = store_with(vec![blocks(1, 0, 8192)]);
    let before = store.object(PG, &object(1)).cloned();
    let copy = Change::Clone {
        object: object(1),
        target: HObject { snap: types::SnapId(4), ..object(1) },
    };
    let first = hold(2, vec![copy, blocks(1, 4096, 8192)]);
    let second = hold(5, vec![Change::Truncate { object: object(1), size: 4096 }]);
    store.apply(&transaction(vec![first])).unwrap();
    store.apply(&transaction(vec![second])).unwrap();
    assert_eq!(store.object(PG, &object(1)), before.as_ref());
    assert_eq!(store.usage().bytes_used, 8192 + 8192);
    let listed = store.execute(RequestKind::Held { collection: PG, after: None, entries_max: 1 });
    let held = HeldChange { version: version(2), hash: 1 };
    assert_eq!(listed, Ok(Outcome::Held(vec![held], true)));
    let read = RequestKind::ReadHeld { collection: PG, held };
    let Ok(Outcome::HeldRead(Some(changes))) = store.execute(read) else { panic!("it is held") };
    assert_eq!(changes[1], blocks(1, 4096, 8192));
    store.apply(&transaction(vec![Change::Settle { through: version(4) }])).unwrap();
    let size = |store: &MemStore| store.object(PG, &object(1)).unwrap().data.size();
    assert_eq!((size(&store), store.objects(PG).count()), (12288, 2));
    store.apply(&transaction(vec![Change::Settle { through: version(5) }])).unwrap();
    assert_eq!((size(&store), store.held().iter().count()), (4096, 0));
}

#[test]
fn a_refused_hold_changes_nothing_and_dropped_changes_leave_nothing() {
    let mut store = store_with(vec![hold(3, vec![blocks(1, 0, 4096)])]);
    let before = store.clone();
    let again =
        transaction(vec![Change::Touch { object: object(2) }, hold(3, vec![blocks(1, 0, 0)])]);
    let fault = HoldFault::Order { newest: version(3) };
    let refused = StoreError::CannotHold { collection: PG, version: version(3), fault };
    assert_eq!(store.apply(&again), Err(refused));
    assert_eq!(store, before);
    let (from, through) = (version(3), version(9));
    let touch = Change::Touch { object: object(1) };
    store.apply(&transaction(vec![Change::Drop { from, through }, hold(3, vec![touch])])).unwrap();
    store.apply(&transaction(vec![Change::Settle { through }])).unwrap();
    assert_eq!(store.object(PG, &object(1)).unwrap().data.size(), 0);
}

/// Otherwise an object that a copy lacks would come back with a part of its content, under the attributes of
/// the whole.
#[test]
fn of_settled_changes_only_touch_and_clone_make_an_absent_object() {
    let clone = |from, to| Change::Clone { object: object(from), target: twin(to) };
    let attrs = pairs(&["key"]);
    let changes = vec![
        hold(1, vec![blocks(1, 0, 4096), Change::Truncate { object: object(1), size: 8192 }]),
        hold(2, vec![Change::SetAttrs { object: object(1), attrs: attrs.clone() }]),
        hold(3, vec![Change::OmapClear { object: object(1) }, clone(1, 1)]),
        hold(4, vec![Change::Touch { object: object(2) }, blocks(2, 0, 4096), clone(2, 2)]),
        hold(5, vec![Change::Remove { object: object(2) }]),
        hold(6, vec![Change::SetAttrs { object: object(2), attrs }]),
        hold(7, vec![blocks(3, 0, 4096), Change::Touch { object: object(3) }]),
    ];
    let mut store = store_with(changes);
    store.apply(&transaction(vec![Change::Settle { through: version(9) }])).unwrap();
    let sizes: Vec<(&HObject, u64)> =
        store.objects(PG).map(|(name, object)| (name, object.data.size())).collect();
    assert_eq!(sizes, [(&twin(2), 4096), (&object(3), 0)]);
    assert_eq!(store.held().iter().count(), 0, "all are forgotten");
}

#[test]
fn held_changes_go_with_their_collection_and_move_with_their_objects() {
    let child = Collection::replicated(PgId { pool: PoolId(1), seed: 1 });
    let touch = |number| vec![Change::Touch { object: object(number) }, blocks(number, 0, 4096)];
    let mut store = store_with(vec![hold(1, touch(1)), hold(2, touch(2))]);
    let mut split = Transaction::new();
    split.push(child, Change::CreateCollection);
    split.push(PG, Change::MoveObjects { target: child, hashes: Hashes::new(1, 1) });
    split.push(child, Change::Settle { through: version(9) });
    store.apply(&split).unwrap();
    assert_eq!((store.objects(PG).count(), store.objects(child).count()), (0, 1));
    store.apply(&transaction(vec![Change::RemoveCollection, Change::CreateCollection])).unwrap();
    assert_eq!(store.held().iter().count(), 0);
}

#[test]
fn objects_move_by_their_hash_and_replace_what_was_there() {
    let child = Collection::replicated(PgId { pool: PoolId(1), seed: 1 });
    let touch = |number| Change::Touch { object: object(number) };
    let mut store = store_with((0..8).map(touch).collect());
    let odd = Hashes::new(1, 1);
    let go = Change::MoveObjects { target: child, hashes: odd };
    let absent = Err(StoreError::NoCollection(child));
    assert_eq!(store.apply(&transaction(vec![go.clone()])), absent);
    let mut split = Transaction::new();
    split.push(child, Change::CreateCollection);
    split.push(child, touch(9));
    split.push(child, touch(10));
    split.push(PG, go);
    store.apply(&split).unwrap();
    let names = |store: &MemStore, at| {
        store.objects(at).map(|(name, _)| name.hash).collect::<BTreeSet<_>>()
    };
    assert_eq!(names(&store, PG), BTreeSet::from([0, 2, 4, 6]));
    assert_eq!(names(&store, child), BTreeSet::from([1, 3, 5, 7, 10]));
    let mut merge = Transaction::new();
    merge.push(child, Change::MoveObjects { target: PG, hashes: odd });
    merge.push(child, Change::MoveObjects { target: child, hashes: Hashes::ALL });
    store.apply(&merge).unwrap();
    assert_eq!(names(&store, PG), BTreeSet::from_iter(0..8));
    assert_eq!(names(&store, child), BTreeSet::from([10]));
}
