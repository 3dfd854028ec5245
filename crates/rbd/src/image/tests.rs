//! An image over objects that are a map in memory.

use super::*;
use crate::memory::{Cluster, OBJECT, spec};
use crate::names::Pool;
use crate::{CloneFormat, CloneSpec, Features, ImageSpec, Layout, clone_image, take_snapshot};
use bytes::Bytes;
use proptest::prelude::*;
use rados::{OperationReply, WatchEvent, WatchId};
use std::collections::BTreeMap;
use types::{Errno, PoolId, SnapId};
use wire::op::OpCode;
use wire::{OpResult, OsdOp, SnapContext};

const SIZE: u64 = 1 << 15;
const WATCH: WatchId = WatchId(77);

fn header() -> Header {
    let pool = Pool { id: PoolId(1), name: "pool".into(), namespace: String::new() };
    Header {
        spec: ImageSpec { pool, name: "image".into() },
        id: "1a".into(),
        size: SIZE,
        order: 12,
        features: Features::LAYERING,
        flags: 0,
        data_prefix: "rbd_data.1a".into(),
        data_pool: None,
        layout: Layout::plain(12).unwrap(),
        snap_context: SnapContext::default(),
        snap: SnapId::HEAD,
        parent: None,
        ancestors: [].into(),
    }
}

/// Objects, and an image whose questions they answer.
struct World {
    image: Image,
    objects: BTreeMap<Bytes, Vec<u8>>,
    size: u64,
}

impl World {
    fn new(is_writable: bool) -> Self {
        let image = Image::new(header(), is_writable).unwrap();
        let mut world = World { image, objects: BTreeMap::new(), size: SIZE };
        world.settle();
        world
    }

    /// Answers until nothing is asked any more.
    fn settle(&mut self) {
        while let Some((id, ask)) = self.image.poll_ask() {
            if let Some(answer) = self.answer(ask) {
                self.image.handle_answer(id, answer);
            }
        }
    }

    fn answer(&mut self, ask: Ask) -> Option<Answer> {
        match ask {
            Ask::Watch(_) => Some(Ok(Reply::Watching(WATCH))),
            Ask::Unwatch(_) => Some(Ok(Reply::Operation(OperationReply::default()))),
            Ask::Acknowledge { .. } => None,
            Ask::Operate(operation) => {
                let name = operation.place.object.clone();
                let outputs: Result<Vec<OpResult>, Errno> =
                    operation.ops.iter().map(|op| self.execute(&name, op)).collect();
                Some(outputs.map(|ops| {
                    Reply::Operation(OperationReply { ops, ..OperationReply::default() })
                }))
            }
            other => panic!("{other:?} was not expected"),
        }
    }

    fn execute(&mut self, name: &Bytes, op: &OsdOp) -> Result<OpResult, Errno> {
        let extent = op.extent();
        let (start, end) = (extent.offset as usize, (extent.offset + extent.length) as usize);
        let output = match op.code {
            OpCode::CALL => self.call(op),
            OpCode::READ => {
                let object = self.objects.get(name).ok_or(Errno::NOENT)?;
                let end = end.min(object.len());
                Bytes::copy_from_slice(&object[start.min(end)..end])
            }
            OpCode::WRITE => {
                let object = self.objects.entry(name.clone()).or_default();
                object.resize(object.len().max(end), 0);
                object[start..end].copy_from_slice(&op.input);
                Bytes::new()
            }
            OpCode::ZERO => {
                if let Some(object) = self.objects.get_mut(name) {
                    let end = end.min(object.len());
                    object[start.min(end)..end].fill(0);
                }
                Bytes::new()
            }
            OpCode::TRUNCATE => {
                if let Some(object) = self.objects.get_mut(name) {
                    object.resize(start, 0);
                }
                Bytes::new()
            }
            OpCode::DELETE => {
                self.objects.remove(name).ok_or(Errno::NOENT)?;
                Bytes::new()
            }
            other => panic!("{other} was not expected"),
        };
        Ok(OpResult::new(op, 0, output))
    }

    fn call(&self, op: &OsdOp) -> Bytes {
        let (_, method, _) = op.call_input().unwrap();
        match &method[..] {
            b"get_size" => codec::encode_to_bytes(&(12u8, self.size)),
            b"get_features" => codec::encode_to_bytes(&(Features::LAYERING.0, 0u64)),
            b"get_flags" => codec::encode_to_bytes(&0u64),
            b"get_object_prefix" => codec::encode_to_bytes("rbd_data.1a"),
            b"get_data_pool" => codec::encode_to_bytes(&-1i64),
            b"get_snapcontext" => codec::encode_to_bytes(&(0u64, Vec::<SnapId>::new())),
            b"parent_overlap_get" => codec::encode_to_bytes(&None::<u64>),
            b"parent_get" => {
                let mut w = codec::Writer::new();
                w.versioned(1, 1, |w| {
                    w.i64(-1);
                    w.string("");
                    w.string("");
                    w.value(&SnapId::HEAD);
                });
                w.into_bytes()
            }
            other => panic!("{} was not expected", String::from_utf8_lossy(other)),
        }
    }

    fn ask(&mut self, request: Request) -> Result<Outcome, Error> {
        let id = self.image.submit(request);
        self.settle();
        let (done, outcome) = self.image.poll_completion().expect("all questions are answered");
        assert_eq!(done, id);
        outcome
    }

    fn read(&mut self, offset: u64, length: u64) -> Vec<u8> {
        let Outcome::Data(pieces) = self.ask(Request::Read { offset, length }).unwrap() else {
            panic!("a read gives data")
        };
        let bytes = |piece: Piece| match piece {
            Piece::Data(data) => data.to_vec(),
            Piece::Zeros(length) => vec![0; length as usize],
        };
        pieces.into_iter().flat_map(bytes).collect()
    }
}

#[test]
fn requests_outside_of_the_image_are_refused() {
    let mut world = World::new(true);
    for (offset, length) in [(SIZE, 1), (0, SIZE + 1), (u64::MAX, 2)] {
        assert!(world.ask(Request::Read { offset, length }).is_err(), "{offset} {length}");
    }
    assert_eq!(world.ask(Request::Read { offset: SIZE, length: 0 }), Ok(Outcome::Data(vec![])));
}

#[test]
fn an_image_that_is_only_read_is_not_written_and_not_watched() {
    let mut image = Image::new(header(), false).unwrap();
    assert!(image.poll_ask().is_none());
    image.submit(Request::Write { offset: 0, data: "a".into() });
    let (_, outcome) = image.poll_completion().unwrap();
    assert_eq!(outcome.unwrap_err().errno(), Errno::ROFS);
    image.close();
    assert_eq!(image.poll_event(), Some(ImageEvent::Closed));
}

#[test]
fn requests_wait_while_the_header_is_read_again() {
    let mut world = World::new(true);
    let payload = crate::notify::header_update();
    let event = WatchEvent::Notified { watch: WATCH, notify_id: 1, notifier: 2, payload };
    assert!(world.image.handle_watch_event(&event));
    world.size = 2 * SIZE;
    world.image.submit(Request::Write { offset: SIZE, data: "behind the old end".into() });
    assert!(world.image.poll_completion().is_none());
    world.settle();
    assert_eq!(world.image.poll_event(), Some(ImageEvent::Resized(2 * SIZE)));
    assert_eq!(world.image.poll_completion().unwrap().1, Ok(Outcome::Done));
    assert_eq!(world.read(SIZE, 6), b"behind");
}

#[test]
fn a_lost_watch_is_registered_again_and_the_header_read() {
    let mut world = World::new(true);
    let other = WatchEvent::Lost { watch: WatchId(1), error: Errno::NOTCONN };
    assert!(!world.image.handle_watch_event(&other));
    world.size = SIZE / 2;
    let lost = WatchEvent::Lost { watch: WATCH, error: Errno::NOTCONN };
    assert!(world.image.handle_watch_event(&lost));
    world.settle();
    assert_eq!(world.image.poll_event(), Some(ImageEvent::Resized(SIZE / 2)));
}

#[test]
fn closing_waits_for_what_is_in_flight() {
    let mut world = World::new(true);
    world.image.submit(Request::Write { offset: 0, data: "a".into() });
    world.image.close();
    assert_eq!(world.image.poll_event(), None);
    world.settle();
    assert_eq!(world.image.poll_event(), Some(ImageEvent::Closed));
    assert_eq!(world.image.in_flight(), 0);
}

#[test]
fn a_request_for_many_objects_asks_for_a_bounded_number_at_once() {
    let objects = 1000;
    let header = Header { size: objects << 12, ..header() };
    let mut image = Image::new(header, false).unwrap();
    image.submit(Request::Map { offset: 0, length: objects << 12 });
    let (mut under_way, mut asked) = (Vec::new(), 0);
    while image.in_flight() > 0 {
        while let Some((id, _)) = image.poll_ask() {
            under_way.push(id);
            asked += 1;
        }
        assert!(under_way.len() <= 64);
        image.handle_answer(under_way.pop().unwrap(), Err(Errno::NOENT));
    }
    assert_eq!(asked, objects);
    let (_, outcome) = image.poll_completion().unwrap();
    assert_eq!(outcome, Ok(Outcome::Map(vec![(objects << 12, false)])));
}

#[derive(Debug, Clone)]
enum Step {
    Write(u64, Vec<u8>),
    Discard(u64, u64),
    Read(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..SIZE, 0..SIZE).prop_map(|(a, b)| (a.min(b), a.abs_diff(b)));
    prop_oneof![
        (range(), 1u8..).prop_map(|((offset, length), byte)| {
            Step::Write(offset, vec![byte; length as usize])
        }),
        range().prop_map(|(offset, length)| Step::Discard(offset, length)),
        range().prop_map(|(offset, length)| Step::Read(offset, length)),
    ]
}

proptest! {
    #[test]
    fn an_image_is_an_array_of_bytes(steps in prop::collection::vec(step(), 1..20)) {
        let mut world = World::new(true);
        let mut model = vec![0; SIZE as usize];
        for step in steps {
            match step {
                Step::Write(offset, data) => {
                    let start = offset as usize;
                    model[start..start + data.len()].copy_from_slice(&data);
                    world.ask(Request::Write { offset, data: data.into() }).unwrap();
                }
                Step::Discard(offset, length) => {
                    model[offset as usize..(offset + length) as usize].fill(0);
                    world.ask(Request::Discard { offset, length }).unwrap();
                }
                Step::Read(offset, length) => {
                    let expected = &model[offset as usize..(offset + length) as usize];
                    prop_assert_eq!(world.read(offset, length), expected);
                }
            }
        }
        prop_assert_eq!(world.read(0, SIZE), model);
    }
}

/// A clone without the lock, of an image full of ones.
fn clone() -> Cluster {
    let (mut cluster, size) = (Cluster::with_image("a", OBJECT), OBJECT);
    let mut parent = cluster.open("a");
    parent.submit(Request::Write { offset: 0, data: vec![1; size as usize].into() });
    cluster.settle(&mut parent);
    cluster.run(take_snapshot(spec("a"), "s".into())).unwrap();
    let clone = CloneSpec {
        parent: spec("a"),
        snapshot: "s".into(),
        image: spec("b"),
        id: "b1".into(),
        order: None,
        features: Features::LAYERING,
        data_pool: None,
        striping: None,
        format: CloneFormat::Two,
    };
    cluster.run(clone_image(clone)).unwrap();
    cluster
}

#[test]
fn objects_that_were_there_may_be_gone_when_the_header_has_changed() {
    let mut cluster = clone();
    let mut image = cluster.open("b");
    for _ in 0..2 {
        image.submit(Request::Write { offset: 0, data: "new".into() });
        cluster.settle(&mut image);
        image.poll_completion().unwrap().1.unwrap();
    }
    // Somebody goes back to a snapshot that has no such object.
    let place = cluster.header("b").data_place(0);
    cluster.objects.remove(&place);
    cluster.say("b", crate::notify::header_update());
    cluster.tell(&mut image);
    image.submit(Request::Write { offset: 0, data: "new".into() });
    let read = image.submit(Request::Read { offset: 0, length: 4 });
    let (id, guarded) = image.poll_ask().unwrap();
    assert!(image.poll_ask().is_none(), "the read waits for what becomes of the write");
    let answer = cluster.answer(guarded).unwrap();
    image.handle_answer(id, answer);
    cluster.settle(&mut image);
    let outcomes: BTreeMap<_, _> = std::iter::from_fn(|| image.poll_completion()).collect();
    let expected = Piece::Data(b"new\x01"[..].into());
    assert_eq!(outcomes[&read], Ok(Outcome::Data(vec![expected])));
}
