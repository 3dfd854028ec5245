//! The payloads of all frames that are not messages.

use super::Tag;
use bytes::Bytes;
use codec::{DecodeErrorKind, Reader, Result, Writer};
use types::{EntityAddr, EntityAddrVec, EntityType, UTime};

/// `CEPH_MSG_CONNECT_LOSSY`: the session ends with its connection.
pub const CONNECT_FLAG_LOSSY: u64 = 1;
/// Bound for the lists of connection modes and authentication methods, which have a few entries.
pub const MODES_MAX: usize = 64;
/// HMAC-SHA256
pub const SIGNATURE_LENGTH: usize = 32;

/// A control frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Control {
    /// The first frame of both ends: the sender's entity type, and the receiver's address as the sender sees
    /// it.
    Hello {
        /// Entity type of the sender.
        kind: EntityType,
        /// Address of the receiver as the sender sees it.
        peer_addr: EntityAddr,
    },
    /// Client to server: begins authentication.
    AuthRequest {
        /// `CEPH_AUTH_*`
        method: u32,
        /// `CEPH_CON_MODE_*`, the preferred one first.
        preferred_modes: Vec<u32>,
        /// Input of the authentication method.
        payload: Bytes,
    },
    /// The method or its input is refused; the client may try another.
    AuthBadMethod {
        /// The method of the request.
        method: u32,
        /// A negative errno.
        result: i32,
        /// Methods that the server accepts.
        allowed_methods: Vec<u32>,
        /// Connection modes that the server accepts.
        allowed_modes: Vec<u32>,
    },
    /// Server to client: the authentication method needs another round.
    AuthReplyMore {
        /// Output of the authentication method.
        payload: Bytes,
    },
    /// Client to server: the next round.
    AuthRequestMore {
        /// Input of the authentication method.
        payload: Bytes,
    },
    /// Server to client: authentication succeeded.
    AuthDone {
        /// Global id of the client.
        global_id: u64,
        /// `CEPH_CON_MODE_*` of the frames that follow.
        mode: u32,
        /// Output of the authentication method.
        payload: Bytes,
    },
    /// Both ends: proves that the frames before were not changed.
    AuthSignature {
        /// HMAC-SHA256 over all bytes of the connection, with the session key.
        signature: [u8; SIGNATURE_LENGTH],
    },
    /// Client to server: opens a session.
    ClientIdent(ClientIdent),
    /// Server to client: the session is open.
    ServerIdent(ServerIdent),
    /// Server to client: the client lacks features.
    IdentMissingFeatures {
        /// Feature bits that it lacks.
        features: u64,
    },
    /// Client to server: resumes a session on a new connection.
    SessionReconnect(Reconnect),
    /// The sender does not know the session; `full`: messages in flight are lost.
    SessionReset {
        /// True if the session is gone, so that messages in flight are lost.
        full: bool,
    },
    /// The reconnect has an old `connect_seq`; the client repeats it with a higher one.
    SessionRetry {
        /// `connect_seq` of the server.
        connect_seq: u64,
    },
    /// The `global_seq` is old; the client repeats the frame with a higher one.
    SessionRetryGlobal {
        /// `global_seq` of the server.
        global_seq: u64,
    },
    /// The last message of the session that the sender has received.
    SessionReconnectOk {
        /// Sequence number of that message.
        message_seq: u64,
    },
    /// The sender is connecting in the other direction and its connection wins.
    Wait,
    /// Requests a [`Control::Keepalive2Ack`].
    Keepalive2 {
        /// Time by the sender's clock.
        stamp: UTime,
    },
    /// The answer to [`Control::Keepalive2`].
    Keepalive2Ack {
        /// Time that the request has.
        stamp: UTime,
    },
    /// Messages up to this one were received; the peer need not keep them for a resend.
    Ack {
        /// Sequence number of the message.
        seq: u64,
    },
    /// Client to server: negotiates compression.
    CompressionRequest {
        /// True if the client wants compression.
        wanted: bool,
        /// `Compressor::CompressionAlgorithm` numbers, the preferred one first.
        methods: Vec<u32>,
    },
    /// Server to client: outcome of the negotiation.
    CompressionDone {
        /// True if frames are compressed from now on.
        agreed: bool,
        /// Algorithm that the server has chosen.
        method: u32,
    },
}

/// `ClientIdentFrame`: starts a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdent {
    /// Addresses of the sender.
    pub addrs: EntityAddrVec,
    /// The address of the intended peer.
    pub target: EntityAddr,
    /// The number in `osd.0` or `client.4123`.
    pub number: i64,
    /// Number of the sender's connection attempt, which rises over all of its sessions.
    pub global_seq: u64,
    /// Feature bits of the sender.
    pub supported_features: u64,
    /// Feature bits that the receiver must have.
    pub required_features: u64,
    /// `CEPH_MSG_CONNECT_*`
    pub flags: u64,
    /// The client's half of the session's identity.
    pub cookie: u64,
}

/// `ServerIdentFrame`: the session is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerIdent {
    /// Addresses of the sender.
    pub addrs: EntityAddrVec,
    /// The number in `osd.0` or `mon.0`.
    pub number: i64,
    /// Number of the sender's connection attempt.
    pub global_seq: u64,
    /// Feature bits of the sender.
    pub supported_features: u64,
    /// Feature bits that the receiver must have.
    pub required_features: u64,
    /// `CEPH_MSG_CONNECT_*`
    pub flags: u64,
    /// The server's half of the session's identity; zero for a lossy session.
    pub cookie: u64,
}

/// `ReconnectFrame`: resumes a session on a new connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconnect {
    /// Addresses of the sender.
    pub addrs: EntityAddrVec,
    /// The client's half of the session's identity.
    pub client_cookie: u64,
    /// The server's half of the session's identity.
    pub server_cookie: u64,
    /// Number of the sender's connection attempt.
    pub global_seq: u64,
    /// Number of attempts to resume this session.
    pub connect_seq: u64,
    /// The last message received.
    pub message_seq: u64,
}

impl Control {
    /// Kind of the frame.
    pub fn tag(&self) -> Tag {
        match self {
            Control::Hello { .. } => Tag::Hello,
            Control::AuthRequest { .. } => Tag::AuthRequest,
            Control::AuthBadMethod { .. } => Tag::AuthBadMethod,
            Control::AuthReplyMore { .. } => Tag::AuthReplyMore,
            Control::AuthRequestMore { .. } => Tag::AuthRequestMore,
            Control::AuthDone { .. } => Tag::AuthDone,
            Control::AuthSignature { .. } => Tag::AuthSignature,
            Control::ClientIdent(_) => Tag::ClientIdent,
            Control::ServerIdent(_) => Tag::ServerIdent,
            Control::IdentMissingFeatures { .. } => Tag::IdentMissingFeatures,
            Control::SessionReconnect(_) => Tag::SessionReconnect,
            Control::SessionReset { .. } => Tag::SessionReset,
            Control::SessionRetry { .. } => Tag::SessionRetry,
            Control::SessionRetryGlobal { .. } => Tag::SessionRetryGlobal,
            Control::SessionReconnectOk { .. } => Tag::SessionReconnectOk,
            Control::Wait => Tag::Wait,
            Control::Keepalive2 { .. } => Tag::Keepalive2,
            Control::Keepalive2Ack { .. } => Tag::Keepalive2Ack,
            Control::Ack { .. } => Tag::Ack,
            Control::CompressionRequest { .. } => Tag::CompressionRequest,
            Control::CompressionDone { .. } => Tag::CompressionDone,
        }
    }

    /// Appends the payload of the frame.
    pub fn encode_payload(&self, w: &mut Writer) {
        match self {
            Control::Hello { kind, peer_addr } => {
                w.u8(kind.0);
                w.value(peer_addr);
            }
            Control::AuthRequest { method, preferred_modes, payload } => {
                w.u32(*method);
                w.value(preferred_modes);
                w.blob(payload);
            }
            Control::AuthBadMethod { method, result, allowed_methods, allowed_modes } => {
                w.u32(*method);
                w.i32(*result);
                w.value(allowed_methods);
                w.value(allowed_modes);
            }
            Control::AuthReplyMore { payload } | Control::AuthRequestMore { payload } => {
                w.blob(payload);
            }
            Control::AuthDone { global_id, mode, payload } => {
                w.u64(*global_id);
                w.u32(*mode);
                w.blob(payload);
            }
            Control::AuthSignature { signature } => w.raw(signature),
            Control::ClientIdent(ident) => encode_client_ident(ident, w),
            Control::ServerIdent(ident) => encode_server_ident(ident, w),
            Control::SessionReconnect(reconnect) => encode_reconnect(reconnect, w),
            Control::SessionReset { full } => w.bool(*full),
            Control::IdentMissingFeatures { features: word }
            | Control::SessionRetry { connect_seq: word }
            | Control::SessionRetryGlobal { global_seq: word }
            | Control::SessionReconnectOk { message_seq: word }
            | Control::Ack { seq: word } => w.u64(*word),
            Control::Wait => {}
            Control::Keepalive2 { stamp } | Control::Keepalive2Ack { stamp } => w.value(stamp),
            Control::CompressionRequest { wanted, methods } => {
                w.bool(*wanted);
                w.value(methods);
            }
            Control::CompressionDone { agreed, method } => {
                w.bool(*agreed);
                w.u32(*method);
            }
        }
    }

    /// Ignores trailing bytes, which a newer peer may append. `tag` is not `Message`.
    pub fn decode(tag: Tag, payload: &[u8]) -> Result<Control> {
        let r = &mut Reader::new(payload);
        Ok(match tag {
            Tag::Hello => {
                Control::Hello { kind: EntityType(r.u8("entity type")?), peer_addr: r.value()? }
            }
            Tag::AuthRequest | Tag::AuthBadMethod | Tag::AuthReplyMore => decode_auth(tag, r)?,
            Tag::AuthRequestMore | Tag::AuthDone | Tag::AuthSignature => decode_auth(tag, r)?,
            Tag::ClientIdent => Control::ClientIdent(decode_client_ident(r)?),
            Tag::ServerIdent => Control::ServerIdent(decode_server_ident(r)?),
            Tag::SessionReconnect => Control::SessionReconnect(decode_reconnect(r)?),
            Tag::IdentMissingFeatures => {
                Control::IdentMissingFeatures { features: r.u64("missing features")? }
            }
            Tag::SessionReset => Control::SessionReset { full: r.bool("full")? },
            Tag::SessionRetry => Control::SessionRetry { connect_seq: r.u64("connect seq")? },
            Tag::SessionRetryGlobal => {
                Control::SessionRetryGlobal { global_seq: r.u64("global seq")? }
            }
            Tag::SessionReconnectOk => {
                Control::SessionReconnectOk { message_seq: r.u64("message seq")? }
            }
            Tag::Wait => Control::Wait,
            Tag::Keepalive2 => Control::Keepalive2 { stamp: r.value()? },
            Tag::Keepalive2Ack => Control::Keepalive2Ack { stamp: r.value()? },
            Tag::Ack => Control::Ack { seq: r.u64("acked seq")? },
            Tag::CompressionRequest => {
                Control::CompressionRequest { wanted: r.bool("wanted")?, methods: modes(r)? }
            }
            Tag::CompressionDone => {
                Control::CompressionDone { agreed: r.bool("agreed")?, method: r.u32("method")? }
            }
            Tag::Message => unreachable!("a message is not a control frame"),
        })
    }
}

fn decode_auth(tag: Tag, r: &mut Reader<'_>) -> Result<Control> {
    Ok(match tag {
        Tag::AuthRequest => Control::AuthRequest {
            method: r.u32("method")?,
            preferred_modes: modes(r)?,
            payload: r.value()?,
        },
        Tag::AuthBadMethod => Control::AuthBadMethod {
            method: r.u32("method")?,
            result: r.i32("result")?,
            allowed_methods: modes(r)?,
            allowed_modes: modes(r)?,
        },
        Tag::AuthReplyMore => Control::AuthReplyMore { payload: r.value()? },
        Tag::AuthRequestMore => Control::AuthRequestMore { payload: r.value()? },
        Tag::AuthDone => Control::AuthDone {
            global_id: r.u64("global id")?,
            mode: r.u32("mode")?,
            payload: r.value()?,
        },
        _ => Control::AuthSignature { signature: r.array("signature")? },
    })
}

fn modes(r: &mut Reader<'_>) -> Result<Vec<u32>> {
    let at = *r;
    let modes = r.list("modes", |r| r.u32("mode"))?;
    if modes.len() > MODES_MAX {
        let (length, limit) = (modes.len() as u64, MODES_MAX as u64);
        return Err(at.error("modes", DecodeErrorKind::TooLong { length, limit }));
    }
    Ok(modes)
}

fn encode_client_ident(ident: &ClientIdent, w: &mut Writer) {
    w.value(&ident.addrs);
    w.value(&ident.target);
    w.i64(ident.number);
    w.u64(ident.global_seq);
    w.u64(ident.supported_features);
    w.u64(ident.required_features);
    w.u64(ident.flags);
    w.u64(ident.cookie);
}

fn decode_client_ident(r: &mut Reader<'_>) -> Result<ClientIdent> {
    Ok(ClientIdent {
        addrs: r.value()?,
        target: r.value()?,
        number: r.i64("number")?,
        global_seq: r.u64("global seq")?,
        supported_features: r.u64("supported features")?,
        required_features: r.u64("required features")?,
        flags: r.u64("flags")?,
        cookie: r.u64("cookie")?,
    })
}

fn encode_server_ident(ident: &ServerIdent, w: &mut Writer) {
    w.value(&ident.addrs);
    w.i64(ident.number);
    w.u64(ident.global_seq);
    w.u64(ident.supported_features);
    w.u64(ident.required_features);
    w.u64(ident.flags);
    w.u64(ident.cookie);
}

fn decode_server_ident(r: &mut Reader<'_>) -> Result<ServerIdent> {
    Ok(ServerIdent {
        addrs: r.value()?,
        number: r.i64("number")?,
        global_seq: r.u64("global seq")?,
        supported_features: r.u64("supported features")?,
        required_features: r.u64("required features")?,
        flags: r.u64("flags")?,
        cookie: r.u64("cookie")?,
    })
}

fn encode_reconnect(reconnect: &Reconnect, w: &mut Writer) {
    w.value(&reconnect.addrs);
    w.u64(reconnect.client_cookie);
    w.u64(reconnect.server_cookie);
    w.u64(reconnect.global_seq);
    w.u64(reconnect.connect_seq);
    w.u64(reconnect.message_seq);
}

fn decode_reconnect(r: &mut Reader<'_>) -> Result<Reconnect> {
    Ok(Reconnect {
        addrs: r.value()?,
        client_cookie: r.u64("client cookie")?,
        server_cookie: r.u64("server cookie")?,
        global_seq: r.u64("global seq")?,
        connect_seq: r.u64("connect seq")?,
        message_seq: r.u64("message seq")?,
    })
}
