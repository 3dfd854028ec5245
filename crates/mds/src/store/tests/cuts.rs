//! Data of files that were cut.

use super::*;
use proptest::prelude::*;

/// A file of three objects with data, which client 1 has made.
fn long_file() -> (World, u64) {
    let mut world = World::new(&[1, 2]);
    world.ask(1, create("f"));
    world.finish();
    let ino = world.paths()["/f"];
    world.ask(1, resize("f", LONG));
    world.finish();
    for object in 0..3 {
        let length = (LONG - object * OBJECT).min(OBJECT);
        world.pool.fill(&data_name(ino, object), length, (1, OBJECT));
    }
    (world, ino)
}

fn lengths(world: &World, ino: u64) -> Vec<u64> {
    let object = |object| &world.pool.data[&data_name(ino, object)];
    (0..3).map(|at| object(at).fills.iter().map(|(_, length)| *length).max().unwrap_or(0)).collect()
}

#[test]
fn objects_of_a_file_that_was_cut_are_cut() {
    let (mut world, ino) = long_file();
    world.ask(1, resize("f", 5 << 20));
    world.finish();
    assert_eq!(lengths(&world, ino), [4 << 20, 1 << 20, 0]);
    assert_eq!(world.rank().tree().pending_cuts(), []);
}

#[test]
fn a_file_is_cut_again_only_when_its_objects_are_cut() {
    let (mut world, ino) = long_file();
    world.pool.fixed.insert(data_name(ino, 1));
    let first = world.ask(1, resize("f", 1 << 20));
    world.finish();
    assert_eq!(world.clients[&1].answers.last(), Some(&(first, 0)), "it waits for no object");
    world.ask(1, resize("f", LONG));
    world.finish();
    let again = world.ask(1, resize("f", 7 << 20));
    world.finish();
    assert_ne!(world.clients[&1].answers.last(), Some(&(again, 0)));
    // A successor goes on with it, and the client sends its request again.
    world.crash(0);
    world.finish();
    world.reconnect();
    world.finish();
    assert!(world.clients[&1].asked.is_some());
    world.pool.fixed.clear();
    world.now = world.now + Duration::from_secs(10);
    world.finish();
    assert_eq!(world.clients[&1].answers.last(), Some(&(again, 0)));
    assert_eq!(lengths(&world, ino), [1 << 20, 0, 0]);
}

#[test]
fn a_request_that_waits_for_a_cut_learns_that_the_file_is_gone() {
    let (mut world, ino) = long_file();
    world.pool.fixed.insert(data_name(ino, 0));
    for size in [5, LONG] {
        world.ask(1, resize("f", size));
        world.finish();
    }
    let waits = world.ask(2, resize("f", 6));
    world.finish();
    assert!(world.clients[&2].answers.is_empty());
    world.ask(1, request(ClientOp::UNLINK, "f"));
    world.finish();
    world.release(1);
    world.release(2);
    world.finish();
    assert_eq!(world.clients[&2].answers, [(waits, Errno::NOENT.negative())]);
}

#[derive(Debug, Clone)]
enum Step {
    /// The client sets a size, if it waits for nothing.
    Resize(u64),
    /// The pool answers one request.
    Answer(usize),
    /// Bits: what is stored of what is in flight.
    Crash(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let sizes = prop::sample::select(vec![1, 3 << 20, 5 << 20, 7 << 20, LONG, LONG, LONG, LONG]);
    prop_oneof![
        6 => sizes.prop_map(Step::Resize),
        20 => any::<usize>().prop_map(Step::Answer),
        1 => any::<u64>().prop_map(Step::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_file_shows_no_data_from_before_a_cut(steps in prop::collection::vec(step(), 1..150)) {
        let (mut world, _) = long_file();
        world.fills = true;
        for step in steps {
            match step {
                Step::Resize(size) if world.clients[&1].asked.is_none() => {
                    world.ask(1, resize("f", size));
                }
                Step::Resize(_) => {}
                Step::Answer(which) => world.answer(which),
                Step::Crash(stored) => {
                    world.crash(stored);
                    world.finish();
                    world.reconnect();
                }
            }
        }
        world.finish();
        world.check_cuts();
        prop_assert!(world.clients[&1].asked.is_none());
        prop_assert!(world.rank().tree().pending_cuts().is_empty());
    }
}
