//! Export and import between stores in memory.

use super::*;
use engine::Time;
use store::mem::MemStore;
use store::{ObjectStore, Request};
use types::{EVersion, PgId, PgShard, ShardId};

impl BlockingStore for MemStore {
    fn request(&mut self, kind: RequestKind) -> Result<Outcome, StoreError> {
        self.submit(Time::ZERO, Request { token: 0, kind });
        self.poll_completion().expect("a store in memory answers at once").outcome
    }
}

/// A group of a replicated pool, or a shard of the same number.
fn collection(number: usize) -> Collection {
    let pg = PgId { pool: PoolId(2), seed: 0 };
    let shard = number.checked_sub(1).and_then(ShardId::at).unwrap_or_default();
    Collection(PgShard { pg, shard })
}

fn object(name: &str) -> HObject {
    HObject { pool: PoolId(2), name: Bytes::from(name.to_owned()), ..HObject::default() }
}

fn numbered(count: usize) -> BTreeMap<Bytes, Bytes> {
    let pair = |i| (Bytes::from(format!("key {i:06}")), Bytes::from(vec![i as u8; 300]));
    (0..count).map(pair).collect()
}

/// Two collections: one with a sparse object, one with a large omap and a plain object.
fn filled() -> MemStore {
    let mut store = MemStore::new();
    let mut transaction = Transaction::new();
    let (first, second) = (collection(0), collection(1));
    transaction.push(first, Change::CreateCollection);
    transaction.push(second, Change::CreateCollection);
    let sparse = object("sparse");
    for (offset, length) in [(4096, 100), (3 << 20, 2 << 20)] {
        let data = Bytes::from(vec![9; length]);
        transaction.push(first, Change::Write { object: sparse.clone(), offset, data });
    }
    transaction.push(first, Change::Truncate { object: sparse, size: 7 << 20 });
    let index = object("index");
    transaction.push(second, Change::OmapSet { object: index.clone(), pairs: numbered(20_000) });
    let header = Bytes::from("header");
    transaction.push(second, Change::OmapSetHeader { object: index, header });
    let attrs = BTreeMap::from([(Bytes::from("_"), Bytes::from("attribute"))]);
    transaction.push(second, Change::SetAttrs { object: object("plain"), attrs });
    for number in 1..4 {
        let data = Bytes::from(vec![number as u8; 2 << 20]);
        let write = Change::Write { object: object("sparse"), offset: number << 20, data };
        let changes = vec![Change::Touch { object: object("held") }, write];
        transaction.push(second, Change::Hold { version: EVersion::new(1, number), changes });
    }
    store.request(RequestKind::Commit(transaction)).unwrap();
    store
}

fn exported(store: &mut MemStore, only: Option<Collection>) -> Vec<u8> {
    let mut bytes = Vec::new();
    export(store, only, &mut bytes).unwrap();
    bytes
}

#[test]
fn an_imported_store_is_what_was_exported() {
    let mut source = filled();
    let stream = exported(&mut source, None);
    let mut target = MemStore::new();
    assert_eq!(import(&mut target, &stream[..], Existing::Refused).unwrap(), 3);
    assert_eq!(exported(&mut target, None), stream);
    assert_eq!(contents(&mut target).unwrap(), contents(&mut source).unwrap());
    assert!(target.held().iter().eq(source.held().iter()) && target.held().iter().count() == 3);
    let content = contents(&mut target).unwrap()[&collection(0)];
    assert_eq!(content, Content { objects: 1, bytes: 7 << 20, with_omap: 0 });
}

#[test]
fn a_collection_that_exists_is_refused_or_replaced_as_a_whole() {
    let mut source = filled();
    let stream = exported(&mut source, None);
    let mut target = source.clone();
    let mut change = Transaction::new();
    let (at, data) = (collection(0), Bytes::from_static(b"other"));
    change.push(at, Change::Write { object: object("sparse"), offset: 0, data: data.clone() });
    change.push(at, Change::Write { object: object("new"), offset: 0, data });
    target.request(RequestKind::Commit(change)).unwrap();
    let changed = target.clone();
    let error = import(&mut target, &stream[..], Existing::Refused).unwrap_err().to_string();
    assert!(error.contains("has 2.0 already") && error.contains("--replace"), "{error}");
    assert!(target == changed, "nothing is touched");
    import(&mut target, &stream[..], Existing::Replaced).unwrap();
    assert!(exported(&mut target, None) == stream);
}

/// The object without a name says what the group has.
#[test]
fn a_group_whose_import_is_interrupted_claims_nothing() {
    let mut source = filled();
    let meta = HObject { pool: PoolId(2), ..HObject::default() };
    let mut transaction = Transaction::new();
    for number in 0..2 {
        let pairs = numbered(40_000);
        transaction.push(collection(number), Change::OmapSet { object: meta.clone(), pairs });
    }
    source.request(RequestKind::Commit(transaction)).unwrap();
    let stream = exported(&mut source, None);
    let mut target = MemStore::new();
    assert_eq!(import(&mut target, &stream[..], Existing::Refused).unwrap(), 5);
    assert!(exported(&mut target, None) == stream);
    let claims = |store: &MemStore, number| {
        let meta = store.object(collection(number), &meta);
        meta.is_some_and(|meta| meta.omap.contains_key(&b"key 000000"[..]))
    };
    for cut in (1..20).map(|part| stream.len() * part / 20).chain([stream.len() - 1]) {
        let mut target = MemStore::new();
        import(&mut target, &stream[..cut], Existing::Refused).unwrap_err();
        assert!(!claims(&target, 1), "cut at {cut}");
        if claims(&target, 0) {
            let [found, whole] = [&mut target, &mut source].map(|s| contents(s).unwrap());
            assert_eq!(found[&collection(0)], whole[&collection(0)], "cut at {cut}");
        }
        import(&mut target, &stream[..], Existing::Replaced).unwrap();
        assert!(exported(&mut target, None) == stream, "cut at {cut}");
    }
}

/// Collections that were merged may hold two changes of one version.
#[test]
fn held_changes_of_equal_versions_are_imported() {
    let mut source = MemStore::new();
    let (at, other) = (collection(0), collection(1));
    let mut transaction = Transaction::new();
    for (at, hash) in [(at, 2), (other, 3)] {
        transaction.push(at, Change::CreateCollection);
        let object = HObject { hash, ..object("held") };
        let changes = vec![Change::Touch { object }];
        transaction.push(at, Change::Hold { version: EVersion::new(1, 1), changes });
    }
    let odd = store::Hashes::new(1, 1);
    transaction.push(other, Change::MoveObjects { target: at, hashes: odd });
    source.request(RequestKind::Commit(transaction)).unwrap();
    assert_eq!(source.held().of(at).count(), 2);
    let stream = exported(&mut source, None);
    let mut target = MemStore::new();
    for _ in 0..2 {
        import(&mut target, &stream[..], Existing::Replaced).unwrap();
        assert_eq!(target, source);
    }
}

#[test]
fn one_collection_is_exported_alone_and_an_absent_one_is_an_error() {
    let mut source = filled();
    let stream = exported(&mut source, Some(collection(1)));
    let mut target = MemStore::new();
    assert_eq!(import(&mut target, &stream[..], Existing::Refused).unwrap(), 2);
    assert_eq!(contents(&mut target).unwrap().len(), 1);
    let error = export(&mut source, Some(collection(5)), std::io::sink()).unwrap_err();
    assert_eq!(error.to_string(), "no collection 2.0s4");
}
