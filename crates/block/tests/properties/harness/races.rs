//! Slow reads beside fast overwrites: blocks that are being read are freed, discarded, reused and
//! overwritten meanwhile. Each read shows one state of the object as a whole.

use super::Report;
use super::generator::{collection, object, one};
use super::shape::{BLOCKS_PER_MIB, Shape};
use block::device::BLOCK;
use bytes::Bytes;
use engine::{Duration, Time};
use stdx::Prng;
use store::{Change, Outcome, ReadData, RequestKind};

const READS: u64 = 30;

pub fn reads_beside_overwrites(seed: u64) -> Report {
    race_run(seed, READS)
}

/// Each write fills the object with its own number.
pub fn race_run(seed: u64, reads: u64) -> Report {
    let mut prng = Prng::new(seed);
    let mut shape = Shape::new(32, 0);
    // Blocks are reused soon.
    shape.log_blocks = Some(8 * BLOCKS_PER_MIB);
    shape.store.memory = 8 << 20;
    shape.store.discard = prng.chance(3, 4);
    shape.store.deferred_blocks = *prng.choose(&[0, 8, 64]);
    shape.disk.write_delay = Duration::from_micros(10)..=Duration::from_micros(100);
    let slowest = *prng.choose(&[1, 5, 20]);
    shape.disk.read_delay = Duration::from_micros(500)..=Duration::from_millis(slowest);
    let length = *prng.choose(&[4, 16, 64]) * BLOCK;
    let mut driver = shape.start(shape.format(seed), Time::ZERO);
    driver.run_until_ready();
    let at = collection(0);
    let write = |number: u64| {
        let data = Bytes::from(number.to_le_bytes().repeat(length / 8));
        RequestKind::Commit(one(at, Change::Write { object: object(1), offset: 0, data }))
    };
    let read = || RequestKind::Read {
        collection: at,
        object: object(1),
        offset: 0,
        length: length as u64,
    };
    let create = RequestKind::Commit(one(at, Change::CreateCollection));
    driver.execute(create).expect("the device has space");
    driver.execute(write(0)).expect("the device has space");
    let mut report = Report { reads, ..Report::default() };
    let mut next = 1;
    for _ in 0..reads {
        let (first, token) = (next - 1, driver.submit(read()));
        let mut writing = driver.submit(write(next));
        let outcome = loop {
            let completion = driver.next_completion();
            if completion.token == token {
                break completion.outcome;
            }
            assert_eq!((completion.token, completion.outcome), (writing, Ok(Outcome::Committed)));
            next += 1;
            if prng.chance(1, 16) {
                driver.with_store(block::BlockStore::request_checkpoint);
            }
            writing = driver.submit(write(next));
        };
        let Ok(Outcome::Read(ReadData { data, .. })) = outcome else {
            panic!("a read beside {} overwrites: {outcome:?}", next - first)
        };
        let shown = u64::from_le_bytes(data[..8].try_into().expect("eight bytes"));
        assert!((first..=next).contains(&shown), "{shown} is not in {first}..={next}");
        assert!(data.chunks(8).all(|chunk| chunk == shown.to_le_bytes()), "a torn read");
        assert_eq!(driver.next_completion().token, writing);
        next += 1;
        driver.store().check_invariants();
    }
    report.transactions = next;
    report.steps = driver.steps();
    report
}
