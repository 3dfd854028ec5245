//! Clients that are shut out.

use super::*;

#[test]
fn a_client_that_does_not_come_back_is_blocklisted_before_its_session_ends() {
    let mut world = World::new(&[1, 2]);
    world.crash(0);
    world.finish();
    let now = world.now;
    reconnect::begin(world.rank(), now);
    world.send(1, &ClientReconnect::default().encode(0));
    assert_eq!(evictions::next(world.rank(), now + Duration::from_secs(59)), None);
    let late = now + Duration::from_secs(60);
    let (client, addrs) = evictions::next(world.rank(), late).unwrap();
    assert_eq!(client, 2);
    assert!(!reconnect::is_reconnected(world.rank(), late));
    world.store.evict(client, &addrs);
    world.finish();
    assert!(world.commands[0].contains("10.0.0.2:0/77"), "{:?}", world.commands);
    assert!(reconnect::is_reconnected(world.rank(), late));
    assert_eq!(world.clients[&2].sessions.last(), Some(&SessionOp::CLOSE));
}

#[test]
fn a_client_is_not_late_while_the_server_could_not_hear_it() {
    let mut world = World::new(&[1, 2]);
    world.crash(0);
    world.finish();
    let now = world.now;
    let after = |seconds| now + Duration::from_secs(seconds);
    reconnect::begin(world.rank(), now);
    world.send(1, &ClientReconnect::default().encode(0));
    for (seconds, has_lease) in [(30, true), (31, false), (100, true)] {
        reconnect::note_lease(world.rank(), after(seconds), has_lease);
    }
    let next = |world: &mut World, seconds| {
        evictions::next(world.rank(), after(seconds)).map(|(client, _)| client)
    };
    assert_eq!(next(&mut world, 129), None);
    assert_eq!(reconnect::poll_timeout(world.rank()), Some(after(130)));
    assert_eq!(next(&mut world, 130), Some(2));
}

#[test]
fn an_eviction_outlives_a_monitor_that_cannot_answer() {
    let mut world = World::new(&[1, 2]);
    // The last one of a monitor whose blocklist is full.
    let results = [Errno::AGAIN, Errno::INVAL, Errno::DQUOT].map(|error| Ok(error.negative()));
    world.results = [Err(Errno::TIMEDOUT)].into_iter().chain(results).collect();
    world.store.evict(1, &addrs(1));
    for asked in 1..5 {
        world.finish();
        assert_eq!(world.commands.len(), asked, "it is asked again after a pause");
        assert_eq!(world.elapse(), 1);
    }
    world.finish();
    assert_eq!(world.commands.len(), 5);
    assert_eq!(world.clients[&1].sessions.last(), Some(&SessionOp::CLOSE));
    world.results = [Ok(Errno::ACCES.negative())].into();
    world.store.evict(2, &addrs(2));
    world.pump();
    let failure = world.reason();
    assert!(failure.contains("client 2") && failure.contains("EACCES"), "{failure}");
    assert_eq!(world.clients[&2].sessions.last(), Some(&SessionOp::OPEN));
}

#[test]
fn an_eviction_passes_over_addresses_that_cannot_be_listed() {
    let mut world = World::new(&[1]);
    let mut claimed = addrs(1);
    let bare = types::EntityAddr { socket: None, ..claimed.0[0] };
    let host = types::EntityAddr { nonce: 0, ..claimed.0[0] };
    claimed.0.extend([bare, host]);
    world.store.evict(1, &claimed);
    world.finish();
    assert_eq!(world.commands.len(), 1, "{:?}", world.commands);
}

#[test]
fn an_eviction_that_takes_long_does_not_end_the_next_session_of_its_client() {
    let mut world = World::new(&[1]);
    world.results = [Err(Errno::TIMEDOUT)].into();
    // The eviction was of a session from another address, which has ended meanwhile.
    world.store.evict(1, &addrs(9));
    world.finish();
    world.elapse();
    world.finish();
    assert_eq!(world.commands.len(), 2);
    assert_eq!(world.clients[&1].sessions.last(), Some(&SessionOp::OPEN));
}

#[test]
fn a_client_may_be_silent_for_as_long_as_the_map_says() {
    let mut world = World::new(&[1, 2]);
    let minutes = |count: u64| Duration::from_secs(60 * count);
    world.rank().set_session_times(minutes(5), minutes(10));
    world.ask(1, create("f"));
    world.finish();
    world.clients.get_mut(&1).unwrap().is_silent = true;
    let arguments =
        RequestArguments::of(&GetattrArguments { mask: CapBits::PIN | CapBits::ANY_SHARED });
    world.ask(2, ClientRequest { arguments, ..request(ClientOp::GETATTR, "f") });
    world.finish();
    let renewal = ClientSession::new(SessionOp::REQUEST_RENEWCAPS, 1).encode(0);
    for second in 1..=300 {
        let now = world.now;
        assert_eq!(evictions::next(world.rank(), now), None, "in second {second}");
        world.now = now + Duration::from_secs(1);
        world.send(2, &renewal);
        let now = world.now;
        world.rank().handle_timeout(now);
    }
    let now = world.now;
    assert_eq!(evictions::next(world.rank(), now).map(|(client, _)| client), Some(1));
}

#[test]
fn a_silent_client_is_blocklisted_before_another_one_gets_its_file() {
    let mut world = World::new(&[1, 2]);
    world.ask(1, create("f"));
    world.finish();
    world.clients.get_mut(&1).unwrap().is_silent = true;
    let mask = CapBits::PIN | CapBits::ANY_SHARED;
    let arguments = RequestArguments::of(&GetattrArguments { mask });
    let tid = world.ask(2, ClientRequest { arguments, ..request(ClientOp::GETATTR, "f") });
    world.finish();
    let renewal = ClientSession::new(SessionOp::REQUEST_RENEWCAPS, 1).encode(0);
    for _ in 0..61 {
        assert!(world.commands.is_empty(), "a session lasts a minute without a renewal");
        world.now = world.now + Duration::from_secs(1);
        world.send(2, &renewal);
        let now = world.now;
        world.rank().handle_timeout(now);
    }
    let now = world.now;
    let (client, addrs) = evictions::next(world.rank(), now).unwrap();
    assert_eq!(client, 1);
    assert!(world.clients[&2].asked.is_some(), "it waits for the blocklist");
    world.store.evict(client, &addrs);
    world.finish();
    assert!(world.commands[0].contains("10.0.0.1:0/77"), "{:?}", world.commands);
    assert_eq!(world.clients[&1].sessions.last(), Some(&SessionOp::CLOSE));
    assert_eq!(world.clients[&2].answers, [(tid, 0)]);
    assert_eq!(evictions::next(world.rank(), now), None);
    let file = Ino(world.paths()["/f"]);
    let ranges = |world: &mut World| world.rank().tree().get(file).unwrap().write_ranges.len();
    assert_eq!(ranges(&mut world), 1, "what the evicted client may have written is known");
    world.crash(0);
    world.finish();
    world.reconnect();
    assert_eq!(ranges(&mut world), 1);
}

fn look_at(path: &str) -> ClientRequest {
    let mask = CapBits::PIN | CapBits::ANY_SHARED;
    let arguments = RequestArguments::of(&GetattrArguments { mask });
    ClientRequest { arguments, ..request(ClientOp::GETATTR, path) }
}

#[test]
fn a_writer_whose_connection_is_lost_is_blocklisted_before_another_one_gets_its_file() {
    let mut world = World::new(&[1, 2]);
    world.ask(1, create("f"));
    world.finish();
    reconnect::connected_anew(world.rank(), &peer(1));
    world.finish();
    let tid = world.ask(2, look_at("f"));
    world.finish();
    assert!(world.clients[&2].answers.is_empty(), "writes of the first may be on their way");
    world.ask(1, mkdir("late"));
    world.finish();
    assert_eq!(world.clients[&1].sessions, [SessionOp::OPEN]);
    assert_eq!(world.evict(), 1);
    assert!(world.commands[0].contains("10.0.0.1:0/77"), "{:?}", world.commands);
    assert_eq!(world.clients[&1].sessions.last(), Some(&SessionOp::CLOSE));
    assert_eq!(world.clients[&2].answers, [(tid, 0)]);
    assert_eq!(world.clients[&2].answered_at, NEWEST_MAP.0, "it knows the map before the file");
    assert_eq!(world.paths().into_keys().collect::<Vec<_>>(), ["/f"]);
}

#[test]
fn a_client_without_data_to_write_opens_a_new_session_when_its_connection_is_lost() {
    let mut world = World::new(&[1]);
    world.ask(1, mkdir("a"));
    world.finish();
    reconnect::connected_anew(world.rank(), &peer(1));
    world.finish();
    assert_eq!(world.clients[&1].sessions.last(), Some(&SessionOp::CLOSE));
    let now = world.now;
    assert_eq!(evictions::next(world.rank(), now), None);
}

#[test]
fn a_client_is_evicted_when_an_administrator_asks_for_it() {
    let mut world = World::new(&[1, 2]);
    assert!(evictions::order(world.rank(), &[2, 77]), "a client without a session is passed over");
    assert!(evictions::is_pending(world.rank(), 2));
    assert_eq!(world.evict(), 2);
    world.finish();
    assert!(!evictions::is_pending(world.rank(), 2));
    assert!(world.commands[0].contains("10.0.0.2:0/77"), "{:?}", world.commands);
    assert_eq!(world.clients[&2].sessions.last(), Some(&SessionOp::CLOSE));
    let now = world.now;
    assert_eq!(evictions::next(world.rank(), now), None);
}
