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
    assert_eq!(import(&mut target, &stream[..]).unwrap(), 3);
    assert_eq!(exported(&mut target, None), stream);
    assert_eq!(contents(&mut target).unwrap(), contents(&mut source).unwrap());
    assert!(target.held().iter().eq(source.held().iter()) && target.held().iter().count() == 3);
    let content = contents(&mut target).unwrap()[&collection(0)];
    assert_eq!(content, Content { objects: 1, bytes: 7 << 20, with_omap: 0 });
}

#[test]
fn an_import_replaces_objects_of_the_same_name_and_keeps_others() {
    let mut source = filled();
    let stream = exported(&mut source, None);
    let mut change = Transaction::new();
    let (at, data) = (collection(0), Bytes::from_static(b"other"));
    change.push(at, Change::Write { object: object("sparse"), offset: 0, data: data.clone() });
    change.push(at, Change::Write { object: object("new"), offset: 0, data });
    source.request(RequestKind::Commit(change)).unwrap();
    import(&mut source, &stream[..]).unwrap();
    assert_eq!(source.held().iter().count(), 3, "the same ones as before");
    assert_eq!(contents(&mut source).unwrap()[&at].objects, 2);
    let read = RequestKind::Read { collection: at, object: object("sparse"), offset: 0, length: 5 };
    let Outcome::Read(read) = source.request(read).unwrap() else { panic!() };
    assert_eq!(&read.data[..], [0; 5]);
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
        import(&mut target, &stream[..]).unwrap();
        assert_eq!(target, source);
    }
}

#[test]
fn one_collection_is_exported_alone_and_an_absent_one_is_an_error() {
    let mut source = filled();
    let stream = exported(&mut source, Some(collection(1)));
    let mut target = MemStore::new();
    assert_eq!(import(&mut target, &stream[..]).unwrap(), 2);
    assert_eq!(contents(&mut target).unwrap().len(), 1);
    let error = export(&mut source, Some(collection(5)), std::io::sink()).unwrap_err();
    assert_eq!(error.to_string(), "no collection 2.0s4");
}
