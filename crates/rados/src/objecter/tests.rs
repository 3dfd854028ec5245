//! Contradictions of operations, sessions and watches are noticed.

use super::*;
use crate::names::WatchId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use types::{EntityAddrVec, PgId, UTime};

const SENT: OpId = OpId(1);
const PING: OpId = OpId(3);
const WATCH: WatchId = WatchId(2);

fn pending(purpose: Purpose) -> Pending {
    Pending::new(Operation::new(Place::default(), Vec::new()), purpose, UTime::default())
}

/// One operation sent on an open session, and a registered watch with a ping that waits.
fn objecter() -> Objecter {
    let (mut objecter, mut fx) = (Objecter::new(None), Effects::new(ConnId(1)));
    let target = Target {
        pg: PgId::default(),
        hash: 0,
        hash_bits: 1,
        mapping: Arc::default(),
        sizes: (3, 2),
        resend_epoch: Epoch(0),
    };
    objecter.sessions.open(OsdId(0), &EntityAddrVec::default(), &mut fx);
    objecter.sessions.handle_opened(ConnId(1));
    let mut sent = pending(Purpose::Submitted);
    sent.target = Some((OsdId(0), target));
    sent.sent(ConnId(1));
    objecter.ops.insert(SENT, sent);
    objecter.watches.insert(WATCH, Place::default(), Duration::from_secs(30));
    objecter.watches.asked(WATCH, OpId(2), Time(0));
    objecter.watches.registered(Time(0), WATCH, None, Ok(0), &mut fx);
    objecter.watches.asked(WATCH, PING, Time(0));
    objecter.ops.insert(PING, pending(Purpose::Ping(WATCH)));
    objecter.deadlines.extend([(Time(1), SENT), (Time(2), PING)]);
    objecter
}

#[track_caller]
fn is_noticed(what: &str, damage: impl FnOnce(&mut Objecter)) {
    let mut objecter = objecter();
    objecter.check_invariants();
    damage(&mut objecter);
    let checked = catch_unwind(AssertUnwindSafe(|| objecter.check_invariants()));
    let panic = checked.expect_err(what);
    let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    let text = panic.downcast_ref::<&str>().map_or(text, |text| (*text).to_owned());
    assert!(text.contains(what), "{text}");
}

#[test]
fn contradictions_are_noticed() {
    is_noticed("which is closed", |objecter| {
        objecter.sessions.handle_closed(Time(0), ConnId(1));
    });
    is_noticed("was sent to another OSD", |objecter| {
        objecter.ops.get_mut(&SENT).unwrap().target = None;
    });
    is_noticed("which is not in flight", |objecter| {
        objecter.ops.remove(&PING);
    });
    is_noticed("was never registered", |objecter| {
        objecter.watches.insert(WatchId(9), Place::default(), Duration::from_secs(30));
    });
    is_noticed("deadlines without order", |objecter| {
        objecter.deadlines.push_back((Time(0), SENT));
    });
}
