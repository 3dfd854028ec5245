//! Complete content of a block store, as a reference store.

use block::BlockStore;
use block::disk::Driver;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use store::mem::MemStore;
use store::{
    Change, Collection, ObjectMeta, Outcome, ReadData, RequestKind, StoreError, Transaction,
};
use types::HObject;

/// Entries per page: few, so that most listings take several pages.
const PAGE_ENTRIES: usize = 16;
const PAGE_BYTES: usize = 64 << 10;

/// The content of a store.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// All objects, without damaged data.
    pub store: MemStore,
    /// Objects whose data is damaged, which is left out.
    pub damaged: BTreeSet<HObject>,
}

/// Reads an open store without other work. Its responses must be consistent with each other.
pub fn read(driver: &mut Driver<BlockStore>) -> Result<Contents, String> {
    if let Some(failure) = driver.store().failure() {
        return Err(format!("the block store does not open: {failure}"));
    }
    driver.store().check_invariants();
    let mut reader = Reader { driver, copy: Transaction::new(), damaged: BTreeSet::new() };
    let Outcome::Collections(collections) = reader.ask(RequestKind::Collections)? else {
        unreachable!("a question has an answer of its kind")
    };
    for collection in collections {
        reader.copy.push(collection, Change::CreateCollection);
        reader.read_collection(collection)?;
    }
    let mut contents = Contents { store: MemStore::new(), damaged: reader.damaged };
    contents.store.apply(&reader.copy).expect("collections are created first");
    Ok(contents)
}

struct Reader<'a> {
    driver: &'a mut Driver<BlockStore>,
    /// Transaction that builds the copy.
    copy: Transaction,
    damaged: BTreeSet<HObject>,
}

impl Reader<'_> {
    fn ask(&mut self, kind: RequestKind) -> Result<Outcome, String> {
        self.driver.execute(kind.clone()).map_err(|error| format!("{kind:?}: {error}"))
    }

    fn read_collection(&mut self, collection: Collection) -> Result<(), String> {
        let mut from = Some(HObject::default());
        while let Some(start) = from {
            let list = RequestKind::List { collection, from: start, entries_max: PAGE_ENTRIES };
            let Outcome::List(objects, next) = self.ask(list)? else {
                unreachable!("a question has an answer of its kind")
            };
            for object in objects {
                self.read_object(collection, &object)?;
            }
            from = next;
        }
        self.read_held(collection)
    }

    /// Held changes whose data is damaged are left out, with their object.
    fn read_held(&mut self, collection: Collection) -> Result<(), String> {
        let list = RequestKind::Held { collection, after: None, entries_max: usize::MAX };
        let Outcome::Held(all, _) = self.ask(list)? else {
            unreachable!("a question has an answer of its kind")
        };
        for held in all {
            let version = held.version;
            match self.driver.execute(RequestKind::ReadHeld { collection, held }) {
                Ok(Outcome::HeldRead(Some(changes))) => {
                    self.copy.push(collection, Change::Hold { version, changes });
                }
                Err(StoreError::Corrupt { object, .. }) => drop(self.damaged.insert(object)),
                other => return Err(format!("{version} is held in {collection}: {other:?}")),
            }
        }
        Ok(())
    }

    fn read_object(&mut self, collection: Collection, name: &HObject) -> Result<(), String> {
        let object = || name.clone();
        let meta = self.ask(RequestKind::Meta { collection, object: object() })?;
        let Outcome::Meta(Some(ObjectMeta { size, attrs, has_omap })) = meta else {
            return Err(format!("{name} is listed in {collection}, and not there"));
        };
        let data = self.read_data(collection, name, size)?;
        let header = self.ask(RequestKind::OmapHeader { collection, object: object() })?;
        let Outcome::OmapHeader(header) = header else {
            unreachable!("a question has an answer of its kind")
        };
        let pairs = self.read_omap(collection, name)?;
        if has_omap == (pairs.is_empty() && header.is_empty()) {
            let count = pairs.len();
            return Err(format!("{name} in {collection}: omap {has_omap}, but {count} pairs"));
        }
        self.copy.changes.extend(
            [
                Change::Write { object: object(), offset: 0, data },
                Change::SetAttrs { object: object(), attrs },
                Change::OmapSetHeader { object: object(), header },
                Change::OmapSet { object: object(), pairs },
            ]
            .map(|change| (collection, change)),
        );
        Ok(())
    }

    fn read_data(
        &mut self,
        collection: Collection,
        name: &HObject,
        size: u64,
    ) -> Result<Bytes, String> {
        let (offset, length) = (0, u64::MAX);
        let read = RequestKind::Read { collection, object: name.clone(), offset, length };
        match self.driver.execute(read) {
            Ok(Outcome::Read(ReadData { data, .. })) if data.len() as u64 == size => Ok(data),
            Err(StoreError::Corrupt { .. }) => {
                self.damaged.insert(name.clone());
                Ok(Bytes::new())
            }
            other => Err(format!("{name} in {collection} has {size} bytes, but gives {other:?}")),
        }
    }

    fn read_omap(
        &mut self,
        collection: Collection,
        name: &HObject,
    ) -> Result<BTreeMap<Bytes, Bytes>, String> {
        let (mut all, mut after) = (BTreeMap::new(), None);
        loop {
            let list = RequestKind::OmapList {
                collection,
                object: name.clone(),
                after,
                prefix: Bytes::new(),
                entries_max: PAGE_ENTRIES,
                bytes_max: PAGE_BYTES,
            };
            let Outcome::OmapPage(page) = self.ask(list)? else {
                unreachable!("a question has an answer of its kind")
            };
            after = page.pairs.keys().next_back().cloned();
            all.extend(page.pairs);
            if !page.more {
                return Ok(all);
            }
        }
    }
}
