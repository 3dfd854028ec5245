//! Messages for which there are no vectors round trip; bad input is refused.

use bytes::Bytes;
use engine::Message;
use proptest::prelude::*;
use types::features::{SERVER_SQUID, SUPPORTED};
use types::{EntityAddrVec, Epoch, HObject, OsdId, PgId, PgShard, PoolId, SnapId, Uuid};
use wire::internal::{PgStat, StatsReport};
use wire::op::OpCode;
use wire::*;

/// Round trips, and every truncation of the fields is an error.
fn check<T: MessageBody + PartialEq + std::fmt::Debug>(value: T) {
    let message = value.encode(SUPPORTED);
    assert_eq!(message.kind, T::KIND);
    assert_eq!(T::decode(&message).unwrap(), value);
    for end in 0..message.front.len() {
        let cut = Message { front: message.front.slice(..end), ..message.clone() };
        assert!(T::decode(&cut).is_err(), "{end} bytes are enough for {value:?}");
    }
    let newer = [&message.front[..], b"appended"].concat();
    let newer = Message { front: newer.into(), version: 99, ..message };
    let is_request = T::KIND == OsdRequest::KIND;
    assert!(is_request || T::decode(&newer).unwrap() == value, "a newer {value:?}");
}

fn addrs() -> EntityAddrVec {
    EntityAddrVec::one("v2:10.1.2.3:6800/77".parse().unwrap())
}

fn pg() -> PgId {
    PgId { pool: PoolId(3), seed: 0x1f }
}

#[test]
fn daemon_messages_round_trip() {
    let superblock =
        OsdSuperblock { whoami: OsdId(3), weight: 1.5, mounted: Epoch(9), ..Default::default() };
    let metadata = [("hostname".to_owned(), "here".to_owned())].into();
    let cluster_addrs = addrs();
    check(OsdBoot {
        superblock,
        metadata,
        cluster_addrs,
        features: SUPPORTED,
        ..Default::default()
    });
    check(OsdFailure { target: OsdId(1), target_addrs: addrs(), flags: 3, ..Default::default() });
    check(OsdMarkMeDown { target_addrs: addrs(), request_ack: true, ..Default::default() });
    check(OsdBeacon { pgs: vec![pg()], report_interval_seconds: 300, ..Default::default() });
    check(Config { options: [("a".to_owned(), "b".to_owned())].into() });
    check(Ping {});
    check(Log {
        entries: vec![LogEntry { text: "x".into(), ..Default::default() }],
        ..Default::default()
    });
    check(GetPoolStats { pools: vec!["rbd".into()], ..Default::default() });
    check(GetPoolStatsReply {
        stats: [("rbd".to_owned(), PoolStat::default())].into(),
        per_pool: true,
        ..Default::default()
    });
    check(MgrClose { daemon_name: "x".into(), service_name: "y".into() });
    check(MgrCommand { fsid: Uuid([1; 16]), command: vec!["{}".into()], input: "in".into() });
    check(MgrCommandReply { result: -22, text: "no".into(), output: "out".into() });
    check(CommandReply { result: 0, text: String::new(), output: Bytes::new() });
}

#[test]
fn internal_messages_round_trip() {
    let stat =
        PgStat { state: 3, acting: vec![OsdId(0), OsdId(2)], objects: 9, ..Default::default() };
    check(StatsReport { osd: OsdId(1), pgs: [(pg(), stat)].into(), ..Default::default() });
    let counters = wire::MdsCounters { requests: 7, cpu_ns: 9, ..Default::default() };
    check(wire::MdsReport { gid: 4114, counters });
    check(internal::RotatingSecrets { service: 4, secrets: "opaque".into() });
}

#[test]
fn backoffs_and_watches_round_trip() {
    let begin = HObject::hash_start(PoolId(3), 7);
    let pg = PgShard { pg: pg(), shard: types::ShardId::at(2).unwrap() };
    check(OsdBackoff { pg, op: BackoffOp::Unblock, id: 5, begin, ..Default::default() });
    let outcome = watch::NotifyResult {
        replies: [((1, 2), Bytes::from("reply"))].into(),
        missed: [(3, 4)].into(),
    };
    let outcome = codec::encode_to_bytes(&outcome);
    check(WatchNotify { cookie: 1, payload: "hello".into(), outcome, ..Default::default() });
}

#[test]
fn messages_of_clients_of_file_systems_round_trip() {
    let metadata = [("hostname".to_owned(), "here".to_owned())].into();
    let features = FeatureBits(session_features::REPLY_ENCODING);
    let auth = client_session::CapAuth { readable: true, ..Default::default() };
    check(ClientSession {
        metadata,
        features,
        cap_auths: vec![auth],
        ..ClientSession::new(SessionOp::OPEN, 3)
    });
    let release = RequestRelease { ino: 7, name: "b".into(), ..Default::default() };
    check(ClientRequest {
        op: ClientOp::RENAME,
        path: FilePath::new(1, "a/b"),
        path2: FilePath::new(2, "c"),
        releases: vec![release.clone(), release],
        groups: vec![4, 5],
        fscrypt_auth: "opaque".into(),
        ..ClientRequest::default()
    });
    let inode = InodeStat { ino: 9, pin: 3, symlink: "there".into(), ..Default::default() };
    let dentry = ReplyDentry { directory: inode.clone(), name: "x".into(), ..Default::default() };
    check(ClientReply {
        dentry: Some(dentry),
        target: Some(inode),
        extra: "opaque".into(),
        ..ClientReply::plain(ClientOp::LOOKUP, 0, 4)
    });
    check(ClientCaps { op: CapOp::FLUSH, ino: 9, files: -1, subdirs: 3, ..Default::default() });
    check(ClientCapRelease { items: vec![CapItem::default(); 2], osd_epoch_barrier: 7 });
    check(ClientLease { action: ClientLease::REVOKE, name: "x".into(), ..Default::default() });
    check(ClientSnap {
        op: ClientSnap::SPLIT,
        split: 7,
        inodes: vec![8, 9],
        realms: vec![10],
        trace: "opaque".into(),
    });
    check(ClientQuota { ino: 1, rbytes: 5, ..Default::default() });
    check(ClientRequestForward { rank: 1, forwards: 2, must_resend: true });
}

fn request(ops: Vec<OsdOp>) -> OsdRequest {
    let object = HObject::head(PoolId(3), "space".into(), "key".into(), "name".into(), 0x1234_5678);
    OsdRequest {
        pg: PgShard::replicated(pg()),
        map_epoch: Epoch(77),
        flags: op::request_flags::WRITE | op::request_flags::ONDISK,
        request_id: types::RequestId { incarnation: 1, ..Default::default() },
        client_incarnation: 1,
        mtime: types::UTime { seconds: 9, nanoseconds: 8 },
        object,
        ops,
        snap_context: SnapContext { seq: SnapId(4), snaps: vec![SnapId(4), SnapId(2)] },
        retry_attempt: 1,
        features: SUPPORTED,
    }
}

#[test]
fn requests_round_trip_in_both_encodings() {
    let ops = vec![
        OsdOp::create(true),
        OsdOp::write(4096, vec![7; 100].into()),
        OsdOp::xattr(OpCode::SETXATTR, b"a", b"b"),
    ];
    let request = request(ops);
    check(request.clone());
    let old = request.encode(SUPPORTED & !SERVER_SQUID);
    assert_eq!((old.version, request.encode(SUPPORTED).version), (8, 9));
    assert_eq!(OsdRequest::decode(&old).unwrap(), request);
}

#[test]
fn a_listing_request_names_its_place_by_hash() {
    let mut list = request(vec![OsdOp::list(100, 0, &HObject::default())]);
    list.object = HObject { hash: 5, pool: PoolId(3), snap: SnapId::HEAD, ..HObject::default() };
    assert_eq!(list.locator().hash, 5);
    check(list);
}

#[test]
fn write_data_is_a_slice_of_the_message() {
    let payload = Bytes::from(vec![7; 4096]);
    let message =
        request(vec![OsdOp::stat(), OsdOp::write_full(payload.clone())]).encode(SUPPORTED);
    assert_eq!(message.data.as_ptr(), payload.as_ptr());
    let decoded = OsdRequest::decode(&message).unwrap();
    assert_eq!(decoded.ops[1].input.as_ptr(), payload.as_ptr());

    let mut reply = OsdReply::to(&decoded, 0, Epoch(78));
    reply.ops[1].output = payload.clone();
    let message = reply.encode(SUPPORTED);
    assert_eq!(message.data.as_ptr(), payload.as_ptr());
    assert_eq!(OsdReply::decode(&message).unwrap(), reply);
}

#[test]
fn absurd_counts_and_lengths_are_refused() {
    let whole = request(vec![OsdOp::write(0, vec![1; 10].into())]).encode(SUPPORTED);
    let short = Message { data: whole.data.slice(..9), ..whole.clone() };
    assert_eq!(OsdRequest::decode(&short).unwrap_err().field, "operation data");
    for at in 0..whole.front.len() - 2 {
        let mut front = whole.front.to_vec();
        front[at..at + 2].fill(0xff);
        // Decoding succeeds or fails, without a panic or a large allocation.
        let _ = OsdRequest::decode(&Message { front: front.into(), ..whole.clone() });
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decided_without_panic(front: Vec<u8>, data: Vec<u8>, version in 0u16..12) {
        let message = Message { front: front.into(), data: data.into(), version, ..Message::default() };
        let _ = OsdRequest::decode(&message);
        let _ = OsdReply::decode(&message);
        let _ = MonSubscribe::decode(&message);
        let _ = MonCommand::decode(&message);
        let _ = OsdMapMessage::decode(&message);
        let _ = WatchNotify::decode(&message);
        let _ = OsdBackoff::decode(&message);
        let _ = PoolOp::decode(&message);
        let _ = MgrOpen::decode(&message);
        let _ = MgrReport::decode(&message);
        let _ = OsdBoot::decode(&message);
        let _ = StatsReport::decode(&message);
    }
}
