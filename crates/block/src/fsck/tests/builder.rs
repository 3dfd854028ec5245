//! Stores built without an engine from arbitrary pairs and records, sound or not.

use crate::checksum::crc32c;
use crate::device::{BLOCK, Device, Extent, IoError};
use crate::fsck::{Image, ImageMut};
use crate::keys;
use crate::log::{Counters, Log, LogPoint, Record, SmallWrite};
use crate::object::{ExtentSegment, Onode, SharedExtents};
use crate::slices::{Slice, Slices};
use crate::space::BlockMap;
use crate::superblock::{
    self, FastLabel, Features, Geometry, MetadataSpace, PageBitmap, Superblock, layout,
};
use crate::table::Table;
use crate::tree::{Apply, PageSource, PageSpace, Step, Tree};
use bytes::Bytes;
use codec::encode_to_bytes;
use std::collections::{BTreeMap, BTreeSet};
use store::Collection;
use types::{HObject, PgId, PoolId, Uuid};

pub const MAIN_BLOCKS: u64 = 2048;
pub const STORE: Uuid = Uuid([7; 16]);
const FAST_BLOCKS: u64 = 2304;
const LOG_BLOCKS: u64 = 256;
/// Blocks of the metadata space.
const RUN_BLOCKS: u64 = 64;

/// Devices in memory; unwritten blocks are zeros.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    blocks: BTreeMap<(Device, u64), Bytes>,
    pub sizes: BTreeMap<Device, u64>,
    pub unreadable: BTreeSet<(Device, u64)>,
}

impl Memory {
    pub fn set(&mut self, device: Device, block: u64, data: &Bytes) {
        for (index, piece) in data.chunks(BLOCK).enumerate() {
            let key = (device, block + index as u64);
            self.blocks.insert(key, Bytes::copy_from_slice(piece));
        }
    }

    pub fn flip(&mut self, device: Device, block: u64) {
        let mut content = self.get(device, block).to_vec();
        content[BLOCK / 2 + 7] ^= 4;
        content[20] ^= 1;
        self.set(device, block, &content.into());
    }

    pub fn get(&self, device: Device, block: u64) -> Bytes {
        let found = self.blocks.get(&(device, block)).cloned();
        found.unwrap_or_else(|| Bytes::from(vec![0; BLOCK]))
    }
}

/// An answer of a device in a test.
pub fn refusal(text: &'static str) -> IoError {
    std::io::Error::other(text).into()
}

impl Image for Memory {
    fn read(&mut self, device: Device, block: u64, blocks: u32) -> Result<Bytes, IoError> {
        let range = block..block + u64::from(blocks);
        if range.clone().any(|block| self.unreadable.contains(&(device, block))) {
            return Err(refusal("medium error"));
        }
        let pieces: Vec<Bytes> = range.map(|block| self.get(device, block)).collect();
        Ok(pieces.concat().into())
    }

    fn blocks(&self, device: Device) -> u64 {
        self.sizes.get(&device).copied().unwrap_or(0)
    }
}

impl ImageMut for Memory {
    fn write(&mut self, device: Device, block: u64, data: Bytes) -> Result<(), IoError> {
        self.set(device, block, &data);
        self.unreadable.remove(&(device, block));
        Ok(())
    }

    fn flush(&mut self, _: Device) -> Result<(), IoError> {
        Ok(())
    }
}

/// Contents of a store.
#[derive(Debug, Clone)]
pub struct Builder {
    pub geometry: Geometry,
    pub device: Device,
    pub pairs: BTreeMap<Bytes, Bytes>,
    pub space: BlockMap,
    pub runs: Vec<Extent>,
    pub next_id: u64,
    /// Records of the log, one batch each.
    pub records: Vec<(Record, Vec<Bytes>)>,
    /// Added to the object counter of the superblock.
    pub objects_off: u64,
    pub omap_off: u64,
    pub data: Vec<(u64, Bytes)>,
    next_block: u64,
}

pub fn name(text: &'static str) -> HObject {
    HObject::head(PoolId(1), Bytes::new(), Bytes::new(), Bytes::from_static(text.as_bytes()), 5)
}

pub fn collection() -> Collection {
    Collection::replicated(PgId { pool: PoolId(1), seed: 3 })
}

pub const COLLECTION: u64 = 1;
pub const SMALL: u64 = 2;
pub const LARGE: u64 = 3;
pub const ORIGIN: u64 = 4;
pub const CLONE: u64 = 5;
pub const SHARED: u64 = 6;
const REMOVED: u64 = 7;
const GARBAGE: u64 = 8;
const NEXT_ID: u64 = 9;

/// Bytes of the large object: one full extent segment and a part of another.
pub const LARGE_SIZE: u64 = 300 << 10;

impl Builder {
    /// A store with one collection and no objects.
    pub fn empty(has_fast: bool) -> Builder {
        let fast_blocks = if has_fast { FAST_BLOCKS } else { 0 };
        let geometry = layout(MAIN_BLOCKS, fast_blocks, Some(LOG_BLOCKS)).unwrap();
        let mut space = BlockMap::new(geometry.space);
        let start = geometry.space.start;
        let (device, run) = match has_fast {
            true => (Device::Fast, geometry.fast_space),
            false => (Device::Main, Extent::new(start, RUN_BLOCKS)),
        };
        if !has_fast {
            space.take(run).unwrap();
        }
        let mut builder = Builder {
            geometry,
            device,
            pairs: BTreeMap::new(),
            space,
            runs: vec![run],
            next_id: NEXT_ID,
            records: Vec::new(),
            objects_off: 0,
            omap_off: 0,
            data: Vec::new(),
            next_block: start + RUN_BLOCKS,
        };
        builder.put(keys::collection(collection()), Slices::Whole(COLLECTION).encode());
        builder
    }

    /// A sound store with every kind of pair.
    pub fn sound() -> Builder {
        Builder::sound_on(false)
    }

    pub fn sound_on(has_fast: bool) -> Builder {
        let mut builder = Builder::empty(has_fast);
        let mut small = Onode::new(SMALL);
        small.size = 10_000;
        small.has_omap = true;
        small.attrs.insert(Bytes::from_static(b"_"), Bytes::from_static(b"info"));
        small.inline = Some(Box::new(builder.segment(&[(0, 1), (2, 1)], 10_000 % BLOCK)));
        builder.put_object(COLLECTION, "small", &small);
        builder.put(keys::omap_header(SMALL), Bytes::from_static(b"header"));
        builder.put(keys::omap(SMALL, b"key"), Bytes::from_static(b"value"));
        builder.put(keys::omap(SMALL, b"other"), vec![5; 9000].into());

        let large = Onode { id: LARGE, size: LARGE_SIZE, ..Onode::default() };
        builder.put_object(COLLECTION, "large", &large);
        for (index, runs) in [(0, [(0, 60), (62, 2)]), (1, [(0, 3), (5, 6)])] {
            let segment = builder.segment(&runs, 0);
            builder.put(keys::segment(LARGE, index), segment.encode());
        }

        let mut segment = builder.segment(&[(0, 4)], 0);
        let shared = segment.share(SHARED);
        for (id, name) in [(ORIGIN, "origin"), (CLONE, "clone")] {
            let onode =
                Onode { size: 16384, inline: Some(Box::new(segment.clone())), ..Onode::new(id) };
            builder.put_object(COLLECTION, name, &onode);
        }
        let counts = SharedExtents::new(shared, 2).unwrap();
        builder.put(keys::shared(SHARED), counts.encode());

        builder.put(keys::garbage(Slice::whole(REMOVED)), Bytes::new());
        let segment = builder.segment(&[(0, 1)], 0);
        let onode = Onode { size: 4096, inline: Some(Box::new(segment)), ..Onode::new(GARBAGE) };
        builder.put_object(REMOVED, "removed", &onode);
        builder
    }

    pub fn put(&mut self, key: Bytes, value: Bytes) {
        self.pairs.insert(key, value);
    }

    pub fn put_object(&mut self, collection: u64, text: &'static str, onode: &Onode) {
        self.put(keys::object(collection, &name(text)), onode.encode());
    }

    pub fn onode(&self, text: &'static str) -> Onode {
        Onode::decode(&self.pairs[&keys::object(COLLECTION, &name(text))]).unwrap()
    }

    pub fn stored_segment(&self, index: u32) -> ExtentSegment {
        ExtentSegment::decode(&self.pairs[&keys::segment(LARGE, index)]).unwrap()
    }

    /// Allocates blocks and writes data to them; the last one has `kept` bytes of data if `kept` is
    /// not zero.
    pub fn allocate(&mut self, count: u64, kept: usize) -> (u64, Vec<u32>) {
        let start = self.next_block;
        self.next_block += count;
        self.space.take(Extent::new(start, count)).unwrap();
        let crcs = (start..start + count).map(|block| {
            let mut content = vec![(block * 31 % 251) as u8 + 1; BLOCK];
            if kept > 0 && block + 1 == start + count {
                content[kept..].fill(0);
            }
            let crc = crc32c(&content);
            self.data.push((block, content.into()));
            crc
        });
        (start, crcs.collect())
    }

    /// An extent segment that maps these blocks (start, count) to newly allocated ones.
    pub fn segment(&mut self, runs: &[(u64, u64)], kept: usize) -> ExtentSegment {
        let mut segment = ExtentSegment::default();
        for (start, count) in runs {
            let is_last = Some(&(*start, *count)) == runs.last();
            let (physical, crcs) = self.allocate(*count, if is_last { kept } else { 0 });
            segment.map(*start, physical, &crcs);
            // Keeps runs apart.
            self.next_block += 1;
        }
        segment
    }

    /// Adds a record behind the checkpoint that overwrites a block.
    pub fn overwrite(&mut self, block: u64, byte: u8) -> u32 {
        let content = Bytes::from(vec![byte; BLOCK]);
        let crc = crc32c(&content);
        let mut record = self.record();
        record.small.push(SmallWrite { block, crc });
        self.records.push((record, vec![content]));
        crc
    }

    pub fn record(&self) -> Record {
        Record { counters: self.counters(), ..Record::default() }
    }

    fn counters(&self) -> Counters {
        let is = |key: &Bytes, kinds: &[u8]| kinds.contains(&key[0]);
        let objects = self.pairs.keys().filter(|key| is(key, b"O")).count() as u64;
        let omaps = self.pairs.iter().filter(|(key, _)| is(key, b"MH"));
        let omap_bytes: usize = omaps.map(|(key, value)| key.len() + value.len()).sum();
        let omap_bytes = omap_bytes as u64 + self.omap_off;
        let objects = objects + self.objects_off;
        Counters { next_id: self.next_id, objects, data_bytes: 0, omap_bytes }
    }

    pub fn build(&self) -> Memory {
        self.build_with(|_| {}, |_| {})
    }

    /// Lets a test change the page space and the superblock before they are written.
    pub fn build_with(
        &self,
        with_pages: impl FnOnce(&mut PageSpace),
        with_superblock: impl FnOnce(&mut Superblock),
    ) -> Memory {
        let mut memory = Memory::default();
        memory.sizes.insert(Device::Main, self.geometry.main_blocks);
        if self.geometry.fast_blocks > 0 {
            memory.sizes.insert(Device::Fast, self.geometry.fast_blocks);
            let label = FastLabel { store: STORE, blocks: self.geometry.fast_blocks };
            memory.set(Device::Fast, 0, &label.encode());
        }
        self.data.iter().for_each(|(block, data)| memory.set(Device::Main, *block, data));
        let mut pages = PageSpace::default();
        self.runs.iter().for_each(|run| pages.add_run(*run));
        let tree_root = self.build_tree(&mut pages, &mut memory);
        let bitmap = self.build_bitmap(&mut pages, &mut memory, with_pages);
        self.build_log(&mut memory);
        let mut superblock = Superblock {
            features: Features::default(),
            store: STORE,
            sequence: 2,
            generation: 1,
            geometry: self.geometry,
            owner: Bytes::from_static(b"osd.3"),
            log: LogPoint::BEGINNING,
            resumed: LogPoint::BEGINNING,
            counters: self.counters(),
            tree_root,
            metadata: MetadataSpace { device: self.device, runs: Vec::new(), bitmap },
        };
        superblock.name_runs(self.runs.len(), self.runs.iter().copied());
        with_superblock(&mut superblock);
        for sequence in [1, 2] {
            let superblock = Superblock { sequence, ..superblock.clone() };
            for slot in superblock::slots(MAIN_BLOCKS, sequence) {
                memory.set(Device::Main, slot, &superblock.encode());
            }
        }
        memory
    }

    fn build_tree(&self, pages: &mut PageSpace, memory: &mut Memory) -> Bytes {
        let mut table = Table::default();
        self.pairs.iter().for_each(|(key, value)| table.put(key, value.clone()));
        for chunk in 0..self.space.chunk_count() {
            let bits = self.space.chunk(chunk);
            table.put(&keys::bitmap(chunk), Bytes::copy_from_slice(&bits));
        }
        let (mut tree, mut apply) = (Tree::new(None, 100), Apply::new(None, 2));
        loop {
            let step = apply.step(&mut tree, &table, pages, 100).unwrap();
            while let Some((page, bytes)) = apply.poll_write() {
                memory.set(self.device, page, &bytes);
            }
            match step {
                Step::Progress => {}
                Step::Done(applied) => return encode_to_bytes(&applied.root.unwrap()),
                Step::Need(_) => unreachable!("nothing was there"),
            }
        }
    }

    fn build_bitmap(
        &self,
        pages: &mut PageSpace,
        memory: &mut Memory,
        with_pages: impl FnOnce(&mut PageSpace),
    ) -> PageBitmap {
        let extent = pages.allocate_run(1).unwrap();
        with_pages(pages);
        let raw = pages.encode();
        let mut block = raw.clone();
        block.resize(BLOCK, 0);
        memory.set(self.device, extent.start, &block.into());
        PageBitmap { extents: vec![extent], bytes: raw.len() as u64, crc: crc32c(&raw) }
    }

    fn build_log(&self, memory: &mut Memory) {
        let start = LogPoint::BEGINNING;
        let mut log = Log::new(self.geometry.log, STORE, 1, start, start);
        for (record, data) in &self.records {
            let seq = log.append(record, data);
            let sealed = log.seal(seq - 1).unwrap();
            for (block, pieces) in sealed.writes {
                let bytes = Bytes::from(pieces.concat());
                memory.set(self.geometry.log_device, block, &bytes);
            }
        }
    }
}
