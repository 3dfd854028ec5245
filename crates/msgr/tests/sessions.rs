//! Sessions under cuts, races, restarts and silence.

mod pair;

use engine::{Duration, Policy};
use msgr::CloseReason;
use pair::{World, message};
use proptest::prelude::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Runs until no timer is due within a minute and both ends have received all of their messages.
fn settle(world: &mut World, expected: [usize; 2]) {
    world.run();
    for _ in 0..200 {
        if [0, 1].map(|host| world.hosts[host].received.len()) == expected {
            return;
        }
        world.advance(MINUTE);
    }
    let received = [0, 1].map(|host| world.hosts[host].received.len());
    panic!("{received:?} of {expected:?} messages arrived; {:?}", world.hosts[0].closed);
}

fn accepted(world: &World) -> u64 {
    *world.hosts[1].sessions.keys().last().expect("host 1 accepted a session")
}

#[test]
fn a_peer_cannot_turn_encryption_off() {
    const MODE_CRC: u32 = 1;
    let mut world = World::new(1, Policy::Lossy, true);
    world.chosen_mode = Some(MODE_CRC);
    world.connect(0, Policy::Lossy);
    world.run();
    assert_eq!(world.hosts[0].closed, [CloseReason::ModeNotOffered(MODE_CRC)]);
    assert_eq!(world.hosts[0].opened, 0);
}

#[test]
fn a_session_opens_and_carries_messages_both_ways_in_both_modes() {
    for secure in [false, true] {
        for policy in [Policy::Lossy, Policy::Lossless] {
            let mut world = World::new(1, policy, secure);
            let client = world.connect(0, policy);
            world.session(0, client).send(message(1, 10)).unwrap();
            world.run();
            assert_eq!((world.hosts[0].opened, world.hosts[1].opened), (1, 1));
            let server = accepted(&world);
            (2..100).for_each(|tid| {
                world.session(0, client).send(message(tid, 3 << (tid % 19))).unwrap();
                world.session(1, server).send(message(tid, 100)).unwrap();
            });
            world.run();
            assert!(world.hosts[1].received.iter().copied().eq(1..100));
            assert!(world.hosts[0].received.iter().copied().eq(2..100));
            let peer = &world.hosts[1].opened_peers[0];
            assert_eq!((peer.name.to_string(), &peer.caps[..]), ("osd.0".into(), &b"caps"[..]));
            assert_eq!(peer.features, types::features::SUPPORTED);
        }
    }
}

#[test]
fn acknowledgements_empty_the_queue_of_a_lossless_session() {
    let mut world = World::new(1, Policy::Lossless, false);
    let client = world.connect(0, Policy::Lossless);
    (0..10).for_each(|tid| world.session(0, client).send(message(tid, 10)).unwrap());
    world.run();
    assert!(world.session(0, client).queued_bytes() > 0);
    assert!(world.advance(Duration::from_millis(100)), "the acknowledgement is due");
    assert_eq!(world.session(0, client).queued_bytes(), 0);
}

#[test]
fn a_lossy_session_ends_with_its_connection() {
    let mut world = World::new(1, Policy::Lossy, false);
    let client = world.connect(0, Policy::Lossy);
    world.run();
    world.cut();
    world.run();
    assert_eq!(world.hosts[0].closed, [CloseReason::ConnectionLost]);
    assert_eq!(world.hosts[1].closed, [CloseReason::ConnectionLost]);
    assert!(!world.hosts[0].sessions.contains_key(&client));
}

#[test]
fn a_silent_peer_is_asked_and_then_given_up() {
    let mut world = World::new(1, Policy::Lossy, false);
    world.connect(0, Policy::Lossy);
    world.run();
    for _ in 0..6 {
        assert!(world.advance(MINUTE), "keepalives go back and forth");
    }
    assert!(world.hosts[0].closed.is_empty());
    world.linked = false;
    while world.advance(2 * MINUTE) {}
    assert_eq!(world.hosts[0].closed, [CloseReason::Silent]);
}

#[test]
fn an_accepted_connection_that_nobody_uses_is_dropped() {
    let mut world = World::new(1, Policy::Lossy, false);
    world.connect(0, Policy::Lossy);
    world.run();
    world.hosts[0].sessions.clear();
    while world.advance(60 * MINUTE) {}
    assert_eq!(world.hosts[1].closed, [CloseReason::Idle]);
}

#[test]
fn a_handshake_that_stalls_is_given_up() {
    let mut world = World::new(1, Policy::Lossy, false);
    world.linked = false;
    world.connect(0, Policy::Lossy);
    world.run();
    while world.advance(MINUTE) {}
    assert_eq!(world.hosts[0].closed, [CloseReason::HandshakeTimeout]);
    assert!(world.hosts[1].sessions.is_empty());
}

#[test]
fn a_peer_that_lost_its_memory_ends_the_session() {
    let mut world = World::new(1, Policy::Lossless, false);
    let client = world.connect(0, Policy::Lossless);
    world.run();
    world.hosts[1].sessions.clear();
    world.cut();
    world.run();
    assert_eq!(world.hosts[0].closed, [CloseReason::Forgotten]);
    assert!(!world.hosts[0].sessions.contains_key(&client));
}

#[test]
fn a_peer_that_started_anew_replaces_its_session() {
    let mut world = World::new(1, Policy::Lossless, false);
    world.connect(0, Policy::Lossless);
    world.run();
    world.cut();
    world.hosts[0].sessions.clear();
    world.now = world.now + MINUTE;
    let again = world.connect(0, Policy::Lossless);
    world.session(0, again).send(message(7, 0)).unwrap();
    world.run();
    assert_eq!(world.hosts[1].closed, [CloseReason::Replaced]);
    assert_eq!((world.hosts[1].opened, &world.hosts[1].received[..]), (2, &[7][..]));
}

#[test]
fn an_accepted_session_does_not_wait_for_ever() {
    let mut world = World::new(1, Policy::Lossless, false);
    world.connect(0, Policy::Lossless);
    world.run();
    world.cut();
    world.hosts[0].sessions.clear();
    while world.advance(60 * MINUTE) {}
    assert_eq!(world.hosts[1].closed, [CloseReason::StandbyTimeout]);
}

#[test]
fn two_ends_that_connect_at_once_share_one_session() {
    for seed in 0..50 {
        let mut world = World::new(seed, Policy::Lossless, false);
        let ids = [world.connect(0, Policy::Lossless), world.connect(1, Policy::Lossless)];
        for (host, id) in ids.into_iter().enumerate() {
            (0..5).for_each(|tid| world.session(host, id).send(message(tid, 10)).unwrap());
        }
        settle(&mut world, [5, 5]);
        for host in &world.hosts {
            assert_eq!((host.opened, host.sessions.len()), (1, 1), "seed {seed}");
            // The connection that lost the race never became a session.
            assert!(host.closed.iter().all(|reason| *reason == CloseReason::ConnectionLost));
        }
    }
}

#[test]
fn a_full_queue_closes_the_session() {
    let mut world = World::new(1, Policy::Lossy, false);
    let mut config = (*world.hosts[0].config).clone();
    config.queued_bytes_max = 10_000;
    world.hosts[0].config = config.into();
    let client = world.connect(0, Policy::Lossy);
    let sent = (0..).take_while(|tid| world.session(0, client).send(message(*tid, 1000)).is_ok());
    assert_eq!(sent.count(), 8);
    world.run();
    assert_eq!(world.hosts[0].closed, [CloseReason::QueueFull { limit: 10_000 }]);
}

#[test]
fn what_a_lossless_peer_is_owed_has_a_bound_of_its_own() {
    let mut world = World::new(1, Policy::Lossless, false);
    let mut config = (*world.hosts[0].config).clone();
    (config.queued_bytes_max, config.retained_bytes_max) = (10_000, 20_000);
    world.hosts[0].config = config.into();
    let client = world.connect(0, Policy::Lossless);
    let sent = (0..).take_while(|tid| world.session(0, client).send(message(*tid, 1000)).is_ok());
    assert_eq!(sent.count(), 17);
    world.run();
    assert_eq!(world.hosts[0].closed, [CloseReason::QueueFull { limit: 20_000 }]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn lossless_delivers_exactly_once_in_order_across_cuts(
        seed: u64,
        secure: bool,
        both_connect: bool,
        steps in prop::collection::vec(0..6u8, 1..60),
    ) {
        let mut world = World::new(seed, Policy::Lossless, secure);
        let mut ids = [Some(world.connect(0, Policy::Lossless)), None];
        if both_connect {
            ids[1] = Some(world.connect(1, Policy::Lossless));
        }
        let mut sent = [0, 0];
        for step in steps {
            match step {
                0 => {
                    world.cut();
                }
                1 => {
                    world.advance(MINUTE);
                }
                2 => world.linked = !world.linked,
                3 => world.run(),
                _ => {
                    let host = usize::from(step == 4);
                    if host == 1 && ids[1].is_none() && world.hosts[1].opened > 0 {
                        ids[1] = world.hosts[1].sessions.keys().next().copied();
                    }
                    for _ in 0..3 {
                        if let Some(id) = ids[host] {
                            let length = world.prng.below(9_000) as usize;
                            world.session(host, id).send(message(sent[host], length)).unwrap();
                            sent[host] += 1;
                        }
                    }
                    world.run();
                }
            }
        }
        world.linked = true;
        world.run();
        settle(&mut world, [sent[1] as usize, sent[0] as usize]);
        while world.advance(Duration::from_secs(1)) {}
        for host in 0..2 {
            prop_assert!(world.hosts[host].received.iter().copied().eq(0..sent[1 - host]));
            prop_assert!(world.hosts[host].opened <= 1);
            let only_handshakes = world.hosts[host].closed.iter().all(|reason| {
                matches!(
                    reason,
                    CloseReason::ConnectionLost | CloseReason::HandshakeTimeout | CloseReason::Stale
                )
            });
            prop_assert!(only_handshakes, "{:?}", world.hosts[host].closed);
        }
    }

    #[test]
    fn lossy_reports_its_end(seed: u64, secure: bool, turns in 1..12usize) {
        let mut world = World::new(seed, Policy::Lossy, secure);
        let client = world.connect(0, Policy::Lossy);
        (0..50).for_each(|tid| world.session(0, client).send(message(tid, 3000)).unwrap());
        world.run_turns(turns);
        world.cut();
        world.run();
        prop_assert_eq!(world.hosts[0].closed.len(), 1);
        prop_assert!(world.hosts.iter().all(|host| host.sessions.is_empty()));
        let received = &world.hosts[1].received;
        prop_assert!(received.iter().copied().eq(0..received.len() as u64));
    }
}
