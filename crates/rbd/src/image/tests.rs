//! An image over a cluster in memory.

use super::test_cluster::header;
use super::*;
use crate::memory::{Cluster, OBJECT, spec};
use crate::{CloneFormat, CloneSpec, Features, Piece, clone_image, resize, take_snapshot};
use proptest::prelude::*;
use rados::{WatchEvent, WatchId};
use std::collections::BTreeMap;
use types::Errno;

const SIZE: u64 = 8 * OBJECT;

/// An image, and the cluster that answers its requests.
struct World {
    image: Image,
    cluster: Cluster,
}

impl World {
    fn new() -> Self {
        let mut cluster = Cluster::with_image("a", SIZE);
        World { image: cluster.open("a"), cluster }
    }

    fn settle(&mut self) {
        self.cluster.settle(&mut self.image);
    }

    fn watch(&self) -> WatchId {
        *self.cluster.watches.keys().next().expect("it watches")
    }

    /// Resizes the header without notifying the image.
    fn resize(&mut self, size: u64) {
        self.cluster.run(resize(spec("a"), size, true)).unwrap();
    }

    fn request(&mut self, request: Request) -> Result<Outcome, Error> {
        let id = self.image.submit(request);
        self.settle();
        let (done, outcome) = self.image.poll_completion().expect("all requests are answered");
        assert_eq!(done, id);
        outcome
    }

    fn read(&mut self, offset: u64, length: u64) -> Vec<u8> {
        let Outcome::Data(pieces) = self.request(Request::Read { offset, length }).unwrap() else {
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
    let mut world = World::new();
    for (offset, length) in [(SIZE, 1), (0, SIZE + 1), (u64::MAX, 2)] {
        assert!(world.request(Request::Read { offset, length }).is_err(), "{offset} {length}");
    }
    assert_eq!(world.request(Request::Read { offset: SIZE, length: 0 }), Ok(Outcome::Data(vec![])));
}

#[test]
fn an_image_that_is_only_read_is_not_written_and_not_watched() {
    let mut image = Image::new(header(Features::LAYERING), false).unwrap();
    assert!(image.poll_request().is_none());
    image.submit(Request::Write { offset: 0, data: "a".into() });
    let (_, outcome) = image.poll_completion().unwrap();
    assert_eq!(outcome.unwrap_err().errno(), Errno::ROFS);
    image.close();
    assert_eq!(image.poll_event(), Some(ImageEvent::Closed));
}

#[test]
fn requests_wait_while_the_header_is_read_again() {
    let mut world = World::new();
    let payload = crate::notify::header_update();
    let event = WatchEvent::Notified { watch: world.watch(), notify_id: 1, notifier: 2, payload };
    world.resize(2 * SIZE);
    assert!(world.image.handle_watch_event(&event));
    world.image.submit(Request::Write { offset: SIZE, data: "behind the old end".into() });
    assert!(world.image.poll_completion().is_none());
    world.settle();
    assert_eq!(world.image.poll_event(), Some(ImageEvent::Resized(2 * SIZE)));
    assert_eq!(world.image.poll_completion().unwrap().1, Ok(Outcome::Done));
    assert_eq!(world.read(SIZE, 6), b"behind");
}

#[test]
fn a_lost_watch_is_registered_again_and_the_header_read() {
    let mut world = World::new();
    let other = WatchEvent::Lost { watch: WatchId(77), error: Errno::NOTCONN };
    assert!(!world.image.handle_watch_event(&other));
    world.resize(SIZE / 2);
    let lost = WatchEvent::Lost { watch: world.watch(), error: Errno::NOTCONN };
    assert!(world.image.handle_watch_event(&lost));
    world.settle();
    assert_eq!(world.image.poll_event(), Some(ImageEvent::Resized(SIZE / 2)));
}

#[test]
fn closing_waits_for_what_is_in_flight() {
    let mut world = World::new();
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
    let header = Header { size: objects << 12, ..header(Features::LAYERING) };
    let mut image = Image::new(header, false).unwrap();
    image.submit(Request::Map { offset: 0, length: objects << 12 });
    let (mut in_flight, mut asked) = (Vec::new(), 0);
    while image.in_flight() > 0 {
        while let Some((id, _)) = image.poll_request() {
            in_flight.push(id);
            asked += 1;
        }
        assert!(in_flight.len() <= 64);
        image.handle_response(in_flight.pop().unwrap(), Err(Errno::NOENT));
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
        let mut world = World::new();
        let mut model = vec![0; SIZE as usize];
        for step in steps {
            match step {
                Step::Write(offset, data) => {
                    let start = offset as usize;
                    model[start..start + data.len()].copy_from_slice(&data);
                    world.request(Request::Write { offset, data: data.into() }).unwrap();
                }
                Step::Discard(offset, length) => {
                    model[offset as usize..(offset + length) as usize].fill(0);
                    world.request(Request::Discard { offset, length }).unwrap();
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

/// A clone, without exclusive lock, of an image full of ones.
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
    // Another client rolls back to a snapshot that has no such object.
    let place = cluster.header("b").data_place(0);
    cluster.objects.remove(&place);
    cluster.say("b", crate::notify::header_update());
    cluster.tell(&mut image);
    image.submit(Request::Write { offset: 0, data: "new".into() });
    let read = image.submit(Request::Read { offset: 0, length: 4 });
    let (id, guarded) = image.poll_request().unwrap();
    assert!(image.poll_request().is_none(), "the read waits for what becomes of the write");
    let answer = cluster.answer(guarded).unwrap();
    image.handle_response(id, answer);
    cluster.settle(&mut image);
    let outcomes: BTreeMap<_, _> = std::iter::from_fn(|| image.poll_completion()).collect();
    let expected = Piece::Data(b"new\x01"[..].into());
    assert_eq!(outcomes[&read], Ok(Outcome::Data(vec![expected])));
}
