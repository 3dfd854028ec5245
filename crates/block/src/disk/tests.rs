//! Tests that the simulated devices keep the guarantees of real ones, and give no others.

use super::*;
use proptest::prelude::*;
use stdx::AlignedBuffer;
use store::{Completion, ObjectStore, Outcome, Request, RequestKind};

const MAIN: Device = Device::Main;

fn disk(seed: u64) -> FaultyDisk {
    FaultyDisk::new(seed, DiskOptions { main_blocks: 64, ..DiskOptions::default() })
}

fn content(byte: u8) -> Vec<u8> {
    vec![byte; BLOCK]
}

fn data(bytes: &[u8]) -> Vec<Bytes> {
    let mut buffer = AlignedBuffer::zeroed(bytes.len() * BLOCK);
    for (block, byte) in buffer.chunks_mut(BLOCK).zip(bytes) {
        block.fill(*byte);
    }
    vec![buffer.into()]
}

fn write(id: u64, block: u64, bytes: &[u8]) -> Io {
    Io::Write { id: IoId(id), device: MAIN, block, data: data(bytes), durable: false }
}

fn durable_write(id: u64, block: u64, bytes: &[u8]) -> Io {
    Io::Write { id: IoId(id), device: MAIN, block, data: data(bytes), durable: true }
}

fn flush(id: u64) -> Io {
    Io::Flush { id: IoId(id), device: MAIN }
}

fn read(id: u64, block: u64, blocks: u32) -> Io {
    Io::Read { id: IoId(id), device: MAIN, block, blocks }
}

/// Submits one operation and waits for all operations.
fn execute(disk: &mut FaultyDisk, io: Io) -> Result<Bytes, IoError> {
    let (id, _) = name(&io);
    disk.submit(Time::ZERO, io);
    disk.advance(Time::FAR_FUTURE);
    let done = std::iter::from_fn(|| disk.poll()).find(|done| done.id == id);
    done.expect("all is done").result
}

/// First byte of each block.
fn bytes(disk: &FaultyDisk, block: u64, blocks: u32) -> Vec<u8> {
    let content = disk.read_now(MAIN, block, blocks, View::Completed);
    content.chunks(BLOCK).map(|block| block[0]).collect()
}

#[test]
fn flushed_writes_survive_every_crash_and_others_in_any_combination() {
    let mut seen = BTreeSet::new();
    for seed in 0..300 {
        let mut disk = disk(seed);
        execute(&mut disk, write(1, 0, &[1, 1, 1])).unwrap();
        execute(&mut disk, flush(2)).unwrap();
        execute(&mut disk, write(3, 0, &[2, 2])).unwrap();
        disk.submit(Time::ZERO, write(4, 1, &[3, 3]));
        disk.crash();
        seen.insert(bytes(&disk, 0, 3));
        assert!(disk.next_event().is_none() && disk.poll().is_none());
    }
    let all = [1, 2].into_iter().flat_map(|a| {
        [1, 2, 3].into_iter().flat_map(move |b| [1, 3].into_iter().map(move |c| vec![a, b, c]))
    });
    assert_eq!(seen, all.collect(), "each block keeps any of its versions");
}

#[test]
fn a_flush_covers_writes_completed_before_its_submission() {
    let mut disk = disk(1);
    execute(&mut disk, write(1, 0, &[1])).unwrap();
    disk.submit(Time::ZERO, flush(2));
    disk.submit(Time::ZERO, write(3, 1, &[1]));
    disk.advance(Time::FAR_FUTURE);
    assert_eq!(bytes(&disk, 0, 2), [1, 1]);
    disk.crash_with(CrashPolicy::KeepNone);
    assert_eq!(bytes(&disk, 0, 2), [1, 0]);
}

#[test]
fn durable_writes_and_devices_without_cache_need_no_flush() {
    let mut cached = disk(1);
    execute(&mut cached, write(1, 0, &[1, 1])).unwrap();
    execute(&mut cached, durable_write(2, 0, &[2])).unwrap();
    cached.crash_with(CrashPolicy::KeepNone);
    assert_eq!(bytes(&cached, 0, 2), [2, 0], "nothing is said of other writes");
    let options = DiskOptions { main_blocks: 8, main_cache: false, ..DiskOptions::default() };
    let mut through = FaultyDisk::new(1, options);
    execute(&mut through, write(1, 0, &[1, 1])).unwrap();
    through.submit(Time::ZERO, write(2, 0, &[2, 2]));
    through.crash_with(CrashPolicy::KeepNone);
    assert_eq!(bytes(&through, 0, 2), [1, 1]);
}

#[test]
fn crash_policies_keep_the_writes_they_name() {
    let survivors = |seed, policy| {
        let mut disk = disk(seed);
        for number in 1..=4 {
            execute(&mut disk, write(number, number * 2, &[1, 1])).unwrap();
        }
        disk.submit(Time::ZERO, write(5, 10, &[1, 1]));
        disk.crash_with(policy);
        let kept = bytes(&disk, 2, 10);
        assert!(policy == CrashPolicy::Blocks || kept.chunks(2).all(|write| write[0] == write[1]));
        kept.iter().map(|byte| usize::from(*byte)).sum::<usize>() / 2
    };
    for seed in 0..20 {
        assert_eq!(survivors(seed, CrashPolicy::KeepAll), 5);
        assert_eq!(survivors(seed, CrashPolicy::KeepNone), 0);
        assert_eq!(survivors(seed, CrashPolicy::OnlyOne), 1);
        assert_eq!(survivors(seed, CrashPolicy::OnlyLast), 1);
        assert_eq!(survivors(seed, CrashPolicy::AllButOne), 4);
        survivors(seed, CrashPolicy::Writes);
        survivors(seed, CrashPolicy::Blocks);
    }
}

#[test]
fn the_death_of_the_process_loses_nothing_that_completed_but_makes_nothing_durable() {
    let mut disk = disk(3);
    execute(&mut disk, write(1, 0, &[1, 1])).unwrap();
    disk.restart();
    assert_eq!(bytes(&disk, 0, 2), [1, 1]);
    disk.crash_with(CrashPolicy::KeepNone);
    assert_eq!(bytes(&disk, 0, 2), [0, 0]);
}

#[test]
fn a_read_during_a_write_shows_each_block_before_or_after_it() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let mut disk = disk(seed);
        execute(&mut disk, write(1, 0, &[1, 1])).unwrap();
        disk.submit(Time::ZERO, write(2, 0, &[2, 2]));
        let content = execute(&mut disk, read(3, 0, 2)).unwrap();
        seen.insert((content[0], content[BLOCK]));
        assert_eq!(execute(&mut disk, read(4, 0, 1)).unwrap(), content_of(2));
    }
    assert_eq!(seen.len(), 4);
}

fn content_of(byte: u8) -> Bytes {
    content(byte).into()
}

#[test]
fn operations_overtake_each_other() {
    let orders = (0..50).map(|seed| {
        let mut disk = disk(seed);
        (1..=3).for_each(|id| disk.submit(Time::ZERO, write(id, id, &[1])));
        disk.advance(Time::FAR_FUTURE);
        std::iter::from_fn(|| disk.poll()).map(|done| done.id.0).collect::<Vec<_>>()
    });
    assert_eq!(orders.collect::<BTreeSet<_>>().len(), 6);
}

#[test]
fn an_unreadable_block_fails_reads_until_it_is_written() {
    let mut disk = disk(1);
    disk.make_unreadable(MAIN, 5);
    assert!(execute(&mut disk, read(1, 4, 1)).is_ok());
    let error = execute(&mut disk, read(2, 4, 3)).unwrap_err();
    assert_eq!(error.to_string(), "read of 3 at 4 of Main failed");
    execute(&mut disk, write(3, 5, &[7])).unwrap();
    assert_eq!(execute(&mut disk, read(4, 5, 1)).unwrap(), content(7));
}

#[test]
fn a_failed_write_may_be_half_done_and_a_failed_flush_may_lose_what_reads_showed() {
    let (mut written, mut left) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..100 {
        let mut disk = disk(seed);
        execute(&mut disk, write(1, 0, &[1, 1])).unwrap();
        disk.fail_operation(1);
        execute(&mut disk, write(2, 0, &[2, 2])).unwrap_err();
        written.insert(bytes(&disk, 0, 2));
        disk.fail_operation(2);
        execute(&mut disk, write(3, 0, &[3, 3])).unwrap();
        execute(&mut disk, flush(4)).unwrap_err();
        left.insert(bytes(&disk, 0, 1)[0]);
        disk.crash_with(CrashPolicy::KeepAll);
    }
    assert_eq!(written.len(), 4);
    assert_eq!(left, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn faults_occur_at_their_rate_and_end_when_healed() {
    let mut disk = disk(1);
    disk.set_faults(Faults { read_errors_per_million: MILLION, ..Faults::default() });
    assert!(execute(&mut disk, read(1, 0, 1)).is_err());
    disk.heal();
    assert!(execute(&mut disk, read(2, 0, 1)).is_ok());
    disk.submit(Time::ZERO, write(3, 0, &[1, 2]));
    disk.kill(MAIN);
    assert!(execute(&mut disk, flush(4)).is_err());
    disk.heal();
    assert!(execute(&mut disk, write(5, 0, &[1])).is_ok());
}

#[test]
fn a_misdirected_write_succeeds_elsewhere() {
    let mut disk = disk(1);
    let faults = Faults { misdirected_writes_per_million: MILLION, ..Faults::default() };
    disk.set_faults(faults);
    execute(&mut disk, write(1, 0, &[1, 1])).unwrap();
    let written = disk.written_blocks(MAIN);
    assert!(written.len() == 2 && written[0] != 0 && written[1] < 64, "{written:?}");
}

#[test]
fn discarded_blocks_become_anything_and_take_no_time_if_they_were_never_written() {
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let mut disk = disk(seed);
        execute(&mut disk, write(1, 3, &[1])).unwrap();
        let discard = Io::Discard { id: IoId(2), device: MAIN, block: 0, blocks: 64 };
        execute(&mut disk, discard).unwrap();
        seen.insert(bytes(&disk, 3, 1)[0]);
        assert_eq!(disk.written_blocks(MAIN), [3]);
    }
    assert!(seen.contains(&0) && seen.contains(&1) && seen.len() > 2, "{seen:?}");
}

#[test]
fn damage_hits_what_is_durable_and_what_is_not() {
    let mut disk = disk(1);
    execute(&mut disk, durable_write(1, 0, &[1])).unwrap();
    execute(&mut disk, write(2, 0, &[2])).unwrap();
    disk.corrupt(MAIN, 0, 6);
    assert_eq!(bytes(&disk, 0, 1), [2 ^ 64]);
    assert_eq!(bytes(&disk.durable_image(), 0, 1), [1 ^ 64]);
    disk.overwrite(MAIN, 0, &content(9));
    assert_eq!(bytes(&disk, 0, 1), [9]);
}

#[test]
fn unwritten_blocks_are_zeros_or_lasting_garbage() {
    let options = DiskOptions { unwritten: Unwritten::Garbage, ..DiskOptions::default() };
    let mut garbage = FaultyDisk::new(1, options);
    let first = execute(&mut garbage, read(1, 7, 2)).unwrap();
    assert_ne!(first[..BLOCK], first[BLOCK..]);
    assert_eq!(execute(&mut garbage, read(2, 7, 2)).unwrap(), first);
    assert_eq!(execute(&mut disk(1), read(1, 7, 1)).unwrap(), content(0));
}

#[test]
fn counters_and_hashes_follow_the_content() {
    let (mut one, mut other) = (disk(1), disk(2));
    execute(&mut one, write(1, 0, &[1, 2])).unwrap();
    execute(&mut one, flush(2)).unwrap();
    execute(&mut other, write(1, 1, &[2])).unwrap();
    execute(&mut other, write(2, 0, &[1])).unwrap();
    let hash = |disk: &FaultyDisk, view| disk.content_hash(MAIN, view);
    assert_eq!(hash(&one, View::Durable), hash(&other, View::Completed));
    assert_ne!(hash(&one, View::Durable), hash(&other, View::Durable));
    let counters = one.counters(MAIN);
    assert_eq!((counters.writes, counters.flushes), (1, 1));
    assert_eq!(counters.bytes_written(), 2 * BLOCK as u64);
}

#[test]
#[should_panic(expected = "write of blocks 2..4 while 1..3 are being written")]
fn overlapping_writes_in_flight_are_an_error_of_the_store() {
    let mut disk = disk(1);
    disk.submit(Time::ZERO, write(1, 1, &[1, 1]));
    disk.submit(Time::ZERO, write(2, 2, &[1, 1]));
}

#[test]
#[should_panic(expected = "write of 2 blocks at 63 of a device with 64")]
fn writes_beyond_the_end_are_an_error_of_the_store() {
    disk(1).submit(Time::ZERO, write(1, 63, &[1, 1]));
}

#[test]
#[should_panic(expected = "from unaligned memory")]
fn unaligned_memory_is_an_error_of_the_store() {
    let data = vec![data(&[1, 2])[0].slice(8..8 + BLOCK)];
    disk(1).submit(
        Time::ZERO,
        Io::Write { id: IoId(1), device: MAIN, block: 0, data, durable: false },
    );
}

#[test]
#[should_panic(expected = "a piece of 100 bytes")]
fn pieces_of_blocks_are_an_error_of_the_store() {
    let data = vec![data(&[1])[0].slice(..100)];
    disk(1).submit(
        Time::ZERO,
        Io::Write { id: IoId(1), device: MAIN, block: 0, data, durable: false },
    );
}

#[derive(Debug, Clone)]
enum Step {
    Write { block: u64, bytes: Vec<u8>, durable: bool },
    Flush,
    Wait,
}

fn any_step() -> impl Strategy<Value = Step> {
    let bytes = prop::collection::vec(1u8..255, 1..4);
    prop_oneof![
        (0u64..8, bytes, any::<bool>()).prop_map(|(block, bytes, durable)| Step::Write {
            block,
            bytes,
            durable
        }),
        Just(Step::Flush),
        Just(Step::Wait),
    ]
}

proptest! {
    /// Compares a device with arrays of the content that each block must or may have.
    #[test]
    fn a_crash_leaves_a_version_of_each_block_that_is_at_least_as_new_as_the_last_flushed(
        steps in prop::collection::vec(any_step(), 0..30), seed in any::<u64>()
    ) {
        let mut disk = disk(seed);
        let mut versions: Vec<Vec<u8>> = vec![vec![0]; 11];
        let mut flushed = vec![0; 11];
        for (id, step) in steps.into_iter().enumerate() {
            match step {
                Step::Write { block, bytes, durable } => {
                    // One at a time, because writes in flight must not overlap.
                    let make = if durable { durable_write } else { write };
                    execute(&mut disk, make(id as u64, block, &bytes)).unwrap();
                    for (at, byte) in (block as usize..).zip(bytes) {
                        versions[at].push(byte);
                        if durable { flushed[at] = versions[at].len() - 1; }
                    }
                }
                Step::Flush => {
                    execute(&mut disk, flush(id as u64)).unwrap();
                    flushed = versions.iter().map(|versions| versions.len() - 1).collect();
                }
                Step::Wait => disk.advance(Time::FAR_FUTURE),
            }
        }
        let newest: Vec<u8> = versions.iter().map(|versions| *versions.last().unwrap()).collect();
        prop_assert_eq!(bytes(&disk, 0, 11), newest);
        let mut again = disk.clone();
        disk.crash();
        again.crash();
        for (at, byte) in bytes(&disk, 0, 11).into_iter().enumerate() {
            prop_assert!(versions[at][flushed[at]..].contains(&byte), "block {}", at);
        }
        prop_assert_eq!(bytes(&disk, 0, 11), bytes(&again, 0, 11));
    }
}

/// A store that answers each request once a write is durable, and opens on a timer.
#[derive(Debug, Default)]
struct Toy {
    is_open: bool,
    io: VecDeque<Io>,
    writes: BTreeSet<IoId>,
    completions: VecDeque<Completion>,
}

const OPENS: Time = Time(1_000_000);

impl ObjectStore for Toy {
    fn submit(&mut self, _now: Time, request: Request) {
        self.io.push_back(write(request.token, request.token % 8, &[request.token as u8]));
        self.writes.insert(IoId(request.token));
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }
}

impl Hosted for Toy {
    fn poll_io(&mut self) -> Option<Io> {
        self.io.pop_front()
    }

    fn handle_io(&mut self, _now: Time, done: IoDone) {
        if self.writes.remove(&done.id) {
            self.io.push_back(flush(done.id.0 + 1000));
            return;
        }
        let outcome = Ok(Outcome::Collections(Vec::new()));
        self.completions.push_back(Completion { token: done.id.0 - 1000, outcome });
    }

    fn poll_timeout(&self) -> Option<Time> {
        (!self.is_open).then_some(OPENS)
    }

    fn handle_timeout(&mut self, now: Time) {
        self.is_open = now >= OPENS;
    }

    fn is_ready(&self) -> bool {
        self.is_open
    }
}

#[test]
fn a_driver_moves_time_from_event_to_event_and_does_one_at_a_time() {
    let mut driver = Driver::new(Toy::default(), disk(1), Time::ZERO);
    driver.run_until_ready();
    assert_eq!((driver.now(), driver.steps()), (OPENS, 1));
    driver.execute(RequestKind::Collections).unwrap();
    assert_eq!(driver.steps(), 3, "a timer, a write, a flush");
    let tokens = [(); 2].map(|()| driver.submit(RequestKind::Collections));
    driver.run_until_idle();
    let answered = std::iter::from_fn(|| driver.poll_completion()).map(|done| done.token);
    assert_eq!(answered.collect::<BTreeSet<_>>(), BTreeSet::from(tokens));
    assert!(!driver.step() && driver.now() > OPENS);
    let mut disk = driver.into_disk();
    disk.crash_with(CrashPolicy::KeepNone);
    assert_eq!(bytes(&disk, 1, 3), [1, 2, 3]);
}

#[test]
#[should_panic(expected = "the store does not answer, and nothing is on its way")]
fn a_driver_detects_a_hanging_store() {
    let mut driver = Driver::new(Toy::default(), disk(1), Time::ZERO);
    driver.run_until_ready();
    driver.next_completion();
}
