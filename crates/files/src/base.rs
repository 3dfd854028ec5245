//! The metadata database: the state as of the last checkpoint, in redb.
//!
//! Tables (bytes to bytes; keys as in [`crate::key`]):
//!
//! | table         | key                       | value                                   |
//! |---------------|---------------------------|-----------------------------------------|
//! | `meta`        | `"state"`                 | [`State`]                               |
//! | `collections` | collection                | nothing                                 |
//! | `objects`     | collection, object        | onode                                   |
//! | `checksums`   | id, chunk (u32)           | up to 64 checksums                      |
//! | `omap`        | id, key                   | value                                   |
//! | `slots`       | class (u8), chunk (u32)   | bitmap of 4096 slots                    |
//! | `dead`        | id                        | nothing: a file that may be left over   |
//! | `held`        | collection, held change   | the changes with their data             |
//!
//! Readers share one snapshot, which is renewed after each checkpoint.

use crate::data::SUMS_PER_CHUNK;
use crate::error::FilesError;
use crate::held::HeldValue;
use crate::lock::lock;
use crate::log::LogPosition;
use crate::media::FILE_MODE;
use crate::object::{Body, Onode, read_sums};
use crate::omap::Overlay;
use crate::slots::Chunk;
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Writer, decode_all, encode_to_bytes};
use redb::{
    Database, Durability, ReadOnlyTable, ReadableDatabase, Table, TableDefinition, WriteTransaction,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::ops::Bound;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use store::key::{
    collection_end, collection_key, id_key, object_key, read_collection, read_object,
};
use store::{Collection, HeldChange};
use types::HObject;

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;
type ReadTable = ReadOnlyTable<&'static [u8], &'static [u8]>;
type WriteTable<'t> = Table<'t, &'static [u8], &'static [u8]>;
type Result<T, E = FilesError> = std::result::Result<T, E>;

const META: Definition = TableDefinition::new("meta");
const COLLECTIONS: Definition = TableDefinition::new("collections");
const OBJECTS: Definition = TableDefinition::new("objects");
const CHECKSUMS: Definition = TableDefinition::new("checksums");
const OMAP: Definition = TableDefinition::new("omap");
const SLOTS: Definition = TableDefinition::new("slots");
const DEAD: Definition = TableDefinition::new("dead");
const HELD: Definition = TableDefinition::new("held");

const STATE: &[u8] = b"state";
/// Format of a state without shards,
const FORMAT: u32 = 1;
/// and with them.
const FORMAT_SHARDS: u32 = 2;

/// State of the store as a whole at a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// Id that ties the log to the database.
    pub instance: [u8; 16],
    /// Id of the next new object.
    pub next_id: u64,
    /// Number of objects.
    pub objects: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// Position of the log behind the last transaction in the database.
    pub log: LogPosition,
    /// Whether collections of shards were created or changes held, or were about to be, also in the log.
    /// Versions that do not know shards would take them for replicated groups; the format keeps them from
    /// opening the store.
    pub has_shards: bool,
}

impl Encode for State {
    fn encode(&self, w: &mut Writer) {
        w.u32(if self.has_shards { FORMAT_SHARDS } else { FORMAT });
        w.raw(&self.instance);
        w.u64(self.next_id);
        w.u64(self.objects);
        w.u64(self.blocks);
        w.value(&self.log);
    }
}

impl Decode for State {
    fn decode(r: &mut Reader<'_>) -> codec::Result<Self> {
        let at = *r;
        let has_shards = match r.u32("format")? {
            FORMAT => false,
            FORMAT_SHARDS => true,
            other => return Err(at.invalid("format", other.into())),
        };
        let instance = r.array("instance")?;
        let next_id = r.u64("next id")?;
        let objects = r.u64("objects")?;
        let blocks = r.u64("blocks")?;
        Ok(State { instance, next_id, objects, blocks, log: r.value()?, has_shards })
    }
}

/// Content of a checkpoint.
#[derive(Debug, Default)]
pub struct Update {
    /// State behind the checkpoint.
    pub state: State,
    /// Changed collections; true if the collection exists now.
    pub collections: BTreeMap<Collection, bool>,
    /// By key, ascending; `None` removes the object.
    pub onodes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Chunks of checksums by key, ascending; `None` removes the chunk.
    pub checksums: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Changed omaps by id of the object.
    pub omaps: Vec<(u64, Arc<Overlay>)>,
    /// Ids whose checksums and omap are removed.
    pub dead: Vec<u64>,
    /// Ids whose files are removed once this is durable.
    pub dead_files: Vec<u64>,
    /// Changed chunks of the bitmaps.
    pub slots: Vec<Chunk>,
    /// Held changes by key, ascending; `None` removes one.
    pub held: Vec<(Vec<u8>, Option<HeldValue>)>,
}

/// The database, and the snapshot of its last checkpoint.
pub struct Base {
    database: Database,
    snapshot: Mutex<Arc<Snapshot>>,
}

/// The tables as of one checkpoint.
pub struct Snapshot {
    collections: ReadTable,
    objects: ReadTable,
    checksums: ReadTable,
    omap: ReadTable,
    slots: ReadTable,
    dead: ReadTable,
    held: ReadTable,
}

impl Base {
    /// Opens or creates the database. The state is `None` until the first checkpoint.
    pub fn open(path: &Path, cache_size: usize) -> Result<(Base, Option<State>)> {
        let mut builder = Database::builder();
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE);
        let file = options.open(path).map_err(FilesError::at(path))?;
        let database = builder.set_cache_size(cache_size).create_file(file).map_err(redb)?;
        let transaction = begin(&database)?;
        for table in [META, COLLECTIONS, OBJECTS, CHECKSUMS, OMAP, SLOTS, DEAD, HELD] {
            transaction.open_table(table).map_err(redb)?;
        }
        transaction.commit().map_err(redb)?;
        let snapshot = Mutex::new(Arc::new(Snapshot::new(&database)?));
        let base = Base { database, snapshot };
        let state = base.state()?;
        Ok((base, state))
    }

    /// The tables as of the last checkpoint.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        lock(&self.snapshot).clone()
    }

    /// Applies a checkpoint atomically and durably; later reads see it.
    pub fn write(&self, update: &Update) -> Result<()> {
        let transaction = begin(&self.database)?;
        update.write(&transaction)?;
        transaction.commit().map_err(redb)?;
        *lock(&self.snapshot) = Arc::new(Snapshot::new(&self.database)?);
        Ok(())
    }

    fn state(&self) -> Result<Option<State>> {
        let transaction = self.database.begin_read().map_err(redb)?;
        let meta = transaction.open_table(META).map_err(redb)?;
        let state = meta.get(STATE).map_err(redb)?;
        Ok(state.map(|raw| decode_all("state", raw.value())).transpose()?)
    }
}

impl Snapshot {
    fn new(database: &Database) -> Result<Snapshot> {
        let transaction = database.begin_read().map_err(redb)?;
        let open = |table| transaction.open_table(table).map_err(redb);
        Ok(Snapshot {
            collections: open(COLLECTIONS)?,
            objects: open(OBJECTS)?,
            checksums: open(CHECKSUMS)?,
            omap: open(OMAP)?,
            slots: open(SLOTS)?,
            dead: open(DEAD)?,
            held: open(HELD)?,
        })
    }

    /// The body of an object; `exists` is false if there is no such object.
    pub fn body(&self, collection: Collection, name: &HObject) -> Result<Body> {
        let key = object_key(collection, name);
        let Some(raw) = self.objects.get(key.as_slice()).map_err(redb)? else {
            return Ok(Body::absent());
        };
        self.body_of(Onode::from_bytes(raw.value())?)
    }

    fn body_of(&self, mut onode: Onode) -> Result<Body> {
        let mut sums = std::mem::take(&mut onode.first_sums);
        let length = onode.sums_len as usize;
        if length > SUMS_PER_CHUNK {
            self.read_chunks(onode.id, length, &mut sums)?;
        }
        Ok(Body::stored(onode, sums))
    }

    fn read_chunks(&self, id: u64, length: usize, sums: &mut Vec<u32>) -> Result<()> {
        let (first, last) = (id_key(id, &[]), id_key(id + 1, &[]));
        for entry in self.checksums.range(first.as_slice()..last.as_slice()).map_err(redb)? {
            let (key, value) = entry.map_err(redb)?;
            let number = Reader::new(&key.value()[8..]).array("chunk").map(u32::from_be_bytes)?;
            // A chunk of holes only may be missing.
            sums.resize(number as usize * SUMS_PER_CHUNK, crate::data::HOLE);
            sums.extend(read_sums(&mut Reader::new(value.value()), value.value().len() / 4)?);
        }
        sums.resize(length, crate::data::HOLE);
        Ok(())
    }

    /// All collections that exist.
    pub fn collections(&self) -> Result<BTreeSet<Collection>> {
        let keys = keys_in(&self.collections, Bound::Unbounded, Bound::Unbounded)?;
        keys.map(|key| Ok(read_collection(&key?)?)).collect()
    }

    /// Names in a collection, ascending, from `from` on.
    pub fn names(
        &self,
        collection: Collection,
        from: &HObject,
    ) -> Result<impl Iterator<Item = Result<HObject>> + use<>> {
        let first = object_key(collection, from);
        let last = collection_end(collection);
        let range = (Bound::Included(first.as_slice()), Bound::Excluded(last.as_slice()));
        Ok(keys_in(&self.objects, range.0, range.1)?.map(|key| Ok(read_object(&key?)?.1)))
    }

    /// All objects, for fsck.
    pub fn bodies(&self) -> Result<impl Iterator<Item = Result<(Collection, HObject, Body)>> + '_> {
        let keys = keys_in(&self.objects, Bound::Unbounded, Bound::Unbounded)?;
        Ok(keys.map(|key| {
            let (collection, name) = read_object(&key?)?;
            let body = self.body(collection, &name)?;
            Ok((collection, name, body))
        }))
    }

    /// Value of one key of the object `id`.
    pub fn omap_value(&self, id: u64, key: &[u8]) -> Result<Option<Bytes>> {
        let value = self.omap.get(id_key(id, key).as_slice()).map_err(redb)?;
        Ok(value.map(|value| Bytes::copy_from_slice(value.value())))
    }

    /// Pairs of an object, ascending.
    pub fn omap_pairs(
        &self,
        id: u64,
        start: Bound<&Bytes>,
    ) -> Result<impl Iterator<Item = Result<(Bytes, Bytes)>> + use<>> {
        let first = start.map(|key| id_key(id, key));
        let last = id_key(id + 1, &[]);
        let range = (first.as_ref().map(Vec::as_slice), Bound::Excluded(last.as_slice()));
        let pairs = self.omap.range::<&[u8]>(range).map_err(redb)?;
        Ok(pairs.map(|pair| {
            let (key, value) = pair.map_err(redb)?;
            let key = Bytes::copy_from_slice(&key.value()[8..]);
            Ok((key, Bytes::copy_from_slice(value.value())))
        }))
    }

    /// All chunks of the bitmaps.
    pub fn slots(&self) -> Result<Vec<Chunk>> {
        let mut chunks = Vec::new();
        for entry in self.slots.range::<&[u8]>(..).map_err(redb)? {
            let (key, value) = entry.map_err(redb)?;
            let mut r = Reader::new(key.value());
            let class = r.u8("slot class")?;
            let number = u32::from_be_bytes(r.array("slot chunk")?);
            chunks.push(Chunk { class, number, bits: value.value().to_vec() });
        }
        Ok(chunks)
    }

    /// All held changes.
    pub fn held(&self) -> Result<Vec<(Collection, HeldChange, HeldValue)>> {
        let pairs = self.held.range::<&[u8]>(..).map_err(redb)?;
        let decoded = pairs.map(|pair| {
            let (key, value) = pair.map_err(redb)?;
            crate::held::decode(key.value(), value.value())
        });
        decoded.collect()
    }

    /// Ids whose files a crash may have left behind.
    pub fn dead_files(&self) -> Result<Vec<u64>> {
        let keys = keys_in(&self.dead, Bound::Unbounded, Bound::Unbounded)?;
        keys.map(|key| Ok(u64::from_be_bytes(Reader::new(&key?).array("dead id")?))).collect()
    }
}

impl Update {
    fn write(&self, transaction: &WriteTransaction) -> Result<()> {
        let open = |table| transaction.open_table(table).map_err(redb);
        let mut meta = open(META)?;
        meta.insert(STATE, encode_to_bytes(&self.state).as_ref()).map_err(redb)?;
        self.write_collections(&mut open(COLLECTIONS)?)?;
        write_pairs(&mut open(OBJECTS)?, &self.onodes)?;
        let mut checksums = open(CHECKSUMS)?;
        let mut omap = open(OMAP)?;
        for id in &self.dead {
            remove_id(&mut checksums, *id)?;
            remove_id(&mut omap, *id)?;
        }
        write_pairs(&mut checksums, &self.checksums)?;
        for (id, overlay) in &self.omaps {
            write_omap(&mut omap, *id, overlay)?;
        }
        let mut held = open(HELD)?;
        for (key, value) in &self.held {
            write_pair(&mut held, key, value.as_ref().map(HeldValue::encode).as_deref())?;
        }
        self.write_slots(&mut open(SLOTS)?)?;
        self.write_dead(&mut open(DEAD)?)
    }

    fn write_collections(&self, table: &mut WriteTable<'_>) -> Result<()> {
        for (collection, exists) in &self.collections {
            let value: Option<&[u8]> = exists.then_some(&[]);
            write_pair(table, &collection_key(*collection), value)?;
        }
        Ok(())
    }

    fn write_slots(&self, table: &mut WriteTable<'_>) -> Result<()> {
        for chunk in &self.slots {
            let mut key = vec![chunk.class];
            key.extend(chunk.number.to_be_bytes());
            write_pair(table, &key, Some(&chunk.bits))?;
        }
        Ok(())
    }

    fn write_dead(&self, table: &mut WriteTable<'_>) -> Result<()> {
        // Entries of the previous checkpoint are removed: their files are gone.
        table.retain(|_, _| false).map_err(redb)?;
        for id in &self.dead_files {
            write_pair(table, &id_key(*id, &[]), Some(&[]))?;
        }
        Ok(())
    }
}

fn write_omap(table: &mut WriteTable<'_>, id: u64, overlay: &Overlay) -> Result<()> {
    if overlay.cleared {
        remove_id(table, id)?;
    }
    for (first, last) in &overlay.removed {
        remove_range(table, &id_key(id, first), &id_key(id, last))?;
    }
    for (key, value) in &overlay.pairs {
        write_pair(table, &id_key(id, key), value.as_deref())?;
    }
    Ok(())
}

fn write_pairs(table: &mut WriteTable<'_>, pairs: &[(Vec<u8>, Option<Vec<u8>>)]) -> Result<()> {
    pairs.iter().try_for_each(|(key, value)| write_pair(table, key, value.as_deref()))
}

fn write_pair(table: &mut WriteTable<'_>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    match value {
        Some(value) => table.insert(key, value).map(|_| ()).map_err(redb),
        None => table.remove(key).map(|_| ()).map_err(redb),
    }
}

fn remove_id(table: &mut WriteTable<'_>, id: u64) -> Result<()> {
    remove_range(table, &id_key(id, &[]), &id_key(id + 1, &[]))
}

fn remove_range(table: &mut WriteTable<'_>, first: &[u8], last: &[u8]) -> Result<()> {
    table.retain_in(first..last, |_, _| false).map_err(redb)
}

fn keys_in(
    table: &ReadTable,
    first: Bound<&[u8]>,
    last: Bound<&[u8]>,
) -> Result<impl Iterator<Item = Result<Vec<u8>>> + use<>> {
    let entries = table.range::<&[u8]>((first, last)).map_err(redb)?;
    Ok(entries.map(|entry| Ok(entry.map_err(redb)?.0.value().to_vec())))
}

fn begin(database: &Database) -> Result<WriteTransaction> {
    let mut transaction = database.begin_write().map_err(redb)?;
    transaction.set_durability(Durability::Immediate).map_err(redb)?;
    // Without it, opening after a crash walks the whole database.
    transaction.set_quick_repair(true);
    Ok(transaction)
}

fn redb(error: impl Into<redb::Error>) -> FilesError {
    FilesError::Database(Box::new(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shards_change_the_format() {
        for (has_shards, format) in [(false, 1u32), (true, 2)] {
            let state = State { has_shards, ..State::default() };
            let bytes = encode_to_bytes(&state);
            assert_eq!(bytes[..4], format.to_le_bytes());
            assert_eq!(decode_all::<State>("state", &bytes), Ok(state));
        }
    }
}
