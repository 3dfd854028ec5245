//! The log against torn writes, rounds of the ring, and foreign files.

use super::header::LOG_SIZE_MIN;
use super::*;
use crate::scratch::Scratch;
use store::{Change, Collection, Transaction};
use types::HObject;

const INSTANCE: [u8; 16] = [7; 16];

fn record(number: u64, length: usize) -> Record {
    let object = HObject::default();
    let data = Bytes::from(vec![number as u8; length]);
    let write = Change::Write { object, offset: number, data };
    let transaction = Transaction { changes: vec![(Collection::default(), write)] };
    Record { reserved_id: number, clones: Vec::new(), transaction }
}

fn recover(path: &Path, start: LogPosition) -> (Log, Vec<Record>) {
    let mut found = Vec::new();
    let log = Log::open(path, INSTANCE, start, true, |record| {
        found.push(record);
        Ok(())
    });
    (log.unwrap(), found)
}

fn new_log(scratch: &Scratch, size: u64) -> (PathBuf, Log) {
    let path = scratch.path().join("log");
    create(&path, INSTANCE, size, true).unwrap();
    let (log, found) = recover(&path, LogPosition::default());
    assert!(found.is_empty());
    (path, log)
}

fn append(log: &mut Log, records: &[Record]) {
    let encoded: Vec<Encoded> = records.iter().map(Record::encode).collect();
    assert!(log.has_space(encoded.iter().map(Encoded::len).sum()));
    log.append(&encoded).unwrap();
}

#[test]
fn batches_come_back_in_order() {
    let scratch = Scratch::new("log-order");
    let (path, mut log) = new_log(&scratch, LOG_SIZE_MIN);
    let records: Vec<Record> = (0..30).map(|n| record(n, n as usize * 100)).collect();
    for batch in records.chunks(7) {
        append(&mut log, batch);
    }
    let (again, found) = recover(&path, LogPosition::default());
    assert_eq!(found, records);
    assert_eq!(again.head(), log.head());
}

#[test]
fn the_ring_goes_round_and_stale_batches_are_not_taken_for_new_ones() {
    let scratch = Scratch::new("log-ring");
    let (path, mut log) = new_log(&scratch, LOG_SIZE_MIN);
    let mut start = LogPosition::default();
    let mut kept: Vec<Record> = Vec::new();
    for number in 0..400 {
        let next = record(number, 9000 + (number as usize * 7919) % 60_000);
        if !log.has_space(next.encode().len()) {
            start = log.head();
            log.trim(start);
            kept.clear();
        }
        append(&mut log, std::slice::from_ref(&next));
        kept.push(next);
        let (again, found) = recover(&path, start);
        assert_eq!(found, kept, "after {number}");
        assert_eq!(again.head(), log.head());
    }
    assert!(log.head().position > log.size() * 10);
}

#[test]
fn a_tail_torn_at_any_byte_loses_exactly_the_last_batch() {
    let scratch = Scratch::new("log-torn");
    let (path, mut log) = new_log(&scratch, LOG_SIZE_MIN);
    let kept = [record(1, 5000), record(2, 10)];
    append(&mut log, &kept);
    let before = log.head().position;
    append(&mut log, &[record(3, 3000), record(4, 2000)]);
    let length = (log.head().position - before) as usize;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let mut whole = vec![0; length];
    file.read_exact_at(&mut whole, RING_START + before).unwrap();
    // Length of the records; behind them is padding, which no checksum covers.
    let records_len = u32::from_le_bytes(whole[36..40].try_into().unwrap()) as usize;
    for cut in 0..BATCH_HEADER_LEN + records_len {
        let mut torn = whole.clone();
        torn[cut..].fill(0xee);
        file.write_all_at(&torn, RING_START + before).unwrap();
        let (again, found) = recover(&path, LogPosition::default());
        assert_eq!(found, kept, "torn at {cut}");
        assert_eq!(again.head().position, before);
    }
    file.write_all_at(&whole, RING_START + before).unwrap();
    assert_eq!(recover(&path, LogPosition::default()).1.len(), 4);
}

#[test]
fn a_batch_written_over_a_torn_one_is_found() {
    let scratch = Scratch::new("log-over-torn");
    let (path, mut log) = new_log(&scratch, LOG_SIZE_MIN);
    append(&mut log, &[record(1, 100)]);
    let torn_at = log.head().position;
    append(&mut log, &[record(2, 20_000)]);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xee; 100], RING_START + torn_at + 9000).unwrap();
    let (mut log, found) = recover(&path, LogPosition::default());
    assert_eq!(found, [record(1, 100)]);
    append(&mut log, &[record(3, 100)]);
    assert_eq!(recover(&path, LogPosition::default()).1, [record(1, 100), record(3, 100)]);
}

#[test]
fn damage_before_a_later_batch_is_no_end() {
    let scratch = Scratch::new("log-middle");
    let (path, mut log) = new_log(&scratch, LOG_SIZE_MIN);
    let mut starts = Vec::new();
    // The ring wraps, so that the damaged batch and its successor lie on either side of its end.
    for number in 0..60 {
        let next = record(number, 30_000);
        if !log.has_space(next.encode().len()) {
            log.trim(starts[starts.len() - 10]);
        }
        starts.push(log.head());
        append(&mut log, &[next]);
    }
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let open =
        |start, sync| Log::open(&path, INSTANCE, start, sync, |_| Ok(())).map(|log| log.head());
    assert_eq!(log.check().unwrap(), None);
    for number in starts.len() - 9..starts.len() - 1 {
        for at in [0, 20, 5000] {
            let place = RING_START + log_place(starts[number], starts[number + 1], &log) + at;
            let mut old = [0; 3];
            file.read_exact_at(&mut old, place).unwrap();
            file.write_all_at(b"rot", place).unwrap();
            let opened = open(starts[starts.len() - 10], true);
            let (missing, found) = (starts[number].sequence, starts[number + 1].sequence);
            let is_told = matches!(
                opened,
                Err(FilesError::LogDamaged { missing: m, found: f, .. }) if (m, f) == (missing, found)
            );
            assert!(is_told, "batch {number} at {at}: {opened:?}");
            assert_eq!(log.check().unwrap(), Some(missing));
            // Batches that were not flushed may be lost anywhere.
            assert_eq!(open(starts[starts.len() - 10], false).unwrap(), starts[number]);
            file.write_all_at(&old, place).unwrap();
        }
    }
    assert_eq!(log.check().unwrap(), None);
}

/// Offset of a batch that ends where the next begins or, if that one had to skip, before it.
fn log_place(start: LogPosition, next: LogPosition, log: &Log) -> u64 {
    let length = batch_len(record(0, 30_000).encode().len());
    assert!(next.position - start.position >= length);
    skip_end(start.position, length, log.size()) % log.size()
}

#[test]
fn a_place_that_cannot_be_read_is_no_end() {
    let scratch = Scratch::new("log-short");
    let (path, mut log) = new_log(&scratch, LOG_SIZE_MIN);
    append(&mut log, &[record(1, 100)]);
    let end = log.head();
    // Reading behind the end of a truncated file fails as a bad block does.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(RING_START + end.position).unwrap();
    let opened = Log::open(&path, INSTANCE, LogPosition::default(), true, |_| Ok(()));
    assert!(matches!(opened, Err(FilesError::LogUnreadable { missing: 1, .. })), "{opened:?}");
}

#[test]
fn the_log_of_another_store_is_refused() {
    let scratch = Scratch::new("log-foreign");
    let (path, _) = new_log(&scratch, LOG_SIZE_MIN);
    let opened = Log::open(&path, [8; 16], LogPosition::default(), true, |_| Ok(()));
    assert!(matches!(opened, Err(FilesError::WrongLog { .. })));
}

#[test]
fn a_full_log_says_so() {
    let scratch = Scratch::new("log-full");
    let (_, mut log) = new_log(&scratch, LOG_SIZE_MIN);
    let mut count = 0;
    while log.has_space(record(0, 50_000).encode().len()) {
        append(&mut log, &[record(count, 50_000)]);
        count += 1;
    }
    assert!(log.head().position <= log.size() && count >= 18);
    let middle = log.head().position / 2;
    log.trim(LogPosition { position: middle, ..log.head() });
    assert!(log.has_space(record(0, 50_000).encode().len()));
}

#[test]
fn a_new_log_takes_the_place_of_a_blank_file_and_of_its_own_and_of_no_other() {
    let scratch = Scratch::new("log-taken");
    let path = scratch.path().join("log");
    let make = |instance| create(&path, instance, LOG_SIZE_MIN, true);
    std::fs::write(&path, [0; 8192]).unwrap();
    make(INSTANCE).unwrap();
    make(INSTANCE).unwrap();
    let held = std::fs::read(&path).unwrap();
    let refused = make([8; 16]);
    assert!(matches!(refused, Err(FilesError::LogTaken { .. })), "{refused:?}");
    assert!(std::fs::read(&path).unwrap() == held);
    let lock = lock(&path).unwrap();
    let refused = make(INSTANCE);
    assert!(matches!(refused, Err(FilesError::LogInUse { .. })), "{refused:?}");
    drop(lock);
    std::fs::write(&path, "notes").unwrap();
    assert!(matches!(make(INSTANCE), Err(FilesError::LogTaken { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"notes");
}
