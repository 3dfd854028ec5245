//! A reactor that connects to itself over loopback.

use super::*;

struct World {
    reactor: Reactor,
    client: SocketId,
    server: SocketId,
}

impl World {
    fn connect() -> World {
        let mut reactor = Reactor::new(Config { ring_entries: 64, receive_buffers: 4 }).unwrap();
        let (_, addr) = reactor.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = reactor.connect(addr).unwrap();
        let (mut server, mut connected) = (None, false);
        while server.is_none() || !connected {
            match next(&mut reactor) {
                Event::Accepted { socket, .. } => server = Some(socket),
                Event::Connected { socket } => connected = socket == client,
                other => panic!("unexpected {other:?}"),
            }
        }
        World { reactor, client, server: server.unwrap() }
    }

    fn send(&mut self, bytes: Vec<u8>) {
        self.reactor.send(self.client, Bytes::from(bytes));
        self.reactor.flush(self.client);
    }

    fn receive(&mut self, length: usize) -> Vec<u8> {
        let mut received = Vec::new();
        while received.len() < length {
            match next(&mut self.reactor) {
                Event::Received { bytes, .. } => received.extend_from_slice(&bytes),
                Event::ReceiveIdle { socket } => self.reactor.receive(socket),
                _ => {}
            }
        }
        received
    }
}

fn next(reactor: &mut Reactor) -> Event {
    loop {
        if let Some(event) = reactor.poll_event() {
            return event;
        }
        reactor.turn(None).unwrap();
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + i / 251) as u8).collect()
}

#[test]
fn what_is_sent_arrives_in_order_whatever_its_size() {
    let mut world = World::connect();
    for length in [1, 4096, 70_000, 3_000_000] {
        let sent = pattern(length);
        world.send(sent.clone());
        assert_eq!(world.receive(length), sent, "{length} bytes");
    }
}

#[test]
fn a_large_piece_is_received_straight_into_one_buffer() {
    let mut world = World::connect();
    let sent = pattern(1 << 20);
    world.send(sent.clone());
    let mut received = BytesMut::new();
    let mut largest = 0;
    while received.len() < sent.len() {
        match next(&mut world.reactor) {
            Event::Received { bytes, .. } => {
                received.extend_from_slice(&bytes);
                world.reactor.stop_receiving(world.server);
            }
            Event::ReceiveIdle { socket } => {
                let lacking = sent.len() - received.len();
                world.reactor.receive_into(socket, std::mem::take(&mut received), lacking);
            }
            Event::Filled { buffer, .. } => {
                largest = buffer.len();
                received = buffer;
            }
            _ => {}
        }
    }
    assert_eq!(&received[..], sent);
    assert!(largest > 64 << 10, "the largest piece was {largest}");
    world.send(pattern(100));
    assert_eq!(world.receive(100), pattern(100));
}

#[test]
fn a_paused_socket_receives_again_when_resumed() {
    let mut world = World::connect();
    world.reactor.pause(world.server, true);
    world.send(pattern(500_000));
    while !matches!(next(&mut world.reactor), Event::ReceiveIdle { .. } | Event::Drained { .. }) {}
    world.reactor.pause(world.server, false);
    assert_eq!(world.receive(500_000).len(), 500_000);
}

#[test]
fn a_closed_connection_is_reported_once_and_its_slot_is_reused_under_another_id() {
    let mut world = World::connect();
    world.reactor.close(world.client);
    loop {
        if let Event::Closed { socket, error } = next(&mut world.reactor) {
            assert_eq!(socket, world.server);
            assert!(error.is_none(), "{error:?}");
            break;
        }
    }
    world.reactor.send(world.client, Bytes::from_static(b"to nobody"));
    world.reactor.flush(world.client);
    world.reactor.turn(Some(Duration::ZERO)).unwrap();
    assert!(world.reactor.poll_event().is_none());
}

#[test]
fn a_connection_that_is_finished_ends_once_all_is_sent() {
    for length in [10, 8 << 20] {
        let mut world = World::connect();
        // The kernel does not take all at once.
        world.reactor.pause(world.server, true);
        world.send(pattern(length));
        world.reactor.finish(world.client);
        world.reactor.pause(world.server, false);
        let (mut received, mut ended) = (Vec::new(), Vec::new());
        while ended.len() < 2 {
            match next(&mut world.reactor) {
                Event::Received { bytes, .. } => received.extend_from_slice(&bytes),
                Event::ReceiveIdle { socket } => world.reactor.receive(socket),
                Event::Closed { socket, .. } => ended.push(socket),
                _ => {}
            }
        }
        assert_eq!(ended, [world.client, world.server]);
        assert!(received == pattern(length), "{} of {length} bytes", received.len());
    }
}

#[test]
fn a_refused_connection_is_closed_with_its_reason() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut reactor = Reactor::new(Config::default()).unwrap();
    let id = reactor.connect(unused).unwrap();
    match next(&mut reactor) {
        Event::Closed { socket, error: Some(error) } => {
            assert_eq!(socket, id);
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
        other => panic!("unexpected {other:?}"),
    }
}

#[test]
fn a_call_is_an_event_and_mail_is_in_its_box_when_the_reactor_has_woken() {
    let mut reactor = Reactor::new(Config::default()).unwrap();
    let (sender, mut mailbox) = crate::mailbox(4, reactor.waker());
    let waker = reactor.waker();
    let thread = std::thread::spawn(move || sender.send(42).unwrap());
    reactor.turn(None).unwrap();
    thread.join().unwrap();
    assert_eq!(mailbox.receive(), Some(42));
    assert!(reactor.poll_event().is_none());
    waker.wake();
    waker.wake();
    assert!(matches!(next(&mut reactor), Event::Woken));
    reactor.turn(Some(Duration::ZERO)).unwrap();
    assert!(reactor.poll_event().is_none());
}

/// A lost wake-up would leave both threads asleep for ever.
#[test]
fn threads_that_answer_each_other_never_both_sleep() {
    const MESSAGES: u32 = 20_000;
    let mut here = Reactor::new(Config::default()).unwrap();
    let (to_here, mut mail) = crate::mailbox(8, here.waker());
    let (answer, theirs) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut there = Reactor::new(Config::default()).unwrap();
        let (to_there, mut mail) = crate::mailbox(8, there.waker());
        answer.send(to_there).unwrap();
        loop {
            there.turn(None).unwrap();
            while let Some(number) = mail.receive() {
                to_here.send(number).unwrap();
                if number == MESSAGES {
                    return;
                }
            }
        }
    });
    let to_there = theirs.recv().unwrap();
    for number in 1..=MESSAGES {
        to_there.send(number).unwrap();
        let received = loop {
            match mail.receive() {
                Some(received) => break received,
                None => here.turn(None).unwrap(),
            }
        };
        assert_eq!(received, number);
    }
    thread.join().unwrap();
}
