//! Values encoded by Ceph decode, and are encoded again to the same bytes where the version is the same.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, decode_all, encode_to_bytes};
use engine::Message;
use types::PgShard;
use types::features::SUPPORTED;
use wire::*;

const CORPUS: &str = include_str!("golden/corpus.txt");

fn vectors(kind: &str) -> Vec<(&'static str, Bytes)> {
    let lines = CORPUS.lines().filter(|line| !line.starts_with('#'));
    let found: Vec<_> = lines
        .filter_map(|line| {
            let mut words = line.split(' ');
            let matches = words.next() == Some(kind);
            matches.then(|| (words.next().unwrap(), unhex(words.next().unwrap())))
        })
        .collect();
    assert!(!found.is_empty(), "no vectors for {kind}");
    found
}

fn unhex(text: &str) -> Bytes {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect::<Vec<u8>>().into()
}

/// A message as `ceph-dencoder` writes it.
fn message(bytes: &Bytes) -> Message {
    let mut r = Reader::new(bytes);
    let skip = |r: &mut Reader<'_>, count| r.skip("header", count).unwrap();
    skip(&mut r, 8);
    let tid = r.u64("tid").unwrap();
    let kind = r.u16("kind").unwrap();
    let priority = r.u16("priority").unwrap();
    let version = r.u16("version").unwrap();
    skip(&mut r, 4 + 4 + 4 + 2 + 9);
    let compat_version = r.u16("compat version").unwrap();
    skip(&mut r, 2 + 4 + 13);
    let mut segment = || r.value::<Bytes>().unwrap();
    let (front, middle, data) = (segment(), segment(), segment());
    Message { kind, priority, version, compat_version, tid, front, middle, data }
}

/// Decodes all vectors; where the encoding has the same version as ours, the bytes are the same.
fn structure<T: Encode + Decode + PartialEq + std::fmt::Debug>(kind: &str) {
    for (release, bytes) in vectors(kind) {
        let value: T = decode_all("vector", &bytes)
            .unwrap_or_else(|error| panic!("{kind} of {release}: {error}"));
        let encoded = encode_to_bytes(&value);
        if encoded[0] == bytes[0] {
            assert_eq!(encoded, bytes, "{kind} of {release}: {value:?}");
        }
        assert_eq!(decode_all::<T>("vector", &encoded).unwrap(), value);
        every_truncation_fails::<T>(&bytes);
    }
}

fn every_truncation_fails<T: Decode>(bytes: &[u8]) {
    for end in 0..bytes.len() {
        assert!(decode_all::<T>("vector", &bytes[..end]).is_err(), "{end} bytes are enough");
    }
}

/// Decodes all vectors, and encodes to the same bytes those that have our version.
fn body<T: MessageBody + PartialEq + std::fmt::Debug>(kind: &str) -> Vec<T> {
    body_with_tail(kind, 0)
}

/// The same for messages whose last `tail` bytes are written but not read.
fn body_with_tail<T: MessageBody + PartialEq + std::fmt::Debug>(kind: &str, tail: usize) -> Vec<T> {
    let decode = |(release, bytes)| {
        let old = message(&bytes);
        assert_eq!(old.kind, T::KIND, "{kind}");
        let value = T::decode(&old).unwrap_or_else(|error| panic!("{kind} of {release}: {error}"));
        let new = value.encode(SUPPORTED);
        assert_eq!(T::decode(&new).unwrap(), value, "{kind}");
        if new.version == old.version {
            assert_eq!((&new.front, &new.data), (&old.front, &old.data), "{kind} of {release}");
            assert_eq!(new.compat_version, old.compat_version.max(1), "{kind}");
        }
        for end in 0..new.front.len() - tail {
            let cut = Message { front: new.front.slice(..end), ..new.clone() };
            assert!(T::decode(&cut).is_err(), "{kind}: {end} bytes are enough");
        }
        value
    };
    vectors(kind).into_iter().map(decode).collect()
}

#[test]
fn placement_structures() {
    structure::<ObjectLocator>("object_locator_t");
    structure::<Redirect>("request_redirect_t");
    structure::<PgShard>("spg_t");
}

#[test]
fn statistics() {
    structure::<pool_stats::ObjectStatSum>("object_stat_sum_t");
    structure::<pool_stats::ObjectStatCollection>("object_stat_collection_t");
    structure::<pool_stats::StoreStatfs>("store_statfs_t");
    structure::<PoolStat>("pool_stat_t");
}

#[test]
fn operation_payloads() {
    structure::<copy::CopyCursor>("object_copy_cursor_t");
    structure::<copy::CopyData>("object_copy_data_t");
    structure::<listing::PgListing>("pg_nls_response_t");
    structure::<snapshots::SnapListing>("obj_list_snap_response_t");
    structure::<watch::Watcher>("watch_item_t");
    structure::<watch::WatcherListing>("obj_list_watch_response_t");
}

#[test]
fn reports() {
    structure::<LogEntry>("LogEntry");
    structure::<mgr_session::PerfCounterType>("PerfCounterType");
    structure::<mgr_session::DaemonHealthMetric>("DaemonHealthMetric");
    for (_, bytes) in vectors("OSDSuperblock") {
        let superblock: OsdSuperblock = decode_all("superblock", &bytes).unwrap();
        let encoded = encode_to_bytes(&superblock);
        assert_eq!(decode_all::<OsdSuperblock>("superblock", &encoded).unwrap(), superblock);
    }
}

#[test]
fn monitor_messages() {
    body::<Auth>("MAuth");
    body::<AuthReply>("MAuthReply");
    body::<MonGetMap>("MMonGetMap");
    body::<MonMapMessage>("MMonMap");
    body::<MonSubscribe>("MMonSubscribe");
    body::<MonSubscribeAck>("MMonSubscribeAck");
    body::<MonGetVersion>("MMonGetVersion");
    body::<MonGetVersionReply>("MMonGetVersionReply");
    body::<MonCommand>("MMonCommand");
    body::<MonCommandAck>("MMonCommandAck");
    body::<Command>("MCommand");
    body::<Statfs>("MStatfs");
    body::<StatfsReply>("MStatfsReply");
    body::<PoolOp>("MPoolOp");
    body::<PoolOpReply>("MPoolOpReply");
    body::<LogAck>("MLogAck");
}

#[test]
fn manager_messages() {
    body::<MgrOpen>("MMgrOpen");
    body_with_tail::<MgrConfigure>("MMgrConfigure", 5);
    body_with_tail::<MgrReport>("MMgrReport", 6);
}

#[test]
fn osd_messages() {
    body_with_tail::<OsdMapMessage>("MOSDMap", 4);
    body::<OsdAlive>("MOSDAlive");
    body::<OsdPgTemp>("MOSDPGTemp");
    body::<WatchNotify>("MWatchNotify");
    for request in body::<OsdRequest>("MOSDOp") {
        assert!(request.ops.iter().all(|op| op.code.name().is_some()));
    }
    for reply in body::<OsdReply>("MOSDOpReply") {
        assert!(reply.ops.iter().all(|op| op.op.code.name().is_some()));
    }
}

#[test]
fn file_system_structures() {
    structure::<FileLayout>("file_layout_t");
    structure::<FilePath>("filepath");
    structure::<RequestRelease>("MClientRequest::Release");
    structure::<ClaimedCap>("cap_reconnect_t");
    structure::<client_session::MetricSpec>("metric_spec_t");
    structure::<QuotaInfo>("quota_info_t");
    structure::<SnapRealmInfo>("SnapRealmInfo");
}

#[test]
fn file_system_messages() {
    body::<ClientSession>("MClientSession");
    body::<ClientCaps>("MClientCaps");
    body::<ClientCapRelease>("MClientCapRelease");
    body::<ClientLease>("MClientLease");
    body::<ClientRequestForward>("MClientRequestForward");
    for request in body::<ClientRequest>("MClientRequest") {
        assert!(request.op.name().is_some(), "{request:?}");
    }
}
