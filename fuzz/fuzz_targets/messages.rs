//! Every message: whatever decodes can be encoded, and decodes again.

#![no_main]

use bytes::Bytes;
use engine::Message;
use libfuzzer_sys::fuzz_target;
use wire::MessageBody;

fn round_trip<T: MessageBody>(message: &Message) {
    let Ok(body) = T::decode(message) else { return };
    for features in [u64::MAX, 0] {
        let encoded = body.encode(features);
        assert_eq!(encoded.kind, T::KIND);
        assert!(T::decode(&encoded).is_ok(), "what was encoded decodes");
    }
}

macro_rules! any_message {
    ($choice:expr, $message:expr, $($body:ty),* $(,)?) => {{
        let decoders: &[fn(&Message)] = &[$(round_trip::<$body>),*];
        decoders[$choice as usize % decoders.len()]($message);
    }};
}

fuzz_target!(|input: &[u8]| {
    let [choice, version, split, bytes @ ..] = input else { return };
    let split = bytes.len() * usize::from(*split) / 255;
    let (front, data) = bytes.split_at(split);
    let message = Message::new(0, (*version).into(), 1, Bytes::copy_from_slice(front));
    let message = &message.with_data(Bytes::copy_from_slice(data));
    any_message!(
        *choice,
        message,
        wire::OsdRequest,
        wire::OsdReply,
        wire::Auth,
        wire::AuthReply,
        wire::Command,
        wire::CommandReply,
        wire::MgrCommand,
        wire::MgrCommandReply,
        wire::MonCommand,
        wire::MonCommandAck,
        wire::Config,
        wire::Log,
        wire::LogAck,
        wire::MgrMapMessage,
        wire::MgrOpen,
        wire::MgrClose,
        wire::MgrReport,
        wire::MgrConfigure,
        wire::MonGetMap,
        wire::MonMapMessage,
        wire::MonSubscribe,
        wire::MonSubscribeAck,
        wire::MonGetVersion,
        wire::MonGetVersionReply,
        wire::OsdBackoff,
        wire::OsdBoot,
        wire::OsdMapMessage,
        wire::OsdAlive,
        wire::OsdBeacon,
        wire::OsdFailure,
        wire::OsdMarkMeDown,
        wire::OsdPgTemp,
        wire::Ping,
        wire::PoolOp,
        wire::PoolOpReply,
        wire::GetPoolStats,
        wire::GetPoolStatsReply,
        wire::Statfs,
        wire::StatfsReply,
        wire::WatchNotify,
        wire::MdsBeacon,
        wire::ClientSession,
        wire::ClientRequest,
        wire::ClientRequestForward,
        wire::ClientReply,
        wire::ClientCaps,
        wire::ClientCapRelease,
        wire::ClientLease,
        wire::ClientSnap,
        wire::ClientQuota,
        wire::ClientReclaim,
        wire::ClientReclaimReply,
        wire::ClientReconnect,
        wire::internal::RotatingSecrets,
        wire::internal::RotatingSecretsRequest,
        wire::internal::StatsReport,
        wire::internal::StatsAck,
    );
    inputs_of_operations(message);
    parts_of_replies(&message.data);
});

/// Arguments and inputs of operations are read when they are executed.
fn inputs_of_operations(message: &Message) {
    let Ok(request) = wire::OsdRequest::decode(message) else { return };
    for op in &request.ops {
        let _ = (op.xattr_input(), op.call_input(), op.extent(), op.checksum_arguments());
    }
}

/// Own parts of replies of metadata servers, and attributes of inodes.
fn parts_of_replies(bytes: &[u8]) {
    let _ = codec::decode_all::<wire::DirectoryPage>("page", bytes);
    let _ = codec::decode_all::<wire::CreatedInode>("created inode", bytes);
    let _ = codec::decode_all::<wire::SnapRealmInfo>("realm", bytes);
    let _ = wire::inode_stat::decode_xattrs(bytes);
}
