//! Tests of the copies of the superblock, and of the layout of devices.

use super::*;
use crate::device::{BLOCK, Device, Extent};
use crate::log::{Counters, LogPoint};
use bytes::Bytes;
use proptest::prelude::*;
use types::Uuid;

fn superblock() -> Superblock {
    Superblock {
        features: Features { compatible: 5, ..Features::default() },
        store: Uuid([3; 16]),
        sequence: 12,
        generation: 4,
        geometry: layout(4096, 0, None).unwrap(),
        owner: Bytes::from_static(b"osd.7 of a cluster"),
        log: LogPoint { position: 900, seq: 33, previous: 7 },
        resumed: LogPoint { position: 950, seq: 37, previous: 8 },
        counters: Counters { next_id: 99, objects: 3, data_bytes: 4096, omap_bytes: 17 },
        tree_root: Bytes::from_static(&[9; 20]),
        metadata: MetadataSpace {
            device: Device::Main,
            runs: vec![Extent::new(512, 64), Extent::new(1024, 256)],
            bitmap: PageBitmap { extents: vec![Extent::new(512, 1)], bytes: 40, crc: 5 },
        },
    }
}

/// All four copies after versions `sequence - 1` and `sequence` were written.
fn copies(newest: &Superblock) -> [Option<Bytes>; 4] {
    let blocks = newest.geometry.main_blocks;
    let mut copies = [const { None }; 4];
    for sequence in [newest.sequence - 1, newest.sequence] {
        let block = Superblock { sequence, ..newest.clone() }.encode();
        for slot in slots(blocks, sequence) {
            let index = all_slots(blocks).iter().position(|s| *s == slot).unwrap();
            copies[index] = Some(block.clone());
        }
    }
    copies
}

fn choose_of(copies: &[Option<Bytes>]) -> Result<Superblock, SuperblockError> {
    choose(&copies.iter().map(|copy| copy.as_deref()).collect::<Vec<_>>())
}

fn flipped(block: &Bytes, at: usize, bit: u32) -> Bytes {
    let mut bytes = block.to_vec();
    bytes[at] ^= 1 << bit;
    bytes.into()
}

prop_compose! {
    fn any_superblock()(
        numbers: [u64; 6],
        points in [0..1u64 << 40, 1..1u64 << 40, 0..1u64 << 40, 1..1u64 << 40],
        blocks in MAIN_BLOCKS_MIN..1 << 34,
        has_fast: bool,
        owner in prop::collection::vec(any::<u8>(), 0..=OWNER_BYTES_MAX),
        root in prop::collection::vec(any::<u8>(), 0..=TREE_ROOT_BYTES_MAX),
        runs in prop::collection::vec((0..1u64 << 40, 0..1u64 << 40), 0..=2 * METADATA_RUNS_MAX),
        extents in prop::collection::vec((0..1u64 << 40, 0..1u64 << 40), 0..=SCATTERED_EXTENTS_MAX),
    ) -> Superblock {
        let extents_of = |list: Vec<(u64, u64)>| {
            list.into_iter().map(|(start, count)| Extent { start, count }).collect()
        };
        let [sequence, generation, next_id, objects, data_bytes, omap_bytes] = numbers;
        let bitmap = PageBitmap { extents: extents_of(extents), bytes: generation, crc: 8 };
        let runs: Vec<Extent> = extents_of(runs);
        let mut superblock = Superblock {
            sequence,
            generation,
            geometry: layout(blocks, if has_fast { blocks + 1 } else { 0 }, None).unwrap(),
            owner: owner.into(),
            log: LogPoint { position: points[0], seq: points[1], previous: 4 },
            resumed: LogPoint { position: points[2], seq: points[3], previous: 5 },
            counters: Counters { next_id, objects, data_bytes, omap_bytes },
            tree_root: root.into(),
            metadata: MetadataSpace { device: Device::Fast, runs: Vec::new(), bitmap },
            ..superblock()
        };
        superblock.name_runs(runs.len(), runs.into_iter());
        superblock
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_superblock_round_trips(superblock in any_superblock()) {
        let block = superblock.encode();
        prop_assert_eq!(block.len(), BLOCK);
        prop_assert_eq!(Superblock::decode(&block).unwrap(), superblock);
    }

    #[test]
    fn parts_of_devices_do_not_overlap(
        main in 0..1u64 << 40, fast in 0..1u64 << 30, log: Option<u32>,
    ) {
        if let Ok(geometry) = layout(main, fast, log.map(u64::from)) {
            let bytes = codec::encode_to_bytes(&geometry);
            prop_assert_eq!(codec::decode_all::<Geometry>("geometry", &bytes).unwrap(), geometry);
            prop_assert!(geometry.log.count >= LOG_BLOCKS_MIN);
            prop_assert_eq!(geometry.space.end(), main - 2);
        }
    }

    /// Decoding any intact bytes never panics.
    #[test]
    fn intact_nonsense_is_an_error_and_no_panic(
        noise in prop::collection::vec((52..1500usize, any::<u8>()), 1..4),
    ) {
        let mut block = superblock().encode().to_vec();
        for (at, byte) in noise {
            block[at] = byte;
        }
        let checksum = crc_fast::crc32_iscsi(&block[12..]).to_le_bytes();
        block[8..12].copy_from_slice(&checksum);
        let _ = Superblock::decode(&block);
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let block = superblock().encode();
    for at in 0..BLOCK {
        assert!(Superblock::decode(&flipped(&block, at, at as u32 % 8)).is_err(), "byte {at}");
    }
}

#[test]
fn every_truncation_is_found() {
    let block = superblock().encode();
    assert!((0..BLOCK).all(|length| Superblock::decode(&block[..length]).is_err()));
}

#[test]
fn versions_alternate_between_near_and_far_pairs() {
    assert_eq!(all_slots(5000), [0, 1, 4998, 4999]);
    assert_eq!((slots(5000, 6), slots(5000, 7)), ([0, 4998], [1, 4999]));
}

#[test]
fn the_newest_version_is_chosen_whichever_copy_is_bad() {
    let newest = superblock();
    assert_eq!(choose_of(&copies(&newest)).unwrap(), newest);
    for bad in 0..4 {
        let mut copies = copies(&newest);
        copies[bad] = None;
        assert_eq!(choose_of(&copies).unwrap(), newest);
    }
}

#[test]
fn bad_copies_are_named_where_the_store_has_written_them() {
    let newest = superblock();
    let bad = |copies: &[Option<Bytes>], main_blocks| {
        let copies: Vec<_> = copies.iter().map(|copy| copy.as_deref()).collect();
        let bad = bad_copies(&copies, &newest, main_blocks);
        bad.into_iter().map(|(block, _)| block).collect::<Vec<_>>()
    };
    let slots = all_slots(4096);
    assert_eq!(bad(&copies(&newest), 4096), [0; 0]);
    for index in 0..4 {
        let sound = copies(&newest);
        let flipped = sound[index].as_ref().map(|block| flipped(block, 300, 2));
        let foreign = Superblock { store: Uuid([1; 16]), ..newest.clone() }.encode();
        for copy in [None, flipped, Some(Bytes::from(vec![0; BLOCK])), Some(foreign)] {
            let mut copies = sound.clone();
            copies[index] = copy;
            assert_eq!(bad(&copies, 4096), [slots[index]]);
        }
    }
    // The end of a device that has grown may contain anything.
    let mut grown = copies(&newest);
    (grown[2], grown[3]) = (None, None);
    assert_eq!(bad(&grown, 8192), [0; 0]);
}

#[test]
fn a_version_that_reached_one_place_only_counts() {
    let old = superblock();
    let new = Superblock { sequence: 13, ..old.clone() };
    let mut copies = copies(&old);
    copies[1] = Some(new.encode());
    assert_eq!(choose_of(&copies).unwrap(), new);
}

#[test]
fn an_older_version_is_not_used_silently_if_a_newer_one_may_be_lost() {
    let mut copies = copies(&superblock());
    copies[0] = None;
    copies[2] = copies[2].as_ref().map(|block| flipped(block, 100, 1));
    let Err(SuperblockError::MaybeOutdated(found)) = choose_of(&copies) else { panic!() };
    assert_eq!(found.sequence, 11);
}

#[test]
fn near_copies_suffice_on_a_device_that_has_grown() {
    let newest = superblock();
    let mut copies = copies(&newest);
    copies[2] = Some(Bytes::from(vec![0; BLOCK]));
    let former = Superblock { store: Uuid([1; 16]), sequence: 900, ..newest.clone() };
    copies[3] = Some(former.encode());
    assert_eq!(choose_of(&copies).unwrap(), newest);
}

#[test]
fn unusable_superblocks_are_distinguished() {
    let copies = copies(&superblock());
    let all = |block: Option<Bytes>| [const { None }; 4].map(|_: Option<Bytes>| block.clone());
    assert_eq!(choose_of(&all(None)), Err(SuperblockError::Unreadable));
    let zeros = Some(Bytes::from(vec![0; BLOCK]));
    assert_eq!(choose_of(&all(zeros)), Err(SuperblockError::NotAStore));
    let damaged = copies[0].as_ref().map(|block| flipped(block, 99, 0));
    assert_eq!(choose_of(&all(damaged)), Err(SuperblockError::Damaged));

    let other = Superblock { store: Uuid([1; 16]), ..superblock() };
    let mut mixed = copies.clone();
    mixed[1] = Some(other.encode());
    let two = SuperblockError::TwoStores(Uuid([3; 16]), Uuid([1; 16]));
    assert_eq!(choose_of(&mixed), Err(two));
}

#[test]
fn unknown_features_decide_who_may_use_the_store() {
    let with = |read_only, incompatible| {
        let features = Features { compatible: 1 << 9, read_only, incompatible };
        choose_of(&copies(&Superblock { features, ..superblock() }))
    };
    assert_eq!(with(0, 0).unwrap().check_writable(), Ok(()));
    let error = with(1 << 3 | 1 << 17, 0).unwrap().check_writable().unwrap_err();
    assert!(error.to_string().ends_with("features 3, 17"), "{error}");
    let error = with(0, 1 << 63).unwrap_err();
    assert_eq!(error, SuperblockError::UnknownFeatures(Bits(1 << 63)));
}

#[test]
fn a_single_copy_of_a_newer_version_is_respected() {
    let mut copies = copies(&superblock());
    let features = Features { incompatible: 1 << 9, ..Features::default() };
    copies[3] = Some(Superblock { features, ..superblock() }.encode());
    assert_eq!(choose_of(&copies), Err(SuperblockError::UnknownFeatures(Bits(1 << 9))));
}

#[test]
fn devices_are_divided_by_their_size() {
    let log_of = |main| layout(main, 0, None).unwrap().log;
    assert_eq!(log_of(4096), Extent::new(2, 512));
    assert_eq!(log_of(1 << 18), Extent::new(2, 16384));
    assert_eq!(log_of(1 << 30), Extent::new(2, 262_144));
    let with_fast = layout(1 << 20, 1 << 16, Some(1000)).unwrap();
    assert_eq!((with_fast.log_device, with_fast.log), (Device::Fast, Extent::new(1, 1000)));
    assert_eq!(with_fast.space, Extent::new(256, (1 << 20) - 258));
    assert_eq!(with_fast.fast_space, Extent::new(1024, (1 << 16) - 1024));
}

#[test]
fn devices_that_are_too_small_are_refused_with_the_needed_size() {
    let error = layout(2047, 0, None).unwrap_err();
    assert_eq!(error, GeometryError::MainTooSmall { found: 2047, least: 2048 });
    assert!(matches!(layout(4096, 100, None), Err(GeometryError::FastTooSmall { .. })));
    let error = layout(4096, 0, Some(2049)).unwrap_err();
    assert_eq!(error, GeometryError::LogSize { asked: 2049, least: 256, most: 2048 });
    let geometry = layout(4096, 0, None).unwrap();
    assert!(geometry.check(4095, 0).is_err() && geometry.check(5000, 0).is_ok());
}

#[test]
fn a_label_names_its_store() {
    let label = FastLabel { store: Uuid([3; 16]), blocks: 4096 };
    let block = label.encode();
    assert_eq!(FastLabel::decode(&block, label.store), Ok(label));
    let error = FastLabel::decode(&block, Uuid([4; 16])).unwrap_err();
    assert!(matches!(error, SuperblockError::OtherStore { .. }));
    let main = superblock().encode();
    assert_eq!(FastLabel::decode(&main, label.store), Err(SuperblockError::NotAFastDevice));
    for at in 0..BLOCK {
        assert!(FastLabel::decode(&flipped(&block, at, 2), label.store).is_err());
    }
}
