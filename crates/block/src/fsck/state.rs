//! Check of the state at the end of the log, composed of checkpoint and log.

use super::contents::{Contents, ContentsCheck};
use super::crossref::{CrossReference, Recounted};
use super::data::DataCheck;
use super::detail::Detail;
use super::finding::{FindingKind, Findings, Repair};
use super::image::Source;
use super::journal::{Journal, Kept};
use super::naming::Naming;
use super::overlay::Visit;
use super::owners::Owners;
use super::pages::{Walked, check_bitmap, walk};
use super::references::{References, Suspects};
use super::report::{CheckOptions, Report};
use super::space;
use super::superblocks::Chosen;
use crate::device::{Device, Extent};
use crate::log::Counters;
use crate::space::BlockMap;
use crate::superblock::{self, Superblock};
use crate::table::Op;

/// Inputs of all steps of a check.
struct State<'s, 'a> {
    source: &'s Source<'a>,
    superblock: Superblock,
    has_sound_runs: bool,
    journal: Journal,
}

/// Result of the first walk over all pairs.
struct Seen {
    walked: Walked,
    contents: Contents,
    max_id: u64,
    references: References,
    stored: BlockMap,
    owners: Owners,
    conflicts: Vec<Extent>,
    removals: Vec<Op>,
}

/// Checks everything behind the superblock.
pub(crate) fn check(
    source: &Source<'_>,
    options: &CheckOptions,
    chosen: Chosen,
    findings: &mut Findings,
    report: &mut Report,
) {
    let Chosen { mut superblock, has_sound_runs, mut rewrites } = chosen;
    let journal = Journal::read(source, &superblock, findings);
    if let Some(kept) = journal.kept {
        superblock = kept_by(&superblock, kept);
        let slots = superblock::slots(source.blocks(Device::Main), superblock.sequence);
        // A rewrite replaces only copies of two versions ago, which are obsolete.
        rewrites.retain(|(device, block, _)| *device != Device::Main || !slots.contains(block));
        rewrites.extend(slots.map(|slot| (Device::Main, slot, superblock.encode())));
    }
    let state = State { source, superblock, has_sound_runs, journal };
    let mut seen = state.look(options.deep, findings);
    report.offline.rewrites = rewrites;
    report.offline.counters = state.check_checkpoint_counters(&seen.walked, findings);
    report.repairs.counters = state.check_counters(&seen, findings);
    let conflicts = std::mem::take(&mut seen.conflicts);
    let suspects = seen.references.suspects();
    let recounted = state.look_again(&seen.walked, conflicts, suspects, findings);
    recounted.unused.iter().for_each(|extent| seen.references.forget(*extent));
    state.mark_pages(&mut seen);
    space::compare(&seen.references, &seen.stored, findings, &mut report.repairs);
    if state.has_sound_runs {
        report.offline.pages = check_bitmap(source, &state.superblock, &seen.walked, findings);
    }
    state.name_objects(&seen.owners, findings);
    report.repairs.ops = seen.removals;
    report.repairs.ops.extend(recounted.ops);
    report.contents = seen.contents;
    report.used_blocks = seen.references.used_blocks();
    report.log = Some(state.journal.summary);
    report.superblock = Some(state.superblock);
}

/// Superblock of a mount that has made all batches of the log durable: all of them count from now
/// on.
fn kept_by(superblock: &Superblock, kept: Kept) -> Superblock {
    Superblock {
        sequence: superblock.sequence + 1,
        generation: superblock.generation.max(kept.generation) + 1,
        resumed: kept.end,
        ..superblock.clone()
    }
}

impl State<'_, '_> {
    fn walk(&self, visit: &mut Visit<'_>, report: &mut dyn FnMut(FindingKind, Detail)) -> Walked {
        walk(self.source, &self.superblock, &self.journal.overlay, visit, report)
    }

    /// Walks again without reporting damage of the tree.
    fn walk_again(&self, visit: &mut Visit<'_>) {
        self.walk(visit, &mut |_, _| {});
    }

    /// First walk: checks each pair.
    fn look(&self, deep: bool, findings: &mut Findings) -> Seen {
        let read = |extent| self.source.read(Device::Main, extent);
        let data = deep.then(|| DataCheck::new(&read, &self.journal.waiting));
        let mut check = ContentsCheck::new(&self.superblock, self.has_sound_runs, data, findings);
        // Damage of the tree is reported after that of its pairs.
        let mut of_tree = Vec::new();
        let mut note = |kind, detail| of_tree.push((kind, detail));
        let walked = self.walk(&mut |key, value| check.visit(key, value), &mut note);
        check.finish(&self.journal);
        let ContentsCheck { references, stored, owners, contents, .. } = check;
        let (conflicts, mut removals, max_id) = (check.conflicts, check.removals, check.max_id);
        let is_lost = of_tree.iter().any(|(kind, _): &(FindingKind, _)| kind.is_loss());
        of_tree.into_iter().for_each(|(kind, detail)| findings.add(kind, detail));
        if is_lost {
            // A pair without an owner may belong to a lost one.
            findings.withdraw(Repair::Remove);
            removals.clear();
        }
        Seen { walked, contents, max_id, references, stored, owners, conflicts, removals }
    }

    /// Compares the counters of the superblock with its tree. Returns the right ones if they
    /// differ.
    fn check_checkpoint_counters(
        &self,
        walked: &Walked,
        findings: &mut Findings,
    ) -> Option<Counters> {
        if !walked.lost.is_empty() {
            return None;
        }
        let counted = self.superblock.counters;
        let found = Counters { objects: walked.objects, omap_bytes: walked.omap_bytes, ..counted };
        for (what, counted, found) in [
            ("objects", counted.objects, found.objects),
            ("bytes of omaps", counted.omap_bytes, found.omap_bytes),
        ] {
            if counted != found {
                let detail = Detail::Counter { what, counted, found };
                findings.add_repairable(FindingKind::Counter, Repair::Recount, detail);
            }
        }
        (found != counted).then_some(found)
    }

    /// Compares the counters of the last record with the contents. Returns the right ones if they
    /// differ.
    fn check_counters(&self, seen: &Seen, findings: &mut Findings) -> Option<Counters> {
        let counted = self.journal.counters;
        let (max_id, objects) = (seen.max_id, seen.contents.objects);
        let mut found = counted;
        if counted.next_id <= max_id {
            let detail = Detail::NextId { next: counted.next_id, used: max_id };
            findings.add_repairable(FindingKind::Counter, Repair::Recount, detail);
            found.next_id = max_id.saturating_add(1);
        }
        if findings.is_complete() && counted.objects != objects {
            let detail = Detail::Objects { counted: counted.objects, found: objects };
            findings.add_repairable(FindingKind::Counter, Repair::Recount, detail);
            found.objects = objects;
        }
        (found != counted).then_some(found)
    }

    /// Marks pages of the tree as used, even outside of the metadata space.
    fn mark_pages(&self, seen: &mut Seen) {
        let metadata = &self.superblock.metadata;
        if metadata.device != Device::Main {
            return;
        }
        for extent in seen.walked.pages.iter().chain(&metadata.bitmap.extents) {
            if seen.references.is_within(*extent) {
                seen.references.mark(*extent);
            }
        }
    }

    /// Second walk, if there is anything to cross-reference.
    fn look_again(
        &self,
        walked: &Walked,
        conflicts: Vec<Extent>,
        suspects: Suspects,
        findings: &mut Findings,
    ) -> Recounted {
        let metadata = &self.superblock.metadata;
        let runs = match metadata.device {
            Device::Main => metadata.runs.clone(),
            Device::Fast => Vec::new(),
        };
        let space = self.superblock.geometry.space;
        let mut look =
            CrossReference::new(findings, space, conflicts, runs, suspects, &walked.lost);
        if look.is_needed() {
            self.walk_again(&mut |key, value| look.visit(key, value));
        }
        look.finish()
    }

    /// Third walk, if there are findings about objects.
    fn name_objects(&self, owners: &Owners, findings: &mut Findings) {
        let mut naming = Naming::new(findings, owners);
        if naming.is_needed() {
            self.walk_again(&mut |key, value| naming.visit(key, value));
            naming.finish(findings);
        }
    }
}
