//! Properties of codes: every allowed erasure decodes, and deltas lead to the same parities as encoding.

use erasure::{Code, CodeError, DecodeError, Kernel, SHARDS_MAX, Shards, Technique};

mod common;
use common::{bytes, codes, encode, slices_mut, stripe};

/// All sets of `count` of `shards` shards.
fn sets(shards: usize, count: usize) -> Vec<Vec<usize>> {
    let mut sets = vec![Vec::new()];
    for _ in 0..count {
        let longer = |set: Vec<usize>| {
            let first = set.last().map_or(0, |last| last + 1);
            (first..shards).map(move |shard| [set.as_slice(), &[shard]].concat())
        };
        sets = sets.into_iter().flat_map(longer).collect();
    }
    sets
}

fn decode(code: &Code, chunks: &[Vec<u8>], available: Shards, erased: Shards) -> Vec<Vec<u8>> {
    let decoder = code.decoder(available, erased).unwrap();
    let sources: Vec<&[u8]> =
        decoder.sources().iter().map(|shard| chunks[shard].as_slice()).collect();
    let mut outputs = vec![vec![0x5a; chunks[0].len()]; erased.len()];
    decoder.decode(&sources, &mut slices_mut(&mut outputs));
    outputs
}

#[test]
fn every_erasure_of_at_most_m_shards_decodes() {
    for code in codes() {
        let chunks = stripe(&code, 97);
        for erased in (0..=code.m()).flat_map(|count| sets(code.shards(), count)) {
            let erased: Shards = erased.into_iter().collect();
            let available = Shards::first(code.shards()).without(erased);
            let decoded = decode(&code, &chunks, available, erased);
            let expected: Vec<Vec<u8>> = erased.iter().map(|shard| chunks[shard].clone()).collect();
            assert_eq!(decoded, expected, "{code:?} without {erased:?}");
        }
    }
}

#[test]
fn any_k_shards_determine_each_other_one() {
    for code in codes() {
        let chunks = stripe(&code, 5);
        for available in sets(code.shards(), code.k()) {
            let available: Shards = available.into_iter().collect();
            let others = Shards::first(code.shards()).without(available);
            for other in others.iter() {
                let decoded = decode(&code, &chunks, available, [other].into_iter().collect());
                assert_eq!(decoded[0], chunks[other]);
            }
        }
    }
}

/// Of the largest codes all patterns would take long: erasures that are adjacent, and some others.
#[test]
fn the_largest_codes_decode() {
    for technique in Technique::ALL {
        for m in technique.parities_min()..=technique.parities_max() {
            let code = Code::new(technique, technique.data_max(m), m).unwrap();
            let chunks = stripe(&code, 3);
            for start in 0..code.shards() {
                for step in [1, 3, 5] {
                    let erased: Shards =
                        (0..m).map(|i| (start + i * step) % code.shards()).collect();
                    let available = Shards::first(code.shards()).without(erased);
                    let decoded = decode(&code, &chunks, available, erased);
                    assert!(
                        erased.iter().zip(decoded).all(|(shard, chunk)| chunks[shard] == chunk)
                    );
                }
            }
        }
    }
}

/// The limit of 21 is the largest k for which all erasures of four shards decode.
#[test]
fn the_vandermonde_matrix_of_isa_is_invertible_up_to_its_limits() {
    for (k, m) in [(21, 4), (29, 3), (30, 2), (31, 1)] {
        let code = Code::new(Technique::IsaVandermonde, k, m).unwrap();
        for erased in sets(code.shards(), m) {
            let erased: Shards = erased.into_iter().collect();
            assert!(code.decoder(Shards::first(k + m).without(erased), erased).is_ok());
        }
    }
}

#[test]
fn a_delta_leads_to_the_parities_of_the_new_data() {
    for code in codes() {
        for shard in 0..code.k() {
            let mut data: Vec<Vec<u8>> = (0..code.k()).map(|i| bytes(i as u64, 333)).collect();
            let mut parities = encode(&code, &data);
            let new = bytes(1234, 333);
            let mut deltas = vec![vec![1; 333]; code.m()];
            code.deltas(shard, &data[shard], &new, &mut slices_mut(&mut deltas));
            let mut by_deltas = parities.clone();
            by_deltas
                .iter_mut()
                .zip(&deltas)
                .for_each(|(parity, delta)| erasure::xor(parity, delta));
            let mut one_by_one = parities.clone();
            let mut change = new.clone();
            erasure::xor(&mut change, &data[shard]);
            for (j, parity) in one_by_one.iter_mut().enumerate() {
                erasure::mul_xor(parity, &change, code.coefficient(j, shard));
            }
            code.apply_delta(shard, &data[shard], &new, &mut slices_mut(&mut parities));
            data[shard] = new;
            assert_eq!(parities, encode(&code, &data));
            assert_eq!(by_deltas, parities);
            assert_eq!(one_by_one, parities);
        }
    }
}

#[test]
fn all_kernels_encode_the_same() {
    for code in codes() {
        let data: Vec<Vec<u8>> = (0..code.k()).map(|i| bytes(i as u64, 4096 + 17)).collect();
        let expected = encode(&code.clone().with_kernel(Kernel::scalar()), &data);
        for kernel in Kernel::available() {
            assert_eq!(encode(&code.clone().with_kernel(*kernel), &data), expected);
        }
    }
}

#[test]
fn codes_beyond_the_limits_are_refused() {
    let refused = |technique, k, m| Code::new(technique, k, m).unwrap_err();
    for technique in Technique::ALL {
        assert_eq!(refused(technique, 1, 2), CodeError::Data { technique, k: 1, m: 2 });
        assert_eq!(refused(technique, 31, 2), CodeError::Data { technique, k: 31, m: 2 });
        for m in [0, SHARDS_MAX, usize::MAX] {
            assert_eq!(refused(technique, 4, m), CodeError::Parities { technique, m });
        }
        assert!(Code::new(technique, usize::MAX, 2).is_err());
    }
    let (isa, raid) = (Technique::IsaVandermonde, Technique::JerasureRaid6);
    assert_eq!(refused(isa, 22, 4), CodeError::Data { technique: isa, k: 22, m: 4 });
    assert_eq!(refused(isa, 4, 5), CodeError::Parities { technique: isa, m: 5 });
    assert_eq!(refused(raid, 4, 1), CodeError::Parities { technique: raid, m: 1 });
    let text = Code::from_names("lrc", "", 4, 2).unwrap_err().to_string();
    assert!(text.contains("isa reed_sol_van, isa cauchy, jerasure reed_sol_van"), "{text}");
    assert!(Code::from_names("isa", "cauchy", 4, 2).is_ok());
}

#[test]
fn impossible_decoders_are_refused() {
    let code = Code::new(Technique::IsaCauchy, 3, 2).unwrap();
    let decoder = |available: &[usize], erased: &[usize]| {
        let set = |shards: &[usize]| shards.iter().copied().collect::<Shards>();
        code.decoder(set(available), set(erased)).map(|_| ()).unwrap_err()
    };
    assert_eq!(decoder(&[0, 4], &[1]), DecodeError::TooFew { available: 2, needed: 3 });
    assert_eq!(decoder(&[0, 1, 4], &[1]), DecodeError::NotErased { shard: 1 });
    assert_eq!(decoder(&[0, 1, 5], &[2]), DecodeError::NoShard { shard: 5, shards: 5 });
}
