//! A single OSD and its clients: authentication, capabilities, and errors when it cannot serve.

mod budgets;
mod capabilities;
mod copies;
mod early;
pub(crate) mod lone;
mod skipped_maps;
mod store_failures;
mod tell;

use crate::limits;
use crate::work::Work;
use auth::{
    AUTH_MODE_AUTHORIZER, CephxClient, CephxPolicy, CephxServer, CryptoKey, EntityAuth, Entropy,
    KeyType, METHOD_CEPHX, METHOD_NONE, NoneAuthorizer, ServerContext, ServiceSecrets,
};
use bytes::Bytes;
use engine::{AuthRequest, AuthVerdict, Duration, Policy};
use lone::{CLIENT_ADDR, Lone, POOL};
use maps::{OsdMapFlags, Pool, PoolFlags, PoolType};
use std::collections::{BTreeMap, VecDeque};
use store::mem::MemStore;
use types::features::SUPPORTED;
use types::{
    AddrType, EntityAddr, EntityAddrVec, EntityName, EntityType, Errno, OsdId, PgId, PoolId, UTime,
};
use wire::op::{OpCode, request_flags, watch_op};
use wire::osd_op::WatchArguments;
use wire::watch::{NotifyRequest, WatchEvent};
use wire::{MessageBody, OsdOp};

const SECRET_LEN: usize = auth::CONNECTION_SECRET_LENGTH;

fn start(method: u32, payload: Vec<u8>) -> AuthRequest {
    AuthRequest::Start {
        method,
        preferred_modes: vec![2, 1],
        payload: payload.into(),
        seen_addr: EntityAddr::default(),
    }
}

fn read() -> Vec<OsdOp> {
    vec![OsdOp::read(0, 0)]
}

fn append(len: usize) -> Vec<OsdOp> {
    vec![OsdOp::append(vec![7; len].into())]
}

fn failed(errno: Errno) -> Option<i32> {
    Some(errno.negative())
}

/// A client with a ticket for OSDs, and the secrets by which they verify it.
fn ticket_holder(now: UTime, entropy: &mut Entropy) -> (CephxClient, ServiceSecrets) {
    let name: EntityName = "client.a".parse().unwrap();
    let key = CryptoKey::generate(KeyType::Aes, now, entropy);
    let entity =
        EntityAuth::new(key.clone()).with_caps("osd", "allow r").with_caps("mon", "allow r");
    let keys = BTreeMap::from([(name.clone(), entity)]);
    let policy = CephxPolicy::default();
    let mut secrets = ServiceSecrets::default();
    secrets.rotate(now, &policy, entropy);
    let mut client = CephxClient::new(name.clone(), key, &[EntityType::MON, EntityType::OSD]);
    client.initial_request();
    let (mut server, challenge) = CephxServer::start(name, 4100, true, entropy);
    let answer = client.handle_challenge(&challenge, entropy).unwrap();
    let context = ServerContext { now, keys: &keys, secrets: &secrets, policy: &policy, entropy };
    let reply = server.handle_request(context, &answer, Some(SECRET_LEN)).unwrap();
    client.handle_done(now, 4100, &reply.payload).unwrap();
    (client, secrets)
}

#[test]
fn an_authorizer_proves_who_comes_and_what_it_may_do() {
    let mut lone = Lone::new();
    let mut entropy = Entropy::from_seed([9; 32]);
    let (client, secrets) = ticket_holder(lone.now.wall(), &mut entropy);
    let mut authorizer = client.authorizer(EntityType::OSD, &mut entropy).unwrap();
    let first = || start(METHOD_CEPHX, authorizer.payload().to_vec());

    let verdict = lone.authenticate(first());
    let refused = AuthVerdict::BadMethod {
        result: Errno::ACCES.negative(),
        allowed_methods: vec![METHOD_CEPHX],
        allowed_modes: vec![1, 2],
    };
    assert_eq!(verdict, refused, "the OSD has no secrets yet");

    lone.tell_secrets(secrets.service(EntityType::OSD).unwrap());
    let AuthVerdict::More { payload } = lone.authenticate(first()) else { panic!() };
    let answer = authorizer.handle_challenge(&payload, &mut entropy).unwrap();
    let verdict = lone.authenticate(AuthRequest::More { payload: answer.clone().into() });
    let AuthVerdict::Done { name, global_id, mode, payload, caps, .. } = verdict else { panic!() };
    assert_eq!((name.to_string(), global_id, mode), ("client.a".to_owned(), 4100, 2));
    assert_eq!(authorizer.handle_done(&payload).unwrap().len(), SECRET_LEN);
    let conn = lone.client_with(caps);
    assert_eq!(lone.call(conn, "a", read()), failed(Errno::NOENT));
    assert_eq!(lone.call(conn, "a", append(1)), failed(Errno::PERM));

    // The same answer again belongs to no exchange.
    let again = lone.authenticate(AuthRequest::More { payload: answer.into() });
    assert!(matches!(again, AuthVerdict::BadMethod { .. }));
}

#[test]
fn an_osd_reports_for_duty_when_it_can_tell_whom_to_let_in() {
    let mut lone = Lone::new();
    let take_down = |increment: &mut maps::Incremental| {
        increment.new_state.insert(OsdId(0), maps::OsdState::UP);
    };
    lone.publish(take_down);
    assert_eq!(lone.boots, 0, "it would refuse all others");
    let mut entropy = Entropy::from_seed([9; 32]);
    let (_, secrets) = ticket_holder(lone.now.wall(), &mut entropy);
    lone.tell_secrets(secrets.service(EntityType::OSD).unwrap());
    lone.tell_secrets(secrets.service(EntityType::OSD).unwrap());
    assert_eq!(lone.boots, 1);

    let mut lone = Lone::with(MemStore::new(), true);
    lone.publish(take_down);
    assert_eq!(
        lone.boots, 2,
        "where nothing is proven it is ready at once, and when it was marked down"
    );
}

#[test]
fn an_osd_whose_boot_is_not_granted_turns_to_another_monitor_if_there_is_one() {
    for (monitors, left) in [(1, 0), (2, 1)] {
        let mut lone = Lone::with(MemStore::new(), true);
        lone.osd.shared().env.config.monitors = vec![Default::default(); monitors];
        lone.publish(|increment| {
            increment.new_state.insert(OsdId(0), maps::OsdState::UP);
        });
        lone.closed = Some(Vec::new());
        let retry = limits::BOOT_RETRY.as_secs();
        lone.wait(retry * u64::from(limits::BOOT_RETRIES_MAX) - 1);
        assert_eq!(lone.closed, Some(Vec::new()), "a monitor may be slow");
        let boots = lone.boots;
        lone.wait(2);
        assert_eq!(lone.closed.as_ref().map(Vec::len), Some(left));
        assert_eq!(lone.boots, boots + 1, "it boots in either session");
    }
}

#[test]
fn who_proves_nothing_is_refused_unless_nothing_is_asked_for() {
    let name: EntityName = "client.a".parse().unwrap();
    let asserted = codec::encode_to_bytes(&NoneAuthorizer { name: name.clone(), global_id: 5 });
    assert_eq!(asserted[0], AUTH_MODE_AUTHORIZER);
    let request = || start(METHOD_NONE, asserted.to_vec());
    let AuthVerdict::BadMethod { result, allowed_methods, .. } =
        Lone::new().authenticate(request())
    else {
        panic!()
    };
    assert_eq!((result, allowed_methods), (Errno::NOTSUPP.negative(), vec![METHOD_CEPHX]));

    let mut lone = Lone::with(MemStore::new(), true);
    let AuthVerdict::Done { name: believed, mode, caps, .. } = lone.authenticate(request()) else {
        panic!()
    };
    assert_eq!((believed, mode), (name, 1));
    let conn = lone.client_with(caps);
    assert_eq!(lone.call(conn, "a", append(1)), Some(0));
}

#[test]
fn capabilities_decide_for_each_kind_of_operation() {
    let mut lone = Lone::new();
    let admin = lone.client("allow *");
    assert_eq!(lone.call(admin, "a", append(4)), Some(0));
    let setxattr = || vec![OsdOp::xattr(OpCode::SETXATTR, b"name", b"value")];
    let reading_call = || vec![OsdOp::call("version", "read", b"")];
    // It also reads.
    let writing_call = || vec![OsdOp::call("version", "set", b"")];
    let kinds = [read(), setxattr(), reading_call(), writing_call()];
    let may = |lone: &mut Lone, caps: &str| {
        let conn = lone.client(caps);
        let results = kinds.iter().map(|ops| lone.call(conn, "a", ops.clone()));
        let may = results.map(|result| result != failed(Errno::PERM));
        may.map(|may| if may { 'y' } else { 'n' }).collect::<String>()
    };
    for (caps, expected) in [
        ("allow *", "yyyy"),
        ("allow r", "ynnn"),
        ("allow w", "nynn"),
        ("allow rw", "yynn"),
        ("allow rx", "ynyy"),
        ("allow rwx", "yyyy"),
        ("allow x", "nnyy"),
        ("allow class-read", "nnyn"),
        ("allow class-write", "nnnn"),
        ("allow class-read class-write", "nnyy"),
        ("allow rwx pool=other", "nnnn"),
        ("allow rwx pool=pool", "yyyy"),
        ("allow r object_prefix a", "ynnn"),
        ("allow r object_prefix b", "nnnn"),
        ("allow r namespace=b", "nnnn"),
        ("", "nnnn"),
        ("nonsense", "nnnn"),
    ] {
        assert_eq!(may(&mut lone, caps), expected, "{caps:?}");
    }
}

#[test]
fn commands_are_for_those_who_may_do_everything() {
    let mut lone = Lone::new();
    let reader = lone.client("allow r");
    let query = r#"{"prefix": "query", "pgid": "1.0"}"#;
    assert_eq!(lone.command(reader, query).result, Errno::ACCES.negative());
    let admin = lone.client("allow *");
    lone.call(admin, "a", append(10));
    for text in [query, r#"{"prefix": "pg", "cmd": "query", "pgid": "1.0"}"#] {
        let reply = lone.command(admin, text);
        let output: serde_json::Value = serde_json::from_slice(&reply.output).unwrap();
        assert_eq!(output["state"], "active+clean");
        assert_eq!(output["acting"], serde_json::json!([0]));
        assert_eq!(output["info"]["stats"]["stat_sum"]["num_bytes"], 10);
        assert_eq!(output["recovery_state"][0]["name"], "Started/Primary/Active");
    }
    let result = |lone: &mut Lone, text: &str| lone.command(admin, text).result;
    let unknown = r#"{"prefix": "query", "pgid": "1.7"}"#;
    assert_eq!(result(&mut lone, unknown), Errno::NOENT.negative());
    assert_eq!(result(&mut lone, r#"{"prefix": "query"}"#), Errno::INVAL.negative());
    assert_eq!(result(&mut lone, "query"), Errno::INVAL.negative());
    let lost = r#"{"prefix": "mark_unfound_lost", "pgid": "1.0", "mulcmd": "delete"}"#;
    assert_eq!(lone.command(admin, lost).text, "pg has no unfound objects");
}

#[test]
fn a_blocklisted_client_is_told_so() {
    let mut lone = Lone::new();
    let conn = lone.client("allow *");
    assert_eq!(lone.call(conn, "a", append(1)), Some(0));
    let addr: EntityAddr = CLIENT_ADDR.parse().unwrap();
    let addr = EntityAddr { kind: AddrType::Any, ..addr };
    let until = UTime { seconds: 2_000_000_000, nanoseconds: 0 };
    lone.publish(|increment| {
        increment.new_blocklist.insert(addr, until);
    });
    assert_eq!(lone.call(conn, "a", append(1)), Some(-108));
    assert_eq!(lone.call(conn, "a", read()), Some(-108));
    lone.publish(|increment| increment.old_blocklist.push(addr));
    assert_eq!(lone.call(conn, "a", append(1)), Some(0));
}

#[test]
fn a_full_pool_takes_deletions_and_tells_those_who_ask() {
    for (flags, errno) in
        [(PoolFlags::FULL, Errno::NOSPC), (PoolFlags::FULL | PoolFlags::FULL_QUOTA, Errno::DQUOT)]
    {
        let mut lone = Lone::new();
        let conn = lone.client("allow *");
        assert_eq!(lone.call(conn, "a", append(100)), Some(0));
        let mut pool = lone.map.pools[&POOL].clone();
        pool.flags = pool.flags | flags;
        lone.publish(|increment| drop(increment.new_pools.insert(POOL, pool)));
        let with = |lone: &mut Lone, ops, flags| lone.call_with(conn, "a", ops, flags);
        assert_eq!(with(&mut lone, append(1), 0), None, "it waits for a better map");
        assert_eq!(with(&mut lone, append(1), request_flags::FULL_TRY), failed(errno));
        assert_eq!(with(&mut lone, append(1), request_flags::FULL_FORCE), Some(0));
        // A write that adds no bytes is allowed.
        let shrink = vec![OsdOp::write_full(Bytes::from_static(b"x"))];
        assert_eq!(with(&mut lone, shrink, request_flags::FULL_TRY), Some(0));
        assert_eq!(with(&mut lone, read(), 0), Some(0));
        let cut = vec![OsdOp::with_extent(
            OpCode::TRIMTRUNC,
            wire::osd_op::Extent { truncate_seq: 1, ..Default::default() },
        )];
        assert_eq!(with(&mut lone, cut, request_flags::FULL_TRY), Some(0));
        assert_eq!(with(&mut lone, vec![OsdOp::remove()], request_flags::FULL_TRY), Some(0));
    }
}

/// Its client resends both when it sees that the pool was full.
#[test]
fn no_write_overtakes_one_that_was_dropped_while_its_pool_was_full() {
    let mut lone = Lone::new();
    let conn = lone.client("allow *");
    assert_eq!(lone.call(conn, "a", append(1)), Some(0));
    let (before, after) = (lone.map.pools[&POOL].clone(), lone.map.pools[&POOL].clone());
    let full = maps::Pool { flags: before.flags | PoolFlags::FULL, ..before };
    let [first, second] = [100, 101].map(|tid| lone.request("a", append(1), 0).with_tid(tid));
    lone.publish(|increment| drop(increment.new_pools.insert(POOL, full)));
    lone.deliver(conn, first);
    lone.publish(|increment| drop(increment.new_pools.insert(POOL, after)));
    lone.deliver(conn, second);
    assert!(lone.replies.is_empty());
    assert_eq!(lone.call(conn, "a", append(1)), Some(0));
}

/// The second write is already in the queue when the first is dropped.
#[test]
fn no_write_of_an_object_overtakes_one_that_finds_its_pool_full_when_its_turn_comes() {
    let mut lone = Lone::new();
    let conn = lone.client("allow *");
    assert_eq!(lone.call(conn, "a", append(1)), Some(0));
    let before = lone.map.pools[&POOL].clone();
    let full = maps::Pool { flags: before.flags | PoolFlags::FULL, ..before };
    lone.held = Some(Default::default());
    lone.send(conn, "a", read(), 0);
    lone.send(conn, "a", append(1), 0);
    lone.send(conn, "a", vec![OsdOp::remove()], 0);
    let forced = lone.send(conn, "a", vec![OsdOp::remove()], request_flags::FULL_TRY);
    lone.publish(|increment| drop(increment.new_pools.insert(POOL, full)));
    let answered = |lone: &Lone| lone.replies.iter().map(|(tid, _)| *tid).collect::<Vec<_>>();
    assert!(answered(&lone).is_empty());
    assert!(lone.answer_held());
    assert_eq!(answered(&lone), [forced - 3, forced], "what was dropped is sent again, in order");
    assert_eq!(lone.in_flight(), (0, 0));
}

#[test]
fn a_pause_drops_requests_which_their_clients_repeat() {
    let mut lone = Lone::new();
    let conn = lone.client("allow *");
    assert_eq!(lone.call(conn, "a", append(1)), Some(0));
    for (flag, reads, writes) in [
        (OsdMapFlags::PAUSERD, None, Some(0)),
        (OsdMapFlags::PAUSEWR, Some(0), None),
        (OsdMapFlags::FULL, Some(0), None),
    ] {
        let flags = lone.map.flags;
        lone.publish(|increment| increment.new_flags = Some(flags | flag));
        assert_eq!(lone.call(conn, "a", read()), reads);
        assert_eq!(lone.call(conn, "a", append(1)), writes);
        lone.publish(|increment| increment.new_flags = Some(flags));
        assert_eq!(lone.call(conn, "a", read()), Some(0));
        assert_eq!(lone.call(conn, "a", append(1)), Some(0));
    }
}

/// A client that sees a pause resends all its writes when it ends, those with FULL_TRY too.
#[test]
fn a_forced_write_does_not_overtake_one_that_a_pause_dropped() {
    let mut lone = Lone::new();
    let conn = lone.client("allow *");
    assert_eq!(lone.call(conn, "a", append(1)), Some(0));
    lone.held = Some(Default::default());
    let read_tid = lone.send(conn, "a", read(), 0);
    lone.send(conn, "a", append(1), 0);
    lone.send(conn, "a", vec![OsdOp::remove()], request_flags::FULL_TRY);
    let flags = lone.map.flags | OsdMapFlags::PAUSEWR;
    lone.publish(|increment| increment.new_flags = Some(flags));
    lone.send(conn, "b", append(1), 0);
    while lone.answer_held() {}
    assert_eq!(lone.replies.iter().map(|(tid, _)| *tid).collect::<Vec<_>>(), [read_tid]);
    assert_eq!(lone.in_flight(), (0, 0));
}

/// After a merge of groups, clients resend all unanswered requests in order, and none may overtake them.
#[test]
fn what_clients_send_again_for_a_newer_map_is_dropped() {
    let mut lone = Lone::new();
    let client = lone.client("allow *");
    let before = lone.request("object", append(4), 0);
    let mut pool = lone.map.pool(POOL).unwrap().clone();
    lone.publish(|increment| {
        pool.last_force_op_resend = increment.epoch;
        increment.new_pools.insert(POOL, pool);
    });
    lone.deliver(client, before.with_tid(9000));
    assert!(lone.replies.is_empty());
    assert_eq!(lone.call(client, "object", append(4)), Some(0));
}

#[test]
fn a_session_with_too_much_in_work_is_paused_until_it_has_less() {
    let mut lone = Lone::new();
    let conn = lone.client("allow *");
    // Requests with a newer map wait.
    let next = lone.map.epoch.next();
    let ahead = std::mem::replace(&mut lone.map.epoch, next);
    for _ in 0..17 {
        lone.send(conn, "a", vec![OsdOp::write_full(vec![0; 4 << 20].into())], 0);
    }
    assert_eq!(lone.pauses, [true]);
    lone.map.epoch = ahead;
    lone.publish(|_| {});
    assert_eq!(lone.replies.len(), 17);
    assert_eq!(lone.pauses, [true, false]);
}

#[test]
fn a_session_is_paused_for_requests_that_wait_until_all_groups_know_the_map() {
    let mut lone = Lone::new();
    let conn = lone.client("allow *");
    let (many, other) = (2 * limits::GROUPS_PLACED_MAX as u32, PoolId(POOL.0 + 1));
    lone.publish(|increment| {
        increment.new_pool_max = Some(other);
        increment.new_pools.insert(other, Pool::new(PoolType::Replicated, 1, many, 0));
        increment.new_pool_names.insert(other, "other".to_owned());
        for seed in 0..many {
            increment.new_pg_upmap.insert(PgId { pool: other, seed }, vec![OsdId(0)]);
        }
    });
    let too_many = limits::SESSION_REQUESTS_MAX + 1;
    for _ in 0..too_many {
        lone.send(conn, "a", vec![OsdOp::stat()], 0);
    }
    assert_eq!(lone.replies.len(), 0);
    assert_eq!(lone.pauses, [true]);
    lone.wait(1);
    assert_eq!(lone.replies.len(), too_many);
    assert_eq!(lone.pauses, [true, false]);
    assert_eq!(lone.in_flight(), (0, 0));
}

#[test]
fn options_take_effect_while_the_osd_runs_and_end_when_they_are_removed() {
    let mut lone = Lone::new();
    let before = lone.osd.options().clone();
    lone.configure(&[("osd_max_backfills", "9"), ("rbd_default_pool", "other")]);
    assert_eq!(lone.osd.options().max_backfills, 9);
    lone.configure(&[]);
    assert_eq!(lone.osd.options(), &before);
}

#[test]
fn what_another_osd_asks_is_answered_over_the_session_that_it_opened() {
    let mut lone = Lone::new();
    let other = OsdId(1);
    let addrs = EntityAddrVec::one("v2:10.0.0.3:6800/1".parse().unwrap());
    lone.publish(|increment| {
        increment.new_max_osd = Some(2);
        increment.mark_up(other, addrs.clone(), addrs.clone(), addrs.clone(), addrs.clone());
    });
    let conn = lone.peer(other, &addrs);
    let pg = PgId { pool: PoolId(9), seed: 0 };
    let header = pg::message::Header::replicated(pg, lone.map.epoch, lone.map.epoch);
    lone.deliver(conn, pg::message::Body::Query.encode(&header));
    assert_eq!(lone.spoken, [conn]);
    assert!(!lone.dialed.contains(&Policy::Lossless), "a second session would end the first");
}

#[test]
fn who_has_been_silent_for_long_is_waited_for_until_the_watch_has_ended() {
    let mut lone = Lone::new();
    let (silent, notifier) = (lone.client("allow *"), lone.client("allow *"));
    assert_eq!(lone.call(silent, "object", append(100)), Some(0));
    let op = watch_op::WATCH;
    let watch = WatchArguments { cookie: 7, op, timeout_seconds: 5, ..WatchArguments::default() };
    assert_eq!(lone.call(silent, "object", vec![OsdOp::watch(watch)]), Some(0));
    // The watch has timed out, but that was not checked yet.
    lone.wait(4);
    lone.now = lone.now + Duration::from_secs(2);
    let notify = OsdOp::notify(9, &NotifyRequest::default());
    assert_eq!(lone.call(notifier, "object", vec![notify]), Some(0));
    assert_eq!(lone.told, []);
    lone.wait(1);
    let told: Vec<_> = lone.told.iter().map(|(conn, told)| (*conn, told.event)).collect();
    assert_eq!(told, [(notifier, WatchEvent::NotifyComplete)]);
}

#[test]
fn images_are_counted_only_while_somebody_asks() {
    let mut lone = Lone::new();
    let client = lone.client("allow rwx");
    let work = |lone: &mut Lone| {
        assert_eq!(lone.call(client, "rbd_data.7.10ab.0000000000000001", append(100)), Some(0));
        assert_eq!(lone.call(client, "rbd_data.7.10ab.0000000000000001", read()), Some(0));
        assert_eq!(lone.call(client, "other", append(100)), Some(0));
        lone.wait(10);
    };
    work(&mut lone);
    assert_eq!(lone.images, []);
    lone.ask_for_images(20);
    work(&mut lone);
    let [image] = &lone.images[..] else { panic!("{:?}", lone.images) };
    assert_eq!((image.pool, &image.image[..]), (PoolId(7), &b"10ab"[..]));
    assert_eq!((image.writes, image.reads, image.write_bytes), (1, 1, 100));
    assert!(image.read_bytes >= 100);
    lone.wait(20);
    lone.images.clear();
    work(&mut lone);
    assert_eq!(lone.images, []);
}

#[test]
fn a_notification_is_not_complete_because_its_object_moves_to_another_group() {
    for name in ["a", "b", "c", "d", "e", "f"] {
        let mut lone = Lone::new();
        let (watcher, notifier) = (lone.client("allow *"), lone.client("allow *"));
        assert_eq!(lone.call(watcher, name, append(100)), Some(0));
        let op = watch_op::WATCH;
        let watch =
            WatchArguments { cookie: 7, op, timeout_seconds: 5, ..WatchArguments::default() };
        assert_eq!(lone.call(watcher, name, vec![OsdOp::watch(watch)]), Some(0));
        let notify = OsdOp::notify(9, &NotifyRequest::default());
        assert_eq!(lone.call(notifier, name, vec![notify]), Some(0));
        lone.publish(|increment| {
            let pool = maps::Pool::new(maps::PoolType::Replicated, 1, 8, 0);
            increment.new_pools.insert(POOL, pool);
        });
        let mut told = lone.told.iter();
        let is_complete = told.any(|(_, told)| told.event == WatchEvent::NotifyComplete);
        assert!(!is_complete, "{name}: {:?}", lone.told);
    }
}

#[test]
fn requests_that_wait_long_are_reported_with_what_they_wait_for() {
    let mut lone = Lone::new();
    let conn = lone.client("allow *");
    let mut pool = lone.map.pool(POOL).unwrap().clone();
    (pool.size, pool.min_size) = (2, 2);
    lone.publish(|increment| drop(increment.new_pools.insert(POOL, pool)));
    lone.send(conn, "a", append(1), 0);
    lone.wait(20);
    assert_eq!(lone.slow.count, 0);
    lone.send(conn, "b", append(1), 0);
    lone.wait(20);
    let slow = lone.slow.clone();
    assert_eq!((slow.count, slow.state.as_str()), (1, "undersized+peered"));
    assert!((30_000..=40_000).contains(&slow.oldest_ms), "{slow:?}");
    lone.wait(20);
    assert_eq!(lone.slow.count, 2);
}

/// One loads, and the others are in the queue of their object.
#[test]
fn requests_that_have_not_got_all_that_they_wait_for_do_not_go_on() {
    let mut lone = Lone::new();
    let conn = lone.client("allow *");
    assert_eq!(lone.call(conn, "a", append(1)), Some(0));
    lone.held = Some(Default::default());
    let first = lone.send(conn, "a", read(), 0);
    lone.send(conn, "a", append(1), 0);
    lone.send(conn, "a", read(), 0);
    let keys: Vec<u64> = lone.osd.hosted().operations().iter().map(|(key, _)| key).collect();
    for key in keys {
        let (hosted, shared) = lone.osd.parts();
        shared.work.push(Work::Continue(key));
        hosted.settle(shared);
    }
    assert!(lone.answer_held());
    assert_eq!(lone.held.as_ref().map(VecDeque::len), Some(1), "nothing is loaded twice");
    assert!(lone.answer_held());
    let answered: Vec<u64> = lone.replies.iter().map(|(tid, _)| *tid).collect();
    assert_eq!(answered, [first, first + 1, first + 2]);
}

#[test]
fn a_slow_request_of_a_group_that_serves_is_reported_with_its_own_cause() {
    let mut lone = Lone::new();
    let conn = lone.client("allow *");
    assert_eq!(lone.call(conn, "a", append(100)), Some(0));
    lone.held = Some(Default::default());
    lone.send(conn, "a", read(), 0);
    lone.wait(40);
    assert_eq!(lone.slow.state, "active+clean; it waits for the disk of this OSD");
    lone.send(conn, "a", append(100), 0);
    assert!(lone.answer_held());
    lone.wait(10);
    assert_eq!(lone.slow.count, 0);
}

#[test]
fn groups_that_begin_anew_all_at_once_look_only_at_their_own_requests() {
    const GROUPS: u32 = 64;
    let mut lone = Lone::new();
    let conn = lone.client("allow *");
    let mut pool = lone.map.pool(POOL).unwrap().clone();
    // A single copy accepts no writes, so requests wait for their groups.
    (pool.size, pool.min_size) = (2, 2);
    pool.set_pg_num(GROUPS, lone.map.epoch.next());
    pool.pgp_num = GROUPS;
    let own = OsdId(0);
    lone.publish(|increment| {
        increment.new_pools.insert(POOL, pool.clone());
        for seed in 0..GROUPS {
            increment.new_pg_upmap.insert(PgId { pool: POOL, seed }, vec![own]);
        }
    });
    for number in 0..4 * GROUPS {
        lone.send(conn, &format!("object{number}"), append(1), 0);
    }
    assert_eq!(lone.osd.hosted().operations().len(), 4 * GROUPS as usize);
    let before = lone.osd.hosted().operations().looked_at();
    // All groups begin an interval, because their pool has changed.
    pool.min_size = 1;
    pool.size = 3;
    lone.publish(|increment| drop(increment.new_pools.insert(POOL, pool)));
    assert_eq!(lone.replies.len(), 4 * GROUPS as usize);
    let looked_at = lone.osd.hosted().operations().looked_at() - before;
    assert!(looked_at <= 16 * GROUPS as usize, "{looked_at} requests");
}

#[test]
fn each_step_of_trimming_looks_at_few_groups_however_many_have_something_to_trim() {
    const GROUPS: u32 = 256;
    let mut lone = Lone::new();
    let mut pool = lone.map.pool(POOL).unwrap().clone();
    pool.set_pg_num(GROUPS, lone.map.epoch.next());
    pool.pgp_num = GROUPS;
    lone.publish(|increment| {
        increment.new_pools.insert(POOL, pool);
        for seed in 0..GROUPS {
            increment.new_pg_upmap.insert(PgId { pool: POOL, seed }, vec![OsdId(0)]);
        }
    });
    lone.wait(2);
    let snaps: maps::SnapIntervals = [types::SnapId(1)].into_iter().collect();
    lone.publish(|increment| drop(increment.new_removed_snaps.insert(POOL, snaps)));
    lone.wait(10);
    assert!(
        lone.osd
            .hosted()
            .groups()
            .iter()
            .all(|(_, group)| group.trim.left(&group.snapshots.removed) == 0)
    );
    let looked_at = lone.osd.hosted().trim().looked_at();
    assert!(looked_at <= 4 * GROUPS as usize, "{looked_at} looks");
}

#[test]
fn a_map_is_told_to_few_groups_in_one_turn_and_heartbeats_are_answered_meanwhile() {
    let groups = 4 * crate::limits::GROUPS_PLACED_MAX as u32;
    let mut lone = Lone::new();
    let conn = lone.client("allow *");
    let mut pool = lone.map.pool(POOL).unwrap().clone();
    pool.set_pg_num(groups, lone.map.epoch.next());
    pool.pgp_num = groups;
    lone.publish(|increment| {
        increment.new_pools.insert(POOL, pool.clone());
        for seed in 0..groups {
            increment.new_pg_upmap.insert(PgId { pool: POOL, seed }, vec![OsdId(0)]);
        }
    });
    lone.wait(2);
    assert!(lone.is_active() && !lone.osd.is_behind());
    // All groups begin an interval. Inputs are held meanwhile, and handled then.
    pool.size = 2;
    let before = lone.osd.shared().maps.distribution.turns();
    lone.publish(|increment| drop(increment.new_pools.insert(POOL, pool)));
    let tid = lone.send(conn, "object", append(1), 0);
    assert!(lone.osd.shared().maps.is_telling() && lone.replies.is_empty());
    let beat = wire::internal::Heartbeat { is_answer: false, stamp: 7, epoch: lone.map.epoch };
    lone.deliver(conn, beat.encode(SUPPORTED));
    assert_eq!(lone.beats, 1, "a heartbeat is answered");
    let mut entropy = Entropy::from_seed([9; 32]);
    let (client, secrets) = ticket_holder(lone.now.wall(), &mut entropy);
    let authorizer = client.authorizer(EntityType::OSD, &mut entropy).unwrap();
    lone.tell_secrets(secrets.service(EntityType::OSD).unwrap());
    let verdict = lone.authenticate(start(METHOD_CEPHX, authorizer.payload().to_vec()));
    assert!(matches!(verdict, AuthVerdict::More { .. }), "others are let in");
    assert!(lone.osd.shared().maps.is_telling());
    lone.wait(2);
    assert!(lone.osd.shared().maps.distribution.turns() - before >= 4);
    assert_eq!(lone.replies.pop_front().map(|(known, _)| known), Some(tid));
}

#[test]
fn of_maps_that_are_there_together_the_last_interval_is_stored() {
    let down = |increment: &mut maps::Incremental| {
        increment.new_state.insert(OsdId(0), maps::OsdState::UP);
    };
    let addrs = EntityAddrVec::one("v2:10.0.0.1:6800/1".parse().unwrap());
    let up = |increment: &mut maps::Incremental| {
        let addrs = || addrs.clone();
        increment.mark_up(OsdId(0), addrs(), addrs(), addrs(), addrs());
    };
    let mut lone = Lone::new();
    lone.wait(2);
    let before = lone.commits;
    lone.publish(down);
    lone.publish(up);
    lone.wait(2);
    let apart = lone.commits - before;
    let before = lone.commits;
    lone.publish_two(down, up);
    lone.wait(2);
    assert!(lone.is_active());
    assert_eq!(lone.commits - before, apart - 1, "nothing was done in the first one");
    // The increments of both are stored: after a restart, the OSD begins with that map.
    let newest = lone.map.epoch;
    let mut osd = crate::Osd::new(lone::config(false), [2; 32]);
    while let Some(output) = engine::Daemon::poll_output(&mut osd) {
        if let engine::Output::Storage(store::Request { token, kind }) = output {
            let completion = store::Completion { token, outcome: lone.store.execute(kind) };
            engine::Daemon::handle_completion(&mut osd, lone.now, completion);
        }
    }
    assert_eq!(osd.map().epoch, newest);
}
