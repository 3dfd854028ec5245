//! Keys of the metadata tree: a kind byte, then fields whose order is that of their values.
//!
//! The keys of a kind, of a collection, or of an object's id form one range. Encoding a key never
//! fails; decoding is strict, and its error names the wrong field.
//!
//! This module does not know the values.

use crate::slices::Slice;
use crate::table::PointKey;
use bytes::Bytes;
use codec::{Reader, Result};
use std::fmt;
use std::ops::Range;
use store::key::{collection_key, push_object, push_pool, take_object};
use store::{Collection, HeldChange};
use types::{EVersion, Epoch, HObject, PoolId};

pub(crate) const COLLECTION: u8 = b'C';
const OBJECT: u8 = b'O';
const SEGMENT: u8 = b'S';
const OMAP_HEADER: u8 = b'H';
const OMAP: u8 = b'M';
const SHARED: u8 = b'R';
const BITMAP: u8 = b'B';
pub(crate) const GARBAGE: u8 = b'G';
/// Of held changes, which are pending; `H` is taken.
pub(crate) const HELD: u8 = b'P';

/// Length of kind and id.
const ID_LEN: usize = 9;

/// Length of the prefix before the client's key in the key of an omap pair.
pub const OMAP_PREFIX_LEN: usize = ID_LEN;

/// Length of a key of the space bitmap.
pub const BITMAP_LEN: usize = 5;

/// Length of the key of a held change: kind, id of the collection, reversed hash, epoch, version, id.
const HELD_LEN: usize = ID_LEN + 4 + 4 + 8 + 8;

/// Length of pool and seed.
const COLLECTION_LEN: usize = 12;

/// A decoded key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// A collection; the value is its [`Slices`](crate::slices::Slices).
    Collection(Collection),
    /// An object; the value is its [`Onode`](crate::object::Onode).
    Object {
        /// Id under which the collection keeps the object.
        collection: u64,
        /// Full name of the object.
        object: HObject,
    },
    /// An [extent segment](crate::object::ExtentSegment) that is a pair of its own.
    ExtentSegment {
        /// Id in the onode.
        object: u64,
        /// Number of the segment: first block of the object, divided by the blocks per segment.
        index: u32,
    },
    /// The header of an omap; the value is the client's.
    OmapHeader {
        /// Id in the onode.
        object: u64,
    },
    /// A pair of an omap; the value is the client's.
    Omap {
        /// Id in the onode.
        object: u64,
        /// The client's key.
        key: Bytes,
    },
    /// [Reference counts](crate::object::SharedExtents) of blocks that clones share.
    Shared {
        /// Shared id, from the same counter as ids of objects.
        id: u64,
    },
    /// A chunk of the bitmap of the space; the value has
    /// [`CHUNK_BYTES`](crate::space::CHUNK_BYTES).
    Bitmap {
        /// Number of the chunk, from 0 on.
        chunk: u32,
    },
    /// A removed collection or a part of one, whose objects are still stored. The value is empty.
    Garbage {
        /// The objects that must be removed.
        slice: Slice,
    },
    /// A held change of one object; the value is an [`Onode`](crate::object::Onode) with a list of
    /// [`HeldFields`](crate::object::HeldFields).
    Held {
        /// Id under which the collection keeps its objects.
        collection: u64,
        /// Version and object.
        held: HeldChange,
        /// Id of the held change, from the same counter as ids of objects.
        id: u64,
    },
}

/// Key of [`Key::Collection`].
pub fn collection(collection: Collection) -> Bytes {
    [[COLLECTION].as_slice(), &collection_key(collection)].concat().into()
}

/// Keys of all collections, in the order of pool and seed.
pub fn collections_range() -> Range<Bytes> {
    prefix_range(&[COLLECTION])
}

/// Key of [`Key::Object`]; orders objects of a collection id by pool, reversed hash, and name.
pub fn object(collection: u64, object: &HObject) -> Bytes {
    object_bytes(collection, object).into()
}

/// The same as a [`PointKey`].
pub fn object_point(collection: u64, object: &HObject) -> PointKey {
    object_bytes(collection, object).into()
}

fn object_bytes(collection: u64, object: &HObject) -> Vec<u8> {
    let key = if object.key.is_empty() { &object.name } else { &object.key };
    let names = object.namespace.len() + key.len() + object.name.len();
    // The exact length if no name contains zeros: pool, hash, three terminators of names, snapshot.
    let mut bytes = Vec::with_capacity(ID_LEN + 8 + 4 + names + 6 + 8);
    push_id(&mut bytes, OBJECT, collection);
    push_object(&mut bytes, object);
    bytes
}

/// Collection id in the key of an object; `None` for other keys.
pub(crate) fn collection_id(key: &[u8]) -> Option<u64> {
    let (kind, id) = key.get(..ID_LEN)?.split_first()?;
    (*kind == OBJECT).then(|| u64::from_be_bytes(id.try_into().expect("eight bytes")))
}

/// Range of the objects under a collection id.
pub fn object_range(collection: u64) -> Range<Bytes> {
    prefix_range(&id_key(OBJECT, collection))
}

/// Before the first object of a pool with this reversed hash.
pub fn object_hash_start(collection: u64, pool: PoolId, reversed_hash: u32) -> Bytes {
    let mut bytes = object_pool(collection, pool);
    bytes.extend(reversed_hash.to_be_bytes());
    bytes.into()
}

/// After the last object of a pool with this reversed hash.
pub fn object_hash_end(collection: u64, pool: PoolId, reversed_hash: u32) -> Bytes {
    prefix_end(&object_hash_start(collection, pool, reversed_hash))
}

/// After the last object of a pool.
pub fn object_pool_end(collection: u64, pool: PoolId) -> Bytes {
    prefix_end(&object_pool(collection, pool))
}

fn object_pool(collection: u64, pool: PoolId) -> Vec<u8> {
    let mut bytes = id_key(OBJECT, collection).to_vec();
    push_pool(&mut bytes, pool);
    bytes
}

/// Key of [`Key::ExtentSegment`].
pub fn segment(object: u64, index: u32) -> Bytes {
    Bytes::copy_from_slice(&with_number(SEGMENT, object, index))
}

/// The same as a [`PointKey`].
pub fn segment_point(object: u64, index: u32) -> PointKey {
    PointKey::from(&with_number(SEGMENT, object, index)[..])
}

/// Range of the extent segments of an object from `from_index` on.
pub fn segment_range(object: u64, from_index: u32) -> Range<Bytes> {
    segment(object, from_index)..prefix_end(&id_key(SEGMENT, object))
}

/// After the key of the extent segment.
pub fn segment_end(object: u64, index: u32) -> Bytes {
    prefix_end(&segment(object, index))
}

/// Key of [`Key::OmapHeader`].
pub fn omap_header(object: u64) -> Bytes {
    Bytes::copy_from_slice(&id_key(OMAP_HEADER, object))
}

/// Key of [`Key::Omap`].
pub fn omap(object: u64, key: &[u8]) -> Bytes {
    let mut bytes = Vec::with_capacity(ID_LEN + key.len());
    push_id(&mut bytes, OMAP, object);
    bytes.extend_from_slice(key);
    bytes.into()
}

/// The same as a [`PointKey`].
pub fn omap_point(object: u64, key: &[u8]) -> PointKey {
    PointKey::joined(&id_key(OMAP, object), key)
}

/// Range of the omap pairs of an object, without its header.
pub fn omap_range(object: u64) -> Range<Bytes> {
    prefix_range(&id_key(OMAP, object))
}

/// Id at the beginning of a key of an extent segment, omap pair or shared id, or at the end of one of a held
/// change.
pub fn counted_id(key: &[u8]) -> Option<u64> {
    if key.len() == HELD_LEN && key[0] == HELD {
        let id = key[HELD_LEN - 8..].try_into().expect("eight bytes");
        return Some(u64::from_be_bytes(id));
    }
    let id = key.get(1..ID_LEN)?;
    let is_counted = matches!(key[0], SEGMENT | OMAP_HEADER | OMAP | SHARED);
    is_counted.then(|| u64::from_be_bytes(id.try_into().expect("eight bytes")))
}

/// After the object's last omap key that starts with `prefix`.
pub fn omap_prefix_end(object: u64, prefix: &[u8]) -> Bytes {
    prefix_end(&omap(object, prefix))
}

/// Key of [`Key::Shared`].
pub fn shared(id: u64) -> Bytes {
    Bytes::copy_from_slice(&id_key(SHARED, id))
}

/// Keys of all shared ids.
pub fn shared_range() -> Range<Bytes> {
    prefix_range(&[SHARED])
}

/// Key of [`Key::Bitmap`].
pub fn bitmap(chunk: u32) -> Bytes {
    let mut bytes = [BITMAP, 0, 0, 0, 0];
    bytes[1..].copy_from_slice(&chunk.to_be_bytes());
    Bytes::copy_from_slice(&bytes)
}

/// Keys of all chunks, in order.
pub fn bitmap_range() -> Range<Bytes> {
    prefix_range(&[BITMAP])
}

/// The key omits the range of hashes if the slice has all of them.
pub fn garbage(slice: Slice) -> Bytes {
    let mut key = id_key(GARBAGE, slice.id).to_vec();
    if !slice.is_whole() {
        key.extend(slice.first.to_be_bytes());
        key.extend(slice.last.to_be_bytes());
    }
    key.into()
}

/// Keys of all removed slices.
pub fn garbage_range() -> Range<Bytes> {
    prefix_range(&[GARBAGE])
}

/// Key of a held change under an id of its collection, whose data has an id of its own.
pub fn held(collection: u64, held: HeldChange, id: u64) -> PointKey {
    let EVersion { epoch, version } = held.version;
    let mut key = [0; HELD_LEN];
    key[..ID_LEN].copy_from_slice(&id_key(HELD, collection));
    key[9..13].copy_from_slice(&held.reversed_hash().to_be_bytes());
    key[13..17].copy_from_slice(&epoch.0.to_be_bytes());
    key[17..25].copy_from_slice(&version.to_be_bytes());
    key[25..].copy_from_slice(&id.to_be_bytes());
    PointKey::from(&key[..])
}

/// Range of the held changes under a collection id.
pub fn held_range(collection: u64) -> Range<Bytes> {
    prefix_range(&id_key(HELD, collection))
}

/// Range of all keys that start with `prefix`, which starts with a kind.
pub fn prefix_range(prefix: &[u8]) -> Range<Bytes> {
    Bytes::copy_from_slice(prefix)..prefix_end(prefix)
}

/// First key after all that start with `prefix`, which starts with a kind.
pub fn prefix_end(prefix: &[u8]) -> Bytes {
    let last = prefix.iter().rposition(|&byte| byte != 0xff);
    let last = last.expect("a key starts with its kind, a letter");
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    end.into()
}

/// Decodes a key of [`collection`].
pub fn read_collection(key: &[u8]) -> Result<Collection> {
    let mut r = reader(key, COLLECTION)?;
    let name = r.take("collection", COLLECTION_LEN)?;
    r.finish("collection key")?;
    store::key::read_collection(name)
}

/// Decodes a key of [`object`]: id of the collection, and name.
pub fn read_object(key: &[u8]) -> Result<(u64, HObject)> {
    let mut r = reader(key, OBJECT)?;
    let collection = take_u64(&mut r, "collection id")?;
    let object = take_object(&mut r)?;
    r.finish("object key")?;
    Ok((collection, object))
}

/// Decodes a key of [`segment`]: id of the object, and number of the segment.
pub fn read_segment(key: &[u8]) -> Result<(u64, u32)> {
    let mut r = reader(key, SEGMENT)?;
    let object = take_u64(&mut r, "object id")?;
    let index = take_u32(&mut r, "extent segment index")?;
    r.finish("extent segment key")?;
    Ok((object, index))
}

/// Decodes a key of [`omap_header`]: id of the object.
pub fn read_omap_header(key: &[u8]) -> Result<u64> {
    read_id(key, OMAP_HEADER, "object id")
}

/// Id of the object, and the client's key as a slice of `key`.
pub fn read_omap(key: &Bytes) -> Result<(u64, Bytes)> {
    let mut r = reader(key, OMAP)?;
    let object = take_u64(&mut r, "object id")?;
    Ok((object, key.slice(OMAP_PREFIX_LEN..)))
}

/// Decodes a key of [`shared`]: the shared id.
pub fn read_shared(key: &[u8]) -> Result<u64> {
    read_id(key, SHARED, "shared id")
}

/// Decodes a key of [`bitmap`]: number of the chunk.
pub fn read_bitmap(key: &[u8]) -> Result<u32> {
    let mut r = reader(key, BITMAP)?;
    let chunk = take_u32(&mut r, "bitmap chunk")?;
    r.finish("bitmap key")?;
    Ok(chunk)
}

/// Decodes a key of [`garbage`]. A range of all hashes, or an empty one, is an error.
pub fn read_garbage(key: &[u8]) -> Result<Slice> {
    let mut r = reader(key, GARBAGE)?;
    let slice = Slice::whole(take_u64(&mut r, "collection id")?);
    if r.is_empty() {
        return Ok(slice);
    }
    let at = r;
    let (first, last) = (take_u32(&mut r, "first hash")?, take_u32(&mut r, "last hash")?);
    r.finish("garbage key")?;
    let slice = Slice { first, last, ..slice };
    if first > last || slice.is_whole() {
        Err(at.invalid("hashes", first.into()))
    } else {
        Ok(slice)
    }
}

/// Id of the collection, name, and id of the data.
pub fn read_held(key: &[u8]) -> Result<(u64, HeldChange, u64)> {
    let mut r = reader(key, HELD)?;
    let collection = take_u64(&mut r, "collection id")?;
    let hash = take_u32(&mut r, "reversed hash")?;
    let epoch = Epoch(take_u32(&mut r, "epoch")?);
    let version = EVersion { epoch, version: take_u64(&mut r, "version")? };
    let id = take_u64(&mut r, "id of held data")?;
    r.finish("held change key")?;
    Ok((collection, HeldChange::of_reversed(version, hash), id))
}

impl Key {
    /// Decodes a key of any kind.
    pub fn read(key: &Bytes) -> Result<Key> {
        let mut r = Reader::new(key);
        let at = r;
        Ok(match r.u8("key kind")? {
            COLLECTION => Key::Collection(read_collection(key)?),
            OBJECT => {
                let (collection, object) = read_object(key)?;
                Key::Object { collection, object }
            }
            SEGMENT => {
                let (object, index) = read_segment(key)?;
                Key::ExtentSegment { object, index }
            }
            OMAP_HEADER => Key::OmapHeader { object: read_omap_header(key)? },
            OMAP => {
                let (object, key) = read_omap(key)?;
                Key::Omap { object, key }
            }
            SHARED => Key::Shared { id: read_shared(key)? },
            BITMAP => Key::Bitmap { chunk: read_bitmap(key)? },
            GARBAGE => Key::Garbage { slice: read_garbage(key)? },
            HELD => {
                let (collection, held, id) = read_held(key)?;
                Key::Held { collection, held, id }
            }
            kind => return Err(at.invalid("key kind", kind.into())),
        })
    }

    /// Encodes the key; [`Key::read`] decodes it.
    pub fn write(&self) -> Bytes {
        match self {
            Key::Collection(name) => collection(*name),
            Key::Object { collection, object: name } => object(*collection, name),
            Key::ExtentSegment { object, index } => segment(*object, *index),
            Key::OmapHeader { object } => omap_header(*object),
            Key::Omap { object, key } => omap(*object, key),
            Key::Shared { id } => shared(*id),
            Key::Bitmap { chunk } => bitmap(*chunk),
            Key::Garbage { slice } => garbage(*slice),
            Key::Held { collection, held: name, id } => {
                Bytes::copy_from_slice(&held(*collection, *name, *id))
            }
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Collection(collection) => write!(f, "collection {collection}"),
            Key::Object { collection, object } => {
                write!(f, "object {object} in collection id {collection}")
            }
            Key::ExtentSegment { object, index } => {
                write!(f, "extent segment {index} of object id {object}")
            }
            Key::OmapHeader { object } => write!(f, "omap header of object id {object}"),
            Key::Omap { object, key } => {
                write!(f, "omap key \"{}\" of object id {object}", key.escape_ascii())
            }
            Key::Shared { id } => write!(f, "shared id {id}"),
            Key::Bitmap { chunk } => write!(f, "bitmap chunk {chunk}"),
            Key::Held { collection, held: HeldChange { version, hash }, .. } => {
                write!(f, "held change {version} of hash {hash:08x} in collection id {collection}")
            }
            Key::Garbage { slice } if slice.is_whole() => {
                write!(f, "removed collection id {}", slice.id)
            }
            Key::Garbage { slice: Slice { id, first, last } } => {
                write!(
                    f,
                    "removed part of collection id {id}, reversed hashes {first:08x} to {last:08x}"
                )
            }
        }
    }
}

fn push_id(key: &mut Vec<u8>, kind: u8, id: u64) {
    key.push(kind);
    key.extend_from_slice(&id.to_be_bytes());
}

fn id_key(kind: u8, id: u64) -> [u8; ID_LEN] {
    let mut key = [kind; ID_LEN];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

fn with_number(kind: u8, id: u64, number: u32) -> [u8; ID_LEN + 4] {
    let mut key = [0; ID_LEN + 4];
    key[..ID_LEN].copy_from_slice(&id_key(kind, id));
    key[ID_LEN..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Reader of the fields after the kind.
fn reader(key: &[u8], kind: u8) -> Result<Reader<'_>> {
    let mut r = Reader::new(key);
    let at = r;
    match r.u8("key kind")? {
        found if found == kind => Ok(r),
        found => Err(at.invalid("key kind", found.into())),
    }
}

fn read_id(key: &[u8], kind: u8, field: &'static str) -> Result<u64> {
    let mut r = reader(key, kind)?;
    let id = take_u64(&mut r, field)?;
    r.finish(field)?;
    Ok(id)
}

fn take_u64(r: &mut Reader<'_>, field: &'static str) -> Result<u64> {
    r.array(field).map(u64::from_be_bytes)
}

fn take_u32(r: &mut Reader<'_>, field: &'static str) -> Result<u32> {
    r.array(field).map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests;
