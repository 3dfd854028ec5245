//! Check of all pairs in one walk in key order: each pair is well-formed, refers to existing pairs,
//! and agrees with the pairs that refer to it.
//!
//! The walk depends on the order of kinds (`B C G H M O P R S`): collections come before onodes, and
//! objects before extent segments; omap pairs come before their objects, so their ids are kept
//! until then.

use super::data::DataCheck;
use super::detail::{Detail, OmapPart};
use super::fault::{HeldFault, ValueFault};
use super::finding::{FindingKind, Findings, Repair};
use super::journal::Journal;
use super::objects::{ID_MAX, Objects};
use super::owners::Owners;
use super::references::References;
use crate::device::{BLOCK, Device, Extent};
use crate::keys::{self, Key};
use crate::object::{ExtentSegment, HeldFields, Onode, Run, SEGMENT_BLOCKS, SharedExtents};
use crate::slices::{Slice, Slices};
use crate::space::BlockMap;
use crate::superblock::{Features, Superblock};
use crate::table::Op;
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{Collection, HeldChange, check_held};

/// Counts of the contents of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Contents {
    /// Collections that exist.
    pub collections: u64,
    /// Slices of removed collections whose objects are still being removed.
    pub removed_collections: u64,
    /// Onodes, those in removed collections included.
    pub objects: u64,
    /// Extent segments, inline ones included.
    pub segments: u64,
    /// Pairs of omaps, without headers.
    pub omap_pairs: u64,
    /// Held changes.
    pub held: u64,
    /// Shared ids.
    pub shared: u64,
    /// References to blocks; a shared block counts once per reference.
    pub mapped_blocks: u64,
    /// Blocks whose data was read and compared with their checksums.
    pub checked_blocks: u64,
}

pub(crate) struct ContentsCheck<'a> {
    /// Findings of the whole check.
    pub findings: &'a mut Findings,
    /// References to blocks and shared ids so far.
    pub references: References,
    /// The stored bitmap of the space.
    pub stored: BlockMap,
    /// Collections that own the ids of objects.
    pub owners: Owners,
    /// Counts so far.
    pub contents: Contents,
    /// Blocks that are claimed more than once.
    pub conflicts: Vec<Extent>,
    /// Operations that remove pairs without an owner.
    pub removals: Vec<Op>,
    /// Largest id of a collection, an object or a shared extent.
    pub max_id: u64,
    /// The held change before.
    last_held: Option<(u64, HeldChange)>,
    /// Blocks of held data by id: those that it must have, and those that were seen.
    held_blocks: BTreeMap<u64, (u64, u64)>,
    features: Features,
    objects: Objects,
    /// Ids of objects with omap headers, and with omap pairs, ascending.
    omap_headers: Vec<u64>,
    omaps: Vec<u64>,
    are_objects_known: bool,
    data: Option<DataCheck<'a>>,
}

impl<'a> ContentsCheck<'a> {
    /// Compares data with its checksums if `data` is given.
    pub fn new(
        superblock: &Superblock,
        has_sound_runs: bool,
        data: Option<DataCheck<'a>>,
        findings: &'a mut Findings,
    ) -> Self {
        let space = superblock.geometry.space;
        let mut references = References::new(space);
        if superblock.metadata.device == Device::Main && has_sound_runs {
            superblock.metadata.runs.iter().for_each(|run| drop(references.claim(*run)));
        }
        ContentsCheck {
            findings,
            references,
            stored: BlockMap::new(space),
            owners: Owners::default(),
            contents: Contents::default(),
            conflicts: Vec::new(),
            removals: Vec::new(),
            max_id: 0,
            last_held: None,
            held_blocks: BTreeMap::new(),
            features: superblock.features,
            objects: Objects::default(),
            omap_headers: Vec::new(),
            omaps: Vec::new(),
            are_objects_known: false,
            data,
        }
    }

    /// Checks the next pair.
    pub fn visit(&mut self, key: &Bytes, value: &Bytes) {
        let named = match Key::read(key) {
            Ok(named) => named,
            Err(error) => {
                let detail = Detail::Key { key: key.clone(), error };
                return self.findings.add(FindingKind::Key, detail);
            }
        };
        if matches!(named, Key::Shared { .. } | Key::ExtentSegment { .. }) {
            self.know_objects();
        }
        if let Err(fault) = self.check(&named, value) {
            let object = match named {
                Key::ExtentSegment { object, .. } => Some(object),
                _ => None,
            };
            let detail = Detail::Value { key: named, fault };
            match object {
                Some(id) => self.findings.add_of(FindingKind::Value, id, None, detail),
                None => self.findings.add(FindingKind::Value, detail),
            }
        }
    }

    /// Ends the walk.
    pub fn finish(&mut self, journal: &Journal) {
        self.know_objects();
        self.check_held_blocks();
        if let Some(data) = self.data.take() {
            self.contents.checked_blocks = data.checked_blocks;
        }
        journal.replay_space(&mut self.stored);
    }

    fn check(&mut self, named: &Key, value: &Bytes) -> Result<(), ValueFault> {
        match *named {
            Key::Bitmap { chunk } => {
                self.stored.load_chunk(chunk, value)?;
            }
            Key::Collection(collection) => {
                self.contents.collections += 1;
                if collection.is_shard() && !self.features.has_shards() {
                    let detail = Detail::ShardFeature(collection);
                    self.findings.add(FindingKind::Feature, detail);
                }
                let slices = Slices::decode(value)?;
                slices.iter().for_each(|slice| self.add_slice(slice, Some(collection)));
            }
            Key::Garbage { slice } => {
                self.contents.removed_collections += 1;
                self.add_slice(slice, None);
                if !value.is_empty() {
                    return Err(ValueFault::Unexpected { length: value.len() });
                }
            }
            Key::OmapHeader { object } => push_new(&mut self.omap_headers, object),
            Key::Omap { object, .. } => {
                self.contents.omap_pairs += 1;
                push_new(&mut self.omaps, object);
            }
            Key::Object { collection, ref object } => {
                let onode = Onode::decode(value)?;
                let is_owned = self.owners.get(collection, object.reversed_hash()).is_some();
                self.add_object(named, collection, is_owned, &onode);
            }
            Key::Held { collection, held, id } => {
                self.contents.held += 1;
                let onode = Onode::decode(value)?;
                self.add_held(named, (collection, held, id), &onode);
                let fields = onode.attrs.get(&Bytes::new()).map(|list| HeldFields::decode(list));
                self.check_held(id, held, &onode, &fields.transpose()?.unwrap_or_default())?;
            }
            Key::Shared { id } => {
                let shared = SharedExtents::decode(value)?;
                self.add_shared(id, &shared);
            }
            Key::ExtentSegment { object, index } => {
                let segment = ExtentSegment::decode(value)?;
                self.add_segment(object, index, &segment);
            }
        }
        Ok(())
    }

    fn see_id(&mut self, id: u64) {
        self.max_id = self.max_id.max(id);
    }

    fn add_slice(&mut self, slice: Slice, owner: Option<Collection>) {
        self.see_id(slice.id);
        if !self.owners.insert(slice, owner) {
            self.findings.add(FindingKind::CollectionId, Detail::CollectionId(slice.id));
        }
    }

    fn add_object(&mut self, named: &Key, collection: u64, is_owned: bool, onode: &Onode) {
        self.contents.objects += 1;
        self.add_onode(named, collection, is_owned, onode);
    }

    fn add_onode(&mut self, named: &Key, collection: u64, is_owned: bool, onode: &Onode) {
        self.see_id(onode.id);
        if onode.id > ID_MAX {
            let detail = Detail::HugeId { key: named.clone(), id: onode.id };
            return self.findings.add(FindingKind::ObjectId, detail);
        }
        self.objects.push(onode);
        if !is_owned {
            let detail = Detail::NoCollection(collection);
            self.findings.add_of(FindingKind::NoCollection, onode.id, None, detail);
        }
        match &onode.inline {
            Some(segment) => self.add_runs(onode.id, onode.size, 0, segment),
            None if Onode::fits_inline(onode.size) => {
                let detail = Detail::NotInline { size: onode.size };
                self.findings.add_of(FindingKind::SegmentNotInline, onode.id, None, detail);
            }
            None => {}
        }
    }

    /// Held changes are like objects, with data of their own.
    fn add_held(&mut self, named: &Key, key: (u64, HeldChange, u64), onode: &Onode) {
        let (collection, held, id) = key;
        let detail = |fault| Detail::HeldKey { key: named.clone(), fault };
        if !self.features.has_shards() {
            self.findings.add(FindingKind::Feature, detail(HeldFault::Feature));
        }
        if onode.id != id {
            let fault = HeldFault::OtherId { found: onode.id, expected: id };
            self.findings.add(FindingKind::Held, detail(fault));
        }
        if self.last_held.replace((collection, held)) == Some((collection, held)) {
            self.findings.add(FindingKind::Held, detail(HeldFault::Twice));
        }
        let is_owned = self.owners.get(collection, held.reversed_hash()).is_some();
        self.held_blocks.insert(onode.id, (onode.size / BLOCK as u64, 0));
        self.add_onode(named, collection, is_owned, onode);
    }

    fn add_held_runs(&mut self, id: u64, segment: &ExtentSegment) {
        let Some((_, found)) = self.held_blocks.get_mut(&id) else { return };
        *found += segment.mapped_blocks();
        if segment.shared_ids().next().is_some() {
            let detail = Detail::Held(HeldFault::Shared);
            self.findings.add_of(FindingKind::Held, id, None, detail);
        }
    }

    fn check_held_blocks(&mut self) {
        for (id, (expected, found)) in std::mem::take(&mut self.held_blocks) {
            if found != expected {
                let detail = Detail::Held(HeldFault::Hole { found, expected });
                self.findings.add_of(FindingKind::Held, id, None, detail);
            }
        }
    }

    /// Checks the list of held changes, and that its writes have their data.
    fn check_held(
        &mut self,
        id: u64,
        held: HeldChange,
        onode: &Onode,
        fields: &HeldFields,
    ) -> Result<(), ValueFault> {
        let hash = check_held(&fields.changes)?;
        let mut add = |fault| {
            self.findings.add_of(FindingKind::Held, id, None, Detail::Held(fault));
        };
        if hash != held.hash {
            add(HeldFault::Hash(hash));
        }
        let size = fields.blocks() * BLOCK as u64;
        if size != onode.size {
            add(HeldFault::Size { writes: size, data: onode.size });
        }
        if onode.has_omap {
            add(HeldFault::Omap);
        }
        if onode.attrs.len() > 1 {
            add(HeldFault::Attributes(onode.attrs.len()));
        }
        Ok(())
    }

    /// All onodes were seen: checks ids, and that omap pairs have objects.
    fn know_objects(&mut self) {
        if std::mem::replace(&mut self.are_objects_known, true) {
            return;
        }
        for id in self.objects.sort() {
            self.findings.add_of(FindingKind::ObjectId, id, None, Detail::SameId);
        }
        let headers = std::mem::take(&mut self.omap_headers);
        headers.into_iter().for_each(|id| self.check_omap(id, OmapPart::Header));
        let omaps = std::mem::take(&mut self.omaps);
        omaps.into_iter().for_each(|id| self.check_omap(id, OmapPart::Pairs));
    }

    fn check_omap(&mut self, id: u64, part: OmapPart) {
        self.see_id(id);
        match self.objects.get(id) {
            Some(known) if known.has_omap => {}
            Some(_) => {
                let detail = Detail::OmapDenied(part);
                self.findings.add_of(FindingKind::OmapUnannounced, id, None, detail);
            }
            None => {
                let repair = self.removal();
                let detail = Detail::OmapOrphan(part);
                self.findings.add_of(FindingKind::OmapOrphan, id, repair, detail);
                if repair.is_some() {
                    let range = keys::omap_range(id);
                    self.removals.push(Op::Delete { key: keys::omap_header(id).into() });
                    self.removals.push(Op::DeleteRange { first: range.start, last: range.end });
                }
            }
        }
    }

    /// A pair without an owner may be removed only if nothing is lost that could own it.
    fn removal(&self) -> Option<Repair> {
        self.findings.is_complete().then_some(Repair::Remove)
    }

    fn add_shared(&mut self, id: u64, shared: &SharedExtents) {
        self.see_id(id);
        self.contents.shared += 1;
        for counted in shared.iter() {
            if !self.references.is_within(counted.extent) {
                let detail = Detail::SharedOutsideSpace { id, extent: counted.extent };
                self.findings.add(FindingKind::OutsideSpace, detail);
                continue;
            }
            self.references.count(id, counted.extent, counted.references);
            self.claim(counted.extent);
        }
        if shared.is_empty() {
            let detail = Detail::EmptyShared { id };
            self.findings.add_repairable(FindingKind::SharedReferences, Repair::Remove, detail);
            self.removals.push(Op::Delete { key: keys::shared(id).into() });
        }
    }

    fn add_segment(&mut self, id: u64, index: u32, segment: &ExtentSegment) {
        self.see_id(id);
        self.contents.segments += 1;
        let base = u64::from(index) * SEGMENT_BLOCKS;
        let (kind, detail) = match self.objects.get(id) {
            None => (FindingKind::SegmentOrphan, Detail::SegmentOrphan { index }),
            Some(known) if known.is_inline => {
                (FindingKind::SegmentUnexpected, Detail::SecondSegment { index })
            }
            Some(_) if segment.is_empty() => {
                (FindingKind::SegmentUnexpected, Detail::EmptySegment { index })
            }
            Some(_) => {
                let size = self.objects.size(id).unwrap_or(u64::MAX);
                return self.add_runs(id, size, base, segment);
            }
        };
        let repair = self.removal();
        self.findings.add_of(kind, id, repair, detail);
        match repair {
            Some(_) => self.removals.push(Op::Delete { key: keys::segment_point(id, index) }),
            // The segment and its blocks are kept.
            None => self.add_runs(id, u64::MAX, base, segment),
        }
    }

    /// Counts the runs of an extent segment whose first block is `base` of the object.
    fn add_runs(&mut self, id: u64, size: u64, base: u64, segment: &ExtentSegment) {
        let blocks = size.div_ceil(BLOCK as u64);
        if base + segment.end() > blocks {
            let detail = Detail::BeyondSize { size, block: base + segment.end() - 1 };
            self.findings.add_of(FindingKind::BeyondSize, id, None, detail);
        }
        self.add_held_runs(id, segment);
        for run in segment.runs() {
            self.add_run(id, base, run);
        }
        if let Some(data) = &mut self.data {
            data.check(id, size, base, segment, self.findings);
        }
    }

    fn add_run(&mut self, id: u64, base: u64, run: &Run) {
        let extent = run.extent();
        self.contents.mapped_blocks += run.count;
        self.see_id(run.shared);
        if !self.references.is_within(extent) {
            let detail = Detail::OutsideSpace { block: base + run.start, extent };
            return self.findings.add_of(FindingKind::OutsideSpace, id, None, detail);
        }
        match run.shared {
            0 => self.claim(extent),
            shared => {
                self.references.mark(extent);
                self.references.refer(shared, extent);
            }
        }
    }

    fn claim(&mut self, extent: Extent) {
        let conflicts = self.references.claim(extent);
        self.conflicts.extend(conflicts);
    }
}

fn push_new(ids: &mut Vec<u64>, id: u64) {
    if ids.last() != Some(&id) {
        ids.push(id);
    }
}
