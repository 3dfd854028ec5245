//! The object map of an image, and the requests that it saves.

use super::*;
use crate::memory::{Cluster, OBJECT, spec};
use crate::notify::{ClientId, Maintenance, Notification, ProxiedRequestId};
use crate::object_map::State;
use crate::{Features, Piece, remove, remove_snapshot, resize, roll_back, take_snapshot};
use crate::{MapFindings, check_object_map, open_snapshot, rebuild_object_map};
use proptest::prelude::*;
use rados::{Operation, WatchEvent};
use types::{Errno, SnapId};
use wire::OsdOp;

const OBJECTS: u64 = 6;
const SIZE: u64 = OBJECTS * OBJECT;
const FEATURES: Features = Features::DEFAULT;

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.create(spec("a"), SIZE, FEATURES);
    cluster
}

/// An empty image whose lock is held.
fn open(cluster: &mut Cluster) -> Image {
    let mut image = cluster.open("a");
    image.keep_lock();
    cluster.settle(&mut image);
    assert!(image.has_lock());
    image
}

fn perform(cluster: &mut Cluster, image: &mut Image, request: Request) -> Result<Outcome, Error> {
    image.submit(request);
    cluster.settle(image);
    image.poll_completion().expect("all requests are answered").1
}

fn write(cluster: &mut Cluster, image: &mut Image, objects: std::ops::Range<u64>) {
    let data = vec![7; ((objects.end - objects.start) * OBJECT) as usize];
    let request = Request::Write { offset: objects.start * OBJECT, data: data.into() };
    assert_eq!(perform(cluster, image, request), Ok(Outcome::Done));
}

fn discard(cluster: &mut Cluster, image: &mut Image, offset: u64, length: u64) {
    let request = Request::Discard { offset, length };
    assert_eq!(perform(cluster, image, request), Ok(Outcome::Done));
}

fn close(cluster: &mut Cluster, mut image: Image) {
    image.close();
    cluster.settle(&mut image);
    let last = std::iter::from_fn(|| image.poll_event()).last();
    assert_eq!(last, Some(ImageEvent::Closed));
}

#[test]
fn the_map_says_what_exists() {
    let mut cluster = cluster();
    assert_eq!(cluster.map("a"), [0; 6]);
    let mut image = open(&mut cluster);
    write(&mut cluster, &mut image, 1..4);
    assert_eq!(cluster.map("a"), [0, 1, 1, 1, 0, 0]);
    discard(&mut cluster, &mut image, 0, 2 * OBJECT + 10);
    assert_eq!(cluster.map("a"), [0, 0, 1, 1, 0, 0]);
    assert_eq!(cluster.names("rbd_data").len(), 2);
    close(&mut cluster, image);
}

#[test]
fn absent_objects_are_not_read() {
    let mut cluster = cluster();
    let mut image = open(&mut cluster);
    write(&mut cluster, &mut image, 2..3);
    for request in [
        Request::Read { offset: 0, length: 2 * OBJECT },
        Request::Map { offset: 3 * OBJECT, length: OBJECT },
        Request::Discard { offset: 3 * OBJECT, length: 2 * OBJECT },
    ] {
        image.submit(request);
        assert!(image.poll_request().is_none());
        image.poll_completion().unwrap().1.unwrap();
    }
    let Ok(Outcome::Data(pieces)) =
        perform(&mut cluster, &mut image, Request::Read { offset: 0, length: SIZE })
    else {
        panic!("a read gives data")
    };
    let zeros = |objects: u64| Piece::Zeros(objects * OBJECT);
    assert_eq!(pieces, [zeros(2), Piece::Data(vec![7; OBJECT as usize].into()), zeros(3)]);
}

#[test]
fn an_image_that_is_only_read_uses_a_map_that_it_is_given() {
    let mut cluster = cluster();
    let image = open(&mut cluster);
    close(&mut cluster, image);
    let header = cluster.header("a");
    let map = cluster.run(crate::object_map(header.clone())).unwrap().unwrap();
    let mut image = Image::new(header, false).unwrap();
    image.use_map(map);
    image.submit(Request::Read { offset: 0, length: SIZE });
    assert!(image.poll_request().is_none());
    assert_eq!(image.poll_completion().unwrap().1, Ok(Outcome::Data(vec![Piece::Zeros(SIZE)])));
}

#[test]
fn a_write_waits_for_the_map_and_what_comes_behind_it_too() {
    let mut cluster = cluster();
    let mut image = open(&mut cluster);
    image.submit(Request::Write { offset: 0, data: "a".into() });
    image.submit(Request::Read { offset: 0, length: 1 });
    image.submit(Request::Discard { offset: 0, length: OBJECT });
    image.submit(Request::Write { offset: 0, data: "b".into() });
    let (id, update) = image.poll_request().unwrap();
    assert!(image.poll_request().is_none(), "{update:?} is under way");
    let answer = cluster.answer(update).unwrap();
    image.handle_response(id, answer);
    cluster.settle(&mut image);
    let mut outcomes = Vec::new();
    while let Some((id, outcome)) = image.poll_completion() {
        outcomes.push((id, outcome.unwrap()));
    }
    outcomes.sort_by_key(|(id, _)| *id);
    assert_eq!(outcomes[1].1, Outcome::Data(vec![Piece::Data("a".into())]));
    assert_eq!(outcomes.len(), 4);
    assert_eq!((cluster.map("a")[0], cluster.names("rbd_data").len()), (1, 1));
}

#[test]
fn a_map_that_cannot_be_kept_up_becomes_invalid() {
    let mut cluster = cluster();
    let mut image = open(&mut cluster);
    let map = cluster.header("a").map_place();
    let broken = Operation::write(map, vec![OsdOp::write_full("no map".into())]);
    cluster.answer(crate::ClusterRequest::Operate(broken)).unwrap().unwrap();
    write(&mut cluster, &mut image, 0..2);
    assert!(!cluster.header("a").has_map() && cluster.names("rbd_data").len() == 2);
    cluster.tell(&mut image);
    write(&mut cluster, &mut image, 2..3);
    close(&mut cluster, image);
    let mut image = open(&mut cluster);
    write(&mut cluster, &mut image, 3..4);
    close(&mut cluster, image);
    cluster.run(resize(spec("a"), OBJECT, true)).unwrap();
    cluster.run(remove(spec("a"))).unwrap();
    assert!(cluster.names("rbd_data").is_empty());
}

#[test]
fn a_map_that_is_too_short_is_not_used() {
    let mut cluster = cluster();
    let header = cluster.header("a");
    let short = Operation::write(header.map_place(), vec![crate::object_map::calls::resize(2)]);
    cluster.answer(crate::ClusterRequest::Operate(short)).unwrap().unwrap();
    let mut image = open(&mut cluster);
    write(&mut cluster, &mut image, 0..3);
    assert_eq!(cluster.header("a").flags, 3);
}

#[test]
fn without_room_the_map_stays_as_it_is() {
    let mut cluster = cluster();
    let mut image = open(&mut cluster);
    image.submit(Request::Write { offset: 0, data: "a".into() });
    let (id, _) = image.poll_request().unwrap();
    image.handle_response(id, Err(Errno::NOSPC));
    cluster.settle(&mut image);
    let (_, outcome) = image.poll_completion().unwrap();
    assert_eq!(outcome.unwrap_err().errno(), Errno::NOSPC);
    assert!(cluster.header("a").has_map());
    write(&mut cluster, &mut image, 0..1);
    assert_eq!(cluster.map("a")[0], 1);
}

#[test]
fn an_access_behind_a_removal_needs_no_space() {
    let mut cluster = cluster();
    let mut image = open(&mut cluster);
    write(&mut cluster, &mut image, 0..1);
    image.submit(Request::Discard { offset: 0, length: OBJECT });
    for _ in 0..2 {
        let (id, request) = image.poll_request().unwrap();
        let answer = cluster.answer(request).unwrap();
        image.handle_response(id, answer);
    }
    let (id, _) = image.poll_request().unwrap();
    assert_eq!(image.poll_completion().unwrap().1, Ok(Outcome::Done));
    image.submit(Request::Read { offset: 0, length: 1 });
    image.handle_response(id, Err(Errno::NOSPC));
    cluster.settle(&mut image);
    let outcome = image.poll_completion().unwrap().1;
    assert_eq!(outcome, Ok(Outcome::Data(vec![Piece::Zeros(1)])));
}

#[test]
fn accesses_that_wait_for_the_map_fail_with_the_lock() {
    let mut cluster = cluster();
    let mut image = open(&mut cluster);
    image.submit(Request::Write { offset: 0, data: "a".into() });
    let (update, _) = image.poll_request().unwrap();
    let watch = *cluster.watches.keys().next().unwrap();
    let lost = WatchEvent::Lost { watch, error: Errno::NOTCONN };
    assert!(image.handle_watch_event(&lost));
    let (id, request) = image.poll_request().unwrap();
    let answer = cluster.answer(request).unwrap();
    image.handle_response(id, answer);
    // The new cookie is refused, because another client holds the lock.
    while image.has_lock() {
        let (id, request) = image.poll_request().unwrap();
        let answer = match id.part {
            crate::part::LOCK => Err(Errno::BUSY),
            _ => cluster.answer(request).unwrap(),
        };
        image.handle_response(id, answer);
    }
    image.handle_response(update, Ok(Reply::Operation(rados::OperationReply::default())));
    assert_eq!(image.poll_completion().unwrap().1.unwrap_err().errno(), Errno::BUSY);
    assert!(cluster.names("rbd_data").is_empty());
}

#[test]
fn a_resize_keeps_the_map_up() {
    let mut cluster = cluster();
    let mut image = open(&mut cluster);
    write(&mut cluster, &mut image, 0..6);
    close(&mut cluster, image);
    cluster.run(resize(spec("a"), 2 * OBJECT + 1, true)).unwrap();
    assert_eq!(cluster.map("a"), [1, 1, 1]);
    cluster.run(resize(spec("a"), 5 * OBJECT, true)).unwrap();
    assert_eq!(cluster.map("a"), [1, 1, 1, 0, 0]);
    assert!(cluster.header("a").has_map());
    cluster.run(remove(spec("a"))).unwrap();
    assert!(cluster.objects.keys().all(|place| place.object == "rbd_directory"));
}

#[test]
fn maps_say_what_was_written_since_a_snapshot() {
    let mut cluster = cluster();
    let write = |cluster: &mut Cluster, objects| {
        let mut image = open(cluster);
        write(cluster, &mut image, objects);
        close(cluster, image);
    };
    write(&mut cluster, 0..3);
    cluster.run(take_snapshot(spec("a"), "one".into())).unwrap();
    assert_eq!(cluster.map("a"), [3, 3, 3, 0, 0, 0]);
    write(&mut cluster, 1..2);
    write(&mut cluster, 4..5);
    assert_eq!(cluster.map("a"), [3, 1, 3, 0, 1, 0]);
    cluster.run(take_snapshot(spec("a"), "two".into())).unwrap();
    let header = cluster.header("a");
    let ids = header.snap_context.snaps.clone();
    let of = |cluster: &mut Cluster, snap: SnapId| {
        cluster.map_at(&header.spec.pool.snapshot_map(&header.id, snap))
    };
    assert_eq!(of(&mut cluster, ids[0]), [3, 1, 3, 0, 1, 0]);
    assert_eq!(of(&mut cluster, ids[1]), [1, 1, 1, 0, 0, 0]);
    cluster.run(remove_snapshot(spec("a"), "one".into())).unwrap();
    assert_eq!(of(&mut cluster, ids[0]), [1, 1, 1, 0, 1, 0]);
    assert_eq!(cluster.map("a"), [3, 3, 3, 0, 3, 0]);
    write(&mut cluster, 5..6);
    cluster.run(roll_back(spec("a"), "two".into())).unwrap();
    assert_eq!(cluster.map("a"), [1, 1, 1, 0, 1, 0]);
    cluster.run(remove_snapshot(spec("a"), "two".into())).unwrap();
    assert_eq!(cluster.map("a"), [1, 1, 1, 0, 1, 0]);
    assert!(cluster.header("a").has_map() && cluster.names("rbd_object_map").len() == 1);
}

/// Snapshots "one" and "two" of an image with objects in all states; returns the places of all maps.
fn with_snapshots(cluster: &mut Cluster) -> Vec<(Option<String>, rados::Place)> {
    for (objects, snap) in [(0..3, Some("one")), (1..5, Some("two")), (2..3, None)] {
        let mut image = open(cluster);
        write(cluster, &mut image, objects);
        if snap == Some("two") {
            discard(cluster, &mut image, 0, OBJECT);
        }
        close(cluster, image);
        if let Some(snap) = snap {
            cluster.run(take_snapshot(spec("a"), snap.into())).unwrap();
        }
    }
    let header = cluster.header("a");
    let place = |snap: &SnapId| header.spec.pool.snapshot_map(&header.id, *snap);
    let [two, one] = &header.snap_context.snaps[..] else { panic!("two snapshots") };
    vec![
        (None, header.map_place()),
        (Some("one".into()), place(one)),
        (Some("two".into()), place(two)),
    ]
}

#[test]
fn a_map_that_is_made_anew_says_what_was_kept_up() {
    for features in [FEATURES, FEATURES.without(Features::FAST_DIFF)] {
        let mut cluster = Cluster::default();
        cluster.create(spec("a"), SIZE, features);
        for (snap, place) in with_snapshots(&mut cluster) {
            let kept = cluster.map_at(&place);
            let found = cluster.run(check_object_map(spec("a"), snap.clone()));
            assert_eq!(found, Ok(MapFindings::default()), "{snap:?}");
            cluster.objects.remove(&place);
            assert!(cluster.run(check_object_map(spec("a"), snap.clone())).is_err());
            let invalid = cluster.run(check_object_map(spec("a"), snap.clone())).unwrap_err();
            assert!(invalid.to_string().contains("marked as invalid"), "{invalid}");
            cluster.run(rebuild_object_map(spec("a"), snap.clone())).unwrap();
            assert_eq!(cluster.map_at(&place), kept, "{snap:?}");
            let found = cluster.run(check_object_map(spec("a"), snap.clone()));
            assert_eq!(found, Ok(MapFindings::default()), "{snap:?}");
        }
        assert!(cluster.header("a").has_map());
        assert_eq!(cluster.header("a").flags, 0);
    }
}

#[test]
fn a_map_that_hides_an_object_becomes_invalid() {
    let mut cluster = cluster();
    let mut image = open(&mut cluster);
    write(&mut cluster, &mut image, 0..2);
    close(&mut cluster, image);
    let place = cluster.header("a").map_place();
    let lie = |cluster: &mut Cluster, objects, state| {
        let ops = vec![crate::object_map::calls::update(objects, state, None)];
        cluster
            .answer(crate::ClusterRequest::Operate(Operation::write(place.clone(), ops)))
            .unwrap()
            .unwrap();
        cluster.run(check_object_map(spec("a"), None)).unwrap()
    };
    let found = lie(&mut cluster, 4..6, State::Exists);
    assert_eq!((found.wrong, found.missing, cluster.header("a").flags), (0, 2, 0));
    let found = lie(&mut cluster, 1..2, State::Nonexistent);
    let expected = crate::Mismatch { object: 1, said: State::Nonexistent, is: State::Exists };
    assert_eq!((found.wrong, found.first, found.missing), (1, vec![expected], 2));
    assert!(!cluster.header("a").has_map());
    cluster.run(rebuild_object_map(spec("a"), None)).unwrap();
    assert_eq!((cluster.map("a"), cluster.header("a").flags), (vec![1, 1, 0, 0, 0, 0], 0));
}

#[test]
fn features_are_given_and_taken_away() {
    let mut cluster = cluster();
    let mut image = open(&mut cluster);
    write(&mut cluster, &mut image, 0..2);
    close(&mut cluster, image);
    let used = |cluster: &mut Cluster| cluster.run(crate::usage(spec("a"))).unwrap().used;
    assert_eq!(used(&mut cluster), 2 * OBJECT);
    let change = |cluster: &mut Cluster, features: Features, is_on: bool| {
        cluster.run(crate::change_features(spec("a"), features, is_on))
    };
    let lock = Features::EXCLUSIVE_LOCK;
    assert!(change(&mut cluster, lock, false).is_err(), "the object map needs it");
    change(&mut cluster, lock.with(Features::OBJECT_MAP), false).unwrap();
    assert_eq!(cluster.header("a").features, Features::LAYERING.with(Features::DEEP_FLATTEN));
    assert!(cluster.names("rbd_object_map").is_empty());
    assert_eq!(used(&mut cluster), 2 * OBJECT);
    assert!(change(&mut cluster, Features::OBJECT_MAP, true).is_err(), "it needs the lock");
    change(&mut cluster, lock.with(Features::OBJECT_MAP), true).unwrap();
    let header = cluster.header("a");
    assert!(header.features.contains(Features::OBJECT_MAP) && !header.has_map());
    assert_eq!(cluster.map("a").len(), OBJECTS as usize);
    assert!(change(&mut cluster, Features::LAYERING, false).is_err());
}

#[test]
fn an_owner_that_keeps_the_lock_resizes_for_others() {
    let mut cluster = cluster();
    let mut image = open(&mut cluster);
    write(&mut cluster, &mut image, 0..4);
    let from = ClientId { global_id: 9, handle: 9 };
    for (number, size, may_shrink) in
        [(1, 3 * OBJECT, false), (2, 3 * OBJECT, true), (3, SIZE, false)]
    {
        let request = ProxiedRequestId { from, number };
        let request =
            Notification::Proxied { request, action: Maintenance::Resize { size, may_shrink } };
        cluster.say("a", codec::encode_to_bytes(&request));
        cluster.tell(&mut image);
        cluster.tell(&mut image);
        let expected = if number == 1 { SIZE } else { size };
        assert_eq!((cluster.header("a").size, image.size()), (expected, expected));
        write(&mut cluster, &mut image, 1..2);
    }
    assert_eq!(cluster.map("a"), [1, 1, 1, 0, 0, 0]);
    assert!(image.has_lock());
    close(&mut cluster, image);
}

#[test]
fn an_owner_that_keeps_the_lock_takes_snapshots_for_others_and_removes_them() {
    let mut cluster = cluster();
    let mut image = open(&mut cluster);
    write(&mut cluster, &mut image, 0..2);
    let ask_for = |cluster: &mut Cluster, number, action: Maintenance| {
        let request = ProxiedRequestId { from: ClientId { global_id: 9, handle: 9 }, number };
        cluster.say("a", codec::encode_to_bytes(&Notification::Proxied { request, action }));
    };
    let names = |cluster: &mut Cluster| {
        let all = cluster.run(crate::snapshots(spec("a"))).unwrap();
        all.into_iter().map(|snapshot| snapshot.name).collect::<Vec<_>>()
    };
    // Two requests at once, one of them sent twice, and one that is refused.
    for (number, name) in [(1, "one"), (2, "two"), (1, "one"), (3, "a/b")] {
        ask_for(&mut cluster, number, Maintenance::TakeSnapshot(name.into()));
    }
    (0..4).for_each(|_| cluster.tell(&mut image));
    assert_eq!(names(&mut cluster), ["one", "two"]);
    assert_eq!((cluster.map("a"), image.has_lock()), (vec![3, 3, 0, 0, 0, 0], true));
    write(&mut cluster, &mut image, 1..3);
    assert_eq!(cluster.map("a"), [3, 1, 1, 0, 0, 0]);
    let header = cluster.run(open_snapshot(spec("a"), "two".into())).unwrap();
    assert!(cluster.exists(&header.data_place(1), header.snap));
    assert!(!cluster.exists(&header.data_place(2), header.snap));
    for (number, name) in [(4, "two"), (5, "none"), (6, "one")] {
        ask_for(&mut cluster, number, Maintenance::RemoveSnapshot(name.into()));
        (0..2).for_each(|_| cluster.tell(&mut image));
    }
    assert!(names(&mut cluster).is_empty() && image.has_lock());
    assert_eq!(cluster.map("a"), [1, 1, 1, 0, 0, 0]);
    close(&mut cluster, image);
    assert_eq!(cluster.run(check_object_map(spec("a"), None)), Ok(MapFindings::default()));
}

#[derive(Debug, Clone)]
enum Step {
    Write(u64, u64),
    Discard(u64, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..SIZE, 1..2 * OBJECT).prop_map(|(a, b)| (a, b.min(SIZE - a)));
    prop_oneof![
        range().prop_map(|(offset, length)| Step::Write(offset, length)),
        range().prop_map(|(offset, length)| Step::Discard(offset, length)),
    ]
}

proptest! {
    /// The map ends exact for any requests in flight, with responses in any order.
    #[test]
    fn in_the_end_the_map_is_exact(
        steps in prop::collection::vec(step(), 1..20),
        order in prop::collection::vec(0usize..100, 200),
    ) {
        let mut cluster = cluster();
        let mut image = open(&mut cluster);
        for step in steps {
            image.submit(match step {
                Step::Write(offset, length) => {
                    Request::Write { offset, data: vec![1; length as usize].into() }
                }
                Step::Discard(offset, length) => Request::Discard { offset, length },
            });
        }
        // Requests to one object are answered in order; objects are independent.
        let (mut in_flight, mut order) = (Vec::new(), order.into_iter().cycle());
        while image.in_flight() > 0 {
            in_flight.extend(std::iter::from_fn(|| image.poll_request()));
            let which = order.next().unwrap() % in_flight.len();
            let place = |request: &crate::ClusterRequest| match request {
                crate::ClusterRequest::Operate(operation) => Some(operation.place.clone()),
                _ => None,
            };
            let chosen = place(&in_flight[which].1);
            let first = in_flight.iter().position(|(_, request)| place(request) == chosen).unwrap();
            let (id, request) = in_flight.remove(first);
            if let Some(answer) = cluster.answer(request) {
                image.handle_response(id, answer);
            }
        }
        for (id, request) in in_flight {
            if let Some(answer) = cluster.answer(request) {
                image.handle_response(id, answer);
            }
        }
        close(&mut cluster, image);
        let map = cluster.map("a");
        let names = cluster.names("rbd_data");
        for object in 0..OBJECTS {
            let exists = names.iter().any(|(name, _)| name.ends_with(&format!("{object:016x}")));
            let expected = if exists { State::Exists } else { State::Nonexistent };
            prop_assert_eq!(map[object as usize], expected as u8, "object {} of {:?}", object, map);
        }
        let found = cluster.run(check_object_map(spec("a"), None));
        prop_assert_eq!(found, Ok(MapFindings::default()));
    }
}
