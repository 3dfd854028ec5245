//! The journal of a metadata server: whatever decodes, encodes to bytes that decode to the same.

#![no_main]

use bytes::Bytes;
use fsjournal::{Chain, Head, RawRecord, Replay, Super, decode_frame, encode_frame};
use libfuzzer_sys::fuzz_target;
use namespace::{Ino, Loader, Record, Row, RowKey, decode_entry_key};

/// Header of a frame; its checksum is the last field.
const HEADER_BYTES: usize = 36;

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    match choice % 6 {
        0 => frame(bytes),
        1 => head(bytes),
        2 => {
            if let Ok(description) = Super::decode(&sealed(b"SFSSUPER", bytes)) {
                assert_eq!(Super::decode(&description.encode()), Ok(description));
            }
        }
        3 => rows(bytes),
        4 => {
            let Ok(record) = codec::decode_all::<Record>("record", bytes) else { return };
            let again = codec::encode_to_bytes(&record);
            assert_eq!(codec::decode_all("record", &again), Ok(record));
        }
        _ => {
            let _ = Super::decode(bytes);
            let _ = Head::decode(bytes);
        }
    }
});

/// A frame with the right checksum, in a journal that it continues.
fn frame(bytes: &[u8]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let mut frame = bytes.to_vec();
    let word = |frame: &[u8], at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().unwrap());
    let length = word(&frame, 12) as usize;
    let lsn = u64::from_le_bytes(frame[20..28].try_into().unwrap()) % (1 << 40);
    frame[20..28].copy_from_slice(&lsn.to_le_bytes());
    if (HEADER_BYTES..=frame.len()).contains(&length) {
        let covered = [&frame[..32], &frame[HEADER_BYTES..length]].concat();
        frame[32..36].copy_from_slice(&crc_fast::crc32_iscsi(&covered).to_le_bytes());
    }
    let chain = Chain { generation: word(&frame, 8), lsn, crc: word(&frame, 28) };
    let Ok(Ok((_, sealed, records, after))) = decode_frame(&Bytes::from(frame), &chain) else {
        return;
    };
    let (again, _) = encode_frame(&chain, sealed, &records);
    let (bytes, same, decoded, _) = decode_frame(&again, &chain).unwrap().unwrap();
    assert_eq!((bytes, same, decoded), (again.len(), sealed, records));
    assert!(after.lsn >= chain.lsn);
}

/// A key, a value, and a tree of records, or an error.
fn rows(bytes: &[u8]) {
    if let Ok(key) = decode_entry_key(&Bytes::copy_from_slice(bytes)) {
        assert_eq!(RowKey::Entry(Ino::ROOT, key).key(), bytes);
    }
    if let Ok(image) = Row::decode_entry(bytes) {
        assert_eq!(Row::decode_entry(&Row::Entry(image.clone()).encode()).as_ref(), Ok(&image));
    }
    let mut loader = Loader::new(0);
    let mut rest = bytes;
    while let Some((length, more)) = rest.split_first() {
        let (record, behind) = more.split_at(more.len().min(usize::from(*length)));
        rest = behind;
        if let Ok(record) = codec::decode_all::<Record>("record", record) {
            loader.record(record);
        }
    }
    if let Ok((tree, _)) = loader.finish() {
        tree.check_invariants();
    }
}

fn head(bytes: &[u8]) {
    let Ok(head) = Head::decode(&sealed(b"SFS-RANK", bytes)) else { return };
    assert_eq!(Head::decode(&head.encode()).as_ref(), Ok(&head));
    let mut replay = Replay::new(&head);
    for _ in 0..4 {
        let Some(_) = replay.next_object() else { return };
        let _: Result<Vec<(u64, RawRecord)>, _> = replay.feed(Some(&Bytes::copy_from_slice(bytes)));
    }
}

fn sealed(magic: &[u8; 8], body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_le_bytes();
    let crc = crc_fast::crc32_iscsi(body).to_le_bytes();
    [magic.as_slice(), &length, &crc, body].concat()
}
