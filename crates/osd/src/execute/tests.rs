//! Operations on one object in memory, compared with Ceph's results, by kind of operation.

mod pool;
mod snapshots;
mod tmap;

use super::*;
use crate::limits;
use crate::operations::state::state_of;
use bytes::Bytes;
use classes::Caller;
use codec::Writer;
use maps::SnapIntervals;
use pg::meta_object;
use std::collections::BTreeMap;
use store::mem::MemStore;
use store::{Change, Collection, ObjectMeta, Outcome, RequestKind, Transaction};
use types::{EVersion, EntityType, HObject, ParticipantName, PgId, PoolId, UTime};
use wire::op::{checksum_kind, compare, watch_op};
use wire::osd_op::{Extent, WatchArguments};

const COLLECTION: Collection = Collection::replicated(PgId { pool: PoolId(1), seed: 0 });

/// An object in a store, and its state in memory.
struct Subject {
    store: MemStore,
    object: HObject,
    state: ObjectState,
    caller: Caller,
    version: u64,
    last_user_version: u64,
    /// The snapshot context of writers, newest first, and removed snapshots.
    snaps: Vec<SnapId>,
    removed: SnapIntervals,
    pool: PoolRules,
    /// Bytes that requests may take; it grows when one needs more.
    allowance: u64,
}

impl Subject {
    fn absent() -> Self {
        let mut store = MemStore::new();
        let mut transaction = Transaction::new();
        transaction.push(COLLECTION, Change::CreateCollection);
        store.apply(&transaction).unwrap();
        let mut caller = Caller { features: u64::MAX, ..Caller::default() };
        caller.request.name = ParticipantName::new(EntityType::CLIENT, 7);
        let name = Bytes::from_static(b"object");
        Subject {
            store,
            object: HObject::head(PoolId(1), Bytes::new(), Bytes::new(), name, 1),
            state: ObjectState::default(),
            caller,
            version: 0,
            last_user_version: 0,
            snaps: Vec::new(),
            removed: SnapIntervals::default(),
            pool: PoolRules::default(),
            allowance: u64::MAX,
        }
    }

    fn with_data(data: &str) -> Self {
        let mut subject = Subject::absent();
        assert_eq!(subject.run(&[OsdOp::write_full(bytes(data))]).result, 0);
        subject
    }

    /// Runs the operations, loads what they need, and applies their changes.
    fn run(&mut self, ops: &[OsdOp]) -> Execution {
        let mut loaded = Loaded::default();
        let may_write = ops.iter().any(|op| op.code.writes() || op.code.is_call());
        loop {
            let executed = execute(&Input {
                object: &self.object,
                ops,
                pool: self.pool,
                may_write,
                state: &self.state,
                loaded: &loaded,
                caller: &self.caller,
                now: UTime { seconds: 100, nanoseconds: 0 },
                mtime: UTime { seconds: 50, nanoseconds: 0 },
                version: EVersion::new(2, self.version + 1),
                last_user_version: self.last_user_version,
                snapshots: Snapshots {
                    seq: self.snaps.first().copied().unwrap_or(SnapId(0)),
                    snaps: &self.snaps,
                    is_ordered: false,
                    removed: Some(&self.removed),
                },
                notify_id: 5,
                allowance: self.allowance,
                is_connected: &|key| key.cookie == 1,
            });
            match executed {
                ExecuteOutcome::Missing { needs, cost } => {
                    assert!(!needs.is_empty() || cost > self.allowance);
                    self.allowance = self.allowance.max(cost);
                    for need in needs {
                        let answer = self.load(&need);
                        loaded.insert(need, answer);
                    }
                }
                ExecuteOutcome::Done(execution) => {
                    self.apply(&execution);
                    return *execution;
                }
            }
        }
    }

    fn load(&mut self, need: &Need) -> Answer {
        let (collection, object) = (COLLECTION, self.object.clone());
        let kind = match need.clone() {
            Need::Data { offset, length } => {
                RequestKind::Read { collection, object, offset, length }
            }
            Need::OmapHeader => RequestKind::OmapHeader { collection, object },
            Need::OmapGet { keys } => RequestKind::OmapGet { collection, object, keys },
            Need::OmapList { after, prefix, entries_max, bytes_max } => RequestKind::OmapList {
                collection,
                object,
                after: Some(after),
                prefix,
                entries_max,
                bytes_max,
            },
            Need::Clone(id) => {
                let clone = self.state_of(&self.object.at(id));
                return Answer::Clone(Box::new(clone.expect("clones in the set exist")));
            }
            Need::Copy(_) => return Answer::Failed(Errno::NOENT.negative()),
        };
        match self.store.execute(kind).unwrap() {
            Outcome::Read(read) => Answer::Data(read),
            Outcome::OmapHeader(header) => Answer::OmapHeader(header),
            Outcome::OmapPairs(pairs) => Answer::OmapPairs(pairs),
            Outcome::OmapPage(page) => Answer::OmapPage(page),
            other => panic!("{other:?}"),
        }
    }

    fn apply(&mut self, execution: &Execution) {
        if execution.result < 0 || !execution.modifies() {
            return;
        }
        self.version += 1 + execution.clones.as_ref().map_or(0, |c| c.written.len() as u64);
        self.last_user_version = self.last_user_version.max(execution.info.user_version);
        let changes = execution.changes.iter().map(|change| (COLLECTION, change.clone()));
        self.store.apply(&Transaction { changes: changes.collect() }).unwrap();
        self.state = self.state_of(&self.object).unwrap_or_default();
        assert_eq!(self.state.exists, execution.exists);
    }

    fn state_of(&self, name: &HObject) -> Option<ObjectState> {
        let stored = self.store.object(COLLECTION, name)?;
        let meta = ObjectMeta {
            size: stored.data.size(),
            attrs: stored.attrs.clone(),
            has_omap: !stored.omap.is_empty(),
        };
        let state = state_of(&meta).unwrap();
        assert_eq!(state.info.size, meta.size, "the info knows the size");
        Some(state)
    }

    /// The allowance with which the operation is executed.
    fn cost_of(&mut self, op: OsdOp) -> u64 {
        self.allowance = 0;
        assert!(self.run(&[op]).result >= 0);
        self.allowance
    }

    fn result(&mut self, op: OsdOp) -> i32 {
        self.run(&[op]).result
    }

    fn output(&mut self, op: OsdOp) -> Bytes {
        let execution = self.run(&[op]);
        assert!(execution.result >= 0, "{}", execution.result);
        execution.outputs[0].1.clone()
    }

    fn content(&mut self) -> Bytes {
        self.output(OsdOp::read(0, 0))
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn errno(errno: Errno) -> i32 {
    errno.negative()
}

fn extent(code: OpCode, offset: u64, length: u64) -> OsdOp {
    OsdOp::with_extent(code, Extent { offset, length, ..Extent::default() })
}

fn encoded(write: impl FnOnce(&mut Writer)) -> Bytes {
    let mut w = Writer::new();
    write(&mut w);
    w.into_bytes()
}

#[test]
fn reading_what_is_absent_is_enoent_and_beyond_the_end_is_nothing() {
    let mut absent = Subject::absent();
    for op in [OsdOp::read(0, 10), OsdOp::stat(), OsdOp::new(OpCode::LIST_WATCHERS)] {
        assert_eq!(absent.result(op), errno(Errno::NOENT));
    }
    let mut object = Subject::with_data("0123456789");
    assert_eq!(object.output(OsdOp::read(2, 3)), "234");
    assert_eq!(object.output(OsdOp::read(8, 100)), "89");
    assert_eq!(object.output(OsdOp::read(10, 1)), "");
    let stat = object.output(OsdOp::stat());
    assert_eq!(stat, encoded(|w| (w.u64(10), w.u32(50), w.u32(0)).2));
    let sparse = object.output(OsdOp::sparse_read(2, 3));
    let expected = encoded(|w| {
        w.count(1);
        w.u64(2);
        w.u64(3);
        w.blob(b"234");
    });
    assert_eq!(sparse, expected);
}

#[test]
fn writes_extend_replace_append_and_repeat() {
    let mut object = Subject::absent();
    assert_eq!(object.result(OsdOp::write(2, bytes("ab"))), 0);
    assert_eq!(object.content(), "\0\0ab");
    object.result(OsdOp::append(bytes("c")));
    assert_eq!(object.content(), "\0\0abc");
    object.result(OsdOp::write_full(bytes("xyz")));
    assert_eq!(object.content(), "xyz");
    let mut same = OsdOp::new(OpCode::WRITESAME).with_input(bytes("01"));
    for (at, value) in [(0, 1u64), (8, 4), (16, 2)] {
        same.arguments[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    assert_eq!(object.result(same.clone()), 0);
    assert_eq!(object.content(), "x0101");
    same.arguments[8] = 3;
    assert_eq!(object.result(same), errno(Errno::INVAL));
    let mut short = OsdOp::write(0, bytes("abc"));
    short.input.truncate(1);
    assert_eq!(object.result(short), errno(Errno::INVAL));
    assert_eq!(
        object.result(OsdOp::write(limits::OBJECT_SIZE_MAX, bytes("a"))),
        errno(Errno::FBIG)
    );
    assert_eq!(object.result(OsdOp::truncate(u64::MAX - 1)), errno(Errno::FBIG));
}

#[test]
fn zero_and_truncate_cut_extend_and_leave_absent_objects_absent() {
    let mut object = Subject::with_data("0123456789");
    object.result(OsdOp::zero(2, 3));
    assert_eq!(object.content(), "01\0\0\x0056789");
    object.result(OsdOp::zero(7, 100));
    assert_eq!(object.state.info.size, 7);
    object.result(OsdOp::truncate(3));
    object.result(OsdOp::truncate(5));
    assert_eq!(object.content(), "01\0\0\0");
    let mut absent = Subject::absent();
    assert_eq!((absent.result(OsdOp::truncate(9)), absent.result(OsdOp::zero(0, 9))), (0, 0));
    assert!(!absent.state.exists);
}

#[test]
fn truncations_are_numbered_for_writers_that_overtake_them() {
    let sequenced = |code, offset, data: &str, seq, size| {
        let extent =
            Extent { offset, length: data.len() as u64, truncate_size: size, truncate_seq: seq };
        OsdOp::with_extent(code, extent).with_input(bytes(data))
    };
    let mut object = Subject::with_data("0123456789");
    assert_eq!(object.output(sequenced(OpCode::READ, 0, "", 3, 4)).len(), 10, "of length 0");
    object.result(sequenced(OpCode::WRITE, 6, "ab", 3, 4));
    assert_eq!(object.content(), "0123\0\0ab");
    object.result(sequenced(OpCode::WRITE, 6, "CDEF", 2, 9));
    assert_eq!(object.content(), "0123\0\0CD", "an old writer does not extend");
}

#[test]
fn creation_may_be_exclusive_and_removal_needs_an_object() {
    let mut object = Subject::absent();
    assert_eq!(object.result(OsdOp::remove()), errno(Errno::NOENT));
    assert_eq!(object.result(OsdOp::create(true)), 0);
    assert_eq!(object.result(OsdOp::create(true)), errno(Errno::EXIST));
    assert_eq!(object.result(OsdOp::create(false)), 0);
    let before = object.state.info.user_version;
    assert_eq!(object.result(OsdOp::remove()), 0);
    object.result(OsdOp::create(true));
    assert!(object.state.info.user_version > before, "versions go on");
}

#[test]
fn a_vector_is_atomic_and_may_ignore_single_failures() {
    let mut object = Subject::with_data("old");
    let wrong = OsdOp::xattr(OpCode::GETXATTR, b"none", b"");
    let write = OsdOp::write_full(bytes("new"));
    let execution = object.run(&[write.clone(), wrong.clone()]);
    assert_eq!(execution.result, errno(Errno::NODATA));
    assert_eq!(object.content(), "old");
    let execution = object.run(&[wrong.with_flags(op_flags::FAILOK), write]);
    assert_eq!(execution.result, 0);
    assert_eq!(execution.outputs[0].0, errno(Errno::NODATA));
    assert_eq!(object.content(), "new");
    // Reads see the object as it was before the request.
    let execution = object.run(&[OsdOp::write_full(bytes("two")), OsdOp::read(0, 0)]);
    assert_eq!(execution.outputs[1].1, "new");
}

#[test]
fn compared_extents_name_the_first_mismatch() {
    let mut object = Subject::with_data("0123");
    let compare = |offset, text: &str| {
        extent(OpCode::CMPEXT, offset, text.len() as u64).with_input(bytes(text))
    };
    assert_eq!(object.result(compare(1, "12")), 0);
    assert_eq!(object.result(compare(1, "1x3")), -4095 - 1);
    assert_eq!(object.result(compare(3, "3\0\0")), 0, "zeros beyond the end");
    assert_eq!(object.result(compare(100, "\x01")), -4095);
}

#[test]
fn checksums_are_computed_per_chunk() {
    let mut object = Subject::with_data("abcabc");
    let checksum = |kind: u8, chunk: u32, seed: &[u8]| {
        let mut op = OsdOp::new(OpCode::CHECKSUM).with_input(Bytes::copy_from_slice(seed));
        op.arguments[8..16].copy_from_slice(&6u64.to_le_bytes());
        op.arguments[16..20].copy_from_slice(&chunk.to_le_bytes());
        op.arguments[20] = kind;
        op
    };
    let twice = encoded(|w| (w.count(2), w.u32(0x32d1_53ff), w.u32(0x32d1_53ff)).0);
    assert_eq!(object.output(checksum(checksum_kind::XXHASH32, 3, &[0; 4])), twice);
    assert_eq!(object.output(checksum(checksum_kind::XXHASH64, 0, &[0; 8])).len(), 12);
    assert_eq!(object.result(checksum(checksum_kind::CRC32C, 4, &[0xff; 4])), errno(Errno::INVAL));
    assert_eq!(object.result(checksum(checksum_kind::CRC32C, 3, &[0xff])), errno(Errno::INVAL));
    assert_eq!(object.result(checksum(9, 3, &[0; 8])), errno(Errno::INVAL));
}

#[test]
fn attributes_are_set_listed_compared_and_removed() {
    let xattr =
        |code, name: &str, value: &str| OsdOp::xattr(code, name.as_bytes(), value.as_bytes());
    let mut object = Subject::absent();
    assert_eq!(object.result(xattr(OpCode::RMXATTR, "a", "")), errno(Errno::NOENT));
    assert_eq!(object.result(xattr(OpCode::SETXATTR, "a", "10")), 0);
    assert_eq!(object.output(xattr(OpCode::GETXATTR, "a", "")), "10");
    assert_eq!(object.result(xattr(OpCode::GETXATTR, "b", "")), errno(Errno::NODATA));
    let long = "x".repeat(limits::XATTR_NAME_LEN_MAX + 1);
    assert_eq!(object.result(xattr(OpCode::SETXATTR, &long, "")), errno(Errno::NAMETOOLONG));
    let all = object.output(OsdOp::new(OpCode::GETXATTRS));
    assert_eq!(all, codec::encode_to_bytes(&BTreeMap::from([(bytes("a"), bytes("10"))])));
    let compared = |name: &str, operator, mode, value: &[u8]| {
        let mut op = OsdOp::xattr(OpCode::CMPXATTR, name.as_bytes(), value);
        op.arguments[8] = operator;
        op.arguments[9] = mode;
        op
    };
    let number = |value: u64| value.to_le_bytes();
    for (op, result) in [
        (compared("a", compare::EQ, compare::MODE_STRING, b"10"), 1),
        (compared("a", compare::NE, compare::MODE_STRING, b"10"), errno(Errno::CANCELED)),
        (compared("a", compare::GT, compare::MODE_STRING, b"2"), 1),
        (compared("a", compare::GT, compare::MODE_U64, &number(2)), errno(Errno::CANCELED)),
        (compared("a", compare::GTE, compare::MODE_U64, &number(10)), 1),
        (compared("none", compare::EQ, compare::MODE_U64, &number(0)), 1),
        (compared("a", 77, compare::MODE_STRING, b"10"), errno(Errno::INVAL)),
        (compared("a", compare::EQ, 77, b"10"), errno(Errno::INVAL)),
    ] {
        assert_eq!(object.result(op.clone()), result, "{op:?}");
    }
    assert_eq!(object.result(xattr(OpCode::RMXATTR, "a", "")), 0);
    assert!(object.state.xattrs.is_empty());
}

#[test]
fn omaps_are_paged_filtered_compared_and_cleared() {
    let mut object = Subject::absent();
    let pairs = BTreeMap::from([("a", "1"), ("b1", "2"), ("b2", "3"), ("c", "4")]);
    let pairs: BTreeMap<Bytes, Bytes> =
        pairs.into_iter().map(|(key, value)| (bytes(key), bytes(value))).collect();
    let with = |code, input| OsdOp::new(code).with_input(input);
    let set = with(OpCode::OMAPSETVALS, codec::encode_to_bytes(&pairs));
    assert_eq!(object.result(set), 0);
    let keys = with(OpCode::OMAPGETKEYS, encoded(|w| (w.string("a"), w.u64(2)).0));
    let expected = encoded(|w| {
        w.value(&vec![bytes("b1"), bytes("b2")]);
        w.bool(true);
    });
    assert_eq!(object.output(keys), expected);
    let values = encoded(|w| (w.string(""), w.u64(10), w.string("b")).0);
    let output = object.output(with(OpCode::OMAPGETVALS, values));
    let b: BTreeMap<Bytes, Bytes> = pairs
        .iter()
        .filter(|(key, _)| key.starts_with(b"b"))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    assert_eq!(output, encoded(|w| (w.value(&b), w.bool(false)).0));
    let by_keys = codec::encode_to_bytes(&vec![bytes("c"), bytes("none")]);
    let output = object.output(with(OpCode::OMAPGETVALSBYKEYS, by_keys));
    assert_eq!(output, codec::encode_to_bytes(&BTreeMap::from([(bytes("c"), bytes("4"))])));
    let compared = |key: &str, value: &str, operator: i32| {
        with(
            OpCode::OMAP_CMP,
            encoded(|w| (w.count(1), w.string(key), w.string(value), w.i32(operator)).0),
        )
    };
    assert_eq!(object.result(compared("a", "1", compare::EQ.into())), 0);
    assert_eq!(object.result(compared("a", "1", compare::GT.into())), errno(Errno::CANCELED));
    assert_eq!(object.result(compared("a", "1", compare::NE.into())), errno(Errno::INVAL));
    object.result(with(OpCode::OMAPSETHEADER, bytes("header")));
    assert_eq!(object.output(OsdOp::new(OpCode::OMAPGETHEADER)), "header");
    let range = encoded(|w| (w.string("b"), w.string("c")).0);
    assert_eq!(object.result(with(OpCode::OMAPRMKEYRANGE, range)), 0);
    object.result(with(OpCode::OMAPRMKEYS, codec::encode_to_bytes(&vec![bytes("a")])));
    let keys = with(OpCode::OMAPGETKEYS, encoded(|w| (w.string(""), w.u64(10)).0));
    assert_eq!(
        object.output(keys.clone()),
        encoded(|w| (w.value(&vec![bytes("c")]), w.bool(false)).0)
    );
    assert_eq!(object.result(OsdOp::new(OpCode::OMAPCLEAR)), 0);
    assert_eq!(object.output(keys), encoded(|w| (w.count(0), w.bool(false)).0));
    assert_eq!(Subject::absent().result(OsdOp::new(OpCode::OMAPCLEAR)), errno(Errno::NOENT));
    let damaged = with(OpCode::OMAPSETVALS, bytes("\u{1}"));
    assert_eq!(object.result(damaged), errno(Errno::INVAL));
}

#[test]
fn versions_are_asserted() {
    let mut object = Subject::with_data("x");
    object.result(OsdOp::write_full(bytes("y")));
    let assert = |version: u64| {
        let mut op = OsdOp::new(OpCode::ASSERT_VER);
        op.arguments[8..16].copy_from_slice(&version.to_le_bytes());
        op
    };
    assert_eq!(object.result(assert(0)), errno(Errno::INVAL));
    assert_eq!(object.result(assert(1)), errno(Errno::RANGE));
    assert_eq!(object.result(assert(2)), 0);
    assert_eq!(object.result(assert(3)), errno(Errno::OVERFLOW));
}

#[test]
fn watches_are_kept_with_the_object_and_leave_its_version_alone() {
    let mut object = Subject::with_data("x");
    let version = object.state.info.user_version;
    let watch = |cookie, op| OsdOp::watch(WatchArguments { cookie, op, ..Default::default() });
    assert_eq!(object.result(watch(1, watch_op::RECONNECT)), -107);
    assert_eq!(object.result(watch(1, watch_op::WATCH)), 0);
    assert_eq!((object.state.info.watchers.len(), object.state.info.user_version), (1, version));
    let execution = object.run(&[watch(1, watch_op::PING)]);
    assert!(!execution.modifies() && execution.effects.len() == 1);
    object.result(watch(2, watch_op::WATCH));
    assert_eq!(object.result(watch(2, watch_op::PING)), errno(Errno::TIMEDOUT));
    assert_eq!(object.result(watch(1, watch_op::UNWATCH)), 0);
    let execution = object.run(&[OsdOp::remove()]);
    assert_eq!(execution.effects.len(), 1, "who still watches is told");
}

#[test]
fn classes_read_the_old_state_and_may_do_only_what_they_are_registered_for() {
    let mut object = Subject::absent();
    let call = |method: &str, input: &[u8]| OsdOp::call("hello", method, input);
    assert_eq!(object.result(call("record_hello", b"you")), 0);
    assert_eq!(object.output(call("replay", b"")), "Hello, you!");
    assert_eq!(object.result(call("turn_it_to_11", b"")), 0);
    assert_eq!(object.content(), "HELLO, YOU!");
    for method in ["bad_reader", "bad_writer"] {
        assert_eq!(object.result(call(method, b"x")), errno(Errno::IO), "{method}");
    }
    let execution = object.run(&[call("write_return_data", b"")]);
    assert_eq!((execution.result, &execution.outputs[0].1[..]), (42, &b"you might see this"[..]));
    let execution = object.run(&[call("write_return_data", b"x")]);
    assert_eq!(execution.result, errno(Errno::INVAL));
    assert_eq!(execution.outputs[0].1, "too much input data!");
    assert_eq!(object.result(call("nonesuch", b"")), errno(Errno::NOTSUPP));
}

#[test]
fn what_is_not_supported_says_so() {
    let mut object = Subject::with_data("x");
    for code in [OpCode::SET_REDIRECT, OpCode(0x1277)] {
        assert_eq!(object.result(OsdOp::new(code)), errno(Errno::NOTSUPP), "{code}");
    }
    assert_eq!(object.result(OsdOp::new(OpCode::LIST_SNAPS)), errno(Errno::INVAL));
    object.object.snap = SnapId::DIR;
    assert_eq!(object.result(OsdOp::stat()), errno(Errno::INVAL));
    assert!(object.run(&[OsdOp::new(OpCode::LIST_SNAPS)]).outputs[0].1.len() > 20);
    object.object.snap = SnapId(4);
    assert_eq!(object.result(OsdOp::write_full(bytes("x"))), errno(Errno::INVAL));
}

#[test]
fn the_meta_object_cannot_be_named() {
    assert!(pg::is_meta_object(&meta_object(COLLECTION.0.pg)));
    assert!(!pg::is_meta_object(&Subject::absent().object));
}
