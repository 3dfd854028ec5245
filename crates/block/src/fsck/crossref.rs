//! Cross-reference of all pairs in a second walk, for details that the first one cannot give: all
//! claims of a block that is claimed twice, wrong counts of shared ids, and objects that lost
//! pairs.

use super::detail::{Conflict, Detail};
use super::extents::ExtentSet;
use super::finding::{FindingKind, Findings, Repair};
use super::pages::Lost;
use super::references::Suspects;
use crate::device::Extent;
use crate::keys::{self, Key};
use crate::object::{ExtentSegment, Onode, SEGMENT_BLOCKS, SharedExtents};
use crate::table::Op;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub(crate) struct CrossReference<'a> {
    findings: &'a mut Findings,
    space: ExtentSet,
    conflicts: ExtentSet,
    /// Blocks of the metadata space.
    metadata: ExtentSet,
    suspects: Suspects,
    shared: BTreeMap<u64, SharedUse>,
    lost: &'a [Lost],
}

/// A shared id whose count may be wrong.
#[derive(Default)]
struct SharedUse {
    counted: SharedExtents,
    /// References by extent segments.
    references: Vec<(Extent, u64)>,
}

/// Corrections of shared ids.
#[derive(Debug, Default)]
pub(crate) struct Recounted {
    /// Changes of pairs.
    pub ops: Vec<Op>,
    /// Blocks that only a wrong count keeps in use.
    pub unused: Vec<Extent>,
}

impl<'a> CrossReference<'a> {
    /// `conflicts` are blocks claimed twice, `metadata` the runs of the metadata space, `suspects`
    /// the shared ids with wrong sums, `lost` the key ranges that cannot be read.
    pub fn new(
        findings: &'a mut Findings,
        space: Extent,
        conflicts: impl IntoIterator<Item = Extent>,
        metadata: impl IntoIterator<Item = Extent>,
        suspects: Suspects,
        lost: &'a [Lost],
    ) -> Self {
        CrossReference {
            findings,
            space: [space].into_iter().collect(),
            conflicts: conflicts.into_iter().collect(),
            metadata: metadata.into_iter().collect(),
            suspects,
            shared: BTreeMap::new(),
            lost,
        }
    }

    /// Set if there is anything to examine; otherwise the walk can be saved.
    pub fn is_needed(&self) -> bool {
        !self.conflicts.is_empty() || !self.suspects.is_empty() || !self.lost.is_empty()
    }

    /// Handles the next pair. Unreadable pairs were reported in the first walk.
    pub fn visit(&mut self, key: &Bytes, value: &Bytes) {
        match Key::read(key) {
            Ok(Key::Object { .. } | Key::Held { .. }) => {
                if let Ok(onode) = Onode::decode(value) {
                    self.look_at_object(&onode);
                }
            }
            Ok(Key::Shared { id }) => {
                if let Ok(counted) = SharedExtents::decode(value) {
                    self.look_at_shared(id, counted);
                }
            }
            Ok(Key::ExtentSegment { object, index }) => {
                if let Ok(segment) = ExtentSegment::decode(value) {
                    self.look_at_runs(object, u64::from(index) * SEGMENT_BLOCKS, &segment);
                }
            }
            _ => {}
        }
    }

    fn look_at_object(&mut self, onode: &Onode) {
        if let Some(segment) = &onode.inline {
            self.look_at_runs(onode.id, 0, segment);
        }
        self.look_for_losses(onode);
    }

    /// Reports pairs of an object that may have been among the lost keys.
    fn look_for_losses(&mut self, onode: &Onode) {
        let id = onode.id;
        let segments = keys::segment_range(id, 0);
        let (omap, header) = (keys::omap_range(id), keys::omap_header(id));
        for lost in self.lost {
            let touches = |range: &Range<Bytes>| range.start < lost.end && lost.start < range.end;
            if onode.inline.is_none() && touches(&segments) {
                self.findings.add_of(FindingKind::KeysLost, id, None, Detail::LostSegments);
            }
            if onode.has_omap && (touches(&omap) || lost.contains(&header)) {
                self.findings.add_of(FindingKind::KeysLost, id, None, Detail::LostOmap);
            }
        }
    }

    fn look_at_shared(&mut self, id: u64, counted: SharedExtents) {
        for shared in counted.iter() {
            let conflicts: Vec<Extent> = self.conflicts.within(shared.extent).collect();
            for conflict in conflicts {
                let (kind, conflict) = self.classify(conflict);
                self.findings.add(kind, Detail::SharedConflict { id, conflict });
            }
        }
        if self.suspects.contains(id) {
            self.shared.entry(id).or_default().counted = counted;
        }
    }

    fn look_at_runs(&mut self, id: u64, base: u64, segment: &ExtentSegment) {
        for run in segment.runs() {
            let conflicts: Vec<Extent> = self.conflicts.within(run.extent()).collect();
            for conflict in conflicts {
                let block = base + run.start + (conflict.start - run.physical);
                let (kind, conflict) = self.classify(conflict);
                self.findings.add_of(kind, id, None, Detail::Conflict { block, conflict });
            }
            if run.shared != 0 && self.suspects.contains(run.shared) {
                let shared = self.shared.entry(run.shared).or_default();
                shared.references.push((run.extent(), id));
            }
        }
    }

    fn classify(&self, blocks: Extent) -> (FindingKind, Conflict) {
        match self.metadata.within(blocks).next() {
            Some(_) => (FindingKind::BlockInMetadata, Conflict::Metadata(blocks)),
            None => (FindingKind::BlockTwice, Conflict::Data(blocks)),
        }
    }

    /// Ends the walk: compares the counts of shared ids.
    pub fn finish(mut self) -> Recounted {
        let mut recounted = Recounted::default();
        for (id, shared) in std::mem::take(&mut self.shared) {
            self.recount(id, &shared, &mut recounted);
        }
        recounted
    }

    fn recount(&mut self, id: u64, shared: &SharedUse, recounted: &mut Recounted) {
        let found = Counts::of(shared.references.iter().map(|(extent, _)| (*extent, 1)));
        let counted =
            Counts::of(shared.counted.iter().map(|counted| (counted.extent, counted.references)));
        let differences = counted.differences(&found);
        let repair = self.findings.is_complete().then_some(Repair::Recount);
        for (extent, counted, found) in &differences {
            let (extent, found, counted) = (*extent, *found, *counted);
            let detail = Detail::Miscounted { id, extent, found, counted };
            let touches =
                |(own, _): &&(Extent, u64)| own.start < extent.end() && extent.start < own.end();
            match shared.references.iter().find(touches) {
                Some((_, object)) => {
                    self.findings.add_of(FindingKind::SharedReferences, *object, repair, detail);
                }
                None => {
                    let kind = FindingKind::SharedReferences;
                    self.findings.add_maybe_repairable(kind, repair, detail);
                }
            }
        }
        if !differences.is_empty() && repair.is_some() {
            let unused = differences.iter().filter(|(_, _, found)| *found == 0);
            let within = unused.flat_map(|(extent, _, _)| self.space.within(*extent));
            recounted.unused.extend(within);
            recounted.ops.push(found.to_op(id));
        }
    }
}

/// Extents with their number of references, ascending, without extents of zero references.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts(Vec<(Extent, u64)>);

impl Counts {
    /// Adds up references to extents.
    fn of(references: impl Iterator<Item = (Extent, u64)>) -> Counts {
        let mut steps: BTreeMap<u64, i64> = BTreeMap::new();
        for (extent, count) in references {
            *steps.entry(extent.start).or_default() += count as i64;
            *steps.entry(extent.end()).or_default() -= count as i64;
        }
        let mut counts = Vec::new();
        let (mut start, mut count) = (0, 0);
        for (place, step) in steps {
            if count > 0 && place > start {
                counts.push((Extent::new(start, place - start), count as u64));
            }
            (start, count) = (place, count + step);
        }
        Counts(counts)
    }

    /// Extents where two counts differ, with both counts.
    fn differences(&self, other: &Counts) -> Vec<(Extent, u64, u64)> {
        let all = self.0.iter().chain(&other.0);
        let borders: BTreeSet<u64> = all.flat_map(|(e, _)| [e.start, e.end()]).collect();
        let borders: Vec<u64> = borders.into_iter().collect();
        let pieces = borders.windows(2).map(|pair| Extent::new(pair[0], pair[1] - pair[0]));
        let counted = pieces.map(|piece| (piece, self.get(piece.start), other.get(piece.start)));
        counted.filter(|(_, own, other)| own != other).collect()
    }

    fn get(&self, block: u64) -> u64 {
        let index = self.0.partition_point(|(extent, _)| extent.end() <= block);
        let counted = self.0.get(index).filter(|(extent, _)| extent.start <= block);
        counted.map_or(0, |(_, count)| *count)
    }

    /// The put of a record with these counts.
    fn to_op(&self, id: u64) -> Op {
        let key = keys::shared(id).into();
        if self.0.is_empty() {
            return Op::Delete { key };
        }
        let extents = self.0.iter().map(|(extent, _)| *extent);
        let mut shared = SharedExtents::new(extents, 1).expect("counted extents are disjoint");
        for (extent, count) in &self.0 {
            for _ in 1..*count {
                shared.add(*extent).expect("all are counted");
            }
        }
        Op::Put { key, value: shared.encode() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_tell_where_they_differ() {
        let one = |start, count| (Extent::new(start, count), 1);
        let found = Counts::of([one(10, 4), one(12, 4)].into_iter());
        assert_eq!(found.get(11), 1);
        assert_eq!(found.get(13), 2);
        assert_eq!(found.get(16), 0);
        let counted = Counts::of([(Extent::new(10, 4), 2)].into_iter());
        let expected = [(Extent::new(10, 2), 2, 1), (Extent::new(14, 2), 0, 1)];
        assert_eq!(counted.differences(&found), expected);
        let Op::Put { value, .. } = found.to_op(5) else { panic!("there are references") };
        let record = SharedExtents::decode(&value).unwrap();
        let record = record.iter().map(|counted| (counted.extent, counted.references));
        assert_eq!(Counts::of(record), found);
    }
}
