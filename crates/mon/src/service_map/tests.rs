//! Tests of the service map: registration, beacons, reports, and their bounds.

use super::*;

fn at(seconds: u64) -> Time {
    Time(seconds * 1_000_000_000)
}

fn texts(pairs: &[(&str, &str)]) -> Texts {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn client(conn: u64, entity: &str, global_id: u64) -> Registrant {
    let addr = format!("127.0.0.1:0/{global_id}");
    Registrant { conn: ConnId(conn), entity: entity.parse().unwrap(), global_id, addr }
}

fn gateway(name: &str) -> Key {
    ("rgw".to_owned(), name.to_owned())
}

fn said(metadata: &[(&str, &str)]) -> ServiceDaemon {
    ServiceDaemon { metadata: texts(metadata), status: Texts::new() }
}

/// Names with the global ids of their clients.
fn daemons(map: &ServiceMap) -> Vec<(&str, u64)> {
    let services = map.services();
    let all = services.values().flatten();
    all.map(|(name, daemon)| (*name, daemon.registrant.global_id)).collect()
}

#[test]
fn a_daemon_is_in_the_map_until_it_goes() {
    let mut map = ServiceMap::new(at(1));
    let who = client(1, "client.rgw", 70);
    map.register(at(2), who.clone(), gateway("a"), said(&[("zone_id", "z")])).unwrap();
    assert_eq!((map.epoch(), map.modified()), (2, at(2).wall()));
    map.report(at(3), who.conn, Some(texts(&[("load", "low")])), None).unwrap();
    map.report(at(4), who.conn, None, None).unwrap();
    assert_eq!(map.epoch(), 2, "a status is not in the map");
    let daemon = map.services()["rgw"]["a"].clone();
    assert_eq!((daemon.start_epoch, daemon.start_stamp), (2, at(2).wall()));
    assert_eq!(daemon.status, texts(&[("load", "low")]));
    assert_eq!((daemon.status_stamp, daemon.last_beacon), (Some(at(3).wall()), at(4)));
    map.report(at(5), who.conn, None, Some(texts(&[("scrub", "idle")]))).unwrap();
    assert_eq!(map.epoch(), 3);
    map.unregister(at(6), who.conn);
    assert_eq!((daemons(&map), map.epoch(), map.bytes), (Vec::new(), 4, 0));
    assert_eq!(map.report(at(7), who.conn, None, None), Err(Refused::Unknown));
}

#[test]
fn a_client_that_reconnects_keeps_its_place_and_another_one_replaces_it() {
    let mut map = ServiceMap::new(at(1));
    map.register(at(2), client(1, "client.rgw", 70), gateway("a"), said(&[])).unwrap();
    map.end_session(ConnId(1));
    map.register(at(9), client(2, "client.rgw", 70), gateway("a"), said(&[])).unwrap();
    assert_eq!(map.services()["rgw"]["a"].start_stamp, at(2).wall());
    map.register(at(12), client(3, "client.rgw", 71), gateway("a"), said(&[])).unwrap();
    assert_eq!(map.services()["rgw"]["a"].start_stamp, at(12).wall());
    assert_eq!(map.report(at(13), ConnId(2), None, None), Err(Refused::Unknown), "replaced");
    map.unregister(at(14), ConnId(2));
    assert_eq!(daemons(&map), [("a", 71)], "who was replaced takes nothing away");
}

#[test]
fn a_silent_daemon_is_forgotten_and_its_session_with_it() {
    let mut map = ServiceMap::new(at(1));
    map.register(at(2), client(1, "client.a", 70), gateway("a"), said(&[("x", "y")])).unwrap();
    map.register(at(2), client(2, "client.b", 71), gateway("b"), said(&[])).unwrap();
    map.report(at(30), ConnId(2), None, None).unwrap();
    map.expire(at(62), Duration::from_secs(60));
    assert_eq!(daemons(&map), [("a", 70), ("b", 71)]);
    map.expire(at(63), Duration::from_secs(60));
    assert_eq!((daemons(&map), map.bytes), (vec![("b", 71)], 0));
    assert_eq!(map.report(at(64), ConnId(1), None, None), Err(Refused::Unknown));
}

#[test]
fn nobody_takes_the_place_of_another_entitys_daemon_or_of_the_clusters_own() {
    let mut map = ServiceMap::new(at(1));
    map.register(at(2), client(1, "client.a", 70), gateway("a"), said(&[])).unwrap();
    let taken = map.register(at(3), client(2, "client.b", 71), gateway("a"), said(&[]));
    assert_eq!(taken, Err(Refused::Taken("client.a".parse().unwrap())));
    for service in ["mon", "mgr", "osd", "mds", "client", ""] {
        let key = (service.to_owned(), "a".to_owned());
        let refused = map.register(at(3), client(2, "client.b", 71), key, said(&[]));
        assert_eq!(refused, Err(Refused::Name(service.to_owned())));
    }
    assert_eq!(daemons(&map), [("a", 70)]);
}

#[test]
fn what_the_map_keeps_is_bounded() {
    let mut map = ServiceMap::new(at(1));
    let long = "x".repeat(DAEMON_BYTES_MAX);
    let large = map.register(at(2), client(1, "client.a", 70), gateway("a"), said(&[("x", &long)]));
    assert_eq!(large, Err(Refused::TooLarge));
    let name = map.register(at(2), client(1, "client.a", 70), gateway(&long), said(&[]));
    assert!(matches!(name, Err(Refused::Name(name)) if name.len() == NAME_LEN_MAX));
    map.register(at(2), client(1, "client.a", 70), gateway("a"), said(&[("x", "y")])).unwrap();
    let status = Some(texts(&[("x", &long)]));
    assert_eq!(map.report(at(3), ConnId(1), status.clone(), None), Err(Refused::TooLarge));
    assert_eq!(map.report(at(3), ConnId(1), None, status), Err(Refused::TooLarge));
    assert_eq!(map.services()["rgw"]["a"].last_beacon, at(3), "it lives all the same");

    let mut register = |entity: &str, id: u64| {
        let name = gateway(&format!("{id:05}"));
        map.register(at(4), client(id, entity, id), name, said(&[]))
    };
    for id in 1..ENTITY_DAEMONS_MAX as u64 {
        register("client.a", 1000 + id).unwrap();
    }
    assert_eq!(register("client.a", 9000), Err(Refused::Full));
    register("client.b", 9000).unwrap();
    register("client.a", 1001).expect("it is there already");
    for id in 0..(DAEMONS_MAX - ENTITY_DAEMONS_MAX - 1) as u64 {
        register(&format!("client.{}", id / 512), 10_000 + id).unwrap();
    }
    assert_eq!(register("client.z", 90_000), Err(Refused::Full));
}

#[test]
fn daemons_together_say_no_more_than_the_map_keeps() {
    let mut map = ServiceMap::new(at(1));
    let long = "x".repeat(DAEMON_BYTES_MAX - 1);
    let daemons = (BYTES_MAX / DAEMON_BYTES_MAX) as u64;
    let who = |id: u64| client(id, &format!("client.{}", id / 512), id);
    for id in 0..daemons {
        map.register(at(2), who(id), gateway(&id.to_string()), said(&[("x", &long)])).unwrap();
    }
    let more = map.register(at(2), who(9999), gateway("9999"), said(&[("x", "y")]));
    assert_eq!(more, Err(Refused::Full));
    let half = "x".repeat(DAEMON_BYTES_MAX / 2);
    map.register(at(3), who(0), gateway("0"), said(&[("x", &half)])).unwrap();
    map.register(at(3), who(9999), gateway("9999"), said(&[("x", "y")])).unwrap();
    let status = Some(texts(&[("x", &half)]));
    assert_eq!(map.report(at(3), ConnId(9999), status, None), Err(Refused::Full));
}

#[test]
#[should_panic(expected = "the size is that of all daemons")]
fn a_size_without_daemons_is_found() {
    let mut map = ServiceMap::new(Time(1));
    map.check_invariants();
    map.bytes = 1;
    map.check_invariants();
}
