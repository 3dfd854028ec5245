//! Methods survive any input and any stored state without a panic.

use crate::CLASSES;
use crate::method::Method;
use crate::test_object::TestObject;
use bytes::Bytes;
use proptest::prelude::*;

fn methods() -> Vec<Method> {
    CLASSES.iter().flat_map(|class| class.methods.concat()).collect()
}

/// Bytes with many small numbers, as encodings have them.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => Just(0u8), 3 => 0u8..9, 1 => any::<u8>()];
    prop::collection::vec(byte, 0..96)
}

/// Keys that methods look up first, so that they get further.
const KEYS: [&str; 12] = [
    "features",
    "op_features",
    "size",
    "order",
    "snap_seq",
    "parent",
    "migration",
    "mirror_mode",
    "splay_width",
    "next_tag_tid",
    "snapshot_0000000000000001",
    "tag_0000000000000001",
];

proptest! {
    #[test]
    fn noise_is_answered(
        input in noise(),
        data in noise(),
        values in prop::collection::vec(noise(), KEYS.len()),
    ) {
        let pairs = KEYS.iter().zip(values);
        let omap = pairs.map(|(key, value)| (Bytes::from_static(key.as_bytes()), value.into()));
        let mut object = TestObject::existing();
        object.state.omap = omap.collect();
        object.state.xattrs.insert(Bytes::from_static(b"lock."), data.clone().into());
        object.state.data = data;
        for method in methods() {
            let before = object.state.clone();
            let _ = object.run(method.function, &input);
            object.state = before;
        }
    }
}

#[test]
fn no_name_is_taken_twice() {
    for class in CLASSES {
        let mut names: Vec<&str> =
            class.methods.iter().copied().flatten().map(|m| m.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "class {}", class.name);
    }
}
