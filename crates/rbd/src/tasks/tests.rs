//! Tasks on a cluster in memory.

use crate::calls::{TrashState, trash_set_state};
use crate::memory::{Cluster, OBJECT, pool, spec};
use crate::*;
use rados::{Operation, OperationReply, Reply};
use types::{EntityType, Errno, ParticipantName, UTime};
use wire::op::OpCode;
use wire::watch::{Watcher, WatcherListing};
use wire::{OpResult, OsdOp, PoolOpKind};

/// Contents of the whole image or snapshot.
fn contents(cluster: &mut Cluster, header: Header) -> Vec<u8> {
    let length = header.size;
    let mut image = Image::new(header, false).unwrap();
    image.submit(Request::Read { offset: 0, length });
    cluster.settle(&mut image);
    let (_, outcome) = image.poll_completion().unwrap();
    let Ok(Outcome::Data(pieces)) = outcome else { panic!("a read gives data") };
    let bytes = |piece: Piece| match piece {
        Piece::Data(data) => data.to_vec(),
        Piece::Zeros(length) => vec![0; length as usize],
    };
    pieces.into_iter().flat_map(bytes).collect()
}

fn at(cluster: &mut Cluster, image: &str, snap: &str) -> Vec<u8> {
    let header = cluster.run(open_snapshot(spec(image), snap.into())).unwrap();
    contents(cluster, header)
}

fn write(cluster: &mut Cluster, image: &mut Image, offset: u64, data: Vec<u8>) {
    image.submit(Request::Write { offset, data: data.into() });
    cluster.settle(image);
    assert_eq!(image.poll_completion().unwrap().1, Ok(Outcome::Done));
}

fn take(cluster: &mut Cluster, image: &mut Image, name: &str) {
    let spec = image.header().spec.clone();
    cluster.run(take_snapshot(spec, name.into())).unwrap();
    cluster.tell(image);
}

fn names(cluster: &mut Cluster, image: &str) -> Vec<String> {
    let all = cluster.run(snapshots(spec(image))).unwrap();
    all.into_iter().map(|snapshot| snapshot.name).collect()
}

#[test]
fn a_snapshot_shows_what_the_image_was() {
    let mut cluster = Cluster::with_image("a", 3 * OBJECT);
    let mut image = cluster.open("a");
    write(&mut cluster, &mut image, 0, vec![1; 2 * OBJECT as usize]);
    take(&mut cluster, &mut image, "one");
    write(&mut cluster, &mut image, OBJECT - 1, vec![2; OBJECT as usize]);
    let one = [vec![1; 2 * OBJECT as usize], vec![0; OBJECT as usize]].concat();
    assert_eq!(at(&mut cluster, "a", "one"), one);
    // A snapshot keeps its size.
    cluster.run(resize(spec("a"), 100, true)).unwrap();
    assert_eq!(at(&mut cluster, "a", "one"), one);
    assert_eq!(names(&mut cluster, "a"), ["one"]);
    // Rollback also restores the size.
    cluster.run(roll_back(spec("a"), "one".into())).unwrap();
    let header = cluster.header("a");
    assert_eq!(contents(&mut cluster, header), one);
    cluster.run(remove_snapshot(spec("a"), "one".into())).unwrap();
    assert!(names(&mut cluster, "a").is_empty());
    assert!(cluster.names("rbd_data").iter().all(|(_, older)| *older == 0));
    let header = cluster.header("a");
    assert_eq!(contents(&mut cluster, header.clone()), one);
    assert!(!header.features.contains(Features(1 << 8)), "nothing is in the trash any more");
}

#[test]
fn a_monitor_whose_store_fails_is_asked_again() {
    let mut cluster = Cluster::with_image("a", OBJECT);
    let mut image = cluster.open("a");
    write(&mut cluster, &mut image, 0, vec![1]);
    cluster.lost_answers = vec![Errno::IO, Errno::TIMEDOUT];
    take(&mut cluster, &mut image, "one");
    write(&mut cluster, &mut image, 0, vec![2]);
    cluster.lost_answers = vec![Errno::IO; 2];
    cluster.run(remove_snapshot(spec("a"), "one".into())).unwrap();
    assert!(cluster.names("rbd_data").iter().all(|(_, older)| *older == 0));
    for (errno, attempts) in [(Errno::IO, 30), (Errno::TIMEDOUT, 3)] {
        cluster.lost_answers = vec![errno; 100];
        let failed = cluster.run(take_snapshot(spec("a"), "two".into())).unwrap_err();
        assert_eq!((failed.errno(), cluster.lost_answers.len()), (errno, 100 - attempts));
    }
}

#[test]
fn snapshots_are_not_written() {
    let mut cluster = Cluster::with_image("a", OBJECT);
    cluster.run(take_snapshot(spec("a"), "one".into())).unwrap();
    let header = cluster.run(open_snapshot(spec("a"), "one".into())).unwrap();
    assert!(Image::new(header, true).is_err());
}

#[test]
fn names_of_snapshots_are_used_once() {
    let mut cluster = Cluster::with_image("a", OBJECT);
    for name in ["one", "two"] {
        cluster.run(take_snapshot(spec("a"), name.into())).unwrap();
    }
    let again = cluster.run(take_snapshot(spec("a"), "one".into())).unwrap_err();
    assert_eq!(again.errno(), Errno::EXIST);
    let taken = rename_snapshot(spec("a"), "one".into(), "two".into());
    assert_eq!(cluster.run(taken).unwrap_err().errno(), Errno::EXIST);
    cluster.run(rename_snapshot(spec("a"), "one".into(), "three".into())).unwrap();
    assert_eq!(names(&mut cluster, "a"), ["three", "two"]);
    for bad in ["", "a@b", "a/b"] {
        assert!(cluster.run(take_snapshot(spec("a"), bad.into())).is_err());
    }
    let missing = cluster.run(remove_snapshot(spec("a"), "one".into())).unwrap_err();
    assert_eq!(missing.errno(), Errno::NOENT);
}

#[test]
fn protected_snapshots_stay() {
    let mut cluster = Cluster::with_image("a", OBJECT);
    for name in ["one", "two", "three"] {
        cluster.run(take_snapshot(spec("a"), name.into())).unwrap();
    }
    cluster.run(protect_snapshot(spec("a"), "two".into())).unwrap();
    assert!(cluster.run(protect_snapshot(spec("a"), "two".into())).is_err());
    assert!(cluster.run(remove_snapshot(spec("a"), "two".into())).is_err());
    let purged = cluster.run(purge_snapshots(spec("a"))).unwrap();
    let expected =
        Purged { removed: vec!["one".into(), "three".into()], protected: vec!["two".into()] };
    assert_eq!(purged, expected);
    assert!(cluster.run(remove(spec("a"))).is_err());
    cluster.run(unprotect_snapshot(spec("a"), "two".into(), vec![pool(1), pool(2)])).unwrap();
    cluster.run(remove_snapshot(spec("a"), "two".into())).unwrap();
    cluster.run(remove(spec("a"))).unwrap();
    assert!(cluster.names("rbd_header").is_empty() && cluster.names("rbd_data").is_empty());
}

#[test]
fn an_image_in_the_trash_is_removed_after_its_deferment() {
    let mut cluster = Cluster::with_image("a", 3 * OBJECT);
    let mut image = cluster.open("a");
    write(&mut cluster, &mut image, 0, vec![1; 2 * OBJECT as usize]);
    let id = image.header().id.clone();
    let until = types::UTime { seconds: 100, nanoseconds: 0 };
    cluster.move_to_trash("a", &id, until);
    let early = types::UTime { seconds: 99, nanoseconds: 0 };
    let refused = cluster.run(remove_from_trash(pool(1), id.clone(), early)).unwrap_err();
    assert!(refused.to_string().contains("a is to stay in the trash"), "{refused}");
    image.close();
    cluster.settle(&mut image);
    cluster.run(remove_from_trash(pool(1), id.clone(), until)).unwrap();
    assert_eq!(cluster.names("rbd_data."), []);
    assert_eq!(cluster.names("rbd_header."), []);
    let missing = cluster.run(remove_from_trash(pool(1), id, until)).unwrap_err();
    assert!(missing.to_string().contains("no image with id"), "{missing}");
}

/// Like [`Cluster::run`], with other answers to some requests.
fn run_with<T>(
    cluster: &mut Cluster,
    mut task: Task<T>,
    mut other: impl FnMut(&ClusterRequest) -> Option<ClusterResponse>,
) -> Result<T, Error> {
    while let Some((id, request)) = task.poll_request() {
        let instead = other(&request);
        if let Some(answer) = cluster.answer(request) {
            task.handle_response(id, instead.unwrap_or(answer));
        }
    }
    task.poll_outcome().expect("all requests are answered")
}

fn calls_method(request: &ClusterRequest, method: &str) -> bool {
    let ClusterRequest::Operate(operation) = request else { return false };
    let is_it = |op: &OsdOp| op.call_input().is_ok_and(|(_, name, _)| name == method);
    operation.ops.iter().any(|op| op.code == OpCode::CALL && is_it(op))
}

fn deletes_snapshot_id(request: &ClusterRequest) -> bool {
    matches!(request, ClusterRequest::Pool(request) if request.kind == PoolOpKind::DeleteUnmanagedSnap)
}

#[test]
fn the_number_of_a_snapshot_that_may_still_be_taken_is_kept() {
    let mut cluster = Cluster::with_image("a", OBJECT);
    let mut image = cluster.open("a");
    write(&mut cluster, &mut image, 0, vec![1]);
    // The snapshot was taken, but the response is lost.
    let late = run_with(&mut cluster, take_snapshot(spec("a"), "one".into()), |request| {
        assert!(!deletes_snapshot_id(request));
        calls_method(request, "snapshot_add").then_some(Err(Errno::TIMEDOUT))
    });
    assert_eq!(late.unwrap_err().errno(), Errno::TIMEDOUT);
    let mut given_up = false;
    let again = run_with(&mut cluster, take_snapshot(spec("a"), "one".into()), |request| {
        given_up |= deletes_snapshot_id(request);
        None
    });
    assert_eq!((again.unwrap_err().errno(), given_up), (Errno::EXIST, true));
}

#[test]
fn a_snapshot_whose_space_is_not_given_up_is_removed_later() {
    for by_name in [true, false] {
        let mut cluster = Cluster::with_image("a", OBJECT);
        cluster.run(take_snapshot(spec("a"), "one".into())).unwrap();
        let refused = run_with(&mut cluster, remove_snapshot(spec("a"), "one".into()), |request| {
            deletes_snapshot_id(request).then_some(Err(Errno::PERM))
        });
        assert_eq!(refused.unwrap_err().errno(), Errno::PERM);
        assert_eq!(names(&mut cluster, "a").len(), 1);
        match by_name {
            true => cluster.run(remove_snapshot(spec("a"), "one".into())).unwrap(),
            false => {
                let purged = cluster.run(purge_snapshots(spec("a"))).unwrap();
                assert_eq!(purged.removed, ["one"]);
            }
        }
        cluster.run(remove(spec("a"))).unwrap();
    }
}

fn trashed(state: TrashState) -> (Cluster, String) {
    let mut cluster = Cluster::with_image("a", OBJECT);
    let id = cluster.header("a").id;
    cluster.move_to_trash("a", &id, UTime::ZERO);
    let ops = vec![trash_set_state(&id, state, TrashState::NORMAL)];
    cluster.answer(ClusterRequest::Operate(Operation::new(pool(1).trash(), ops)));
    (cluster, id)
}

#[test]
fn an_image_that_is_being_moved_stays_in_the_trash() {
    // Moving, restoring.
    for state in [1, 3] {
        let (mut cluster, id) = trashed(TrashState(state));
        let refused = cluster.run(remove_from_trash(pool(1), id, UTime::ZERO)).unwrap_err();
        assert_eq!(refused.errno(), Errno::BUSY);
        assert_eq!(cluster.names("rbd_header.").len(), 1);
    }
    let (mut cluster, id) = trashed(TrashState::REMOVING);
    cluster.run(remove_from_trash(pool(1), id, UTime::ZERO)).unwrap();
    assert!(cluster.names("rbd_header.").is_empty());
}

#[test]
fn an_image_that_is_being_removed_cannot_be_restored() {
    let (mut cluster, id) = trashed(TrashState::NORMAL);
    let mut removes = false;
    run_with(&mut cluster, remove_from_trash(pool(1), id, UTime::ZERO), |request| {
        removes |= calls_method(request, "trash_state_set");
        let ClusterRequest::Operate(operation) = request else { return None };
        assert!(removes || operation.ops.iter().all(|op| op.code != OpCode::DELETE));
        None
    })
    .unwrap();
    assert!(removes);
}

fn watched(by: &[(i64, u64)]) -> ClusterResponse {
    let watcher = |(number, cookie): &(i64, u64)| Watcher {
        name: ParticipantName::new(EntityType::CLIENT, *number),
        cookie: *cookie,
        ..Watcher::default()
    };
    let listing = WatcherListing { entries: by.iter().map(watcher).collect() };
    let output = codec::encode_to_bytes(&listing);
    let ops = vec![OpResult::new(&OsdOp::new(OpCode::LIST_WATCHERS), 0, output)];
    Ok(Reply::Operation(OperationReply { ops, ..OperationReply::default() }))
}

#[test]
fn a_client_that_opens_the_image_during_the_lock_wait_stops_its_removal() {
    // This client only; then another client's watch with the same cookie; then another watch of this client.
    for (by, is_removed) in
        [(vec![(1, 1)], true), (vec![(1, 1), (2, 1)], false), (vec![(1, 1), (1, 7)], false)]
    {
        let mut cluster = Cluster::default();
        cluster.create(spec("a"), OBJECT, Features::DEFAULT);
        let mut is_watching = false;
        let outcome = run_with(&mut cluster, remove(spec("a")), |request| match request {
            ClusterRequest::Watch(_) => {
                is_watching = true;
                None
            }
            ClusterRequest::Operate(operation)
                if operation.ops[0].code == OpCode::LIST_WATCHERS =>
            {
                is_watching.then(|| watched(&by))
            }
            _ => None,
        });
        assert_eq!(outcome.is_ok(), is_removed, "{by:?}: {outcome:?}");
        assert_eq!(cluster.names("rbd_header.").is_empty(), is_removed);
    }
}

#[test]
fn an_image_that_is_not_there_is_told_from_a_part_that_is_missing() {
    let mut cluster = Cluster::with_image("a", OBJECT);
    let missing = cluster.run(remove(spec("b"))).unwrap_err();
    assert!(matches!(missing, Error::Missing { .. }), "{missing}");
    let missing = cluster.run(remove_from_trash(pool(1), "b".into(), UTime::ZERO)).unwrap_err();
    assert!(matches!(missing, Error::Missing { .. }), "{missing}");
    let header = cluster.header("a").place();
    cluster.objects.remove(&header);
    let damaged = cluster.run(flatten(spec("a"))).unwrap_err();
    assert!(matches!(damaged, Error::Cluster { errno: Errno::NOENT, .. }), "{damaged}");
}

#[test]
fn an_image_opened_during_creation_has_its_layout_and_its_map() {
    let mut making = create(CreateSpec {
        image: spec("a"),
        id: "a1".into(),
        size: 10 * OBJECT,
        order: 12,
        features: Features::DEFAULT,
        data_pool: None,
        striping: Some((OBJECT / 4, 3)),
    });
    let mut cluster = Cluster::default();
    let mut found = Vec::new();
    while let Some((id, request)) = making.poll_request() {
        let answer = cluster.answer(request).unwrap();
        making.handle_response(id, answer);
        if let Ok(header) = cluster.run(open(spec("a"))) {
            let map = cluster.run(object_map(header.clone())).unwrap();
            found.push((header.layout, map.is_some()));
        }
    }
    making.poll_outcome().unwrap().unwrap();
    let layout = Layout::new(12, OBJECT / 4, 3).unwrap();
    assert!(found.len() > 1 && found.iter().all(|found| *found == (layout, true)), "{found:?}");
}

#[test]
fn a_purge_of_twice_as_many_snapshots_asks_for_twice_as_much() {
    let asked = |count: usize| {
        let mut cluster = Cluster::with_image("a", OBJECT);
        for number in 0..count {
            cluster.run(take_snapshot(spec("a"), format!("s{number}"))).unwrap();
        }
        let (mut task, mut asked) = (purge_snapshots(spec("a")), 0);
        while let Some((id, request)) = task.poll_request() {
            asked += if let ClusterRequest::Operate(operation) = &request {
                operation.ops.len()
            } else {
                1
            };
            task.handle_response(id, cluster.answer(request).unwrap());
        }
        assert_eq!(task.poll_outcome().unwrap().unwrap().removed.len(), count);
        asked
    };
    assert!(asked(20) < 2 * asked(10));
}
