//! Trivial maps.

use super::*;

fn update(commands: &[(u8, &str, Option<&str>)]) -> OsdOp {
    let input = encoded(|w| {
        for (command, key, value) in commands {
            w.u8(*command);
            w.value(*key);
            value.iter().for_each(|value| w.value(*value));
        }
    });
    OsdOp::new(OpCode::TMAPUP).with_input(input)
}

fn map(header: &str, pairs: &[(&str, &str)]) -> Bytes {
    let pairs: BTreeMap<Bytes, Bytes> =
        pairs.iter().map(|(key, value)| (bytes(key), bytes(value))).collect();
    codec::encode_to_bytes(&(bytes(header), pairs))
}

#[test]
fn a_trivial_map_is_made_and_changed_by_commands() {
    let mut object = Subject::absent();
    assert_eq!(object.result(OsdOp::new(OpCode::TMAPGET)), errno(Errno::NOENT));
    let first = [(b's', "b", Some("1")), (b'h', "head", None), (b'c', "a", Some(""))];
    assert_eq!(object.result(update(&first)), 0);
    assert_eq!(object.content(), map("head", &[("a", ""), ("b", "1")]));
    assert_eq!(object.result(update(&[(b'c', "a", Some("2"))])), errno(Errno::EXIST));
    assert_eq!(object.result(update(&[(b'r', "b", None), (b'r', "b", None)])), errno(Errno::NOENT));
    assert_eq!(object.result(update(&[(b'R', "c", None), (b'r', "b", None)])), 0);
    assert_eq!(object.output(OsdOp::new(OpCode::TMAPGET)), map("head", &[("a", "")]));
}

#[test]
fn what_is_no_trivial_map_is_refused() {
    let mut object = Subject::with_data("something else");
    assert_eq!(object.result(update(&[(b's', "a", Some("1"))])), errno(Errno::INVAL));
    let put = |input| OsdOp::new(OpCode::TMAPPUT).with_input(input);
    assert_eq!(object.result(put(bytes("x"))), errno(Errno::INVAL));
    assert_eq!(object.result(put(map("", &[("a", "1")]))), 0);
    for commands in [&[(b'x', "a", None)][..], &[(b's', "a", None)]] {
        assert_eq!(object.result(update(commands)), errno(Errno::INVAL));
    }
    assert_eq!(object.content(), map("", &[("a", "1")]));
}
