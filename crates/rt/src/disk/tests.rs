//! A reactor and a file.

use super::*;
use crate::reactor::{Config, Event, Reactor};
use bytes::Bytes;
use operation::PIECES_MAX;
use std::path::PathBuf;
use stdx::{AlignedBuffer, DIRECT_ALIGNMENT, Prng};

const BLOCK: usize = DIRECT_ALIGNMENT;

/// A file in the temporary directory, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("sepiola-rt-{name}-{}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

struct World {
    reactor: Reactor,
    file: FileId,
    scratch: Scratch,
    token: u64,
}

impl World {
    fn new(name: &str, blocks: usize) -> Self {
        let scratch = Scratch::new(name);
        let file = DiskFile::create(&scratch.0, (blocks * BLOCK) as u64).unwrap();
        let mut reactor = Reactor::new(Config { ring_entries: 8, receive_buffers: 2 }).unwrap();
        let file = reactor.add_file(file).unwrap();
        World { reactor, file, scratch, token: 0 }
    }

    fn submit(&mut self, request: DiskRequest) -> u64 {
        self.token += 1;
        self.reactor.submit_disk(self.file, self.token, request);
        self.token
    }

    fn done(&mut self) -> (u64, DiskResult) {
        loop {
            match self.reactor.poll_event() {
                Some(Event::DiskDone { token, result }) => return (token, result),
                Some(other) => panic!("unexpected {other:?}"),
                None => self.reactor.turn(None).unwrap(),
            }
        }
    }

    fn perform(&mut self, request: DiskRequest) -> DiskResult {
        let token = self.submit(request);
        let (done, result) = self.done();
        assert_eq!(done, token);
        result
    }

    fn write(&mut self, block: usize, pieces: Vec<Bytes>, durable: bool) {
        let offset = (block * BLOCK) as u64;
        self.perform(DiskRequest::Write { offset, pieces, durable }).unwrap();
    }

    fn read(&mut self, block: usize, blocks: usize) -> Bytes {
        let request = DiskRequest::Read { offset: (block * BLOCK) as u64, length: blocks * BLOCK };
        self.perform(request).unwrap()
    }
}

fn random_blocks(prng: &mut Prng, count: usize) -> Bytes {
    let mut buffer = AlignedBuffer::zeroed(count * BLOCK);
    for word in buffer.chunks_exact_mut(8) {
        word.copy_from_slice(&prng.next_u64().to_le_bytes());
    }
    buffer.into()
}

#[test]
fn a_file_gives_back_what_was_written_in_pieces_however_many() {
    let mut world = World::new("pieces", 2 * PIECES_MAX);
    let mut prng = Prng::new(1);
    for count in [1, 2, PIECES_MAX, PIECES_MAX + 1, 2 * PIECES_MAX] {
        // Every second block of a buffer, so that no two are adjacent.
        let source = random_blocks(&mut prng, 2 * count);
        let piece = |i: usize| source.slice(2 * i * BLOCK..(2 * i + 1) * BLOCK);
        let pieces: Vec<Bytes> = (0..count).map(piece).collect();
        let expected = pieces.concat();
        world.write(0, pieces, count % 2 == 0);
        assert!(world.read(0, count) == expected, "{count} pieces");
    }
}

#[test]
fn many_operations_are_under_way_at_once_and_each_is_answered() {
    let mut world = World::new("many", 64);
    let mut prng = Prng::new(2);
    let written: Vec<Bytes> = (0..64).map(|_| random_blocks(&mut prng, 1)).collect();
    for (block, bytes) in written.iter().enumerate() {
        let offset = (block * BLOCK) as u64;
        world.submit(DiskRequest::Write { offset, pieces: vec![bytes.clone()], durable: false });
    }
    let mut tokens: Vec<u64> = (0..64).map(|_| world.done()).map(|(token, _)| token).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (1..=64).collect::<Vec<_>>());
    world.perform(DiskRequest::Flush).unwrap();
    for block in 0..64 {
        world.submit(DiskRequest::Read { offset: (block * BLOCK) as u64, length: BLOCK });
    }
    for _ in 0..64 {
        let (token, result) = world.done();
        assert!(result.unwrap() == written[token as usize - 66]);
    }
}

#[test]
fn what_is_discarded_reads_as_zeros_in_a_file() {
    let mut world = World::new("discard", 8);
    world.write(0, vec![random_blocks(&mut Prng::new(3), 8)], true);
    let range = DiskRequest::Discard { offset: BLOCK as u64, length: 2 * BLOCK as u64 };
    assert!(world.perform(range).unwrap().is_empty());
    assert!(world.read(1, 2).iter().all(|&byte| byte == 0));
    assert!(world.read(3, 1).iter().any(|&byte| byte != 0));
}

#[test]
fn a_read_that_reaches_beyond_the_end_is_an_error_that_says_where() {
    let mut world = World::new("end", 2);
    let read = DiskRequest::Read { offset: BLOCK as u64, length: 2 * BLOCK };
    let fault = world.perform(read).unwrap_err();
    let expected = "read of 8192 bytes at 4096 of ";
    assert!(fault.to_string().starts_with(expected), "{fault}");
    assert!(fault.to_string().ends_with(": unexpected end of file"), "{fault}");
}

#[test]
fn a_file_is_opened_once_at_a_time_and_reopened_as_it_was() {
    let mut world = World::new("once", 4);
    let bytes = random_blocks(&mut Prng::new(4), 4);
    world.write(0, vec![bytes.clone()], true);
    let path = world.scratch.0.clone();
    let error = DiskFile::open(&path).unwrap_err();
    assert!(matches!(error.reason, DiskReason::InUse), "{error}");
    assert!(matches!(DiskFile::create(&path, 1).unwrap_err().reason, DiskReason::Exists));
    drop(world.reactor);
    let file = DiskFile::open(&path).unwrap();
    let info = file.probe().unwrap();
    assert_eq!((info.bytes, info.is_block_device), (4 * BLOCK as u64, false));
    let mut buffer = AlignedBuffer::zeroed(4 * BLOCK);
    file.read_at(&mut buffer, 0).unwrap();
    assert!(buffer[..] == bytes[..]);
    assert!(file.read_at(&mut buffer, BLOCK as u64).is_err());
}

#[test]
fn what_cannot_be_opened_is_named_with_what_to_do() {
    let error = DiskFile::open(&Scratch::new("absent").0).unwrap_err();
    assert!(error.to_string().ends_with(": not found"), "{error}");
    let error = DiskFile::open(&std::env::temp_dir()).unwrap_err();
    assert!(matches!(error.reason, DiskReason::WrongKind), "{error}");
}

#[test]
fn a_reactor_may_end_while_operations_are_under_way() {
    let mut world = World::new("drop", 1024);
    let source = random_blocks(&mut Prng::new(5), 256);
    for part in 0..4 {
        let offset = (part * 256 * BLOCK) as u64;
        world.submit(DiskRequest::Write { offset, pieces: vec![source.clone()], durable: true });
        world.submit(DiskRequest::Read { offset, length: 256 * BLOCK });
    }
    world.reactor.turn(Some(std::time::Duration::ZERO)).unwrap();
}
