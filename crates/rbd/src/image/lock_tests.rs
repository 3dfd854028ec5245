//! Several clients compete for the lock of one image.

use super::test_cluster::{TestCluster, addr};
use super::{ImageEvent, Outcome};
use crate::notify::{ClientId, Maintenance, Notification, ProxiedRequestId};
use crate::{Features, RequestSource};
use bytes::Bytes;
use rados::{WatchEvent, WatchId};
use types::Errno;

fn cluster(clients: usize) -> TestCluster {
    TestCluster::new(clients, Features::LAYERING.with(Features::EXCLUSIVE_LOCK))
}

fn request_lock() -> Bytes {
    let from = ClientId { global_id: 99, handle: 99 };
    codec::encode_to_bytes(&Notification::RequestLock { from, force: false })
}

#[test]
fn the_first_write_takes_the_lock_and_reads_do_not() {
    let mut cluster = cluster(1);
    assert_eq!(cluster.holder(), None);
    cluster.images.get_mut(&0).unwrap().submit(super::Request::Read { offset: 0, length: 10 });
    cluster.settle();
    assert!(cluster.outcome(0).unwrap().is_ok() && cluster.holder().is_none());
    cluster.write(0);
    cluster.settle();
    assert_eq!((cluster.outcome(0), cluster.holder()), (Some(Ok(Outcome::Done)), Some(0)));
    let watch = cluster.watches[&0];
    assert_eq!(cluster.holder, Some((0, format!("auto {watch}").into(), "internal".into())));
    cluster.images.get_mut(&0).unwrap().close();
    cluster.settle();
    assert_eq!((cluster.events(0), cluster.holder()), (vec![ImageEvent::Closed], None));
    assert!(cluster.watches.is_empty());
}

#[test]
fn the_lock_moves_to_the_client_that_writes() {
    let mut cluster = cluster(3);
    for client in [0, 1, 2, 1, 0] {
        cluster.write(client);
        cluster.settle();
        assert_eq!(cluster.outcome(client), Some(Ok(Outcome::Done)));
        assert_eq!(cluster.holder(), Some(client));
    }
    assert_eq!(cluster.writers, [0, 1, 2, 1, 0]);
    assert!(cluster.blocklist.is_empty());
}

#[test]
fn clients_that_write_at_once_get_the_lock_in_turn() {
    let mut cluster = cluster(4);
    for _ in 0..5 {
        (0..4).for_each(|client| cluster.write(client));
    }
    cluster.settle();
    for client in 0..4 {
        for _ in 0..5 {
            assert_eq!(cluster.outcome(client), Some(Ok(Outcome::Done)));
        }
    }
}

#[test]
fn writes_under_way_come_before_the_lock_is_given_up() {
    let mut cluster = cluster(1);
    cluster.write(0);
    cluster.settle();
    cluster.outcome(0);
    cluster.write(0);
    let image = cluster.images.get_mut(&0).unwrap();
    let (id, write) = image.poll_request().unwrap();
    assert_eq!(cluster.say(request_lock()), [0]);
    cluster.write(0);
    cluster.settle();
    assert_eq!((cluster.holder(), cluster.outcome(0)), (Some(0), None), "{write:?}");
    cluster.images.get_mut(&0).unwrap().handle_response(id, Err(Errno::NOSPC));
    cluster.settle();
    assert!(cluster.outcome(0).unwrap().is_err());
    // The later write has acquired it again, as no other client did.
    assert_eq!((cluster.outcome(0), cluster.holder()), (Some(Ok(Outcome::Done)), Some(0)));
}

#[test]
fn a_dead_owner_is_blocklisted_before_its_lock_is_broken() {
    let mut cluster = cluster(2);
    cluster.write(0);
    cluster.settle();
    let mut dead = cluster.images.remove(&0).unwrap();
    cluster.write(1);
    // The watch of the owner still exists, but its client does not answer.
    cluster.run_turns(1000);
    assert_eq!((cluster.holder(), cluster.outcome(1)), (Some(0), None));
    assert!(cluster.blocklist.is_empty());
    cluster.watches.remove(&0);
    cluster.monitor_failures = 3;
    cluster.settle();
    assert_eq!((cluster.outcome(1), cluster.holder()), (Some(Ok(Outcome::Done)), Some(1)));
    assert_eq!(cluster.blocklist, [addr(0).to_string().replace("v2:", "")]);
    // An owner that was fenced although it is alive learns so.
    assert!(dead.poll_completion().is_some());
    cluster.images.insert(0, dead);
    cluster.write(0);
    cluster.settle();
    assert_eq!(cluster.outcome(0).unwrap().unwrap_err().errno(), Errno::BLOCKLISTED);
    assert!(matches!(cluster.events(0)[..], [ImageEvent::Failed(_)]));
}

#[test]
fn a_lock_that_is_kept_is_not_given_up() {
    let mut cluster = cluster(2);
    cluster.images.get_mut(&0).unwrap().keep_lock();
    cluster.settle();
    assert_eq!(cluster.holder(), Some(0));
    cluster.write(1);
    cluster.settle();
    assert_eq!(cluster.outcome(1).unwrap().unwrap_err().errno(), Errno::ROFS);
    cluster.images.get_mut(&0).unwrap().close();
    cluster.settle();
    cluster.write(1);
    cluster.settle();
    assert_eq!((cluster.outcome(1), cluster.holder()), (Some(Ok(Outcome::Done)), Some(1)));
}

#[test]
fn keeping_a_lock_that_another_client_keeps_fails() {
    let mut cluster = cluster(2);
    for client in 0..2 {
        cluster.images.get_mut(&client).unwrap().keep_lock();
        cluster.settle();
    }
    assert!(matches!(cluster.events(1)[..], [ImageEvent::Failed(_)]));
    assert_eq!(cluster.holder(), Some(0));
}

#[test]
fn a_manual_lock_is_respected() {
    let mut cluster = cluster(1);
    cluster.holder = Some((7, "mine".into(), "".into()));
    cluster.write(0);
    cluster.settle();
    let error = cluster.outcome(0).unwrap().unwrap_err();
    assert!(error.errno() == Errno::BUSY && error.to_string().contains("rbd lock rm"), "{error}");
    cluster.holder = None;
    cluster.write(0);
    cluster.settle();
    assert_eq!(cluster.outcome(0), Some(Ok(Outcome::Done)));
}

#[test]
fn the_lock_cookie_names_the_newest_watch() {
    let mut cluster = cluster(1);
    cluster.write(0);
    cluster.settle();
    let old = WatchId(cluster.watches[&0]);
    let lost = WatchEvent::Lost { watch: old, error: Errno::NOTCONN };
    assert!(cluster.images.get_mut(&0).unwrap().handle_watch_event(&lost));
    cluster.settle();
    let watch = cluster.watches[&0];
    assert_ne!(watch, old.0);
    assert_eq!(cluster.holder.as_ref().unwrap().1, format!("auto {watch}"));
    cluster.images.get_mut(&0).unwrap().close();
    cluster.settle();
    assert_eq!(cluster.holder(), None);
}

#[test]
fn peers_are_sent_for_the_lock_if_they_ask_for_maintenance() {
    let mut cluster = cluster(2);
    // A rename, and a snapshot.
    let rename = codec::encode_to_bytes(&Notification::Other(14));
    let request = ProxiedRequestId { from: ClientId::default(), number: 1 };
    let action = Maintenance::TakeSnapshot("one".into());
    let snapshot = codec::encode_to_bytes(&Notification::Proxied { request, action });
    assert!(cluster.say(rename.clone()).is_empty() && cluster.say(snapshot.clone()).is_empty());
    cluster.write(0);
    cluster.settle();
    assert_eq!(cluster.say(rename), [Errno::NOTSUPP.negative()]);
    assert_eq!(cluster.say(snapshot), [Errno::NOTSUPP.negative()]);
    let progress = codec::encode_to_bytes(&Notification::Other(4));
    assert!(cluster.say(progress).is_empty());
}

/// Drops the owner's watch and registers another, up to the request that changes the lock's cookie.
fn lose_watch(
    cluster: &mut TestCluster,
    client: usize,
) -> (crate::ClusterRequestId, crate::ClusterRequest) {
    let watch = WatchId(cluster.watches.remove(&client).unwrap());
    let lost = WatchEvent::Lost { watch, error: Errno::NOTCONN };
    assert!(cluster.images.get_mut(&client).unwrap().handle_watch_event(&lost));
    loop {
        let (id, request) = cluster.images.get_mut(&client).unwrap().poll_request().unwrap();
        let is_renewal = |operation: &rados::Operation| {
            let input = operation.ops.first().and_then(|op| op.call_input().ok());
            input.is_some_and(|(_, method, _)| &method[..] == b"set_cookie")
        };
        if matches!(&request, crate::ClusterRequest::Operate(operation) if is_renewal(operation)) {
            return (id, request);
        }
        cluster.respond_to(client, id, request);
    }
}

#[test]
fn an_owner_whose_watch_is_lost_while_it_drains_is_not_taken_for_dead() {
    let mut cluster = cluster(2);
    cluster.write(0);
    cluster.settle();
    cluster.outcome(0);
    cluster.write(0);
    let (id, write) = cluster.images.get_mut(&0).unwrap().poll_request().unwrap();
    assert_eq!(cluster.say(request_lock()), [0]);
    let (renewal, request) = lose_watch(&mut cluster, 0);
    cluster.respond_to(0, renewal, request);
    cluster.write(1);
    cluster.run_turns(100);
    assert!(cluster.blocklist.is_empty() && cluster.holder() == Some(0));
    cluster.respond_to(0, id, write);
    cluster.settle();
    assert_eq!(
        (cluster.outcome(0), cluster.outcome(1)),
        (Some(Ok(Outcome::Done)), Some(Ok(Outcome::Done)))
    );
    assert!(cluster.blocklist.is_empty());
}

#[test]
fn a_watch_that_begins_while_the_lock_is_renewed_counts() {
    let mut cluster = cluster(1);
    cluster.write(0);
    cluster.settle();
    let (renewal, request) = lose_watch(&mut cluster, 0);
    let lost = WatchEvent::Lost { watch: WatchId(cluster.watches[&0]), error: Errno::NOTCONN };
    assert!(cluster.images.get_mut(&0).unwrap().handle_watch_event(&lost));
    cluster.settle();
    cluster.respond_to(0, renewal, request);
    cluster.settle();
    assert_eq!(cluster.holder.as_ref().unwrap().1, format!("auto {}", cluster.watches[&0]));
}

#[test]
fn a_lock_is_given_up_if_the_image_cannot_be_read_with_it() {
    let mut cluster = cluster(1);
    cluster.write(0);
    for _ in 0..2 {
        let (id, request) = cluster.images.get_mut(&0).unwrap().poll_request().unwrap();
        cluster.respond_to(0, id, request);
    }
    assert_eq!(cluster.holder(), Some(0));
    let image = cluster.images.get_mut(&0).unwrap();
    let (id, _) = image.poll_request().unwrap();
    image.handle_response(id, Err(Errno::TIMEDOUT));
    cluster.settle();
    assert_eq!(cluster.outcome(0).unwrap().unwrap_err().errno(), Errno::TIMEDOUT);
    assert_eq!((cluster.holder(), cluster.images[&0].has_lock()), (None, false));
    cluster.write(0);
    cluster.settle();
    assert_eq!((cluster.outcome(0), cluster.holder()), (Some(Ok(Outcome::Done)), Some(0)));
}

#[test]
fn a_watch_that_ends_while_it_begins_is_begun_again() {
    let mut cluster = cluster(1);
    let lost = WatchEvent::Lost { watch: WatchId(cluster.watches[&0]), error: Errno::NOTCONN };
    let image = cluster.images.get_mut(&0).unwrap();
    assert!(image.handle_watch_event(&lost));
    let (id, _) = image.poll_request().unwrap();
    image.handle_response(id, Err(Errno::NOTCONN));
    cluster.write(0);
    cluster.settle();
    assert_eq!((cluster.outcome(0), cluster.events(0)), (Some(Ok(Outcome::Done)), vec![]));
}
