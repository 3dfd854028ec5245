//! Clients that create before they ask, and servers that fail.

use super::*;

/// A client that has made `d/first`, and was told numbers.
fn world_with_numbers(clients: &[u64]) -> World {
    let mut world = World::asynchronous(clients);
    world.ask(1, mkdir("d"));
    world.finish();
    world.ask(1, create("d/first"));
    world.finish();
    assert!(!world.clients[&1].numbers.is_empty());
    world
}

impl World {
    /// Client 1 creates a file, and the reply is lost; returns the numbers of the request and the inode.
    fn act_unanswered(&mut self, path: &str) -> (u64, u64) {
        let number = self.clients[&1].numbers[0];
        assert!(self.ask_asynchronously(1, create_new(path)));
        self.clients.get_mut(&1).unwrap().lose_last_reply();
        assert_eq!(self.clients[&1].sent.len(), 1);
        (self.tid, number)
    }
}

#[test]
fn a_client_is_told_numbers_when_a_successor_would_know_them() {
    let mut world = World::asynchronous(&[1]);
    world.ask(1, create("first"));
    world.collect();
    assert!(world.clients[&1].numbers.is_empty() && !world.pending.is_empty());
    world.finish();
    assert!(!world.clients[&1].numbers.is_empty());
}

#[test]
fn a_successor_makes_the_file_of_a_request_that_was_never_answered() {
    for has_checkpoint in [false, true] {
        let mut world = world_with_numbers(&[1]);
        if has_checkpoint {
            world.now = world.now + Duration::from_secs(31);
            world.pump();
            world.finish();
        }
        let (tid, number) = world.act_unanswered("d/file");
        world.crash(0);
        world.finish();
        world.reconnect();
        world.finish();
        assert_eq!(world.clients[&1].answers.last(), Some(&(tid, 0)));
        assert_eq!(world.paths()["/d/file"], number);
        assert_eq!(world.clients[&1].exports, 0, "it keeps the capability that it assumes");
        world.check_numbers();
    }
}

#[test]
fn a_request_that_fails_does_not_succeed_behind_later_ones() {
    let mut world = world_with_numbers(&[1]);
    let ino = world.clients[&1].numbers[0];
    // The server was gone when both were sent.
    for (ino, request) in [(0, request(ClientOp::UNLINK, "d/file")), (ino, create_new("d/file"))] {
        world.tid += 1;
        let request = ClientRequest { ino, flags: client_flags::ASYNC, ..request };
        let tid = world.tid;
        world.clients.get_mut(&1).unwrap().sent.push((tid, request));
    }
    world.crash(0);
    world.finish();
    world.reconnect();
    world.finish();
    let mut answers = world.clients[&1].answers.clone();
    answers.sort_unstable();
    let expected = [(world.tid - 1, Errno::NOENT.negative()), (world.tid, 0)];
    assert_eq!(answers[answers.len() - 2..], expected);
    assert_eq!(world.paths()["/d/file"], ino);
}

#[test]
fn a_file_that_a_client_has_made_comes_before_one_that_another_one_asks_for() {
    let mut world = world_with_numbers(&[1, 2]);
    let (tid, number) = world.act_unanswered("d/file");
    world.clients.get_mut(&1).unwrap().is_silent = true;
    let asked = world.ask(2, create_new("d/file"));
    assert!(world.clients[&2].answers.is_empty(), "it waits for the first client");
    world.crash(0);
    world.finish();
    let now = world.now;
    reconnect::begin(world.rank(), now);
    world.clients.get_mut(&1).unwrap().is_silent = false;
    world.claim(2);
    world.claim(1);
    world.activate();
    world.finish();
    assert_eq!(world.clients[&1].answers.last(), Some(&(tid, 0)));
    assert_eq!(world.clients[&2].answers, [(asked, Errno::EXIST.negative())]);
    assert_eq!(world.paths()["/d/file"], number);
}

#[test]
fn data_of_files_of_which_an_evicted_client_has_not_told_is_removed() {
    let mut world = world_with_numbers(&[1]);
    let unknown = data_name(world.clients[&1].numbers[0], 0);
    let known = data_name(world.paths()["/d/first"], 0);
    world.pool.fill(&unknown, 5, (1, OBJECT));
    let last = data_name(*world.clients[&1].numbers.back().unwrap(), 0);
    world.pool.fill(&last, 5, (1, OBJECT));
    evictions::order(world.rank(), &[1]);
    let (client, addrs) = evictions::next(world.rank(), START).unwrap();
    world.store.evict(client, &addrs);
    world.pump();
    assert_eq!(world.rank().purge_count(), 1, "they are one piece of work");
    world.finish();
    assert_eq!((world.rank().purge_count(), world.pool.data.contains_key(&last)), (0, false));
    assert!(!world.pool.data.contains_key(&unknown) && world.pool.data.contains_key(&known));
    assert!(world.rank().delegated_numbers().is_empty());
}

#[test]
fn a_request_that_has_failed_does_not_succeed_at_the_next_but_one_server() {
    let mut world = world_with_numbers(&[1, 2]);
    world.tid += 1;
    let (tid, flags) = (world.tid, client_flags::ASYNC);
    let unlink = ClientRequest { flags, ..request(ClientOp::UNLINK, "d/file") };
    for is_resent in [false, true] {
        world.clients.get_mut(&1).unwrap().sent.push((tid, unlink.clone()));
        world.crash(0);
        world.finish();
        world.reconnect();
        world.finish();
        // The answer is lost with the server.
        let answer = world.clients.get_mut(&1).unwrap().answers.pop();
        assert_eq!(answer, Some((tid, Errno::NOENT.negative())));
        if !is_resent {
            world.ask(2, create("d/file"));
            world.finish();
        }
    }
    assert!(world.paths().contains_key("/d/file"), "it is the other client's");
}
