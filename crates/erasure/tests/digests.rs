//! Digests: linear in all codes, and sensitive to place.

use erasure::{Code, Digest, DigestBuilder, ROW_BYTES, Technique, Verdict};

mod common;
use common::{bytes, codes, stripe};

fn digest(shard: &[u8]) -> Digest {
    let mut builder = DigestBuilder::new();
    shard.chunks(ROW_BYTES).zip(0..).for_each(|(row, index)| builder.add(index, row));
    builder.digest()
}

fn digests(shards: &[Vec<u8>]) -> Vec<Digest> {
    shards.iter().map(|shard| digest(shard)).collect()
}

#[test]
fn parities_of_digests_are_digests_of_parities() {
    for code in codes() {
        let mut digests = digests(&stripe(&code, 5 * ROW_BYTES + 100));
        assert_eq!(code.verify(&digests), Verdict::Consistent);
        digests[0].0[63] ^= 1;
        assert_ne!(code.verify(&digests), Verdict::Consistent);
    }
}

#[test]
fn the_wrong_shard_is_found_if_there_are_two_parities() {
    for code in codes() {
        let shards = stripe(&code, 3 * ROW_BYTES);
        for wrong in 0..code.shards() {
            let mut shards = shards.clone();
            shards[wrong][ROW_BYTES + 5] ^= 0x10;
            let verdict = code.verify(&digests(&shards));
            let one = Verdict::Shard(wrong);
            assert_eq!(verdict, if code.m() == 1 { Verdict::Inconsistent } else { one });
        }
    }
}

#[test]
fn two_wrong_shards_are_not_taken_for_one_by_a_code_of_three_parities() {
    let code = Code::new(Technique::IsaVandermonde, 6, 3).unwrap();
    let mut shards = stripe(&code, ROW_BYTES);
    shards[1][0] ^= 1;
    shards[7][4000] ^= 1;
    assert_eq!(code.verify(&digests(&shards)), Verdict::Inconsistent);
}

#[test]
fn rows_count_in_any_order_and_may_be_replaced() {
    let shard = bytes(3, 4 * ROW_BYTES);
    let row = |index: usize| &shard[index * ROW_BYTES..][..ROW_BYTES];
    let mut builder = DigestBuilder::new();
    for index in [2, 0, 3] {
        builder.add(index as u32, row(index));
    }
    let old = bytes(4, ROW_BYTES);
    builder.add(1, &old);
    let mut change = old.clone();
    erasure::xor(&mut change, row(1));
    builder.add(1, &change);
    assert_eq!(builder.digest(), digest(&shard));
}

#[test]
fn absent_bytes_are_zeros() {
    let mut shard = bytes(3, 2 * ROW_BYTES - 77);
    let short = digest(&shard);
    shard.resize(5 * ROW_BYTES, 0);
    assert_eq!(digest(&shard), short);
    assert_eq!(DigestBuilder::new().digest(), Digest([0; 64]));
}

#[test]
fn exchanged_rows_are_detected() {
    let shard = bytes(5, 600 * ROW_BYTES);
    let right = digest(&shard);
    for (one, other) in [(0, 1), (1, 2), (0, 255), (3, 258), (7, 264), (64, 576), (0, 599)] {
        let mut builder = DigestBuilder::new();
        for index in 0..600usize {
            let from = if index == one {
                other
            } else if index == other {
                one
            } else {
                index
            };
            builder.add(index as u32, &shard[from * ROW_BYTES..][..ROW_BYTES]);
        }
        assert_ne!(builder.digest(), right, "rows {one} and {other}");
    }
}

#[test]
fn exchanged_pieces_of_one_row_are_detected() {
    let row = bytes(6, ROW_BYTES);
    for (one, other) in (0..64).flat_map(|one| (0..one).map(move |other| (one, other))) {
        let mut changed = row.clone();
        changed[one * 64..][..64].copy_from_slice(&row[other * 64..][..64]);
        changed[other * 64..][..64].copy_from_slice(&row[one * 64..][..64]);
        assert_ne!(digest(&changed), digest(&row));
    }
}

#[test]
fn each_bit_counts() {
    let row = bytes(6, ROW_BYTES);
    for bit in 0..8 * ROW_BYTES {
        let mut changed = row.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(digest(&changed), digest(&row));
    }
}
