//! The metadata tree as pages, and the bitmap of pages in use.

use super::detail::Detail;
use super::extents::ExtentSet;
use super::fault::BitmapError;
use super::finding::{FindingKind, Findings, Repair};
use super::image::Source;
use super::overlay::{Overlay, Visit};
use crate::checksum::crc32c;
use crate::device::Extent;
use crate::superblock::Superblock;
use crate::table::Table;
use crate::tree::{self, PageSource, PageSpace, Root, Visitor};
use bytes::{Bytes, BytesMut};
use std::ops::Range;

const OMAP_HEADER: u8 = b'H';
const OMAP: u8 = b'M';
const OBJECT: u8 = b'O';

/// A range of keys that were in the tree and cannot be read.
pub(crate) type Lost = Range<Bytes>;

/// Result of a walk over the tree, as of the checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// Pages in use, in the order of the walk.
    pub pages: Vec<Extent>,
    /// Key ranges of damaged pages.
    pub lost: Vec<Lost>,
    /// Pairs whose keys begin with `O`.
    pub objects: u64,
    /// Bytes of keys and values of omaps, headers included.
    pub omap_bytes: u64,
}

/// Root of the tree; `None` if it is empty.
pub(crate) fn root(superblock: &Superblock) -> codec::Result<Option<Root>> {
    match superblock.tree_root.is_empty() {
        true => Ok(None),
        false => codec::decode_all("tree root", &superblock.tree_root).map(Some),
    }
}

/// Visits all pairs of the tree as changed by `table`. `report` receives damage.
pub(crate) fn walk(
    source: &Source<'_>,
    superblock: &Superblock,
    table: &Table,
    visit: &mut Visit<'_>,
    report: &mut dyn FnMut(FindingKind, Detail),
) -> Walked {
    let mut walked = Walked::default();
    let root = root(superblock).unwrap_or_else(|error| {
        report(FindingKind::KeysLost, Detail::Root(error));
        None
    });
    let device = superblock.metadata.device;
    let mut overlay = Overlay::new(table);
    let Walked { pages, objects, omap_bytes, .. } = &mut walked;
    let visitor = Visitor {
        read: &mut |page, pages| source.read(device, Extent::new(page, pages.into())),
        pair: &mut |key, value| {
            match key.first() {
                Some(&OBJECT) => *objects += 1,
                Some(&(OMAP | OMAP_HEADER)) => *omap_bytes += (key.len() + value.len()) as u64,
                _ => {}
            }
            overlay.pair(&Bytes::copy_from_slice(key), value, visit);
        },
        pages: &mut |extent| pages.push(extent),
    };
    for finding in tree::walk(root.as_ref(), visitor) {
        report(kind_of(&finding), Detail::Tree(finding.clone()));
        walked.lost.extend(lost_by(finding));
    }
    overlay.finish(visit);
    walked
}

fn kind_of(finding: &tree::Finding) -> FindingKind {
    match finding {
        tree::Finding::Lost { .. } => FindingKind::KeysLost,
        tree::Finding::ValueLost { .. } => FindingKind::ValueLost,
        tree::Finding::UsedTwice { .. } => FindingKind::PageTwice,
        tree::Finding::Misplaced { .. } => FindingKind::KeyMisplaced,
        tree::Finding::Sum { .. } => FindingKind::TreeSums,
    }
}

fn lost_by(finding: tree::Finding) -> Option<Lost> {
    /// After all keys.
    const LAST: &[u8] = &[0xff];
    let (first, end) = match finding {
        tree::Finding::Lost { first, end, .. } => (first, end.unwrap_or_else(|| LAST.to_vec())),
        tree::Finding::ValueLost { key, .. } => {
            let end = [key.as_slice(), &[0]].concat();
            (key, end)
        }
        _ => return None,
    };
    Some(first.into()..end.into())
}

/// The stored bitmap of pages.
pub(crate) fn read_bitmap(
    source: &Source<'_>,
    superblock: &Superblock,
) -> Result<PageSpace, BitmapError> {
    let metadata = &superblock.metadata;
    if metadata.bitmap.bytes == 0 {
        return Ok(space_of(&metadata.runs));
    }
    let mut raw = BytesMut::new();
    for extent in &metadata.bitmap.extents {
        raw.extend_from_slice(&source.read(metadata.device, *extent)?);
    }
    let (length, blocks) = (metadata.bitmap.bytes, raw.len());
    let raw = usize::try_from(length).ok().and_then(|length| raw.get(..length));
    let raw = raw.ok_or(BitmapError::Length { length, found: blocks })?;
    let (found, expected) = (crc32c(raw), metadata.bitmap.crc);
    if found != expected {
        return Err(BitmapError::Checksum { found, expected });
    }
    let pages = PageSpace::decode(raw)?;
    let has_runs: ExtentSet = pages.runs().collect();
    let is_named = !superblock.features.has_scattered_metadata();
    match is_named && has_runs != metadata.runs.iter().copied().collect() {
        false => Ok(pages),
        true => Err(BitmapError::Runs),
    }
}

fn space_of(runs: &[Extent]) -> PageSpace {
    let mut pages = PageSpace::default();
    runs.iter().for_each(|run| pages.add_run(*run));
    pages
}

/// Takes all free pages and returns them.
fn take_free(pages: &mut PageSpace) -> ExtentSet {
    let most = pages.free_pages();
    std::iter::from_fn(|| pages.allocate_run(most.max(1))).collect()
}

/// Expected content of a bitmap of pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PagesInUse {
    /// Runs of the metadata space.
    pub runs: Vec<Extent>,
    /// Pages in use.
    pub used: ExtentSet,
}

impl PagesInUse {
    /// A bitmap with this content.
    pub fn to_bitmap(&self) -> PageSpace {
        let mut pages = space_of(&self.runs);
        let all = take_free(&mut pages);
        pages.commit();
        for extent in all.minus(&self.used).iter() {
            pages.free_later(extent).expect("taken above");
        }
        pages.commit();
        pages
    }
}

/// Checks that the bitmap of pages, whose runs are valid, contains exactly the pages of the tree
/// and its own. Otherwise returns the right content, if it is known.
pub(crate) fn check_bitmap(
    source: &Source<'_>,
    superblock: &Superblock,
    walked: &Walked,
    findings: &mut Findings,
) -> Option<PagesInUse> {
    let own = superblock.metadata.bitmap.extents.iter().copied();
    let needed: ExtentSet = walked.pages.iter().copied().chain(own).collect();
    let named: Vec<Extent> = match has_lost_runs(superblock) {
        true => needed.iter().collect(),
        false => superblock.metadata.runs.clone(),
    };
    let runs: ExtentSet = named.iter().copied().collect();
    for extent in needed.minus(&runs).iter() {
        findings.add(FindingKind::PageOutside, Detail::PagesOutside(extent));
    }
    // A lost page may have had children.
    let is_known = walked.lost.is_empty();
    // A new bitmap needs free pages, and only the old one names the runs that are not in use.
    let is_rebuildable = is_known && !has_lost_runs(superblock);
    let mut stored = match read_bitmap(source, superblock) {
        Ok(stored) => stored,
        Err(fault) => {
            let repair = is_rebuildable.then_some(Repair::Recount);
            findings.add_maybe_repairable(FindingKind::PageBitmap, repair, fault.into());
            let used = needed.intersection(&runs);
            return is_rebuildable.then_some(PagesInUse { runs: named, used });
        }
    };
    let free = take_free(&mut stored);
    let stored_used = runs.minus(&free);
    let (leaked, unmarked) = (stored_used.minus(&needed), needed.intersection(&free));
    for extent in leaked.iter().filter(|_| is_known) {
        let detail = Detail::PagesLeaked(extent);
        findings.add_repairable(FindingKind::PageLeaked, Repair::Free, detail);
    }
    for extent in unmarked.iter() {
        let detail = Detail::MarkedFree(extent);
        findings.add_repairable(FindingKind::PageFree, Repair::MarkUsed, detail);
    }
    let used = if is_known { needed } else { needed.union(&stored_used) }.intersection(&runs);
    (used != stored_used).then_some(PagesInUse { runs: named, used })
}

/// Set if only the bitmap of pages names the runs, and it is unreadable.
pub(crate) fn has_lost_runs(superblock: &Superblock) -> bool {
    superblock.features.has_scattered_metadata() && superblock.metadata.runs.is_empty()
}
