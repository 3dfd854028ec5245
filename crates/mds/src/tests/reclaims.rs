//! Clients that end the sessions of their former runs.

use super::*;

/// A run of a server of another protocol, which has given itself a name.
fn open_named(world: &mut World, client: u64, uuid: &str) {
    let name = EntityName::new(types::EntityType::CLIENT, "ganesha");
    world.limited.insert(client, ClientPeer { name, ..peer(client) });
    let open = ClientSession {
        features: FeatureBits(u64::MAX),
        metadata: [("uuid".to_owned(), uuid.to_owned())].into(),
        ..ClientSession::new(SessionOp::REQUEST_OPEN, 0)
    };
    world.send(client, &open.encode(0));
    let answer: ClientSession = world.take(client);
    assert_ne!(answer.features.0 & session_features::RECLAIM_CLIENT, 0);
}

fn reclaim(world: &mut World, client: u64, uuid: &str, flags: u32) -> i32 {
    world.send(client, &ClientReclaim { uuid: uuid.to_owned(), flags }.encode(0));
    world.take::<ClientReclaimReply>(client).result
}

#[test]
fn a_client_ends_the_session_of_its_former_run() {
    let mut world = World::new(&[9]);
    open_named(&mut world, 1, "a");
    world.create(1, "file");
    open_named(&mut world, 2, "");
    assert_eq!(reclaim(&mut world, 2, "b", ClientReclaim::RESET), 0, "there is none");
    for flags in [0, 2, u32::MAX] {
        let refused = reclaim(&mut world, 2, "a", flags);
        assert_eq!(refused, Errno::NOTSUPP.negative(), "{flags:#x}");
    }
    assert_eq!(reclaim(&mut world, 9, "a", ClientReclaim::RESET), Errno::PERM.negative());
    assert!(world.try_take::<ClientSession>(1).is_none());
    assert_eq!(reclaim(&mut world, 2, "a", ClientReclaim::RESET), 0);
    assert_eq!(world.take::<ClientSession>(1).op, SessionOp::CLOSE);
    assert_eq!(world.ask(2, look_up("file")).result, 0, "nothing of the file is held back");
}
