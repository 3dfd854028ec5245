//! Lock semantics as `ceph_test_rados_api_lock` expects them.

use super::values::{LockInfo, LockOp, LockType};
use crate::test_object::TestObject;
use codec::{Reader, Writer};
use types::{EntityType, Errno, ParticipantName, UTime};

fn lock_input(kind: LockType, cookie: &str, tag: &str, seconds: u32, flags: u8) -> Vec<u8> {
    let mut w = Writer::new();
    w.versioned(1, 1, |w| {
        w.string("name");
        w.u8(kind.0);
        w.string(cookie);
        w.string(tag);
        w.string("description");
        w.value(&UTime { seconds, nanoseconds: 0 });
        w.u8(flags);
    });
    w.into_vec()
}

fn strings(parts: &[&str]) -> Vec<u8> {
    let mut w = Writer::new();
    w.versioned(1, 1, |w| parts.iter().for_each(|part| w.string(part)));
    w.into_vec()
}

fn lock_as(object: &mut TestObject, client: i64, input: &[u8]) -> Result<(), Errno> {
    object.call_as(client);
    object.call("lock", "lock", input).map(|_| ())
}

fn info(object: &mut TestObject) -> LockInfo {
    let output = object.call("lock", "get_info", &strings(&["name"])).unwrap();
    Reader::new(&output).value().unwrap()
}

#[test]
fn an_exclusive_lock_keeps_others_out_until_it_is_released() {
    let mut object = TestObject::existing();
    let exclusive = lock_input(LockType::EXCLUSIVE, "cookie", "", 0, 0);
    assert_eq!(lock_as(&mut object, 1, &exclusive), Ok(()));
    assert_eq!(lock_as(&mut object, 1, &exclusive), Err(Errno::EXIST));
    assert_eq!(lock_as(&mut object, 2, &exclusive), Err(Errno::BUSY));
    object.call_as(2);
    let unlock = strings(&["name", "cookie"]);
    assert_eq!(object.call("lock", "unlock", &unlock), Err(Errno::NOENT));
    object.call_as(1);
    object.call("lock", "unlock", &unlock).unwrap();
    assert_eq!(lock_as(&mut object, 2, &exclusive), Ok(()));
}

#[test]
fn shared_locks_need_the_same_tag() {
    let mut object = TestObject::existing();
    let shared = |tag: &str| lock_input(LockType::SHARED, "cookie", tag, 0, 0);
    assert_eq!(lock_as(&mut object, 1, &shared("a")), Ok(()));
    assert_eq!(lock_as(&mut object, 2, &shared("a")), Ok(()));
    assert_eq!(lock_as(&mut object, 3, &shared("b")), Err(Errno::BUSY));
    assert_eq!(info(&mut object).lockers.len(), 2);
}

#[test]
fn renewal_flags_say_whether_the_lock_may_or_must_be_held() {
    let mut object = TestObject::existing();
    let exclusive = |flags| lock_input(LockType::EXCLUSIVE, "cookie", "", 0, flags);
    let both = LockOp::MAY_RENEW | LockOp::MUST_RENEW;
    assert_eq!(lock_as(&mut object, 1, &exclusive(both)), Err(Errno::INVAL));
    assert_eq!(lock_as(&mut object, 1, &exclusive(LockOp::MUST_RENEW)), Err(Errno::NOENT));
    assert_eq!(lock_as(&mut object, 1, &exclusive(LockOp::MAY_RENEW)), Ok(()));
    assert_eq!(lock_as(&mut object, 1, &exclusive(LockOp::MAY_RENEW)), Ok(()));
    assert_eq!(lock_as(&mut object, 1, &exclusive(LockOp::MUST_RENEW)), Ok(()));
}

#[test]
fn locks_expire() {
    let mut object = TestObject::existing();
    let short = lock_input(LockType::EXCLUSIVE, "cookie", "", 1, 0);
    assert_eq!(lock_as(&mut object, 1, &short), Ok(()));
    assert_eq!(lock_as(&mut object, 2, &short), Err(Errno::BUSY));
    object.now.seconds += 2;
    assert_eq!(lock_as(&mut object, 2, &short), Ok(()));
}

#[test]
fn an_ephemeral_lock_takes_its_object_along() {
    let mut object = TestObject::existing();
    let ephemeral = lock_input(LockType::EXCLUSIVE_EPHEMERAL, "cookie", "", 0, 0);
    assert_eq!(lock_as(&mut object, 1, &ephemeral), Ok(()));
    object.call("lock", "unlock", &strings(&["name", "cookie"])).unwrap();
    assert!(!object.state.exists);
}

#[test]
fn a_lock_can_be_broken_listed_asserted_and_renamed() {
    let mut object = TestObject::existing();
    let exclusive = lock_input(LockType::EXCLUSIVE, "cookie", "tag", 0, 0);
    assert_eq!(lock_as(&mut object, 1, &exclusive), Ok(()));
    let listed = object.call("lock", "list_locks", b"").unwrap();
    assert_eq!(&listed[6..], b"\x01\0\0\0\x04\0\0\0name");

    let held = |cookie: &str, new: Option<&str>| {
        let mut w = Writer::new();
        w.versioned(1, 1, |w| {
            w.string("name");
            w.u8(LockType::EXCLUSIVE.0);
            w.string(cookie);
            w.string("tag");
            new.into_iter().for_each(|new| w.string(new));
        });
        w.into_vec()
    };
    assert_eq!(object.call("lock", "assert_locked", &held("other", None)), Err(Errno::BUSY));
    object.call("lock", "assert_locked", &held("cookie", None)).unwrap();
    object.call("lock", "set_cookie", &held("cookie", Some("new"))).unwrap();
    object.call("lock", "assert_locked", &held("new", None)).unwrap();

    let mut w = Writer::new();
    w.versioned(1, 1, |w| {
        w.string("name");
        w.value(&ParticipantName::new(EntityType::CLIENT, 1));
        w.string("new");
    });
    object.call_as(2);
    object.call("lock", "break_lock", w.as_slice()).unwrap();
    assert!(info(&mut object).lockers.is_empty());
}
