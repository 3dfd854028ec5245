//! Any requests of three clients with crashes in between, beside the same requests without a crash.

use super::*;
use proptest::prelude::*;

fn rename(from: &str, to: &str) -> ClientRequest {
    let path2 = FilePath::new(1, Bytes::copy_from_slice(from.as_bytes()));
    ClientRequest { path2, ..request(ClientOp::RENAME, to) }
}

fn rename_snapshot(from: &str, to: &str) -> ClientRequest {
    ClientRequest { op: ClientOp::RENAMESNAP, ..rename(from, to) }
}

#[derive(Debug, Clone)]
enum Step {
    /// A client that waits for nothing sends a request.
    Ask(u64, u8, u8, u8),
    /// A client acts and then sends a request, also while it waits for others that it has sent so.
    Act(u64, bool, u8),
    Answer(usize),
    /// A client drops what it has of removed files.
    Release(u64),
    /// 31 s pass, so a checkpoint begins if none runs.
    Wait,
    /// Bits: what is stored of what is in flight, and, the highest ones, of which clients the last reply is
    /// lost. Then how many requests of the opening are answered before the successor crashes, too.
    Crash(u64, Option<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1u64..4, 0u8..13, 0u8..4, 0u8..4).prop_map(|(c, op, a, b)| Step::Ask(c, op, a, b)),
        6 => (1u64..4, any::<bool>(), 0u8..4).prop_map(|(c, makes, a)| Step::Act(c, makes, a)),
        12 => any::<usize>().prop_map(Step::Answer),
        3 => (1u64..4).prop_map(Step::Release),
        2 => Just(Step::Wait),
        1 => (any::<u64>(), prop::option::of(0u8..20)).prop_map(|(bits, n)| Step::Crash(bits, n)),
    ]
}

/// A request of a client below its own directory.
fn request_of(client: u64, op: u8, a: u8, b: u8) -> ClientRequest {
    let one = format!("c{client}/{a}");
    match op {
        0 => mkdir(&one),
        1 => create(&format!("{one}/{b}")),
        2 => request(ClientOp::UNLINK, &format!("{one}/{b}")),
        3 => request(ClientOp::RMDIR, &one),
        4 => rename(&one, &format!("c{client}/{b}/x")),
        // Few names, so that most removals find a file.
        5 => create(&format!("c{client}/f{}", a % 2)),
        6 => request(ClientOp::UNLINK, &format!("c{client}/f{}", a % 2)),
        8 => resize(&format!("c{client}/f{}", a % 2), LONG),
        10 => request(ClientOp::MKSNAP, &format!("c{client}//s{a}")),
        11 => request(ClientOp::RMSNAP, &format!("c{client}//s{a}")),
        12 => rename_snapshot(&format!("c{client}//s{a}"), &format!("c{client}//s{b}")),
        9 => resize(&format!("c{client}/f{}", a % 2), u64::from(b) << 21 | 1),
        _ => rename(&format!("c{client}/f{}", a % 2), &format!("c{client}/f{}", b % 2)),
    }
}

fn check(steps: &[Step]) {
    let clients = [1, 2, 3];
    let mut world = World::asynchronous(&clients);
    world.fills = true;
    // The same requests without a crash, each executed when it is first sent.
    let mut plain = World::new(&clients);
    for client in clients {
        for world in [&mut world, &mut plain] {
            world.ask(client, mkdir(&format!("c{client}")));
            world.finish();
        }
    }
    let mut made = BTreeSet::new();
    for step in steps {
        match step {
            // As Linux, which knows what is in a directory that it has alone, a client creates only a name
            // that is not there, and unlinks one that is.
            Step::Act(client, makes, a)
                if world.clients[client].asked.is_none()
                    && *makes != made.contains(&(*client, *a)) =>
            {
                let name = format!("c{client}/g{a}");
                let request =
                    if *makes { create_new(&name) } else { request(ClientOp::UNLINK, &name) };
                plain.tid = world.tid;
                if world.ask_asynchronously(*client, request.clone()) {
                    match makes {
                        true => made.insert((*client, *a)),
                        false => made.remove(&(*client, *a)),
                    };
                    plain.ask(*client, request);
                    plain.finish();
                }
            }
            Step::Act(..) => {}
            Step::Ask(client, op, a, b) if world.clients[client].asked.is_none() => {
                let request = request_of(*client, *op, *a, *b);
                plain.tid = world.tid;
                plain.ask(*client, request.clone());
                plain.finish();
                world.ask(*client, request);
            }
            Step::Ask(..) => {}
            Step::Answer(which) => {
                world.now = world.now + Duration::from_millis(3);
                world.answer(*which);
            }
            Step::Release(client) => world.release(*client),
            Step::Wait => {
                world.now = world.now + Duration::from_secs(31);
                world.pump();
            }
            Step::Crash(stored, again) => {
                for client in clients.into_iter().filter(|client| stored >> (64 - client) & 1 != 0)
                {
                    let state = world.clients.get_mut(&client).expect("it has a session");
                    state.lose_last_reply();
                }
                world.crash(*stored);
                for _ in 0..again.unwrap_or(0) {
                    world.answer(0);
                }
                if again.is_some() {
                    world.crash(*stored);
                }
                world.finish();
                world.reconnect();
                world.check_numbers();
            }
        }
    }
    world.finish();
    world.crash(0);
    world.finish();
    world.reconnect();
    world.finish();
    world.check_data(false);
    clients.into_iter().for_each(|client| world.release(client));
    world.finish();
    world.check_data(true);
    world.check_cuts();
    assert_eq!(fsck::scrub(&mut world, false), [] as [String; 0]);
    let names = |world: &mut World| world.paths().into_keys().collect::<Vec<_>>();
    assert_eq!(names(&mut world), names(&mut plain));
    assert_eq!(world.snapshots(), plain.snapshots());
    assert_eq!(&world.removed_snapshots(), &plain.removed_snapshots());
    for client in clients {
        let state = &world.clients[&client];
        let waits = state.asked.is_some() || !state.sent.is_empty();
        assert!(!waits, "client {client} has its answers");
        // Answers to asynchronous requests may come in another order.
        let sorted = |world: &World| {
            let mut answers = world.clients[&client].answers.clone();
            answers.sort_unstable();
            answers
        };
        assert_eq!(sorted(&world), sorted(&plain));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn crashes_are_not_seen_in_answers_and_names(steps in prop::collection::vec(step(), 1..120)) {
        check(&steps);
    }
}

/// The first frame has the file and would have room for the snapshot alone.
#[test]
fn a_snapshot_is_stored_with_the_note_that_its_request_is_completed() {
    let asked = [Step::Ask(3, 5, 0, 0), Step::Ask(3, 7, 0, 0), Step::Ask(3, 10, 0, 0)];
    check(&[&asked[..], &[Step::Answer(0), Step::Crash(0, None)]].concat());
}
