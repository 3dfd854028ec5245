//! The scan of one copy: sizes and attributes of a chunk of objects, and, in a deep scrub, all data and
//! omaps, in pieces.
//!
//! The store verifies the checksum of every block that it reads, so a deep scan finds media faults; the
//! digests computed here tell copies apart that are intact and yet differ. Sizes and attributes of a
//! chunk are read at once, data and omaps object by object, so that a scrub has little in flight.

use super::map::{KnownInfo, KnownSet, Level, OmapSize, ScrubMap, ScrubObject};
use crate::backend::erasure::geometry::ROW;
use crate::snaps::{SNAPSET_ATTR, SnapSet, index_pairs};
use crate::{INFO_ATTR, ObjectInfo, is_meta_object, meta_object};
use bytes::Bytes;
use erasure::DigestBuilder;
use std::collections::VecDeque;
use store::{Collection, ObjectMeta, Outcome, RequestKind, StoreError};
use types::HObject;

/// Bytes of data in one read.
const PIECE_MAX: u64 = 512 << 10;
const OMAP_ENTRIES_MAX: usize = 1024;
const OMAP_BYTES_MAX: usize = 512 << 10;
/// Bytes of data, and omap pairs, in one piece of a transfer; see [`ScrubObject::may_be_cut`].
const GIVEN_DATA: u64 = 1 << 20;
const GIVEN_PAIRS: u64 = 1024;
/// Objects in a map at most, if a member has more than the primary in the range of a chunk.
const MAP_OBJECTS_MAX: usize = 128;

/// The objects to scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extent {
    /// All objects from the first (inclusive) to the second (exclusive).
    Range(HObject, HObject),
    /// Those of these objects that exist.
    Names(Vec<HObject>),
}

/// One of a scan's requests to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanTag {
    /// The list of objects.
    List,
    /// Size and attributes of the object with this index in the list.
    Meta(usize),
    /// The pairs of an object in the clone index.
    Index(usize),
    /// A part of the object that is being read.
    Data,
    /// The omap header of the object that is being read.
    OmapHeader,
    /// A page of its omap.
    OmapPage,
}

/// The scan of one chunk. Done when [`Scan::is_done`].
#[derive(Debug)]
pub struct Scan {
    collection: Collection,
    level: Level,
    end: HObject,
    names: Vec<HObject>,
    map: ScrubMap,
    /// Number of requests that are not completed.
    waiting: usize,
    /// Objects whose content is still to be read, and the one that is being read.
    unread: VecDeque<HObject>,
    reading: Option<Reading>,
    requests: VecDeque<(ScanTag, RequestKind)>,
    failure: Option<StoreError>,
}

/// An object whose data, then omap, is being read.
#[derive(Debug)]
struct Reading {
    name: HObject,
    offset: u64,
    data: Digest,
    /// The digest of a shard's rows, instead of `data`.
    rows: Option<Box<DigestBuilder>>,
    omap: Digest,
    pairs: OmapSize,
    /// Set if the last piece of the data, as a transfer divides it, is all zeros.
    is_end_zero: bool,
    has_error: bool,
}

/// CRC-32C of the bytes that are added.
#[derive(Debug)]
struct Digest(crc_fast::Digest);

impl Digest {
    fn new() -> Self {
        Digest(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds the length, too, so that blobs cannot run into each other.
    fn add_blob(&mut self, bytes: &[u8]) {
        self.add(&(bytes.len() as u64).to_le_bytes());
        self.add(bytes);
    }

    fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Reading {
    /// Adds a piece of the data. Pieces begin with rows.
    fn add(&mut self, data: &[u8]) {
        let Some(rows) = &mut self.rows else { return self.data.add(data) };
        let first = self.offset / ROW;
        for (row, bytes) in (first..).zip(data.chunks(ROW as usize)) {
            // Objects are shorter than 2^32 rows.
            rows.add(row as u32, bytes);
        }
    }
}

impl Scan {
    /// A scan of the extent; drive it with [`Scan::poll_request`] and [`Scan::handle`].
    pub fn new(collection: Collection, extent: Extent, level: Level) -> Self {
        let mut scan = Scan {
            collection,
            level,
            end: HObject::max(),
            names: Vec::new(),
            map: ScrubMap::default(),
            waiting: 0,
            unread: VecDeque::new(),
            reading: None,
            requests: VecDeque::new(),
            failure: None,
        };
        match extent {
            Extent::Names(names) => scan.begin(names),
            Extent::Range(from, end) => {
                scan.end = end;
                let entries_max = MAP_OBJECTS_MAX;
                scan.ask(ScanTag::List, RequestKind::List { collection, from, entries_max });
            }
        }
        scan
    }

    /// Whether the copy is a shard.
    fn is_of_shard(&self) -> bool {
        self.collection.0.shard.position().is_some()
    }

    /// The next request to the store.
    pub fn poll_request(&mut self) -> Option<(ScanTag, RequestKind)> {
        self.requests.pop_front()
    }

    /// Whether all requests are completed.
    pub fn is_done(&self) -> bool {
        self.waiting == 0 && self.reading.is_none() && self.unread.is_empty()
    }

    /// The map, once the scan is done; an error if the store cannot list its objects.
    pub fn finish(self) -> Result<ScrubMap, StoreError> {
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(self.map),
        }
    }

    /// Handles the outcome of a request.
    pub fn handle(&mut self, tag: ScanTag, outcome: Result<Outcome, StoreError>) {
        self.waiting -= 1;
        match (tag, outcome) {
            (ScanTag::List, Ok(Outcome::List(names, next))) => self.listed(names, next),
            (ScanTag::List, Err(error)) => self.failure = Some(error),
            (ScanTag::Meta(index), outcome) => self.take_meta(index, outcome),
            (ScanTag::Index(index), outcome) => self.take_index(index, outcome),
            (_, Ok(outcome)) => self.take_content(outcome),
            (_, Err(error)) => self.content_failed(&error),
        }
        self.go_on();
    }

    fn ask(&mut self, tag: ScanTag, kind: RequestKind) {
        self.waiting += 1;
        self.requests.push_back((tag, kind));
    }

    fn listed(&mut self, names: Vec<HObject>, next: Option<HObject>) {
        self.map.until = next.filter(|next| *next < self.end);
        let within = |name: &HObject| *name < self.end && !is_meta_object(name);
        let names = names.into_iter().filter(within).collect();
        self.begin(names);
    }

    fn begin(&mut self, names: Vec<HObject>) {
        for (index, object) in names.iter().cloned().enumerate() {
            let kind = RequestKind::Meta { collection: self.collection, object };
            self.ask(ScanTag::Meta(index), kind);
        }
        self.names = names;
    }

    fn take_meta(&mut self, index: usize, outcome: Result<Outcome, StoreError>) {
        let name = self.names[index].clone();
        let object = match outcome {
            Ok(Outcome::Meta(Some(meta))) => {
                if self.level == Level::Deep {
                    self.unread.push_back(name.clone());
                }
                self.take_set(index, &meta);
                described(&meta)
            }
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%name, %error, "an object's metadata cannot be read");
                ScrubObject::unreadable()
            }
        };
        self.map.objects.insert(name, object);
    }

    /// A head names its clones: has their pairs looked up in the clone index.
    fn take_set(&mut self, index: usize, meta: &ObjectMeta) {
        let (collection, name) = (self.collection, self.names[index].clone());
        let Some(set) = meta.attrs.get(&SNAPSET_ATTR).filter(|_| !name.is_clone()) else { return };
        let Ok(set) = codec::decode_all::<SnapSet>("snapset", set) else {
            self.map.sets.insert(name, KnownSet::Corrupted);
            return;
        };
        let keys: Vec<Bytes> = index_pairs(&name, &set).into_keys().collect();
        if !keys.is_empty() {
            let object = meta_object(collection.0.pg);
            self.ask(ScanTag::Index(index), RequestKind::OmapGet { collection, object, keys });
        }
        self.map.sets.insert(name, KnownSet::Known(set));
    }

    /// Notes pairs that the clone index lacks. Superfluous ones, of an object that has lost clones since its
    /// set was read, do no harm.
    fn take_index(&mut self, index: usize, outcome: Result<Outcome, StoreError>) {
        let Ok(Outcome::OmapPairs(found)) = outcome else { return };
        let name = &self.names[index];
        let Some(KnownSet::Known(set)) = self.map.sets.get(name) else { return };
        let mut lost = index_pairs(name, set);
        lost.retain(|key, _| !found.contains_key(key));
        if !lost.is_empty() {
            tracing::warn!(%name, pairs = lost.len(), "the index of clones lacks some of an object");
            self.map.unindexed.append(&mut lost);
        }
    }

    /// Begins to read the content of the next object when no request is pending.
    fn go_on(&mut self) {
        while self.waiting == 0 && self.reading.is_none() {
            let Some(name) = self.unread.pop_front() else { return };
            let (data, omap) = (Digest::new(), Digest::new());
            let rows = self.is_of_shard().then(|| Box::new(DigestBuilder::default()));
            self.reading = Some(Reading {
                name,
                offset: 0,
                data,
                rows,
                omap,
                pairs: OmapSize::default(),
                is_end_zero: true,
                has_error: false,
            });
            // An empty object has no data to read, but may have an omap.
            self.read_data();
        }
    }

    fn read_data(&mut self) {
        let Some(reading) = &self.reading else { return };
        let (object, offset) = (reading.name.clone(), reading.offset);
        let described = &self.map.objects[&object];
        let (size, has_omap) = (described.size, described.has_omap);
        let collection = self.collection;
        if offset < size {
            let length = PIECE_MAX.min(size - offset);
            self.ask(ScanTag::Data, RequestKind::Read { collection, object, offset, length });
        } else if has_omap {
            self.ask(ScanTag::OmapHeader, RequestKind::OmapHeader { collection, object });
        } else {
            self.finish_reading();
        }
    }

    fn take_content(&mut self, outcome: Outcome) {
        let Some(reading) = &mut self.reading else { return };
        match outcome {
            Outcome::Read(read) => {
                let size = self.map.objects[&reading.name].size;
                let asked = PIECE_MAX.min(size - reading.offset);
                reading.add(&read.data);
                if reading.offset >= (size - 1) / GIVEN_DATA * GIVEN_DATA {
                    reading.is_end_zero &= read.data.iter().all(|byte| *byte == 0);
                }
                // A short read: the object was written meanwhile, and will not be compared.
                reading.offset += asked.max(read.data.len() as u64);
                self.read_data();
            }
            Outcome::OmapHeader(header) => {
                reading.omap.add_blob(&header);
                self.read_omap(None);
            }
            Outcome::OmapPage(page) => {
                reading.pairs.keys += page.pairs.len() as u64;
                for (key, value) in &page.pairs {
                    reading.pairs.bytes += value.len() as u64;
                    reading.omap.add_blob(key);
                    reading.omap.add_blob(value);
                }
                match page.pairs.keys().next_back().filter(|_| page.more) {
                    Some(last) => self.read_omap(Some(last.clone())),
                    None => self.finish_reading(),
                }
            }
            other => unreachable!("a read was answered by {other:?}"),
        }
    }

    fn read_omap(&mut self, after: Option<Bytes>) {
        let Some(reading) = &self.reading else { return };
        let kind = RequestKind::OmapList {
            collection: self.collection,
            object: reading.name.clone(),
            after,
            prefix: Bytes::new(),
            entries_max: OMAP_ENTRIES_MAX,
            bytes_max: OMAP_BYTES_MAX,
        };
        self.ask(ScanTag::OmapPage, kind);
    }

    /// A read failed, which is the finding: the rest of the object is not read.
    fn content_failed(&mut self, error: &StoreError) {
        let Some(reading) = &mut self.reading else { return };
        if !matches!(error, StoreError::NoObject { .. }) {
            tracing::warn!(object = %reading.name, %error, "scrub: an object cannot be read");
            reading.has_error = true;
        }
        self.finish_reading();
    }

    fn finish_reading(&mut self) {
        let Some(reading) = self.reading.take() else { return };
        let Some(object) = self.map.objects.get_mut(&reading.name) else { return };
        object.read_error = reading.has_error;
        if !reading.has_error {
            match &reading.rows {
                Some(rows) => object.shard_digest = Some(rows.digest()),
                None => object.data_digest = Some(reading.data.value()),
            }
            object.omap_digest = object.has_omap.then(|| reading.omap.value());
            object.may_be_cut |= reading.rows.is_none()
                && (reading.is_end_zero && object.size > GIVEN_DATA
                    || reading.pairs.keys > 0 && reading.pairs.keys.is_multiple_of(GIVEN_PAIRS));
            if object.has_omap {
                self.map.omaps.insert(reading.name, reading.pairs);
            }
        }
    }
}

fn described(meta: &ObjectMeta) -> ScrubObject {
    let mut may_be_cut = false;
    let info = match meta.attrs.get(&INFO_ATTR) {
        None => KnownInfo::Missing,
        Some(info) => match codec::decode_all::<ObjectInfo>("object info", info) {
            Ok(ObjectInfo { version, user_version, size, has_omap, .. }) => {
                may_be_cut = has_omap && !meta.has_omap;
                KnownInfo::Known { version, user_version, size }
            }
            Err(_) => KnownInfo::Corrupted,
        },
    };
    let mut attrs = Digest::new();
    for (name, value) in &meta.attrs {
        attrs.add_blob(name);
        attrs.add_blob(value);
    }
    ScrubObject {
        size: meta.size,
        info,
        attrs_digest: attrs.value(),
        has_omap: meta.has_omap,
        data_digest: None,
        shard_digest: None,
        omap_digest: None,
        stat_error: false,
        read_error: false,
        may_be_cut,
    }
}
