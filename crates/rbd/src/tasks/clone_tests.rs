//! Clones on a cluster in memory.

use crate::memory::{Cluster, FEATURES, OBJECT, pool, spec};
use crate::notify::{ClientId, Maintenance, Notification, ProxiedRequestId};
use crate::*;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;
use types::{Errno, SnapId};

const SIZE: u64 = 5 * OBJECT / 2;

fn clone_spec(parent: &str, snapshot: &str, child: &str) -> CloneSpec {
    CloneSpec {
        parent: spec(parent),
        snapshot: snapshot.into(),
        image: spec(child),
        id: format!("{child}1"),
        order: None,
        features: FEATURES,
        data_pool: None,
        striping: None,
        format: CloneFormat::Two,
    }
}

fn perform(cluster: &mut Cluster, image: &mut Image, request: Request) -> Outcome {
    image.submit(request);
    cluster.settle(image);
    image.poll_completion().unwrap().1.unwrap()
}

fn bytes(outcome: Outcome) -> Vec<u8> {
    let Outcome::Data(pieces) = outcome else { panic!("a read gives data") };
    let bytes = |piece: Piece| match piece {
        Piece::Data(data) => data.to_vec(),
        Piece::Zeros(length) => vec![0; length as usize],
    };
    pieces.into_iter().flat_map(bytes).collect()
}

fn contents(cluster: &mut Cluster, header: Header) -> Vec<u8> {
    let request = Request::Read { offset: 0, length: header.size };
    let mut image = Image::new(header, false).unwrap();
    bytes(perform(cluster, &mut image, request))
}

fn read(cluster: &mut Cluster, image: &str) -> Vec<u8> {
    let header = cluster.header(image);
    contents(cluster, header)
}

fn read_at(cluster: &mut Cluster, image: &str, snap: &str) -> Vec<u8> {
    let header = cluster.run(open_snapshot(spec(image), snap.into())).unwrap();
    contents(cluster, header)
}

fn change(cluster: &mut Cluster, image: &str, request: Request) {
    let mut image = cluster.open(image);
    assert_eq!(perform(cluster, &mut image, request), Outcome::Done);
    image.close();
    cluster.settle(&mut image);
}

fn write(cluster: &mut Cluster, image: &str, offset: u64, data: Vec<u8>) {
    change(cluster, image, Request::Write { offset, data: data.into() });
}

/// An image "a" with data, its snapshot "s", and a clone "b" of it.
fn family() -> Cluster {
    let mut cluster = Cluster::with_image("a", SIZE);
    write(&mut cluster, "a", 0, vec![1; SIZE as usize]);
    cluster.run(take_snapshot(spec("a"), "s".into())).unwrap();
    write(&mut cluster, "a", 0, vec![2; SIZE as usize]);
    cluster.run(clone_image(clone_spec("a", "s", "b"))).unwrap();
    cluster
}

fn objects(cluster: &Cluster, image: &str) -> Vec<(String, usize)> {
    cluster.names(&format!("rbd_data.{image}1."))
}

#[test]
fn a_clone_shows_its_parents_snapshot_until_it_is_written() {
    let mut cluster = family();
    let mut expected = vec![1; SIZE as usize];
    assert_eq!(read(&mut cluster, "b"), expected);
    write(&mut cluster, "b", 10, vec![3; 5]);
    expected[10..15].fill(3);
    assert_eq!(read(&mut cluster, "b"), expected);
    assert_eq!(objects(&cluster, "b").len(), 1, "only what was written is copied");
    assert_eq!(read_at(&mut cluster, "a", "s"), vec![1; SIZE as usize]);
    // Zeros hide the parent as well, and `Map` reports the parent's data.
    change(&mut cluster, "b", Request::Discard { offset: OBJECT, length: OBJECT });
    expected[OBJECT as usize..2 * OBJECT as usize].fill(0);
    assert_eq!(read(&mut cluster, "b"), expected);
    let mut image = cluster.open("b");
    let map = perform(&mut cluster, &mut image, Request::Map { offset: 0, length: SIZE });
    assert_eq!(map, Outcome::Map(vec![(OBJECT, true), (OBJECT, false), (OBJECT / 2, true)]));
}

#[test]
fn a_clone_opened_during_creation_shows_its_parent() {
    for format in [CloneFormat::One, CloneFormat::Two] {
        let mut cluster = family();
        cluster.run(protect_snapshot(spec("a"), "s".into())).unwrap();
        let mut making = clone_image(CloneSpec { format, ..clone_spec("a", "s", "c") });
        let mut opened = 0;
        while let Some((id, request)) = making.poll_request() {
            let answer = cluster.answer(request).unwrap();
            making.handle_response(id, answer);
            if let Ok(header) = cluster.run(open(spec("c"))) {
                assert!(contents(&mut cluster, header) == [1; SIZE as usize], "it shows zeros");
                opened += 1;
            }
        }
        making.poll_outcome().unwrap().unwrap();
        assert!(opened > 1);
    }
}

#[test]
fn a_clone_gets_its_parents_metadata() {
    let mut cluster = family();
    let pairs: BTreeMap<Bytes, Bytes> =
        (0..100).map(|number| (format!("key{number}").into(), "value".into())).collect();
    let place = cluster.header("a").place();
    let set = rados::Operation::write(place, vec![crate::calls::set_metadata(&pairs)]);
    cluster.answer(ClusterRequest::Operate(set)).unwrap().unwrap();
    cluster.run(clone_image(clone_spec("a", "s", "c"))).unwrap();
    let list = vec![crate::calls::list_metadata(b"", 1000)];
    let read = rados::Operation::new(cluster.header("c").place(), list);
    let Ok(rados::Reply::Operation(reply)) = cluster.answer(ClusterRequest::Operate(read)).unwrap()
    else {
        panic!("an operation's reply")
    };
    let found: BTreeMap<Bytes, Bytes> = crate::calls::output(&reply, 0, "metadata").unwrap();
    assert_eq!(found, pairs);
}

#[test]
fn a_write_that_covers_the_parents_data_does_not_read_it() {
    let mut cluster = family();
    write(&mut cluster, "b", 2 * OBJECT, vec![3; OBJECT as usize / 2]);
    let mut image = cluster.open("b");
    image.submit(Request::Write { offset: 0, data: vec![4; OBJECT as usize].into() });
    let (_, asked) = image.poll_request().unwrap();
    let ClusterRequest::Operate(operation) = asked else { panic!("a write is an operation") };
    assert_eq!(operation.ops.len(), 1);
}

#[test]
fn requests_of_one_object_stay_in_order_while_it_is_copied_up() {
    let mut cluster = family();
    let mut image = cluster.open("b");
    for (offset, byte) in [(0, 5), (1, 6), (100, 7)] {
        image.submit(Request::Write { offset, data: vec![byte; 4].into() });
    }
    let read = image.submit(Request::Read { offset: 0, length: 6 });
    image.submit(Request::Discard { offset: 0, length: 2 });
    let last = image.submit(Request::Read { offset: 0, length: 6 });
    cluster.settle(&mut image);
    let mut outcomes = BTreeMap::new();
    while let Some((id, outcome)) = image.poll_completion() {
        outcomes.insert(id, outcome.unwrap());
    }
    assert_eq!(outcomes.len(), 6);
    assert_eq!(bytes(outcomes.remove(&read).unwrap()), [5, 6, 6, 6, 6, 1]);
    assert_eq!(bytes(outcomes.remove(&last).unwrap()), [0, 0, 6, 6, 6, 1]);
}

#[test]
fn snapshots_of_a_clone_show_the_parents_data_after_a_copy_up_and_after_a_flatten() {
    let mut cluster = family();
    cluster.run(take_snapshot(spec("b"), "t".into())).unwrap();
    write(&mut cluster, "b", 10, vec![3; 5]);
    let (old, mut new) = (vec![1; SIZE as usize], vec![1; SIZE as usize]);
    new[10..15].fill(3);
    assert_eq!((read_at(&mut cluster, "b", "t"), read(&mut cluster, "b")), (old.clone(), new));
    // After a shrink, the snapshot still shows all of the parent.
    cluster.run(resize(spec("b"), OBJECT, true)).unwrap();
    assert_eq!(read_at(&mut cluster, "b", "t"), old);
    cluster.run(resize(spec("b"), SIZE, true)).unwrap();
    assert_eq!(read(&mut cluster, "b")[OBJECT as usize..], vec![0; (SIZE - OBJECT) as usize]);
    cluster.run(flatten(spec("b"))).unwrap();
    assert!(cluster.run(children(spec("a"), None, vec![])).unwrap().is_empty());
    cluster.run(remove_snapshot(spec("a"), "s".into())).unwrap();
    cluster.run(remove(spec("a"))).unwrap();
    assert_eq!(read_at(&mut cluster, "b", "t"), old);
    assert!(cluster.run(flatten(spec("b"))).is_err(), "it is no clone any more");
}

/// "b", open with a lock that it keeps.
fn kept(cluster: &mut Cluster) -> Image {
    cluster.run(change_features(spec("b"), Features::EXCLUSIVE_LOCK, true)).unwrap();
    let mut image = cluster.open("b");
    image.keep_lock();
    cluster.settle(&mut image);
    image
}

/// Requests maintenance from the owner of "b".
fn want(cluster: &mut Cluster, image: &mut Image, action: Maintenance) {
    let request = ProxiedRequestId { from: ClientId { global_id: 9, handle: 9 }, number: 1 };
    cluster.say("b", codec::encode_to_bytes(&Notification::Proxied { request, action }));
    cluster.tell(image);
}

#[test]
fn maintenance_for_another_client_keeps_the_parent_visible() {
    for action in [
        Maintenance::Resize { size: SIZE + OBJECT, may_shrink: false },
        Maintenance::TakeSnapshot("t".into()),
    ] {
        let mut cluster = family();
        let mut image = kept(&mut cluster);
        want(&mut cluster, &mut image, action);
        let read = Request::Read { offset: 0, length: OBJECT };
        assert!(bytes(perform(&mut cluster, &mut image, read.clone())) == [1; OBJECT as usize]);
        perform(&mut cluster, &mut image, Request::Write { offset: 0, data: vec![3].into() });
        let read = bytes(perform(&mut cluster, &mut image, read));
        assert!(read[0] == 3 && read[1..] == [1; OBJECT as usize - 1]);
    }
}

#[test]
fn a_shrink_for_another_client_keeps_data_in_snapshots() {
    let mut cluster = family();
    cluster.run(take_snapshot(spec("b"), "t".into())).unwrap();
    let mut image = kept(&mut cluster);
    let action = Maintenance::Resize { size: OBJECT, may_shrink: true };
    want(&mut cluster, &mut image, action);
    image.close();
    cluster.settle(&mut image);
    cluster.run(flatten(spec("b"))).unwrap();
    assert!(read_at(&mut cluster, "b", "t") == vec![1; SIZE as usize]);
}

#[test]
fn a_snapshot_that_is_taken_before_a_shrink_has_the_lock_loses_nothing() {
    let mut cluster = family();
    cluster.run(change_features(spec("b"), Features::EXCLUSIVE_LOCK, true)).unwrap();
    let mut task = resize(spec("b"), OBJECT, true);
    while let Some((id, request)) = task.poll_request() {
        if matches!(request, ClusterRequest::Watch(_)) {
            cluster.run(take_snapshot(spec("b"), "t".into())).unwrap();
        }
        if let Some(answer) = cluster.answer(request) {
            task.handle_response(id, answer);
        }
    }
    assert_eq!(task.poll_outcome().unwrap().unwrap_err().errno(), Errno::AGAIN);
    cluster.run(resize(spec("b"), OBJECT, true)).unwrap();
    cluster.run(flatten(spec("b"))).unwrap();
    assert!(read_at(&mut cluster, "b", "t") == vec![1; SIZE as usize]);
}

#[test]
fn a_snapshot_with_clones_is_kept_without_a_name_until_the_last_one_goes() {
    let mut cluster = family();
    cluster.run(clone_image(clone_spec("a", "s", "c"))).unwrap();
    let found = cluster.run(children(spec("a"), Some("s".into()), vec![])).unwrap();
    let names: Vec<_> = found.into_iter().map(|child| child.name.unwrap()).collect();
    assert_eq!(names, ["b", "c"]);
    cluster.run(remove_snapshot(spec("a"), "s".into())).unwrap();
    assert_eq!(
        cluster.run(clone_image(clone_spec("a", "s", "d"))).unwrap_err().errno(),
        Errno::NOENT
    );
    assert_eq!(read(&mut cluster, "b"), vec![1; SIZE as usize]);
    assert!(cluster.run(remove(spec("a"))).is_err());
    cluster.run(remove(spec("b"))).unwrap();
    assert_eq!(cluster.run(snapshots(spec("a"))).unwrap().len(), 1);
    cluster.run(flatten(spec("c"))).unwrap();
    assert!(cluster.run(snapshots(spec("a"))).unwrap().is_empty());
    cluster.run(remove(spec("a"))).unwrap();
    assert_eq!(read(&mut cluster, "c"), vec![1; SIZE as usize]);
}

#[test]
fn clones_of_the_first_format_need_a_protected_snapshot() {
    let mut cluster = family();
    let old = CloneSpec { format: CloneFormat::One, ..clone_spec("a", "s", "c") };
    assert!(cluster.run(clone_image(old.clone())).is_err());
    cluster.run(protect_snapshot(spec("a"), "s".into())).unwrap();
    cluster.run(clone_image(old)).unwrap();
    assert_eq!(read(&mut cluster, "c"), vec![1; SIZE as usize]);
    let pools = vec![pool(2), pool(1)];
    let unprotect = || unprotect_snapshot(spec("a"), "s".into(), vec![pool(2), pool(1)]);
    assert!(cluster.run(unprotect()).is_err());
    let found = cluster.run(children(spec("a"), None, pools)).unwrap();
    assert_eq!(found.len(), 2);
    cluster.run(remove(spec("c"))).unwrap();
    cluster.run(unprotect()).unwrap();
}

#[test]
fn a_clone_that_cannot_be_made_leaves_nothing_behind() {
    let mut cluster = family();
    let again = CloneSpec { id: "other".into(), ..clone_spec("a", "s", "b") };
    assert_eq!(cluster.run(clone_image(again)).unwrap_err().errno(), Errno::EXIST);
    let before = cluster.names("");
    let striping = Some((3000, 2));
    let bad = CloneSpec { striping, ..clone_spec("a", "s", "c") };
    assert!(cluster.run(clone_image(bad)).is_err());
    assert_eq!(cluster.names(""), before);
    assert_eq!(cluster.run(children(spec("a"), None, vec![])).unwrap().len(), 1);
}

#[test]
fn a_copy_up_that_fails_fails_the_write_only() {
    let mut cluster = family();
    let mut image = cluster.open("b");
    let write = image.submit(Request::Write { offset: 1, data: "x".into() });
    let read = image.submit(Request::Read { offset: 0, length: 3 });
    // The assertion fails, and then the parent cannot be read.
    for errno in [Errno::NOENT, Errno::IO] {
        let (id, _) = image.poll_request().unwrap();
        image.handle_response(id, Err(errno));
    }
    cluster.settle(&mut image);
    let (first, failed) = image.poll_completion().unwrap();
    assert_eq!((first, failed.unwrap_err().errno()), (write, Errno::IO));
    let (second, outcome) = image.poll_completion().unwrap();
    assert_eq!((second, bytes(outcome.unwrap())), (read, vec![1; 3]));
}

#[test]
fn a_clone_that_is_read_by_its_map_may_become_independent() {
    let mut cluster = Cluster::default();
    cluster.create(spec("a"), SIZE, Features::DEFAULT);
    write(&mut cluster, "a", 0, vec![1; SIZE as usize]);
    cluster.run(take_snapshot(spec("a"), "s".into())).unwrap();
    let clone = CloneSpec { features: Features::DEFAULT, ..clone_spec("a", "s", "b") };
    cluster.run(clone_image(clone)).unwrap();
    let header = cluster.header("b");
    let map = cluster.run(object_map(header.clone())).unwrap();
    let mut image = Image::new(header, false).unwrap();
    map.into_iter().for_each(|map| image.use_map(map));
    cluster.run(flatten(spec("b"))).unwrap();
    cluster.run(remove_snapshot(spec("a"), "s".into())).unwrap();
    cluster.run(remove(spec("a"))).unwrap();
    let read = perform(&mut cluster, &mut image, Request::Read { offset: 0, length: SIZE });
    assert_eq!(bytes(read), vec![1; SIZE as usize]);
}

#[derive(Debug, Clone)]
enum Step {
    Write(usize, u64, u64, u8),
    Discard(usize, u64, u64),
    Resize(usize, u64),
    Snapshot(usize),
    RemoveSnapshot(usize),
    Rollback(usize),
    Clone(usize, u8, bool),
    Flatten(usize),
    CopyUp(usize, u64, u64),
}

const SIZE_MAX: u64 = 6 * OBJECT;

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..SIZE_MAX, 0..2 * OBJECT);
    prop_oneof![
        6 => (0..4usize, range(), 1u8..).prop_map(|(i, (a, b), byte)| Step::Write(i, a, b, byte)),
        3 => (0..4usize, range()).prop_map(|(i, (a, b))| Step::Discard(i, a, b)),
        2 => (0..4usize, 1..SIZE_MAX).prop_map(|(i, size)| Step::Resize(i, size)),
        3 => (0..4usize).prop_map(Step::Snapshot),
        1 => (0..4usize).prop_map(Step::RemoveSnapshot),
        1 => (0..4usize).prop_map(Step::Rollback),
        3 => (0..4usize, 12..14u8, any::<bool>()).prop_map(|(i, o, s)| Step::Clone(i, o, s)),
        1 => (0..4usize).prop_map(Step::Flatten),
        1 => (0..4usize, range()).prop_map(|(i, (a, b))| Step::CopyUp(i, a, b)),
    ]
}

#[derive(Debug, Clone, Default)]
struct Model {
    contents: Vec<u8>,
    snapshots: BTreeMap<String, Vec<u8>>,
}

/// A cluster, and the expected contents of its images.
struct Scenario {
    cluster: Cluster,
    /// Features of all images, with object maps or without.
    features: Features,
    images: Vec<(String, Model)>,
    made: usize,
}

impl Scenario {
    fn new(features: Features) -> Self {
        let mut cluster = Cluster::default();
        cluster.create(spec("i0"), SIZE_MAX / 2, features);
        let contents = vec![0; SIZE_MAX as usize / 2];
        let images = vec![("i0".to_owned(), Model { contents, ..Model::default() })];
        Scenario { cluster, features, images, made: 0 }
    }

    fn image(&mut self, number: usize) -> (String, &mut Model) {
        let number = number % self.images.len();
        let (name, model) = &mut self.images[number];
        (name.clone(), model)
    }

    fn range(model: &Model, offset: u64, length: u64) -> std::ops::Range<usize> {
        let size = model.contents.len() as u64;
        let offset = offset.min(size);
        offset as usize..(offset + length).min(size) as usize
    }

    fn do_step(&mut self, step: Step) {
        self.made += 1;
        let fresh = format!("x{}", self.made);
        match step {
            Step::Write(image, offset, length, byte) => {
                let (name, model) = self.image(image);
                let range = Self::range(model, offset, length);
                model.contents[range.clone()].fill(byte);
                write(&mut self.cluster, &name, range.start as u64, vec![byte; range.len()]);
            }
            Step::Discard(image, offset, length) => {
                let (name, model) = self.image(image);
                let range = Self::range(model, offset, length);
                model.contents[range.clone()].fill(0);
                let (offset, length) = (range.start as u64, range.len() as u64);
                change(&mut self.cluster, &name, Request::Discard { offset, length });
            }
            Step::CopyUp(image, offset, length) => {
                let (name, model) = self.image(image);
                let range = Self::range(model, offset, length);
                let (offset, length) = (range.start as u64, range.len() as u64);
                change(&mut self.cluster, &name, Request::CopyUp { offset, length });
            }
            Step::Resize(image, size) => {
                let (name, model) = self.image(image);
                model.contents.resize(size as usize, 0);
                self.cluster.run(resize(spec(&name), size, true)).unwrap();
            }
            Step::Snapshot(image) => {
                let (name, model) = self.image(image);
                model.snapshots.insert(fresh.clone(), model.contents.clone());
                self.cluster.run(take_snapshot(spec(&name), fresh)).unwrap();
            }
            Step::RemoveSnapshot(image) => {
                let (name, model) = self.image(image);
                let Some((snapshot, _)) = model.snapshots.pop_first() else { return };
                self.cluster.run(remove_snapshot(spec(&name), snapshot)).unwrap();
            }
            Step::Rollback(image) => {
                let (name, model) = self.image(image);
                let Some((snapshot, contents)) = model.snapshots.last_key_value() else { return };
                let snapshot = snapshot.clone();
                model.contents = contents.clone();
                self.cluster.run(roll_back(spec(&name), snapshot)).unwrap();
            }
            Step::Clone(image, order, is_striped) => {
                let (name, model) = self.image(image);
                let Some((snapshot, contents)) = model.snapshots.last_key_value() else { return };
                let (snapshot, contents) = (snapshot.clone(), contents.clone());
                let striping = is_striped.then_some((OBJECT / 4, 3));
                let order = Some(order);
                let features = self.features;
                let clone =
                    CloneSpec { order, striping, features, ..clone_spec(&name, &snapshot, &fresh) };
                self.cluster.run(clone_image(clone)).unwrap();
                self.images.push((fresh, Model { contents, ..Model::default() }));
            }
            Step::Flatten(image) => {
                let (name, _) = self.image(image);
                if self.cluster.header(&name).parent.is_some() {
                    self.cluster.run(flatten(spec(&name))).unwrap();
                }
            }
        }
    }

    fn check(&mut self) {
        for (name, model) in &self.images {
            assert_eq!(read(&mut self.cluster, name), model.contents, "{name}");
            for (snapshot, contents) in &model.snapshots {
                let found = read_at(&mut self.cluster, name, snapshot);
                assert_eq!(found, *contents, "{name}@{snapshot}");
                let header = self.cluster.run(open_snapshot(spec(name), snapshot.clone())).unwrap();
                check_map(&mut self.cluster, &header);
            }
            let header = self.cluster.header(name);
            check_map(&mut self.cluster, &header);
        }
    }
}

/// Checks that the maps of the image and of its snapshots list all existing objects.
fn check_map(cluster: &mut Cluster, header: &Header) {
    if !header.has_map() {
        assert!(!header.features.contains(Features::OBJECT_MAP), "the map is invalid");
        return;
    }
    let place = match header.snap {
        SnapId::HEAD => header.map_place(),
        snap => header.spec.pool.snapshot_map(&header.id, snap),
    };
    let map = cluster.map_at(&place);
    for object in 0..header.objects() {
        let exists = cluster.exists(&header.data_place(object), header.snap);
        let name = &header.spec.name;
        assert!(!exists || map[object as usize] != 0, "{name} {:?}: {object}", header.snap);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn clones_and_snapshots_are_arrays_of_bytes(
        steps in prop::collection::vec(step(), 1..40),
        has_maps: bool,
    ) {
        let mut play = Scenario::new(if has_maps { Features::DEFAULT } else { FEATURES });
        for step in steps {
            play.do_step(step);
            play.check();
        }
        // All images can be removed, the youngest first, and no object remains.
        for (name, model) in play.images.clone().into_iter().rev() {
            for snapshot in model.snapshots.keys() {
                play.cluster.run(remove_snapshot(spec(&name), snapshot.clone())).unwrap();
            }
            play.cluster.run(remove(spec(&name))).unwrap();
        }
        prop_assert_eq!(play.cluster.names("rbd_data"), vec![]);
        prop_assert_eq!(play.cluster.names("rbd_header"), vec![]);
    }
}
