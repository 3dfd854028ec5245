//! Tests of the log on a ring in memory.

mod model;
mod ring;

use super::batch::{FORMAT, HEADER_LEN, Header};
use super::*;
use crate::device::{BLOCK, Extent};
use crate::table::Op;
use bytes::Bytes;
use codec::decode_all;
use proptest::prelude::*;
use ring::{Content, Ring, drive};
use smallvec::smallvec;
use stdx::Prng;
use types::Uuid;

const STORE: Uuid = Uuid([7; 16]);
const AREA: Extent = Extent { start: 5, count: 64 };

fn bytes(max: usize) -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (bytes(20), bytes(300)).prop_map(|(key, value)| Op::Put { key: key.into(), value }),
        bytes(20).prop_map(|key| Op::Delete { key: key.into() }),
        (bytes(20), bytes(20)).prop_map(|(first, last)| Op::DeleteRange { first, last }),
    ]
}

fn extents() -> impl Strategy<Value = Vec<Extent>> {
    prop::collection::vec((0..1u64 << 60, 0..1u64 << 60), 0..4)
        .prop_map(|list| list.into_iter().map(|(start, count)| Extent { start, count }).collect())
}

prop_compose! {
    fn record()(
        counters: [u64; 4],
        ops in prop::collection::vec(op(), 0..6),
        taken in extents(),
        freed in extents(),
        small in prop::collection::vec((0..1u64 << 60, any::<u32>()), 0..6),
        large in prop::collection::vec((0..1u64 << 60, prop::collection::vec(any::<u32>(), 0..9)), 0..3),
    ) -> Record {
        let [next_id, objects, data_bytes, omap_bytes] = counters;
        Record {
            counters: Counters { next_id, objects, data_bytes, omap_bytes },
            ops,
            taken: taken.into(),
            freed: freed.into(),
            small: small.into_iter().map(|(block, crc)| SmallWrite { block, crc }).collect(),
            large: large.into_iter().map(|(start, crcs)| LargeWrite { start, crcs }).collect(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_record_round_trips_and_has_the_length_it_says(record in record()) {
        let bytes = codec::encode_to_bytes(&record);
        prop_assert_eq!(bytes.len(), record.encoded_len());
        prop_assert_eq!(decode_all::<Record>("record", &bytes).unwrap(), record);
    }

    #[test]
    fn a_truncated_record_is_an_error(record in record()) {
        let bytes = codec::encode_to_bytes(&record);
        for end in 0..bytes.len() {
            prop_assert!(decode_all::<Record>("record", &bytes[..end]).is_err());
        }
    }

    #[test]
    fn a_record_with_flipped_bits_decodes_to_something_else_or_not_at_all(
        record in record(), at: prop::sample::Index, bit in 0..8u32,
    ) {
        let mut bytes = codec::encode_to_bytes(&record).to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert_ne!(decode_all::<Record>("record", &bytes).ok(), Some(record));
    }
}

#[test]
fn a_point_round_trips_and_absurd_ones_are_refused() {
    let point = LogPoint { position: 77, seq: 12, previous: 0xdead_beef };
    let bytes = codec::encode_to_bytes(&point);
    assert_eq!(decode_all::<LogPoint>("point", &bytes).unwrap(), point);
    for absurd in [LogPoint { seq: 0, ..point }, LogPoint { position: u64::MAX, ..point }] {
        assert!(decode_all::<LogPoint>("point", &codec::encode_to_bytes(&absurd)).is_err());
    }
}

/// A record with this number of blocks of data, and about this many bytes of fields.
fn filled(prng: &mut Prng, blocks: usize, fields: usize) -> (Record, Vec<Bytes>) {
    let mut record = Record::default();
    record.counters.next_id = prng.next_u64();
    let data: Vec<Bytes> = (0..blocks).map(|_| random_bytes(prng, BLOCK)).collect();
    for block in &data {
        let place = prng.below(1 << 40);
        record.small.push(SmallWrite { block: place, crc: crc_fast::crc32_iscsi(block) });
    }
    let (key, value) = (random_bytes(prng, 16), random_bytes(prng, fields));
    record.ops.push(Op::Put { key: key.into(), value });
    (record, data)
}

fn random_bytes(prng: &mut Prng, length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    prng.fill(&mut bytes);
    bytes.into()
}

/// A ring with batches of one record each, of these numbers of blocks, all durable; each says that
/// the one before is durable.
fn written(blocks: &[usize]) -> (Ring, Log, Vec<Content>) {
    let (mut ring, mut prng) = (Ring::new(AREA), Prng::new(1));
    let mut log = Log::new(AREA, STORE, 1, LogPoint::BEGINNING, LogPoint::BEGINNING);
    let mut contents = Vec::new();
    for &blocks in blocks {
        let (record, data) = filled(&mut prng, blocks, 300);
        let seq = log.append(&record, &data);
        ring.write(log.seal(seq - 1).unwrap());
        contents.push(vec![(record, data)]);
    }
    ring.flush();
    (ring, log, contents)
}

fn replay(ring: &Ring) -> (Vec<Batch>, Replayed) {
    replay_from(ring, LogPoint::BEGINNING, LogPoint::BEGINNING)
}

fn replay_from(ring: &Ring, from: LogPoint, resumed: LogPoint) -> (Vec<Batch>, Replayed) {
    drive(ring, Replay::new(AREA, STORE, from, resumed, 1), &mut Prng::new(2))
}

#[test]
fn replay_finds_what_was_sealed_in_order_with_its_data() {
    let (ring, log, contents) = written(&[1, 0, 5, 3]);
    let (batches, last) = replay(&ring);
    let found: Vec<Content> = batches.iter().map(|batch| batch.records.clone()).collect();
    assert_eq!(found, contents);
    assert_eq!(batches.iter().map(|b| b.durable).collect::<Vec<_>>(), [true, true, true, false]);
    assert_eq!(last, Replayed::End { point: log.head(), generation: 1, stop: Stop::NoBatch });
}

#[test]
fn an_empty_batch_is_not_written() {
    let mut log = Log::new(AREA, STORE, 1, LogPoint::BEGINNING, LogPoint::BEGINNING);
    assert!(log.seal(0).is_none());
    assert_eq!((log.used_blocks(), log.free_blocks()), (0, 64));
}

#[test]
fn a_batch_is_written_in_two_pieces_where_the_ring_ends() {
    let mut prng = Prng::new(3);
    let start = LogPoint { position: 64 * 9 + 62, seq: 40, previous: 1 };
    let mut log = Log::new(AREA, STORE, 1, start, start);
    let (record, data) = filled(&mut prng, 4, 10);
    assert_eq!(log.append(&record, &data), 40);
    assert_eq!((log.open_blocks(), log.free_blocks()), (5, 59));
    let batch = log.seal(39).unwrap();
    assert_eq!(batch.places, record.small.iter().map(|w| w.block).collect::<Vec<_>>());
    assert_eq!(batch.data, data);
    let written: Vec<(u64, usize)> = batch
        .writes
        .iter()
        .map(|(block, pieces)| (*block, pieces.iter().map(Bytes::len).sum::<usize>() / BLOCK))
        .collect();
    assert_eq!(written, [(67, 2), (5, 3)]);
    let pieces = batch.writes.iter().flat_map(|(_, pieces)| pieces);
    assert!(pieces.into_iter().all(|piece| (piece.as_ptr() as usize).is_multiple_of(BLOCK)));
    log.check_invariants();
}

#[test]
fn admission_says_what_must_happen_first() {
    let mut prng = Prng::new(4);
    let mut log = Log::new(AREA, STORE, 1, LogPoint::BEGINNING, LogPoint::BEGINNING);
    let (largest, data) = filled(&mut prng, 15, 3700);
    assert!(largest.log_bytes() <= log.record_bytes_max());
    let (too_large, _) = filled(&mut prng, 15, 3800);
    assert_eq!(log.admit(&too_large), Admission::RecordTooLarge);
    for seq in 1..=4 {
        assert_eq!((log.admit(&largest), log.blocks_needed(&largest)), (Admission::Fits, 16));
        log.append(&largest, &data);
        log.seal(seq - 1).unwrap();
    }
    assert_eq!((log.admit(&largest), log.free_blocks()), (Admission::RingFull, 0));
    log.trim(LogPoint { position: 16, seq: 2, previous: 0 });
    assert_eq!((log.admit(&largest), log.free_blocks()), (Admission::Fits, 16));
}

#[test]
fn a_batch_that_is_large_enough_is_sealed_first() {
    let area = Extent::new(0, 16 * BATCH_BLOCKS_MAX as u64);
    let mut log = Log::new(area, STORE, 1, LogPoint::BEGINNING, LogPoint::BEGINNING);
    let block = Bytes::from(vec![0; BLOCK]);
    let small = smallvec![SmallWrite { block: 0, crc: 0 }; BATCH_BLOCKS_MAX];
    let record = Record { small, ..Record::default() };
    assert_eq!(log.admit(&record), Admission::Fits);
    log.append(&record, &vec![block; BATCH_BLOCKS_MAX]);
    assert_eq!(log.admit(&Record::default()), Admission::Fits);
    let one = Record { small: smallvec![SmallWrite { block: 0, crc: 0 }], ..Record::default() };
    assert_eq!(log.admit(&one), Admission::BatchFull);
    log.seal(0).unwrap();
    assert_eq!(log.admit(&one), Admission::Fits);
}

#[test]
fn a_ring_may_be_filled_to_the_last_block() {
    let (ring, log, _) = written(&[15; 4]);
    let (batches, last) = replay(&ring);
    assert_eq!((batches.len(), log.free_blocks()), (4, 0));
    assert!(matches!(last, Replayed::End { stop: Stop::RingFull, .. }));
}

#[test]
fn replay_returns_a_prefix_after_any_flipped_bit() {
    let (mut ring, _, contents) = written(&[1, 2]);
    for at in (0..5 * BLOCK).step_by(11) {
        let block = AREA.start + (at / BLOCK) as u64;
        ring.flip(block, at % BLOCK, (at % 8) as u32);
        let (batches, last) = replay(&ring);
        // The second batch says that the first was durable.
        let is_recorded = batches.is_empty() && matches!(last, Replayed::Damaged { .. });
        assert!(is_recorded || matches!(last, Replayed::End { .. }));
        for (batch, content) in batches.iter().zip(&contents) {
            assert_eq!(&batch.records, content);
        }
        ring.flip(block, at % BLOCK, (at % 8) as u32);
    }
}

#[test]
fn every_bit_of_a_header_counts() {
    let (mut ring, _, _) = written(&[1]);
    for bit in 0..HEADER_LEN * 8 {
        ring.flip(AREA.start, bit / 8, (bit % 8) as u32);
        let (batches, last) = replay(&ring);
        assert!(batches.is_empty());
        assert!(matches!(last, Replayed::End { point: LogPoint::BEGINNING, .. }), "bit {bit}");
        ring.flip(AREA.start, bit / 8, (bit % 8) as u32);
    }
}

#[test]
fn a_lost_block_ends_the_log_before_its_batch() {
    // Blocks 0 and 1 hold the first batch, 2 to 4 the second, 5 and 6 the third.
    for (lost, complete) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 2), (6, 2)] {
        let (mut ring, _, _) = written(&[1, 2, 1]);
        ring.put(AREA.start + lost, Bytes::from(vec![0; BLOCK]));
        let (batches, last) = replay(&ring);
        assert_eq!(batches.len(), complete);
        let end = batches.last().map_or(LogPoint::BEGINNING, |batch| batch.end);
        // A batch behind the lost one says that it was durable.
        match complete {
            2 => assert!(matches!(last, Replayed::End { point, .. } if point == end)),
            _ => assert!(matches!(last, Replayed::Damaged { .. })),
        }
    }
}

#[test]
fn garbage_is_the_end() {
    let mut prng = Prng::new(5);
    for seed in 0..20 {
        let mut ring = Ring::new(AREA);
        for block in AREA.start..AREA.end() {
            let mut garbage = random_bytes(&mut prng, BLOCK).to_vec();
            garbage[..8].copy_from_slice(b"sepiowal");
            let header = header(u32::MAX >> (seed % 32), prng.next_u64() as u32);
            if seed % 2 == 0 {
                header.write(&mut garbage);
            }
            ring.put(block, garbage.into());
        }
        let (batches, last) = replay(&ring);
        assert!(batches.is_empty() && matches!(last, Replayed::End { .. }));
    }
}

fn header(fields_len: u32, data_blocks: u32) -> Header {
    Header {
        checksum: 0,
        format: FORMAT,
        store: STORE,
        generation: 1,
        start: LogPoint::BEGINNING,
        durable_through: 0,
        fields_len,
        records: 1,
        data_blocks,
    }
}

#[test]
fn lengths_beyond_the_ring_are_refused_before_they_are_read() {
    let mut ring = Ring::new(AREA);
    let mut block = vec![0; BLOCK];
    header(u32::MAX, u32::MAX).write(&mut block);
    ring.put(AREA.start, block.into());
    let blocks = u64::from(u32::MAX) + (1 << 20) + 1;
    let (_, last) = replay(&ring);
    assert!(matches!(last, Replayed::End { stop: Stop::Length(found), .. } if found == blocks));
}

#[test]
fn an_intact_batch_that_is_not_understood_is_damage() {
    for header in [Header { format: 2, ..header(0, 0) }, header(1, 0), header(0, 0)] {
        let mut ring = Ring::new(AREA);
        let mut batch = vec![0; HEADER_LEN + header.fields_len as usize];
        header.write(&mut batch);
        batch.resize(BLOCK, 0);
        ring.put(AREA.start, batch.into());
        let (_, last) = replay(&ring);
        let Replayed::Damaged { damage, .. } = last else { panic!("{last:?}") };
        assert_eq!(matches!(damage, Damage::Format { .. }), header.format == 2);
    }
}

#[test]
fn a_follower_of_an_older_generation_is_refused_even_if_it_names_its_predecessor() {
    let (mut ring, log, _) = written(&[1]);
    let mut stale = vec![0; HEADER_LEN];
    Header { generation: 0, start: log.head(), ..header(0, 0) }.write(&mut stale);
    stale.resize(BLOCK, 0);
    ring.put(AREA.start + 2, stale.into());
    let (_, last) = replay_from(&ring, LogPoint::BEGINNING, log.head());
    let stop = Stop::OldGeneration { found: 0, least: 1 };
    assert_eq!(last, Replayed::End { point: log.head(), generation: 1, stop });
}

#[test]
fn a_header_that_belongs_elsewhere_is_the_end() {
    let (ring, log, _) = written(&[1]);
    let (head, other) = (log.head(), Uuid([8; 16]));
    let (seq, position, previous) = (head.seq + 1, head.position + 64, head.previous ^ 1);
    let own = Header { start: head, ..header(0, 0) };
    for (header, stop) in [
        (Header { store: other, ..own }, Stop::OtherStore(other)),
        (Header { start: LogPoint { seq, ..head }, ..own }, Stop::OtherNumber(seq)),
        (Header { start: LogPoint { position, ..head }, ..own }, Stop::OtherPosition(position)),
        (Header { start: LogPoint { previous, ..head }, ..own }, Stop::OtherPredecessor(previous)),
    ] {
        let mut ring = ring.clone();
        let mut batch = vec![0; BLOCK];
        header.write(&mut batch[..HEADER_LEN]);
        ring.put(AREA.start + 2, batch.into());
        assert_eq!(replay(&ring).1, Replayed::End { point: head, generation: 1, stop });
    }
}

#[test]
fn durable_batches_that_are_missing_are_damage() {
    let (mut ring, log, _) = written(&[1, 2, 1]);
    let (batches, last) = replay_from(&ring, LogPoint::BEGINNING, log.head());
    assert!(batches.iter().all(|batch| batch.durable));
    assert!(matches!(last, Replayed::End { .. }));
    ring.flip(AREA.start + 3, 9, 1);
    let (batches, last) = replay_from(&ring, LogPoint::BEGINNING, log.head());
    let damage = Damage::Lost { durable: 3, missing: 2, stop: Stop::Data(0) };
    assert_eq!((batches.len(), last), (1, Replayed::Damaged { block: AREA.start + 2, damage }));
}

/// Its own body must not pass for all that could have been written behind it.
#[test]
fn damage_in_a_very_long_batch_is_not_the_end_of_the_log() {
    let area = Extent::new(3, 20_000);
    let (mut ring, mut prng) = (Ring::new(area), Prng::new(7));
    let mut log = Log::new(area, STORE, 1, LogPoint::BEGINNING, LogPoint::BEGINNING);
    for fields in [10, 17 << 20, 10] {
        let (record, data) = filled(&mut prng, 0, fields);
        let seq = log.append(&record, &data);
        ring.write(log.seal(seq - 1).unwrap());
    }
    ring.flush();
    for rotten in [1, 3000] {
        let mut ring = ring.clone();
        ring.put(area.start + rotten, Bytes::from(vec![0; BLOCK]));
        let replay = Replay::new(area, STORE, LogPoint::BEGINNING, LogPoint::BEGINNING, 1);
        let (batches, last) = drive(&ring, replay, &mut prng);
        let damage = Damage::Lost { durable: 2, missing: 2, stop: Stop::NoBatch };
        assert_eq!(batches.len(), 1, "block {rotten}");
        assert_eq!(last, Replayed::Damaged { block: area.start + 1, damage });
    }
}

#[test]
fn a_history_that_misses_the_place_where_it_was_resumed_is_damage() {
    let (ring, log, _) = written(&[1, 2]);
    let resumed = LogPoint { previous: log.head().previous ^ 1, ..log.head() };
    let (_, last) = replay_from(&ring, LogPoint::BEGINNING, resumed);
    assert!(matches!(last, Replayed::Damaged { damage: Damage::OtherHistory { .. }, .. }));
}

#[test]
fn a_block_that_cannot_be_read_matters_only_within_the_log() {
    let (ring, log, _) = written(&[1, 2]);
    for bad in 0..AREA.count {
        let mut ring = ring.clone();
        ring.bad.insert(AREA.start + bad);
        let (batches, last) = replay(&ring);
        match bad {
            0..=5 => assert_eq!(last, Replayed::Unreadable { block: AREA.start + bad }),
            _ => assert!(matches!(last, Replayed::End { point, .. } if point == log.head())),
        }
        assert_eq!(batches.len(), [0, 0, 1, 1, 1].get(bad as usize).map_or(2, |n| *n));
    }
}

#[test]
fn a_wrong_bit_in_a_batch_is_read_again() {
    let (ring, log, _) = written(&[1, 2]);
    for (block, times) in (0..5).flat_map(|block| (1..4).map(move |times| (block, times))) {
        let ring = ring.clone();
        ring.misread.borrow_mut().insert(AREA.start + block, times);
        let (batches, last) = replay(&ring);
        let is_whole = matches!(last, Replayed::End { point, .. } if point == log.head());
        assert_eq!(is_whole, times < 3, "block {block}, {times} times: {last:?}");
        assert!(times == 3 || batches.len() == 2);
    }
}

#[test]
fn batches_dropped_by_a_mount_do_not_prove_damage() {
    let (mut ring, _, _) = written(&[1, 2, 1]);
    let (batches, _) = replay(&ring);
    // The second batch lacked its large writes, and its replacement by the next mount is torn.
    let resumed = batches[1].start;
    ring.flip(AREA.start + 2, 3, 1);
    let again = Replay::new(AREA, STORE, LogPoint::BEGINNING, resumed, 2);
    let (batches, last) = drive(&ring, again, &mut Prng::new(2));
    assert_eq!(batches.len(), 1);
    assert_eq!(last, Replayed::End { point: resumed, generation: 2, stop: Stop::NoBatch });
}

#[test]
fn long_batches_are_read_in_bounded_chunks() {
    let area = Extent::new(9, 4000);
    let (mut ring, mut prng) = (Ring::new(area), Prng::new(6));
    let start = LogPoint { position: 3500, seq: 1, previous: 0 };
    let mut log = Log::new(area, STORE, 1, start, start);
    for blocks in [900, 3, 700] {
        let (record, data) = filled(&mut prng, blocks, 300_000);
        let seq = log.append(&record, &data);
        ring.write(log.seal(seq - 1).unwrap());
    }
    let (batches, last) = drive(&ring, Replay::new(area, STORE, start, start, 1), &mut prng);
    assert_eq!(batches.iter().map(|b| b.records[0].1.len()).collect::<Vec<_>>(), [900, 3, 700]);
    assert!(matches!(last, Replayed::End { point, .. } if point == log.head()));
}
