//! Migration of images on a cluster in memory, interrupted at every request.

use crate::calls::{MigrationState, call};
use crate::memory::{Cluster, FEATURES, OBJECT, pool, spec};
use crate::*;
use rados::{ClusterRequest, Operation, Place, PoolRequest, Reply};
use std::collections::BTreeMap;
use types::{Errno, MigrationSpec, UTime};

const SIZE: u64 = 5 * OBJECT / 2;

fn write(cluster: &mut Cluster, image: &str, offset: u64, data: Vec<u8>) {
    let mut image = cluster.open(image);
    image.submit(Request::Write { offset, data: data.into() });
    cluster.settle(&mut image);
    assert_eq!(image.poll_completion().unwrap().1.unwrap(), Outcome::Done);
    image.close();
    cluster.settle(&mut image);
}

fn contents(cluster: &mut Cluster, header: Header) -> Vec<u8> {
    let request = Request::Read { offset: 0, length: header.size };
    let mut image = Image::new(header, false).unwrap();
    image.submit(request);
    cluster.settle(&mut image);
    let Outcome::Data(pieces) = image.poll_completion().unwrap().1.unwrap() else { panic!() };
    let bytes = |piece: Piece| match piece {
        Piece::Data(data) => data.to_vec(),
        Piece::Zeros(length) => vec![0; length as usize],
    };
    pieces.into_iter().flat_map(bytes).collect()
}

/// Contents of the image and of its snapshots.
fn history(cluster: &mut Cluster, image: &str) -> Vec<Vec<u8>> {
    let mut shown = Vec::new();
    for snapshot in cluster.run(snapshots(spec(image))).unwrap() {
        let header = cluster.run(open_snapshot(spec(image), snapshot.name)).unwrap();
        shown.push(contents(cluster, header));
    }
    let header = cluster.header(image);
    shown.push(contents(cluster, header));
    shown
}

fn operate(cluster: &mut Cluster, place: Place, op: wire::OsdOp) {
    cluster.answer(ClusterRequest::Operate(Operation::new(place, vec![op]))).unwrap().unwrap();
}

/// "a" with two snapshots, prepared for migration to "b" as librbd does it.
fn prepared() -> Cluster {
    let mut cluster = Cluster::with_image("a", SIZE);
    cluster.create(spec("b"), SIZE, FEATURES.with(Features::MIGRATING));
    write(&mut cluster, "a", 0, vec![1; OBJECT as usize]);
    let mut sequences = BTreeMap::new();
    for (name, offset) in [("s", OBJECT / 2), ("t", OBJECT * 2)] {
        cluster.run(take_snapshot(spec("a"), name.into())).unwrap();
        let source = cluster.run(snapshots(spec("a"))).unwrap().pop().unwrap().id;
        let request = ClusterRequest::Pool(PoolRequest::take_snapshot(pool(1).id));
        let Some(Ok(Reply::Pool { snap: Some(target), .. })) = cluster.answer(request) else {
            panic!()
        };
        operate(&mut cluster, pool(1).header("b1"), calls::add_snapshot(name, target));
        sequences.insert(source.0, target.0);
        write(&mut cluster, "a", offset, name.as_bytes().to_vec());
    }
    for (image, other, header_type) in [("a", "b", 1), ("b", "a", MigrationSpec::DESTINATION)] {
        let place = pool(1).header(&format!("{image}1"));
        let migration = MigrationSpec {
            header_type,
            pool: 1,
            namespace: "".into(),
            image_name: other.into(),
            image: format!("{other}1").into(),
            sequences: sequences.clone(),
            overlap: 0,
            flatten: false,
            mirroring: false,
            state: MigrationState::PREPARED.0,
            state_description: "".into(),
            mirror_mode: 0,
            source: "".into(),
        };
        operate(&mut cluster, place, call("migration_set", &migration));
    }
    cluster.move_to_trash_because("a", "a1", UTime::ZERO, 2);
    cluster
}

fn task(image: &str, action: Migration) -> Task<()> {
    migrate(spec(image), action, vec![pool(1)])
}

/// Answers this many requests, then drops the task.
fn interrupt(cluster: &mut Cluster, action: Migration, mut questions: usize) -> bool {
    let mut task = task("b", action);
    while let Some((id, request)) = task.poll_request() {
        if questions == 0 {
            return true;
        }
        questions -= 1;
        if let Some(answer) = cluster.answer(request) {
            task.handle_response(id, answer);
        }
    }
    false
}

fn expected() -> Vec<Vec<u8>> {
    let mut image = vec![0; SIZE as usize];
    image[..OBJECT as usize].fill(1);
    let mut all = vec![image.clone()];
    for (name, offset) in [("s", OBJECT / 2), ("t", OBJECT * 2)] {
        image[offset as usize] = name.as_bytes()[0];
        all.push(image.clone());
    }
    all
}

#[test]
fn a_migration_that_is_interrupted_anywhere_is_gone_on_with() {
    for questions in 0.. {
        let mut cluster = prepared();
        let mut is_interrupted = false;
        for action in [Migration::Execute, Migration::Commit] {
            is_interrupted |= interrupt(&mut cluster, action, questions);
            match cluster.run(task("b", action)) {
                // The earlier attempt had completed.
                Err(error) if action == Migration::Commit => {
                    assert!(error.to_string().contains("not being migrated"), "{error}");
                }
                outcome => outcome.unwrap(),
            }
        }
        assert_eq!(history(&mut cluster, "b"), expected(), "after {questions}");
        assert_eq!(cluster.names("rbd_header."), [("rbd_header.b1".to_owned(), 0)]);
        assert!(cluster.names("rbd_data.a").is_empty());
        if !is_interrupted {
            return;
        }
    }
}

#[test]
fn undoing_it_gives_the_source_its_name_back() {
    for questions in 0.. {
        let mut cluster = prepared();
        cluster.run(task("a", Migration::Execute)).unwrap();
        let is_interrupted = interrupt(&mut cluster, Migration::Abort, questions);
        for name in ["b", "a"] {
            let _ = cluster.run(task(name, Migration::Abort));
        }
        assert_eq!(history(&mut cluster, "a"), expected(), "after {questions}");
        assert!(cluster.names("rbd_data.b").is_empty());
        assert_eq!(cluster.run(list(pool(1))).unwrap(), ["a"]);
        if !is_interrupted {
            return;
        }
    }
}

#[test]
fn an_unprepared_migration_is_refused() {
    let mut cluster = prepared();
    assert!(cluster.run(task("b", Migration::Commit)).is_err());
    let error = cluster.run(task("c", Migration::Execute)).unwrap_err();
    assert_eq!(error.errno(), Errno::NOENT);
    cluster.create(spec("c"), SIZE, FEATURES);
    let error = cluster.run(task("c", Migration::Execute)).unwrap_err();
    assert!(error.to_string().contains("not being migrated"), "{error}");
}
