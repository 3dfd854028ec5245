//! The four copies of the superblock, the label of the fast device, and their geometry.

use super::detail::Detail;
use super::fault::{CopyError, CopyFault, LabelFault};
use super::finding::{FindingKind, Findings, Repair};
use super::image::Source;
use super::pages::{has_lost_runs, read_bitmap};
use crate::device::{Device, Extent};
use crate::superblock::{
    self, FastLabel, LABEL_BLOCKS, MAIN_BLOCKS_MIN, SUPERBLOCK_BLOCKS, Superblock, SuperblockError,
};
use bytes::Bytes;

/// A block that a repair writes again.
pub(crate) type Rewrite = (Device, u64, Bytes);

/// The superblock to use, and the writes that make all copies valid.
pub(crate) struct Chosen {
    /// The newest superblock that can be used.
    pub superblock: Superblock,
    /// Set if the metadata space is valid.
    pub has_sound_runs: bool,
    /// Writes that make all four copies and the label valid.
    pub rewrites: Vec<Rewrite>,
}

impl Chosen {
    fn new(superblock: Superblock, rewrites: Vec<Rewrite>) -> Self {
        Chosen { superblock, has_sound_runs: false, rewrites }
    }
}

/// A place of a copy, and the copy found there.
struct Copy {
    block: u64,
    found: Result<Superblock, CopyError>,
}

impl Copy {
    fn intact(&self) -> Option<&Superblock> {
        self.found.as_ref().ok()
    }
}

/// Checks all copies; `None` if there is no usable superblock.
pub(crate) fn choose(
    source: &Source<'_>,
    accept_outdated: bool,
    findings: &mut Findings,
) -> Option<Chosen> {
    let main_blocks = source.blocks(Device::Main);
    if main_blocks < MAIN_BLOCKS_MIN {
        findings.add(FindingKind::Geometry, Detail::TooSmall { blocks: main_blocks });
        return None;
    }
    let (mut slots, mut result) = look(source, main_blocks);
    let former = match &result {
        Ok(superblock) => Some(superblock.geometry.main_blocks),
        Err(SuperblockError::MaybeOutdated(superblock)) => Some(superblock.geometry.main_blocks),
        Err(_) => None,
    };
    let has_far = || read_copies(source, slots).iter().skip(2).any(|copy| copy.found.is_ok());
    if let Some(former) = former.filter(|former| *former < main_blocks && !has_far()) {
        (slots, result) = look(source, former);
    }
    let mut chosen = match result {
        Ok(superblock) => Chosen::new(superblock, Vec::new()),
        Err(SuperblockError::MaybeOutdated(superblock)) => {
            outdated(*superblock, slots, accept_outdated, findings)
        }
        Err(error) => {
            findings.add(FindingKind::NoSuperblock, error.into());
            return None;
        }
    };
    check_copies(&read_copies(source, slots), &mut chosen, findings);
    check_devices(source, &mut chosen, findings).then_some(chosen)
}

/// The newest copy in the places of a main device of that size.
fn look(source: &Source<'_>, main_blocks: u64) -> ([u64; 4], Result<Superblock, SuperblockError>) {
    let slots = superblock::all_slots(main_blocks.max(MAIN_BLOCKS_MIN));
    let blocks = slots.map(|block| source.read(Device::Main, Extent::new(block, 1)).ok());
    let copies: Vec<Option<&[u8]>> = blocks.iter().map(|copy| copy.as_deref()).collect();
    (slots, superblock::choose(&copies))
}

fn read_copies(source: &Source<'_>, slots: [u64; 4]) -> [Copy; 4] {
    slots.map(|block| Copy { block, found: read_copy(source, block) })
}

/// Reads one copy on its own.
pub(crate) fn read_copy(source: &Source<'_>, block: u64) -> Result<Superblock, CopyError> {
    let bytes = source.read(Device::Main, Extent::new(block, 1))?;
    match superblock::choose(&[Some(&bytes)]) {
        // A single copy may always be outdated.
        Err(SuperblockError::MaybeOutdated(superblock)) => Ok(*superblock),
        result => Ok(result?),
    }
}

/// Accepts an outdated superblock, which then becomes a version of the other parity too.
fn outdated(
    superblock: Superblock,
    slots: [u64; 4],
    accept_outdated: bool,
    findings: &mut Findings,
) -> Chosen {
    let (kind, version) = (FindingKind::SuperblockOutdated, superblock.sequence);
    if !accept_outdated {
        findings.add(kind, Detail::MaybeOutdated { version });
        return Chosen::new(superblock, Vec::new());
    }
    findings.add_repairable(kind, Repair::Rewrite, Detail::AcceptedOutdated { version });
    let next = Superblock { sequence: superblock.sequence + 1, ..superblock };
    let blocks = places(slots, next.sequence);
    let rewrites = blocks.map(|block| (Device::Main, block, next.encode())).collect();
    Chosen::new(next, rewrites)
}

/// Places of the version's parity.
fn places(slots: [u64; 4], sequence: u64) -> impl Iterator<Item = u64> {
    let is_odd = sequence % 2;
    let by_parity = slots.into_iter().zip([0, 1, 0, 1]);
    by_parity.filter(move |(_, parity)| *parity == is_odd).map(|(block, _)| block)
}

/// Checks that each copy is the newest version or the one before, in the places of its parity. One
/// copy of each parity may be older, because a crash hit between the two writes; the next version
/// of that parity replaces it.
fn check_copies(copies: &[Copy; 4], chosen: &mut Chosen, findings: &mut Findings) {
    let newest = chosen.superblock.clone();
    let is_version =
        |copy: &&Superblock, sequence: u64| copy.store == newest.store && copy.sequence == sequence;
    let version = |sequence: u64| {
        copies.iter().filter_map(Copy::intact).find(|copy| is_version(copy, sequence))
    };
    for expected in [newest.sequence, newest.sequence.wrapping_sub(1)] {
        let sound = match expected == newest.sequence {
            true => Some(&newest),
            false => version(expected),
        };
        let places: Vec<u64> = places(copies.each_ref().map(|copy| copy.block), expected).collect();
        for copy in copies.iter().filter(|copy| places.contains(&copy.block)) {
            let is_replaced = chosen.rewrites.iter().any(|(_, block, _)| *block == copy.block);
            let is_torn = sound.is_some() && is_older(copy, &newest, expected);
            let fault = fault_of(copy, &newest, expected);
            let Some(fault) = fault.filter(|_| !is_replaced && !is_torn) else {
                continue;
            };
            let detail = Detail::Copy { block: copy.block, fault };
            let Some(sound) = sound else {
                findings.add(FindingKind::SuperblockCopy, detail);
                continue;
            };
            findings.add_repairable(FindingKind::SuperblockCopy, Repair::Rewrite, detail);
            chosen.rewrites.push((Device::Main, copy.block, sound.encode()));
        }
    }
}

/// Set for an older version of the parity of this place.
fn is_older(copy: &Copy, newest: &Superblock, expected: u64) -> bool {
    let is_older = |found: &Superblock| {
        found.store == newest.store
            && found.sequence < expected
            && found.sequence % 2 == expected % 2
    };
    copy.intact().is_some_and(is_older)
}

fn fault_of(copy: &Copy, newest: &Superblock, expected: u64) -> Option<CopyFault> {
    let found = match &copy.found {
        Ok(found) => found,
        Err(fault) => return Some(fault.clone().into()),
    };
    if found.store != newest.store {
        return Some(CopyFault::OtherStore { found: found.store, expected: newest.store });
    }
    if found.sequence == newest.sequence && found != newest {
        return Some(CopyFault::Differs { version: expected });
    }
    (found.sequence != expected)
        .then_some(CopyFault::OtherVersion { found: found.sequence, expected })
}

/// False if the devices cannot be checked any further.
fn check_devices(source: &Source<'_>, chosen: &mut Chosen, findings: &mut Findings) -> bool {
    let superblock = &chosen.superblock;
    let (main, fast) = (source.blocks(Device::Main), source.blocks(Device::Fast));
    if let Err(error) = superblock.geometry.check(main, fast) {
        findings.add(FindingKind::Geometry, error.into());
        return false;
    }
    if superblock.geometry.fast_blocks > 0 {
        check_label(source, chosen, findings);
    }
    if chosen.superblock.features.has_scattered_metadata() {
        // An unreadable bitmap is reported where it is compared with the tree.
        let bitmap = read_bitmap(source, &chosen.superblock);
        chosen.superblock.metadata.runs =
            bitmap.map_or_else(|_| Vec::new(), |b| b.runs().collect());
    }
    chosen.has_sound_runs = check_metadata_runs(&chosen.superblock, findings);
    true
}

fn check_label(source: &Source<'_>, chosen: &mut Chosen, findings: &mut Findings) {
    let Superblock { store, geometry, .. } = chosen.superblock;
    let block = source.read(Device::Fast, Extent::new(0, LABEL_BLOCKS));
    let label = block.map(|block| FastLabel::decode(&block, store));
    let expected = FastLabel { store, blocks: geometry.fast_blocks };
    let fault = match label {
        Ok(Ok(label)) if label == expected => return,
        Ok(Ok(label)) => LabelFault::OtherSize { blocks: label.blocks },
        // A device of another store must not be written to.
        Ok(Err(error @ SuperblockError::OtherStore { .. })) => {
            return findings.add(FindingKind::FastLabel, error.into());
        }
        Ok(Err(error)) => CopyError::from(error).into(),
        Err(error) => CopyError::from(error).into(),
    };
    findings.add_repairable(FindingKind::FastLabel, Repair::Rewrite, fault.into());
    chosen.rewrites.push((Device::Fast, 0, expected.encode()));
}

/// Checks that the metadata space lies within its device's space and that its runs do not overlap.
fn check_metadata_runs(superblock: &Superblock, findings: &mut Findings) -> bool {
    let before = findings.count();
    let metadata = &superblock.metadata;
    let space = match metadata.device {
        Device::Main => superblock.geometry.space,
        Device::Fast => superblock.geometry.fast_space,
    };
    let mut runs = metadata.runs.clone();
    runs.sort_unstable();
    for run in &runs {
        if run.start < space.start || run.end() > space.end() || run.count == 0 {
            let detail = Detail::RunOutside { run: *run, device: metadata.device, space };
            findings.add(FindingKind::MetadataRuns, detail);
        }
    }
    for pair in runs.windows(2).filter(|pair| pair[0].end() > pair[1].start) {
        findings.add(FindingKind::MetadataRuns, Detail::RunsOverlap(pair[1]));
    }
    let is_within = |extent: &Extent| {
        has_lost_runs(superblock)
            || runs.iter().any(|run| run.start <= extent.start && extent.end() <= run.end())
    };
    for extent in metadata.bitmap.extents.iter().filter(|extent| !is_within(extent)) {
        findings.add(FindingKind::MetadataRuns, Detail::BitmapOutside(*extent));
    }
    findings.count() == before
}

const _: () = assert!(SUPERBLOCK_BLOCKS == 2, "two copies at either end");
