//! One image, several clients, one lock.

use super::crowd::{Crowd, addr};
use super::{ImageEvent, Outcome};
use crate::notify::{ClientId, Maintenance, Notification, WishId};
use crate::{Asker, Features};
use bytes::Bytes;
use rados::{WatchEvent, WatchId};
use types::Errno;

fn crowd(clients: usize) -> Crowd {
    Crowd::new(clients, Features::LAYERING.with(Features::EXCLUSIVE_LOCK))
}

fn request_lock() -> Bytes {
    let from = ClientId { global_id: 99, handle: 99 };
    codec::encode_to_bytes(&Notification::RequestLock { from, force: false })
}

#[test]
fn the_first_write_takes_the_lock_and_reads_do_not() {
    let mut crowd = crowd(1);
    assert_eq!(crowd.holder(), None);
    crowd.images.get_mut(&0).unwrap().submit(super::Request::Read { offset: 0, length: 10 });
    crowd.settle();
    assert!(crowd.outcome(0).unwrap().is_ok() && crowd.holder().is_none());
    crowd.write(0);
    crowd.settle();
    assert_eq!((crowd.outcome(0), crowd.holder()), (Some(Ok(Outcome::Done)), Some(0)));
    let watch = crowd.watches[&0];
    assert_eq!(crowd.holder, Some((0, format!("auto {watch}").into(), "internal".into())));
    crowd.images.get_mut(&0).unwrap().close();
    crowd.settle();
    assert_eq!((crowd.events(0), crowd.holder()), (vec![ImageEvent::Closed], None));
    assert!(crowd.watches.is_empty());
}

#[test]
fn the_lock_goes_to_whoever_writes() {
    let mut crowd = crowd(3);
    for client in [0, 1, 2, 1, 0] {
        crowd.write(client);
        crowd.settle();
        assert_eq!(crowd.outcome(client), Some(Ok(Outcome::Done)));
        assert_eq!(crowd.holder(), Some(client));
    }
    assert_eq!(crowd.writers, [0, 1, 2, 1, 0]);
    assert!(crowd.blocklist.is_empty());
}

#[test]
fn all_who_write_at_once_get_their_turn() {
    let mut crowd = crowd(4);
    for _ in 0..5 {
        (0..4).for_each(|client| crowd.write(client));
    }
    crowd.settle();
    for client in 0..4 {
        for _ in 0..5 {
            assert_eq!(crowd.outcome(client), Some(Ok(Outcome::Done)));
        }
    }
}

#[test]
fn writes_under_way_come_before_the_lock_is_given_up() {
    let mut crowd = crowd(1);
    crowd.write(0);
    crowd.settle();
    crowd.outcome(0);
    crowd.write(0);
    let image = crowd.images.get_mut(&0).unwrap();
    let (id, write) = image.poll_ask().unwrap();
    assert_eq!(crowd.say(request_lock()), [0]);
    crowd.write(0);
    crowd.settle();
    assert_eq!((crowd.holder(), crowd.outcome(0)), (Some(0), None), "{write:?}");
    crowd.images.get_mut(&0).unwrap().handle_answer(id, Err(Errno::NOSPC));
    crowd.settle();
    assert!(crowd.outcome(0).unwrap().is_err());
    // The write that came later has taken it again, as nobody else did.
    assert_eq!((crowd.outcome(0), crowd.holder()), (Some(Ok(Outcome::Done)), Some(0)));
}

#[test]
fn an_owner_who_vanished_is_shut_out_before_his_lock_is_broken() {
    let mut crowd = crowd(2);
    crowd.write(0);
    crowd.settle();
    let mut dead = crowd.images.remove(&0).unwrap();
    crowd.write(1);
    // His watch is still there, and nobody answers for him.
    crowd.turn_until_rest(1000);
    assert_eq!((crowd.holder(), crowd.outcome(1)), (Some(0), None));
    assert!(crowd.blocklist.is_empty());
    crowd.watches.remove(&0);
    crowd.monitor_failures = 3;
    crowd.settle();
    assert_eq!((crowd.outcome(1), crowd.holder()), (Some(Ok(Outcome::Done)), Some(1)));
    assert_eq!(crowd.blocklist, [addr(0).to_string().replace("v2:", "")]);
    // If he is not dead, he is told so.
    assert!(dead.poll_completion().is_some());
    crowd.images.insert(0, dead);
    crowd.write(0);
    crowd.settle();
    assert_eq!(crowd.outcome(0).unwrap().unwrap_err().errno(), Errno::BLOCKLISTED);
    assert!(matches!(crowd.events(0)[..], [ImageEvent::Failed(_)]));
}

#[test]
fn a_lock_that_is_kept_is_not_given_up() {
    let mut crowd = crowd(2);
    crowd.images.get_mut(&0).unwrap().keep_lock();
    crowd.settle();
    assert_eq!(crowd.holder(), Some(0));
    crowd.write(1);
    crowd.settle();
    assert_eq!(crowd.outcome(1).unwrap().unwrap_err().errno(), Errno::ROFS);
    crowd.images.get_mut(&0).unwrap().close();
    crowd.settle();
    crowd.write(1);
    crowd.settle();
    assert_eq!((crowd.outcome(1), crowd.holder()), (Some(Ok(Outcome::Done)), Some(1)));
}

#[test]
fn who_wants_to_keep_a_lock_that_is_kept_fails() {
    let mut crowd = crowd(2);
    for client in 0..2 {
        crowd.images.get_mut(&client).unwrap().keep_lock();
        crowd.settle();
    }
    assert!(matches!(crowd.events(1)[..], [ImageEvent::Failed(_)]));
    assert_eq!(crowd.holder(), Some(0));
}

#[test]
fn a_lock_that_a_person_has_taken_is_respected() {
    let mut crowd = crowd(1);
    crowd.holder = Some((7, "mine".into(), "".into()));
    crowd.write(0);
    crowd.settle();
    let error = crowd.outcome(0).unwrap().unwrap_err();
    assert!(error.errno() == Errno::BUSY && error.to_string().contains("rbd lock rm"), "{error}");
    crowd.holder = None;
    crowd.write(0);
    crowd.settle();
    assert_eq!(crowd.outcome(0), Some(Ok(Outcome::Done)));
}

#[test]
fn a_lock_bears_the_name_of_the_newest_watch() {
    let mut crowd = crowd(1);
    crowd.write(0);
    crowd.settle();
    let old = WatchId(crowd.watches[&0]);
    let lost = WatchEvent::Lost { watch: old, error: Errno::NOTCONN };
    assert!(crowd.images.get_mut(&0).unwrap().handle_watch_event(&lost));
    crowd.settle();
    let watch = crowd.watches[&0];
    assert_ne!(watch, old.0);
    assert_eq!(crowd.holder.as_ref().unwrap().1, format!("auto {watch}"));
    crowd.images.get_mut(&0).unwrap().close();
    crowd.settle();
    assert_eq!(crowd.holder(), None);
}

#[test]
fn peers_are_sent_for_the_lock_if_they_ask_for_maintenance() {
    let mut crowd = crowd(2);
    // Another name, and a snapshot.
    let rename = codec::encode_to_bytes(&Notification::Other(14));
    let wish = WishId { from: ClientId::default(), number: 1 };
    let what = Maintenance::TakeSnapshot("one".into());
    let snapshot = codec::encode_to_bytes(&Notification::Wanted { wish, what });
    assert!(crowd.say(rename.clone()).is_empty() && crowd.say(snapshot.clone()).is_empty());
    crowd.write(0);
    crowd.settle();
    assert_eq!(crowd.say(rename), [Errno::NOTSUPP.negative()]);
    assert_eq!(crowd.say(snapshot), [Errno::NOTSUPP.negative()]);
    let progress = codec::encode_to_bytes(&Notification::Other(4));
    assert!(crowd.say(progress).is_empty());
}

/// Loses the owner's watch and begins another, up to the question that gives the lock its name.
fn lose_watch(crowd: &mut Crowd, client: usize) -> (crate::AskId, crate::Ask) {
    let watch = WatchId(crowd.watches.remove(&client).unwrap());
    let lost = WatchEvent::Lost { watch, error: Errno::NOTCONN };
    assert!(crowd.images.get_mut(&client).unwrap().handle_watch_event(&lost));
    loop {
        let (id, ask) = crowd.images.get_mut(&client).unwrap().poll_ask().unwrap();
        let is_renewal = |operation: &rados::Operation| {
            let input = operation.ops.first().and_then(|op| op.call_input().ok());
            input.is_some_and(|(_, method, _)| &method[..] == b"set_cookie")
        };
        if matches!(&ask, crate::Ask::Operate(operation) if is_renewal(operation)) {
            return (id, ask);
        }
        crowd.give_answer(client, id, ask);
    }
}

#[test]
fn an_owner_whose_watch_is_lost_while_it_drains_is_not_taken_for_dead() {
    let mut crowd = crowd(2);
    crowd.write(0);
    crowd.settle();
    crowd.outcome(0);
    crowd.write(0);
    let (id, write) = crowd.images.get_mut(&0).unwrap().poll_ask().unwrap();
    assert_eq!(crowd.say(request_lock()), [0]);
    let (renewal, ask) = lose_watch(&mut crowd, 0);
    crowd.give_answer(0, renewal, ask);
    crowd.write(1);
    crowd.turn_until_rest(100);
    assert!(crowd.blocklist.is_empty() && crowd.holder() == Some(0));
    crowd.give_answer(0, id, write);
    crowd.settle();
    assert_eq!(
        (crowd.outcome(0), crowd.outcome(1)),
        (Some(Ok(Outcome::Done)), Some(Ok(Outcome::Done)))
    );
    assert!(crowd.blocklist.is_empty());
}

#[test]
fn a_watch_that_begins_while_the_lock_is_renewed_counts() {
    let mut crowd = crowd(1);
    crowd.write(0);
    crowd.settle();
    let (renewal, ask) = lose_watch(&mut crowd, 0);
    let lost = WatchEvent::Lost { watch: WatchId(crowd.watches[&0]), error: Errno::NOTCONN };
    assert!(crowd.images.get_mut(&0).unwrap().handle_watch_event(&lost));
    crowd.settle();
    crowd.give_answer(0, renewal, ask);
    crowd.settle();
    assert_eq!(crowd.holder.as_ref().unwrap().1, format!("auto {}", crowd.watches[&0]));
}

#[test]
fn a_lock_is_given_up_if_the_image_cannot_be_read_with_it() {
    let mut crowd = crowd(1);
    crowd.write(0);
    for _ in 0..2 {
        let (id, ask) = crowd.images.get_mut(&0).unwrap().poll_ask().unwrap();
        crowd.give_answer(0, id, ask);
    }
    assert_eq!(crowd.holder(), Some(0));
    let image = crowd.images.get_mut(&0).unwrap();
    let (id, _) = image.poll_ask().unwrap();
    image.handle_answer(id, Err(Errno::TIMEDOUT));
    crowd.settle();
    assert_eq!(crowd.outcome(0).unwrap().unwrap_err().errno(), Errno::TIMEDOUT);
    assert_eq!((crowd.holder(), crowd.images[&0].has_lock()), (None, false));
    crowd.write(0);
    crowd.settle();
    assert_eq!((crowd.outcome(0), crowd.holder()), (Some(Ok(Outcome::Done)), Some(0)));
}

#[test]
fn a_watch_that_ends_while_it_begins_is_begun_again() {
    let mut crowd = crowd(1);
    let lost = WatchEvent::Lost { watch: WatchId(crowd.watches[&0]), error: Errno::NOTCONN };
    let image = crowd.images.get_mut(&0).unwrap();
    assert!(image.handle_watch_event(&lost));
    let (id, _) = image.poll_ask().unwrap();
    image.handle_answer(id, Err(Errno::NOTCONN));
    crowd.write(0);
    crowd.settle();
    assert_eq!((crowd.outcome(0), crowd.events(0)), (Some(Ok(Outcome::Done)), vec![]));
}
