//! Messages between OSDs, and stored metadata of groups and objects.

#![no_main]

use bytes::Bytes;
use codec::{Decode, Reader};
use engine::Message;
use libfuzzer_sys::fuzz_target;
use pg::message::Body;
use pg::{LogEntry, ObjectInfo, PgInfo};

const KIND_FIRST: u16 = 0x7000;

fuzz_target!(|input: &[u8]| {
    let [choice, split, bytes @ ..] = input else { return };
    let (front, data) = bytes.split_at(bytes.len() * usize::from(*split) / 255);
    let kind = KIND_FIRST + u16::from(*choice % 32);
    let message = Message::new(kind, 1, 1, Bytes::copy_from_slice(front));
    let message = message.with_data(Bytes::copy_from_slice(data));
    if let Ok((header, body)) = Body::decode(&message) {
        assert!(Body::decode(&body.encode(&header)).is_ok(), "what was encoded decodes");
    }
    let _ = LogEntry::decode(&mut Reader::new(bytes));
    let _ = ObjectInfo::decode(&mut Reader::new(bytes));
    let _ = PgInfo::decode(&mut Reader::new(bytes));
});
