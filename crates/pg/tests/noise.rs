//! Random bytes decode neither to a message of another OSD nor to stored state, and never panic.

use codec::{Decode, Reader};
use engine::Message;
use pg::message::Body;
use pg::{LogEntry, ObjectInfo, PgInfo};
use proptest::prelude::*;

/// The first kind of message between OSDs.
const KIND_FIRST: u16 = 0x7000;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn noise_never_panics(front: Vec<u8>, data: Vec<u8>, kind in 0u16..32) {
        LogEntry::decode(&mut Reader::new(&front)).ok();
        ObjectInfo::decode(&mut Reader::new(&front)).ok();
        PgInfo::decode(&mut Reader::new(&front)).ok();
        for version in 1..=2 {
            let front = front.clone().into();
            let message = Message::new(KIND_FIRST + kind, version, version, front);
            Body::decode(&message.with_data(data.clone().into())).ok();
        }
    }
}
