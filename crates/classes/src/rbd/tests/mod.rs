//! The class by the expectations of Ceph's own tests, and step by step as a client uses it.

mod image;
mod mirror;
mod object_map;
mod pool;
mod snapshots;
mod vectors;

use crate::test_object::TestObject;
use bytes::Bytes;
use types::Errno;

type Outcome<T = ()> = Result<T, Errno>;

/// The feature bits that tests need.
const LAYERING: u64 = 1;
const STRIPING: u64 = 2;
const DEEP_FLATTEN: u64 = 1 << 5;
const OPERATIONS: u64 = 1 << 8;
const MIGRATING: u64 = 1 << 9;

/// The image itself, in place of a snapshot id.
const HEAD: u64 = u64::MAX - 1;
const NO_POOL: i64 = -1;

fn create(object: &mut TestObject, size: u64, features: u64) -> Outcome {
    object.rbd("create", ((size, 22u8, features, "rbd_data.1"), NO_POOL))
}

/// A header.
fn image(features: u64) -> TestObject {
    let mut object = TestObject::absent();
    create(&mut object, 10 << 20, features).unwrap();
    object
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}
