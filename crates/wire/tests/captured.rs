//! Captured messages of real daemons and clients decode, and are encoded again to the same bytes.

use bytes::Bytes;
use engine::Message;
use types::features::{SERVER_SQUID, SUPPORTED};
use types::{HObject, PoolId};
use wire::*;

const CAPTURED: &str = include_str!("golden/captured.txt");

fn messages() -> Vec<Message> {
    CAPTURED.lines().filter(|line| !line.starts_with('#')).map(message).collect()
}

fn message(line: &str) -> Message {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap();
    Message {
        kind: number(0) as u16,
        version: number(1) as u16,
        compat_version: number(2) as u16,
        tid: number(3),
        front: unhex(words[4]),
        middle: unhex(words[5]),
        data: unhex(words[6]),
        ..Message::default()
    }
}

fn unhex(text: &str) -> Bytes {
    let digits = text.trim_matches('-').as_bytes().chunks(2);
    let digits = digits.map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect::<Vec<u8>>().into()
}

fn again<T: MessageBody + std::fmt::Debug + PartialEq>(message: &Message) -> Message {
    let body = T::decode(message).unwrap_or_else(|error| panic!("{message:?}: {error}"));
    // The common features of these daemons and clients are Pacific's.
    let encoded = body.encode(SUPPORTED & !SERVER_SQUID);
    assert_eq!(T::decode(&encoded).unwrap(), body);
    encoded
}

#[test]
fn captured_messages_are_encoded_to_the_same_bytes() {
    let mut kinds = std::collections::BTreeSet::new();
    for message in messages() {
        let encoded = match message.kind {
            MonMapMessage::KIND => again::<MonMapMessage>(&message),
            MonGetMap::KIND => again::<MonGetMap>(&message),
            Statfs::KIND => again::<Statfs>(&message),
            StatfsReply::KIND => again::<StatfsReply>(&message),
            MonSubscribe::KIND => again::<MonSubscribe>(&message),
            MonGetVersion::KIND => again::<MonGetVersion>(&message),
            MonGetVersionReply::KIND => again::<MonGetVersionReply>(&message),
            OsdMapMessage::KIND => again::<OsdMapMessage>(&message),
            OsdRequest::KIND => again::<OsdRequest>(&message),
            OsdReply::KIND => again::<OsdReply>(&message),
            WatchNotify::KIND => again::<WatchNotify>(&message),
            PoolOp::KIND => again::<PoolOp>(&message),
            PoolOpReply::KIND => again::<PoolOpReply>(&message),
            MonCommand::KIND => again::<MonCommand>(&message),
            MonCommandAck::KIND => again::<MonCommandAck>(&message),
            Log::KIND => again::<Log>(&message),
            LogAck::KIND => again::<LogAck>(&message),
            GetPoolStats::KIND => again::<GetPoolStats>(&message),
            GetPoolStatsReply::KIND => again::<GetPoolStatsReply>(&message),
            Config::KIND => again::<Config>(&message),
            OsdBeacon::KIND => again::<OsdBeacon>(&message),
            Command::KIND => again::<Command>(&message),
            CommandReply::KIND => again::<CommandReply>(&message),
            MgrMapMessage::KIND => again::<MgrMapMessage>(&message),
            OsdBoot::KIND => {
                // Its superblock is not decoded completely.
                again::<OsdBoot>(&message);
                continue;
            }
            kind => panic!("no body for kind {kind}"),
        };
        assert_eq!(encoded.front, message.front, "kind {}", message.kind);
        assert_eq!(encoded.data, message.data, "kind {}", message.kind);
        assert_eq!(encoded.version, message.version, "kind {}", message.kind);
        assert_eq!(encoded.compat_version, message.compat_version, "kind {}", message.kind);
        kinds.insert(message.kind);
    }
    assert!(kinds.len() >= 20, "{kinds:?}");
}

#[test]
fn truncated_captures_are_refused() {
    for message in messages() {
        let check: fn(&Message) -> bool = match message.kind {
            OsdRequest::KIND => |m| OsdRequest::decode(m).is_err(),
            OsdReply::KIND => |m| OsdReply::decode(m).is_err(),
            MonSubscribe::KIND => |m| MonSubscribe::decode(m).is_err(),
            WatchNotify::KIND => |m| WatchNotify::decode(m).is_err(),
            GetPoolStatsReply::KIND => |m| GetPoolStatsReply::decode(m).is_err(),
            OsdBoot::KIND => |m| OsdBoot::decode(m).is_err(),
            _ => continue,
        };
        for end in 0..message.front.len() {
            let cut = Message { front: message.front.slice(..end), ..message.clone() };
            assert!(check(&cut), "kind {}: {end} bytes are enough", message.kind);
        }
    }
}

#[test]
fn operations_have_the_inputs_that_their_arguments_tell() {
    use wire::op::OpCode;
    let requests = messages().into_iter().filter(|message| message.kind == OsdRequest::KIND);
    let requests: Vec<_> = requests.map(|m| OsdRequest::decode(&m).unwrap()).collect();
    let ops = || requests.iter().flat_map(|request| &request.ops);
    assert!(ops().all(|op| op.code.name().is_some()));
    for op in ops().filter(|op| op.code == OpCode::WRITEFULL) {
        assert_eq!(op.extent().length, op.input.len() as u64);
    }
    let set = ops().find(|op| op.code == OpCode::SETXATTR).unwrap();
    assert_eq!(set.xattr_input().unwrap(), ("k".into(), "v".into()));
    let call = ops().find(|op| op.code == OpCode::CALL).unwrap();
    let (class, method, input) = call.call_input().unwrap();
    assert_eq!((&class[..], &method[..]), (&b"lock"[..], &b"lock"[..]));
    assert!(!input.is_empty());
    let notify = ops().find(|op| op.code == OpCode::NOTIFY).unwrap();
    let request: watch::NotifyRequest = codec::decode_all("notify", &notify.input).unwrap();
    assert_eq!(request.payload, "hey");
    let list = requests.iter().find(|request| request.ops[0].code == OpCode::PGNLS).unwrap();
    assert!(list.is_pg_op() && list.object.name.is_empty());
    let cursor: types::HObject = codec::decode_all("cursor", &list.ops[0].input).unwrap();
    assert_eq!(
        (list.ops[0].list_arguments().0, cursor),
        (1024, HObject { pool: PoolId(i64::MIN), ..HObject::default() })
    );
}
