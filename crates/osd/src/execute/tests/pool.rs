//! Operations that erasure-coded pools refuse.

use super::*;
use crate::limits;

const STRIPE: u64 = 8;

fn subject(pool: PoolRules) -> Subject {
    Subject { pool, ..Subject::absent() }
}

#[test]
fn a_pool_without_omaps_refuses_to_change_them_and_reads_none() {
    let mut object = subject(PoolRules { is_erasure: true, rows_of_a_part: 3, append_unit: None });
    assert_eq!(object.result(OsdOp::write_full(bytes("data"))), 0);
    let refused = [
        OpCode::OMAPSETVALS,
        OpCode::OMAPSETHEADER,
        OpCode::OMAPCLEAR,
        OpCode::OMAPRMKEYS,
        OpCode::OMAPRMKEYRANGE,
        OpCode::TMAPUP,
        OpCode::TMAPPUT,
        OpCode::TMAPGET,
        OpCode::MAPEXT,
    ];
    for code in refused {
        assert_eq!(object.result(OsdOp::new(code)), errno(Errno::NOTSUPP), "{code:?}");
    }
    assert_eq!(object.output(OsdOp::new(OpCode::OMAPGETHEADER)), Bytes::new());
    assert_eq!(object.result(OsdOp::write(1, bytes("x"))), 0);
    assert_eq!(object.result(OsdOp::truncate(3)), 0);
    assert_eq!(object.content(), bytes("dxt"));
}

#[test]
fn a_pool_without_overwrites_takes_appends_of_stripes_and_whole_objects() {
    let mut object =
        subject(PoolRules { is_erasure: true, rows_of_a_part: 3, append_unit: Some(STRIPE) });
    let refused = errno(Errno::NOTSUPP);
    assert_eq!(object.result(OsdOp::write(STRIPE, bytes("x"))), refused, "not at the end");
    assert_eq!(object.result(OsdOp::write(0, bytes("12345678"))), 0);
    assert_eq!(object.result(OsdOp::write(0, bytes("1"))), refused);
    assert_eq!(object.result(OsdOp::append(bytes("9"))), 0);
    assert_eq!(object.result(OsdOp::append(bytes("a"))), refused, "within a stripe");
    assert_eq!(object.result(OsdOp::truncate(0)), refused);
    assert_eq!(object.result(OsdOp::zero(0, 1)), refused);
    assert_eq!(object.content(), bytes("123456789"));
    assert_eq!(object.result(OsdOp::write_full(bytes("b"))), 0);
    assert_eq!(object.content(), bytes("b"));
    assert_eq!(object.result(OsdOp::remove()), 0);
}

/// Members settle attributes of several writes at once, and a store has a bound for those of one object.
#[test]
fn attributes_of_an_object_of_shards_have_a_bound_for_their_sum() {
    let set = |name: &'static [u8], len: usize| OsdOp::xattr(OpCode::SETXATTR, name, &vec![7; len]);
    let half = limits::SHARD_XATTRS_BYTES_MAX / 2;
    let mut object = subject(PoolRules { is_erasure: true, rows_of_a_part: 3, append_unit: None });
    assert_eq!(object.result(set(b"a", half)), 0);
    assert_eq!(object.result(set(b"b", half)), errno(Errno::FBIG));
    assert_eq!(object.result(set(b"a", half - 1)), 0);
    assert_eq!(object.result(set(b"b", half - 1)), 0);
    assert_eq!(object.result(set(b"c", 0)), errno(Errno::FBIG));
    assert_eq!(object.result(OsdOp::xattr(OpCode::RMXATTR, b"a", b"")), 0);
    assert_eq!(object.result(set(b"c", half - 1)), 0);
    let mut whole = subject(PoolRules::default());
    assert_eq!(whole.result(set(b"a", 4 * half)), 0);
}

/// Each write between shared bytes of a clone makes its set longer; members settle it with all attributes.
#[test]
fn the_clones_of_an_object_of_shards_have_a_bound_for_their_pieces() {
    let most = limits::SHARD_METADATA_BYTES_MAX / size_of::<(u64, u64)>();
    let overlap = |pieces: usize| {
        let mut w = codec::Writer::new();
        w.list(&Vec::from_iter(0..pieces as u64), |w, at| {
            w.u64(4 * at);
            w.u64(3);
        });
        codec::decode_all::<pg::snaps::Extents>("extents", &w.into_bytes()).unwrap()
    };
    for (pool, result) in [
        (PoolRules { is_erasure: true, rows_of_a_part: 3, append_unit: None }, errno(Errno::FBIG)),
        (PoolRules::default(), 0),
    ] {
        let mut object = Subject { pool, ..Subject::with_data("data") };
        object.snaps = vec![SnapId(1)];
        assert_eq!(object.result(OsdOp::write(0, bytes("x"))), 0, "it makes a clone");
        let set = object.state.snaps.as_mut().unwrap();
        set.clones[0].size = 4 * most as u64;
        set.clones[0].overlap = overlap(most);
        assert_eq!(object.result(OsdOp::write(1, bytes("x"))), result, "one piece more");
        let set = object.state.snaps.as_mut().unwrap();
        set.clones[0].overlap = overlap(most);
        assert_eq!(object.result(OsdOp::write(0, bytes("xxx"))), 0, "one piece less");
    }
}

/// A byte makes a row of 4 KiB, of which the old content and the parities are in memory, too.
#[test]
fn changes_of_parts_of_rows_wait_for_their_share_of_memory() {
    let rules = PoolRules { is_erasure: true, rows_of_a_part: 3, append_unit: None };
    let part = 3 * 4096;
    let write = |offset, length| OsdOp::write(offset, vec![7; length].into());
    let costs = [
        (write(0, 4096), 0),
        (write(8192, 8192), 0),
        (write(5, 1), part),
        (write(0, 4095), part),
        (write(4095, 4097), part),
        (write(4095, 2), 2 * part),
        (write(1, 8192), 2 * part),
        (OsdOp::zero(5, 9), part),
        (OsdOp::truncate(9000), part),
        (OsdOp::truncate(8192), 0),
    ];
    for (op, cost) in costs {
        for (rules, cost) in [(rules, cost), (PoolRules::default(), 0)] {
            let mut object = subject(rules);
            assert_eq!(object.result(OsdOp::write_full(vec![1; 1 << 16].into())), 0);
            let found = object.cost_of(op.clone());
            assert_eq!(found, cost, "{op:?}");
        }
    }
}
