//! Object maps: the states of objects, and the bytes that hold them.

use super::*;
use proptest::prelude::*;

/// Saves a map of the given states, as clients send it: without checksums.
fn save(object: &mut TestObject, states: &[u8]) -> Outcome {
    object.rbd("object_map_save", Raw(encode(states)))
}

struct Raw(Vec<u8>);

impl codec::Encode for Raw {
    fn encode(&self, w: &mut codec::Writer) {
        w.raw(&self.0);
    }
}

fn encode(states: &[u8]) -> Vec<u8> {
    let mut w = codec::Writer::new();
    w.sized(|w| w.versioned(1, 1, |w| w.u64(states.len() as u64)));
    for four in states.chunks(4) {
        w.u8(four.iter().zip([6, 4, 2, 0]).map(|(state, shift)| state << shift).sum());
    }
    w.u32(0);
    w.into_vec()
}

fn load(object: &mut TestObject) -> Outcome<Vec<u8>> {
    let encoded = object.call("rbd", "object_map_load", b"")?;
    let len = u64::from_le_bytes(encoded[10..18].try_into().unwrap());
    assert_eq!(encoded.len() as u64, 18 + len.div_ceil(4) + 4);
    let state = |number| encoded[18 + number / 4] >> (6 - 2 * (number % 4)) & 3;
    Ok((0..len as usize).map(state).collect())
}

fn update(object: &mut TestObject, range: (u64, u64), new: u8, old: Option<u8>) -> Outcome {
    object.rbd("object_map_update", (range.0, range.1, new, old))
}

#[test]
fn a_map_is_kept_with_checksums() {
    let mut object = TestObject::absent();
    assert_eq!(load(&mut object), Err(Errno::NOENT));
    save(&mut object, &[1, 2, 3, 0, 1]).unwrap();
    assert_eq!(load(&mut object).unwrap(), [1, 2, 3, 0, 1]);
    assert_eq!(object.state.data[18..20], [0b0110_1100, 0b0100_0000]);
    assert_eq!(object.state.data.len(), 18 + 2 + 4 + 12);
    object.state.data[18] ^= 1;
    assert_eq!(load(&mut object), Err(Errno::INVAL));
    assert_eq!(update(&mut object, (0, 1), 0, None), Err(Errno::INVAL));
}

#[test]
fn a_map_grows_with_a_state_and_shrinks_over_it() {
    let mut object = TestObject::absent();
    let resize = |object: &mut TestObject, count: u64, state: u8| {
        object.rbd::<()>("object_map_resize", (count, state))
    };
    assert_eq!(resize(&mut object, 256_000_001, 0), Err(Errno::INVAL));
    resize(&mut object, 10, 1).unwrap();
    assert_eq!(load(&mut object).unwrap(), [1; 10]);
    resize(&mut object, 23, 2).unwrap();
    assert_eq!(load(&mut object).unwrap(), [&[1; 10][..], &[2; 13]].concat());
    assert_eq!(resize(&mut object, 5, 2), Err(Errno::STALE));
    resize(&mut object, 11, 2).unwrap();
    assert_eq!(resize(&mut object, 0, 2), Err(Errno::STALE));
}

#[test]
fn updates_replace_one_state_or_any() {
    let mut object = TestObject::absent();
    save(&mut object, &[0, 1, 2, 3, 1]).unwrap();
    assert_eq!(update(&mut object, (0, 6), 1, None), Err(Errno::RANGE));
    assert_eq!(update(&mut object, (2, 2), 1, None), Err(Errno::RANGE));
    update(&mut object, (0, 5), 2, Some(1)).unwrap();
    assert_eq!(load(&mut object).unwrap(), [0, 2, 2, 2, 2]);
    update(&mut object, (1, 3), 1, None).unwrap();
    assert_eq!(load(&mut object).unwrap(), [0, 1, 1, 2, 2]);
}

#[test]
fn snapshots_make_objects_clean_and_their_removal_makes_them_dirty_again() {
    let mut object = TestObject::absent();
    save(&mut object, &[0, 1, 2, 3]).unwrap();
    object.rbd::<()>("object_map_snap_add", ()).unwrap();
    assert_eq!(load(&mut object).unwrap(), [0, 3, 2, 3]);
    object.rbd::<()>("object_map_snap_remove", Raw(encode(&[1, 1, 1]))).unwrap();
    assert_eq!(load(&mut object).unwrap(), [0, 1, 2, 1]);
}

/// Old clients wrote maps without checksums.
#[test]
fn a_map_without_checksums_can_be_updated() {
    let mut object = TestObject::existing();
    object.state.data = encode(&[0; 40000]);
    update(&mut object, (20000, 20002), 1, None).unwrap();
    let states = load(&mut object).unwrap();
    assert_eq!(states[19999..20003], [0, 1, 1, 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The map is some blocks long, so that updates touch one or more of them, also the last.
    #[test]
    fn updates_in_place_leave_what_a_whole_map_would_be(
        len in 1u64..70_000,
        updates in prop::collection::vec((0u64..70_000, 1u64..20_000, 0u8..4, prop::option::of(0u8..4)), 1..6),
    ) {
        let mut object = TestObject::absent();
        let mut model = vec![0u8; len as usize];
        save(&mut object, &model).unwrap();
        for (first, count, new, old) in updates {
            let (first, end) = (first % len, (first % len + count).min(len));
            update(&mut object, (first, end), new, old).unwrap();
            for state in &mut model[first as usize..end as usize] {
                if old.is_none_or(|old| *state == old || old == 1 && *state == 3) {
                    *state = new;
                }
            }
        }
        prop_assert_eq!(load(&mut object).unwrap(), &model[..]);
        let mut whole = TestObject::absent();
        save(&mut whole, &model).unwrap();
        prop_assert_eq!(object.state.data, whole.state.data);
    }
}
