//! xxHash, 32 and 64 bits (<https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>).

const P32: [u32; 5] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f, 0x1656_67b1];
const P64: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

fn u32_at(data: &[u8]) -> u32 {
    u32::from_le_bytes(data[..4].try_into().expect("four bytes"))
}

fn u64_at(data: &[u8]) -> u64 {
    u64::from_le_bytes(data[..8].try_into().expect("eight bytes"))
}

pub(super) fn xxhash32(seed: u32, data: &[u8]) -> u32 {
    let round = |lane: u32, input: u32| {
        lane.wrapping_add(input.wrapping_mul(P32[1])).rotate_left(13).wrapping_mul(P32[0])
    };
    let stripes = data.chunks_exact(16);
    let mut rest = stripes.remainder();
    let mut hash = if data.len() >= 16 {
        let mut lanes = [
            seed.wrapping_add(P32[0]).wrapping_add(P32[1]),
            seed.wrapping_add(P32[1]),
            seed,
            seed.wrapping_sub(P32[0]),
        ];
        for stripe in stripes {
            for (lane, input) in lanes.iter_mut().zip(stripe.chunks_exact(4)) {
                *lane = round(*lane, u32_at(input));
            }
        }
        let rotated = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, by)| lane.rotate_left(by));
        rotated.fold(0, u32::wrapping_add)
    } else {
        seed.wrapping_add(P32[4])
    };
    hash = hash.wrapping_add(data.len() as u32);
    while rest.len() >= 4 {
        hash = hash.wrapping_add(u32_at(rest).wrapping_mul(P32[2]));
        hash = hash.rotate_left(17).wrapping_mul(P32[3]);
        rest = &rest[4..];
    }
    for byte in rest {
        hash = hash.wrapping_add(u32::from(*byte).wrapping_mul(P32[4]));
        hash = hash.rotate_left(11).wrapping_mul(P32[0]);
    }
    hash = (hash ^ hash >> 15).wrapping_mul(P32[1]);
    hash = (hash ^ hash >> 13).wrapping_mul(P32[2]);
    hash ^ hash >> 16
}

pub(super) fn xxhash64(seed: u64, data: &[u8]) -> u64 {
    let round = |lane: u64, input: u64| {
        lane.wrapping_add(input.wrapping_mul(P64[1])).rotate_left(31).wrapping_mul(P64[0])
    };
    let stripes = data.chunks_exact(32);
    let mut rest = stripes.remainder();
    let mut hash = if data.len() >= 32 {
        let mut lanes = [
            seed.wrapping_add(P64[0]).wrapping_add(P64[1]),
            seed.wrapping_add(P64[1]),
            seed,
            seed.wrapping_sub(P64[0]),
        ];
        for stripe in stripes {
            for (lane, input) in lanes.iter_mut().zip(stripe.chunks_exact(8)) {
                *lane = round(*lane, u64_at(input));
            }
        }
        let rotated = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, by)| lane.rotate_left(by));
        let merged = rotated.fold(0, u64::wrapping_add);
        lanes.iter().fold(merged, |hash, lane| {
            (hash ^ round(0, *lane)).wrapping_mul(P64[0]).wrapping_add(P64[3])
        })
    } else {
        seed.wrapping_add(P64[4])
    };
    hash = hash.wrapping_add(data.len() as u64);
    while rest.len() >= 8 {
        hash ^= round(0, u64_at(rest));
        hash = hash.rotate_left(27).wrapping_mul(P64[0]).wrapping_add(P64[3]);
        rest = &rest[8..];
    }
    if rest.len() >= 4 {
        hash ^= u64::from(u32_at(rest)).wrapping_mul(P64[0]);
        hash = hash.rotate_left(23).wrapping_mul(P64[1]).wrapping_add(P64[2]);
        rest = &rest[4..];
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(P64[4]);
        hash = hash.rotate_left(11).wrapping_mul(P64[0]);
    }
    hash = (hash ^ hash >> 33).wrapping_mul(P64[1]);
    hash = (hash ^ hash >> 29).wrapping_mul(P64[2]);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From `xxhsum` 0.8; `ceph_test_rados_api_io` expects the same of four bytes of 0xcc.
    #[test]
    fn known_values() {
        assert_eq!(xxhash32(0, b""), 0x02cc_5d05);
        assert_eq!(xxhash32(0, b"abc"), 0x32d1_53ff);
        assert_eq!(xxhash64(0, b""), 0xef46_db37_51d8_e999);
        assert_eq!(xxhash64(0, b"abc"), 0x44bc_2cf5_ad77_0999);
        let long: Vec<u8> = (0..=255).collect();
        assert_ne!(xxhash64(0, &long), xxhash64(1, &long));
    }
}
