//! Data of files that are gone.

use super::*;

#[test]
fn data_of_a_removed_file_goes_when_no_client_has_it_open() {
    let mut world = World::new(&[1, 2]);
    world.ask(1, create("f"));
    world.finish();
    let mask = CapBits::PIN | CapBits::ANY_SHARED;
    let arguments = RequestArguments::of(&GetattrArguments { mask });
    world.ask(2, ClientRequest { arguments, ..request(ClientOp::GETATTR, "f") });
    world.finish();
    let ino = world.paths()["/f"];
    for object in 0..3 {
        world.pool.data.insert(data_name(ino, object), Default::default());
    }
    world.ask(1, resize("f", LONG));
    world.finish();
    world.ask(1, resize("f", 1));
    world.finish();
    world.ask(1, request(ClientOp::UNLINK, "f"));
    world.finish();
    world.release(1);
    world.finish();
    assert_eq!(world.pool.data.len(), 3, "the other one has it open");
    world.release(2);
    // The record of the purge is not stored: a successor must find the file as an orphan.
    assert!(!world.pending.iter().any(|(task, ..)| *task == Task::Purge));
    world.crash(0);
    world.finish();
    world.reconnect();
    // The purge is recorded, but its removals are lost.
    while !world.pending.iter().any(|(task, ..)| *task == Task::Purge) {
        world.answer(0);
        world.collect();
    }
    world.crash(0);
    world.finish();
    world.reconnect();
    world.finish();
    assert!(world.pool.data.is_empty(), "{:?}", world.pool.data);
    world.now = world.now + Duration::from_secs(31);
    world.finish();
    let tasks = world.pool.objects.get(&b"tasks.0"[..]);
    assert!(tasks.is_none_or(|tasks| tasks.pairs.is_empty()), "nothing is left to do");
}

/// Client 1 makes a file and removes it; `is_fixed` says whether its data cannot be removed.
fn remove_file(world: &mut World, name: &str, is_fixed: bool) {
    world.ask(1, create(name));
    world.finish();
    let ino = world.paths()[&format!("/{name}")];
    if is_fixed {
        world.pool.fixed.insert(data_name(ino, 0));
    }
    world.ask(1, request(ClientOp::UNLINK, name));
    world.finish();
    world.release(1);
    world.finish();
}

/// Objects can be removed again, and files are tried again.
fn free(world: &mut World) {
    world.pool.fixed.clear();
    world.now = world.now + Duration::from_secs(10);
    world.finish();
}

#[test]
fn a_file_whose_data_cannot_be_removed_holds_up_no_other() {
    let mut world = World::new(&[1]);
    remove_file(&mut world, "f", true);
    remove_file(&mut world, "g", false);
    assert_eq!(world.pool.data.len(), 1, "that of the second file is gone: {:?}", world.pool.data);
    free(&mut world);
    assert!(world.pool.data.is_empty());
}

#[test]
fn purges_beyond_a_bound_are_read_from_their_rows() {
    let mut world = World::new(&[1]);
    for number in 0..40 {
        remove_file(&mut world, &format!("f{number}"), true);
    }
    assert_eq!(world.rank().purge_count(), 40, "they are not in rows");
    world.now = world.now + Duration::from_secs(31);
    world.finish();
    assert!(world.rank().purge_count() <= 9, "{}", world.rank().purge_count());
    world.crash(0);
    world.finish();
    world.reconnect();
    world.finish();
    assert!(world.rank().purge_count() <= 9, "{}", world.rank().purge_count());
    for _ in 0..4 {
        free(&mut world);
    }
    assert!(world.pool.data.is_empty(), "{:?}", world.pool.data);
    world.now = world.now + Duration::from_secs(31);
    world.finish();
    assert!(world.pool.objects[&b"tasks.0"[..]].pairs.is_empty());
}

#[test]
fn files_whose_data_cannot_be_removed_hold_up_no_other() {
    let mut world = World::new(&[1]);
    for number in 0..5 {
        remove_file(&mut world, &format!("f{number}"), true);
    }
    remove_file(&mut world, "g", false);
    assert_eq!(world.pool.data.len(), 5, "that of the last one is gone: {:?}", world.pool.data);
    free(&mut world);
    assert!(world.pool.data.is_empty());
}
