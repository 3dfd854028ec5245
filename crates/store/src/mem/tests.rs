//! Properties of the reference itself.

use super::*;
use proptest::prelude::*;
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
