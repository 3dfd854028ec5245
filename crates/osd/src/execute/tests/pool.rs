//! Operations that erasure-coded pools refuse.

use super::*;

const STRIPE: u64 = 8;

fn subject(pool: PoolRules) -> Subject {
    Subject { pool, ..Subject::absent() }
}

#[test]
fn a_pool_without_omaps_refuses_to_change_them_and_reads_none() {
    let mut object = subject(PoolRules { is_erasure: true, append_unit: None });
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
    let mut object = subject(PoolRules { is_erasure: true, append_unit: Some(STRIPE) });
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
