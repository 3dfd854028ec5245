//! Journals: layout, clients, tags, appends.

use super::values::{Client, Position, SetPosition, Tag};
use crate::test_object::TestObject;
use bytes::Bytes;
use codec::{Decode, Encode};
use types::Errno;

type Outcome<T = ()> = Result<T, Errno>;

fn call<O: Decode>(object: &mut TestObject, method: &str, input: impl Encode) -> Outcome<O> {
    let output = object.call("journal", method, &codec::encode_to_bytes(&input))?;
    Ok(codec::decode_all("output", &output).unwrap())
}

fn journal() -> TestObject {
    let mut object = TestObject::absent();
    call::<()>(&mut object, "create", (24u8, 4u8, 5i64)).unwrap();
    object
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn at(tag: u64, entry: u64) -> SetPosition {
    SetPosition(vec![Position { object: 1, tag, entry }])
}

fn tags(object: &mut TestObject, client: &str, class: Option<u64>) -> Vec<u64> {
    let listed: Vec<Tag> = call(object, "tag_list", ((0u64, 99u64), client, class)).unwrap();
    listed.into_iter().map(|tag| tag.number).collect()
}

fn create_tag(object: &mut TestObject, number: u64, class: u64) -> Outcome {
    call(object, "tag_create", (number, class, "data"))
}

#[test]
fn a_journal_is_created_once() {
    let mut object = journal();
    assert_eq!(call::<()>(&mut object, "create", (24u8, 4u8, 5i64)), Err(Errno::EXIST));
    assert_eq!(call(&mut object, "get_order", ()), Ok(24u8));
    assert_eq!(call(&mut object, "get_splay_width", ()), Ok(4u8));
    assert_eq!(call(&mut object, "get_pool_id", ()), Ok(5i64));
    assert_eq!(call(&mut object, "get_next_tag_tid", ()), Ok(0u64));
    assert_eq!(call::<u8>(&mut TestObject::existing(), "get_order", ()), Err(Errno::NOENT));
}

#[test]
fn sets_only_advance_and_the_minimum_stays_behind() {
    let mut object = journal();
    let mut set = |method, set: u64| call::<()>(&mut object, method, set);
    assert_eq!(set("set_minimum_set", 1), Err(Errno::INVAL));
    assert_eq!(set("set_active_set", 5), Ok(()));
    assert_eq!(set("set_active_set", 4), Err(Errno::STALE));
    assert_eq!(set("set_minimum_set", 3), Ok(()));
    assert_eq!(set("set_minimum_set", 3), Ok(()));
    assert_eq!(set("set_minimum_set", 2), Err(Errno::STALE));
    assert_eq!(set("set_active_set", 2), Err(Errno::INVAL));
    assert_eq!(call(&mut object, "get_minimum_set", ()), Ok(3u64));
    assert_eq!(call(&mut object, "get_active_set", ()), Ok(5u64));
}

#[test]
fn clients_register_where_the_slowest_is() {
    let mut object = journal();
    let register =
        |object: &mut TestObject, id| call::<()>(object, "client_register", (id, "data"));
    register(&mut object, "one").unwrap();
    assert_eq!(register(&mut object, "one"), Err(Errno::EXIST));
    assert_eq!(register(&mut TestObject::existing(), "one"), Err(Errno::NOENT));
    let commit = |object: &mut TestObject, id, to: SetPosition| {
        call::<()>(object, "client_commit", (id, to))
    };
    commit(&mut object, "one", at(1, 5)).unwrap();
    assert_eq!(commit(&mut object, "none", at(1, 5)), Err(Errno::NOENT));
    let too_many = SetPosition(vec![Position { object: 1, tag: 1, entry: 1 }; 5]);
    assert_eq!(commit(&mut object, "one", too_many), Err(Errno::INVAL));
    register(&mut object, "two").unwrap();
    let two: Client = call(&mut object, "get_client", "two").unwrap();
    assert_eq!((two.committed, two.data), (at(1, 5), bytes("data")));
    commit(&mut object, "one", at(2, 0)).unwrap();
    commit(&mut object, "two", at(1, 9)).unwrap();
    call::<()>(&mut object, "client_update_data", ("two", "new")).unwrap();
    register(&mut object, "three").unwrap();
    let listed: Vec<Client> = call(&mut object, "client_list", ("one", 5u64)).unwrap();
    assert_eq!(listed.iter().map(|client| client.id.clone()).collect::<Vec<_>>(), ["three", "two"]);
    assert_eq!(listed[0].committed, at(1, 9));
    // A disconnected client does not delay others.
    call::<()>(&mut object, "client_update_state", ("two", Client::DISCONNECTED)).unwrap();
    call::<()>(&mut object, "client_unregister", "three").unwrap();
    register(&mut object, "four").unwrap();
    let four: Client = call(&mut object, "get_client", "four").unwrap();
    assert_eq!(four.committed, at(2, 0));
}

/// An image's own client of its journal has an empty name.
#[test]
fn a_client_may_have_no_name() {
    let mut object = journal();
    call::<()>(&mut object, "client_register", ("", "data")).unwrap();
    let listed: Vec<Client> = call(&mut object, "client_list", ("", 5u64)).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(call(&mut object, "get_client", ""), Ok(listed[0].clone()));
}

#[test]
fn tags_are_numbered_and_classed() {
    let mut object = journal();
    call::<()>(&mut object, "client_register", ("one", "")).unwrap();
    assert_eq!(create_tag(&mut object, 1, Tag::CLASS_NEW), Err(Errno::STALE));
    assert_eq!(create_tag(&mut object, 0, 0), Err(Errno::INVAL));
    create_tag(&mut object, 0, Tag::CLASS_NEW).unwrap();
    assert_eq!(create_tag(&mut object, 0, 0), Err(Errno::EXIST));
    create_tag(&mut object, 1, Tag::CLASS_NEW).unwrap();
    create_tag(&mut object, 2, 0).unwrap();
    let tag: Tag = call(&mut object, "get_tag", 1u64).unwrap();
    assert_eq!((tag.class, tag.data), (1, bytes("data")));
    assert_eq!(tags(&mut object, "one", None), [0, 1, 2]);
    assert_eq!(tags(&mut object, "one", Some(0)), [0, 2]);
    let page: Vec<Tag> = call(&mut object, "tag_list", ((1u64, 1u64), "one", None::<u64>)).unwrap();
    assert_eq!(page.iter().map(|tag| tag.number).collect::<Vec<_>>(), [2]);
}

#[test]
fn tags_go_when_nobody_needs_them() {
    let mut object = journal();
    call::<()>(&mut object, "client_register", ("one", "")).unwrap();
    call::<()>(&mut object, "client_register", ("two", "")).unwrap();
    create_tag(&mut object, 0, Tag::CLASS_NEW).unwrap();
    create_tag(&mut object, 1, Tag::CLASS_NEW).unwrap();
    create_tag(&mut object, 2, 1).unwrap();
    call::<()>(&mut object, "client_commit", ("one", at(2, 0))).unwrap();
    // Client one is past tag 1, client two has not begun.
    create_tag(&mut object, 3, 0).unwrap();
    assert_eq!(tags(&mut object, "one", None), [0, 2, 3]);
    assert_eq!(tags(&mut object, "two", None), [0, 1, 2, 3]);
    call::<()>(&mut object, "client_unregister", "two").unwrap();
    assert_eq!(tags(&mut object, "one", None), [0, 2, 3]);
    assert_eq!(call::<Tag>(&mut object, "get_tag", 1u64), Err(Errno::NOENT));
}

#[test]
fn appends_stop_at_the_soft_maximum() {
    let mut object = TestObject::absent();
    call::<()>(&mut object, "guard_append", 4u64).unwrap();
    call::<()>(&mut object, "append", (4u64, "abc")).unwrap();
    call::<()>(&mut object, "append", (4u64, "def")).unwrap();
    assert_eq!(call::<()>(&mut object, "append", (4u64, "ghi")), Err(Errno::OVERFLOW));
    assert_eq!(call::<()>(&mut object, "guard_append", 6u64), Err(Errno::OVERFLOW));
    assert_eq!(object.state.data, b"abcdef");
}

/// Recorded from Ceph 18.2.7, for an image that was written.
#[test]
fn clients_and_tags_are_encoded_as_ceph_does() {
    const CLIENT: &[u8] =
        b"\x01\x01\x62\0\0\0\0\0\0\0\x13\0\0\0\x02\x01\x0d\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
        \x01\x01\x40\0\0\0\x02\0\0\0\
        \x01\x01\x18\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\
        \x01\x01\x18\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let client: Client = codec::decode_all("client", CLIENT).unwrap();
    let positions = client.committed.0.iter().map(|at| (at.object, at.tag, at.entry));
    assert_eq!(positions.collect::<Vec<_>>(), [(1, 1, 1), (0, 1, 0)]);
    assert_eq!(codec::encode_to_bytes(&client), CLIENT);
    const TAG: &[u8] = b"\x01\x01\x2d\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x19\0\0\0\
        \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let tag: Tag = codec::decode_all("tag", TAG).unwrap();
    assert_eq!((tag.number, tag.class, tag.data.len()), (1, 0, 25));
    assert_eq!(codec::encode_to_bytes(&tag), TAG);
}
