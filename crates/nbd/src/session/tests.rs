//! Sessions with a client written byte by byte.

use super::*;
use crate::protocol::{
    CHUNK_MAGIC, OPTION_REPLY_MAGIC, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, option, option_reply,
};
use crate::transmission::{Data, EXTENT_LEN};
use bytes::BufMut;
use proptest::prelude::*;

const SIZE: u64 = 1 << 20;
const EXPORT: Export = Export { number: 0, size: SIZE, is_read_only: false, preferred_block: 4096 };

struct One;

impl Exports for One {
    fn find(&self, name: &[u8]) -> Option<Export> {
        match name {
            b"disk" | b"" => Some(EXPORT),
            b"shown" => Some(Export { number: 1, is_read_only: true, ..EXPORT }),
            _ => None,
        }
    }

    fn names(&self) -> Vec<Bytes> {
        vec!["disk".into(), "shown".into()]
    }
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u64(OPTION_MAGIC);
    bytes.put_u32(number);
    bytes.put_u32(data.len() as u32);
    bytes.put_slice(data);
    bytes
}

fn go(name: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    data.put_u32(name.len() as u32);
    data.put_slice(name);
    data.put_u16(0);
    option(option::GO, &data)
}

fn meta_context(number: u32, query: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    data.put_u32(4);
    data.put_slice(b"disk");
    data.put_u32(1);
    data.put_u32(query.len() as u32);
    data.put_slice(query);
    option(number, &data)
}

fn request(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u32(REQUEST_MAGIC);
    bytes.put_u16(flags);
    bytes.put_u16(command);
    bytes.put_u64(cookie);
    bytes.put_u64(offset);
    bytes.put_u32(length);
    bytes
}

struct Client {
    session: Session,
}

impl Client {
    /// A client that has sent its flags.
    fn new() -> Self {
        Client::with_tls(Tls::Unavailable)
    }

    fn with_tls(tls: Tls) -> Self {
        let mut client = Client { session: Session::new(Limits::default(), tls) };
        assert_eq!(client.sent().len(), 18);
        client.send(&3u32.to_be_bytes());
        client
    }

    /// A client in the transmission phase.
    fn opened(structured: bool) -> Self {
        let mut client = Client::new();
        if structured {
            client.send(&option(option::STRUCTURED_REPLY, &[]));
            client.send(&meta_context(option::SET_META_CONTEXT, b"base:allocation"));
        }
        client.send(&go(b"disk"));
        assert_eq!(client.event(), Some(Event::Opened(EXPORT)));
        client.sent();
        client
    }

    fn send(&mut self, bytes: &[u8]) {
        self.session.handle_received(Bytes::copy_from_slice(bytes));
    }

    fn event(&mut self) -> Option<Event> {
        self.session.poll_event(&One)
    }

    fn command(&mut self) -> (CommandId, Command) {
        match self.event() {
            Some(Event::Command(id, command)) => (id, command),
            other => panic!("{other:?} is no command"),
        }
    }

    fn sent(&mut self) -> Vec<u8> {
        let mut pieces = Vec::new();
        self.session.poll_transmit(&mut pieces);
        pieces.concat()
    }

    /// Kinds of the option replies that were sent.
    fn option_replies(&mut self) -> Vec<u32> {
        assert_eq!(self.event(), None);
        let sent = self.sent();
        let (mut rest, mut kinds) = (&sent[..], Vec::new());
        while !rest.is_empty() {
            assert_eq!(rest[..8], OPTION_REPLY_MAGIC.to_be_bytes());
            kinds.push(u32::from_be_bytes(rest[12..16].try_into().unwrap()));
            let length = u32::from_be_bytes(rest[16..20].try_into().unwrap());
            rest = &rest[20 + length as usize..];
        }
        kinds
    }
}

#[test]
fn options_are_answered_one_by_one() {
    let mut client = Client::new();
    client.send(&option(option::LIST, &[]));
    let (server, ack) = (option_reply::SERVER, option_reply::ACK);
    assert_eq!(client.option_replies(), [server, server, ack]);
    client.send(&option(option::LIST, b"?"));
    assert_eq!(client.option_replies(), [option_reply::INVALID]);
    client.send(&option(option::STARTTLS, &[]));
    assert_eq!(client.option_replies(), [option_reply::POLICY]);
    client.send(&option(77, &[]));
    assert_eq!(client.option_replies(), [option_reply::UNSUPPORTED]);
    client.send(&go(b"nothing"));
    assert_eq!(client.option_replies(), [option_reply::UNKNOWN]);
    client.send(&option(option::ABORT, &[]));
    assert_eq!(client.event(), Some(Event::Closed(CloseReason::Left)));
}

#[test]
fn without_tls_nothing_is_told_where_it_is_required() {
    let mut client = Client::with_tls(Tls::Required);
    for words in [option(option::LIST, &[]), go(b"disk"), option(option::STRUCTURED_REPLY, &[])] {
        client.send(&words);
        assert_eq!(client.option_replies(), [option_reply::TLS_REQUIRED]);
    }
    client.send(&option(option::STARTTLS, b"?"));
    assert_eq!(client.option_replies(), [option_reply::INVALID]);
    client.send(&option(option::EXPORT_NAME, b"disk"));
    assert_eq!(client.event(), Some(Event::Closed(CloseReason::Unencrypted)));
    assert_eq!(client.sent(), []);
}

#[test]
fn tls_begins_after_its_answer_and_what_was_agreed_upon_before_is_forgotten() {
    let mut client = Client::with_tls(Tls::Offered);
    client.send(&option(option::STRUCTURED_REPLY, &[]));
    client.send(&meta_context(option::SET_META_CONTEXT, b"base:allocation"));
    client.send(&option(option::STARTTLS, &[]));
    assert_eq!(client.event(), Some(Event::StartTls));
    assert_eq!(client.option_replies().last(), Some(&option_reply::ACK));
    client.send(&option(option::STARTTLS, &[]));
    client.send(&meta_context(option::SET_META_CONTEXT, b"base:allocation"));
    assert_eq!(client.option_replies(), [option_reply::INVALID, option_reply::INVALID]);
    client.send(&go(b"disk"));
    assert_eq!(client.event(), Some(Event::Opened(EXPORT)));
}

#[test]
fn words_in_the_clear_are_not_taken_for_encrypted_ones() {
    let mut client = Client::with_tls(Tls::Offered);
    client.send(&[option(option::STARTTLS, &[]), go(b"disk")].concat());
    assert_eq!(client.event(), Some(Event::Closed(CloseReason::NotTheProtocol)));
}

#[test]
fn block_status_is_agreed_upon_after_structured_replies_only() {
    let mut client = Client::new();
    client.send(&meta_context(option::SET_META_CONTEXT, b"base:allocation"));
    assert_eq!(client.option_replies(), [option_reply::INVALID]);
    client.send(&option(option::STRUCTURED_REPLY, &[]));
    client.send(&meta_context(option::LIST_META_CONTEXT, b"base:"));
    client.send(&meta_context(option::SET_META_CONTEXT, b"other:context"));
    let (ack, context) = (option_reply::ACK, option_reply::META_CONTEXT);
    assert_eq!(client.option_replies(), [ack, context, ack, ack]);
    client.send(&go(b"disk"));
    client.event();
    client.sent();
    client.send(&request(0, command::BLOCK_STATUS, 5, 0, 4096));
    assert_eq!(client.event(), None);
    assert_eq!(client.sent()[..4], CHUNK_MAGIC.to_be_bytes());
}

#[test]
fn an_option_that_is_too_long_is_skipped_and_refused() {
    let mut client = Client::new();
    client.send(&option(option::INFO, &vec![0; OPTION_LEN_MAX as usize + 1]));
    client.send(&option(option::LIST, &[]));
    assert_eq!(client.option_replies()[0], option_reply::TOO_BIG);
}

#[test]
fn the_oldest_way_to_choose_an_export_works_and_ends_the_session_otherwise() {
    let mut client = Client { session: Session::new(Limits::default(), Tls::Unavailable) };
    client.sent();
    client.send(&1u32.to_be_bytes());
    client.send(&option(option::EXPORT_NAME, b"disk"));
    assert_eq!(client.event(), Some(Event::Opened(EXPORT)));
    assert_eq!(client.sent().len(), 10 + 124);
    let mut client = Client::new();
    client.send(&option(option::EXPORT_NAME, b"nothing"));
    assert_eq!(client.event(), Some(Event::Closed(CloseReason::NoExport)));
}

#[test]
fn written_data_is_passed_on_in_the_slice_in_which_it_came() {
    let mut client = Client::opened(false);
    let mut bytes = request(command_flags::FUA, command::WRITE, 1, 512, 4);
    bytes.extend_from_slice(b"data");
    let bytes = Bytes::from(bytes);
    client.session.handle_received(bytes.clone());
    let (id, command) = client.command();
    let Command::Write { offset: 512, data, fua: true } = command else { panic!("{command:?}") };
    assert_eq!((&data[..], data.as_ptr()), (&b"data"[..], bytes[28..].as_ptr()));
    client.session.complete(id, Ok(Outcome::Done));
    let mut expected = SIMPLE_REPLY_MAGIC.to_be_bytes().to_vec();
    expected.extend([0; 4].iter().chain(&1u64.to_be_bytes()));
    assert_eq!(client.sent(), expected);
}

#[test]
fn the_rest_of_a_long_write_is_received_into_its_buffer() {
    let mut client = Client::opened(false);
    let length = 3 * DIRECT_MIN;
    client.send(&request(0, command::WRITE, 1, 0, length as u32));
    client.send(&[1; 10]);
    assert_eq!(client.session.take_receive_buffer(), None);
    assert_eq!(client.event(), None);
    assert_eq!(client.session.receive_hint(), Some(length - 10));
    let mut buffer = client.session.take_receive_buffer().unwrap();
    assert_eq!(buffer.len(), 10);
    buffer.resize(length, 2);
    client.session.handle_filled(buffer);
    let (_, command) = client.command();
    let Command::Write { data, .. } = command else { panic!("{command:?}") };
    assert_eq!((data.len(), data[9], data[10]), (length, 1, 2));
}

#[test]
fn reads_are_answered_in_the_form_that_was_agreed_upon() {
    let data = || vec![Data::Bytes("ab".into()), Data::Zeros(2)];
    let mut answers = Vec::new();
    for (structured, flags) in [(false, 0), (true, 0), (true, command_flags::DONT_FRAGMENT)] {
        let mut client = Client::opened(structured);
        client.send(&request(flags, command::READ, 9, 100, 4));
        let (id, command) = client.command();
        assert_eq!(command, Command::Read { offset: 100, length: 4 });
        client.session.complete(id, Ok(Outcome::Data(data())));
        answers.push(client.sent());
    }
    assert_eq!(answers[0][16..], *b"ab\0\0");
    // A chunk of data and a hole.
    assert_eq!((answers[1].len(), &answers[1][28..30]), (20 + 8 + 2 + 20 + 12, &b"ab"[..]));
    assert_eq!(answers[2][28..], *b"ab\0\0");
}

#[test]
fn what_cannot_be_done_is_an_error_and_nothing_more() {
    let mut client = Client::opened(false);
    let error = |client: &mut Client, bytes: &[u8]| {
        client.send(bytes);
        assert_eq!(client.event(), None);
        let sent = client.sent();
        assert_eq!((sent.len(), &sent[..4]), (16, &SIMPLE_REPLY_MAGIC.to_be_bytes()[..]));
        u32::from_be_bytes(sent[4..8].try_into().unwrap())
    };
    for (bytes, expected) in [
        (request(0, command::READ, 1, SIZE, 1), CommandError::Invalid),
        (request(0, command::READ, 1, u64::MAX, 2), CommandError::Invalid),
        (request(0, command::WRITE_ZEROES, 1, SIZE - 1, 2), CommandError::NoSpace),
        (request(0, command::BLOCK_STATUS, 1, 0, 512), CommandError::Invalid),
        (request(0, 99, 1, 0, 512), CommandError::Invalid),
        (request(1 << 9, command::READ, 1, 0, 512), CommandError::Invalid),
        (request(command_flags::NO_HOLE, command::TRIM, 1, 0, 512), CommandError::Invalid),
    ] {
        assert_eq!(error(&mut client, &bytes), expected as u32, "{bytes:?}");
    }
    // The payload of a refused write is not parsed as a request.
    let mut write = request(0, command::WRITE, 1, SIZE, 28);
    write.extend_from_slice(&request(0, command::FLUSH, 2, 0, 0));
    assert_eq!(error(&mut client, &write), CommandError::NoSpace as u32);
}

#[test]
fn a_read_only_export_is_not_written() {
    let mut client = Client::new();
    client.send(&go(b"shown"));
    assert!(matches!(client.event(), Some(Event::Opened(Export { is_read_only: true, .. }))));
    client.sent();
    client.send(&request(0, command::TRIM, 1, 0, 512));
    assert_eq!(client.event(), None);
    assert_eq!(client.sent()[4..8], (CommandError::Permission as u32).to_be_bytes());
}

#[test]
fn what_is_not_the_protocol_ends_the_session() {
    for (bytes, reason) in [
        (vec![0; 28], CloseReason::NotTheProtocol),
        (request(0, command::DISCONNECT, 1, 0, 0), CloseReason::Left),
        (request(0, command::WRITE, 1, 0, LENGTH_MAX + 1), CloseReason::TooLong),
    ] {
        let mut client = Client::opened(true);
        client.send(&bytes);
        assert_eq!(client.event(), Some(Event::Closed(reason)));
        client.send(&request(0, command::FLUSH, 2, 0, 0));
        assert_eq!(client.event(), None);
    }
}

#[test]
fn a_client_with_too_much_in_flight_waits() {
    let mut client = Client::opened(false);
    client.session.limits = Limits { commands: 2, bytes: 1000 };
    for cookie in 0..3 {
        client.send(&request(0, command::READ, cookie, 0, 400));
    }
    let (first, _) = client.command();
    client.command();
    assert!(client.session.is_choked());
    assert_eq!(client.event(), None);
    client.session.complete(first, Err(CommandError::Io));
    client.command();
    assert_eq!(client.session.in_flight(), 2);
}

#[test]
fn status_of_one_extent_is_one_extent() {
    let mut client = Client::opened(true);
    for (flags, extents) in [(0, 2), (command_flags::ONE_EXTENT, 1)] {
        client.send(&request(flags, command::BLOCK_STATUS, 3, 0, 8192));
        let (id, command) = client.command();
        assert_eq!(command, Command::BlockStatus { offset: 0, length: 8192 });
        let outcome = Outcome::Status(vec![(4096, true), (4096, false)]);
        client.session.complete(id, Ok(outcome));
        assert_eq!(client.sent().len(), 20 + 4 + 8 * extents);
    }
}

#[test]
fn answers_about_block_status_are_bounded_and_count_as_in_flight() {
    let mut client = Client::opened(true);
    let length = (EXTENTS_MAX * EXTENT_LEN) as u64;
    client.session.limits = Limits { commands: 9, bytes: length as usize };
    client.send(&request(0, command::BLOCK_STATUS, 3, 0, 8192));
    let (id, _) = client.command();
    assert!(client.session.is_choked());
    let extents = (0..=EXTENTS_MAX).map(|number| (1, number % 2 == 0)).collect();
    client.session.complete(id, Ok(Outcome::Status(extents)));
    assert_eq!(client.sent().len() as u64, 20 + 4 + length);
}

/// Requests, and noise.
fn input() -> impl Strategy<Value = Vec<u8>> {
    let small = 0u32..9000;
    prop_oneof![
        (0u32..12, prop::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(n, data)| option(n, &data)),
        Just(go(b"disk")),
        Just(option(option::STRUCTURED_REPLY, &[])),
        Just(meta_context(option::SET_META_CONTEXT, b"base:allocation")),
        (any::<u16>(), 0u16..10, any::<u64>(), 0..SIZE, small).prop_map(
            |(flags, command, cookie, offset, length)| {
                request(flags & 31, command, cookie, offset, length)
            }
        ),
        prop::collection::vec(any::<u8>(), 0..200),
    ]
}

proptest! {
    /// For any input in any fragments there is no panic, commands lie within the export, and the bounds of
    /// commands in flight hold.
    #[test]
    fn no_input_does_harm(inputs in prop::collection::vec(input(), 0..30), cut in 1usize..300) {
        let mut client = Client::new();
        client.session.limits = Limits { commands: 3, bytes: 20_000 };
        for piece in inputs.concat().chunks(cut) {
            client.send(piece);
            let mut begun = Vec::new();
            while let Some(event) = client.event() {
                let Event::Command(id, command) = event else { continue };
                begun.push(id);
                if let Command::Read { offset, length } = command {
                    prop_assert!(offset + u64::from(length) <= SIZE);
                }
                prop_assert!(client.session.in_flight() <= 3);
                if begun.len() == 3 {
                    let outcome = Ok(Outcome::Data(vec![Data::Zeros(3), Data::Bytes("a".into())]));
                    client.session.complete(begun.remove(0), outcome);
                }
            }
            begun.into_iter().for_each(|id| client.session.complete(id, Err(CommandError::Io)));
            client.sent();
        }
    }

    /// The fragmentation of the input makes no difference.
    #[test]
    fn pieces_do_not_matter(inputs in prop::collection::vec(input(), 0..20), cut in 1usize..50) {
        let run = |cut: usize| {
            let mut client = Client::new();
            let mut told = Vec::new();
            for piece in inputs.concat().chunks(cut) {
                client.send(piece);
                while let Some(event) = client.event() {
                    if let Event::Command(id, _) = event {
                        client.session.complete(id, Ok(Outcome::Done));
                    }
                    told.push(event);
                }
            }
            (told, client.sent())
        };
        prop_assert_eq!(run(cut), run(usize::MAX));
    }
}
