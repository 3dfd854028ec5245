//! Kinds of frames.

/// Kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tag {
    Hello = 1,
    AuthRequest,
    AuthBadMethod,
    AuthReplyMore,
    AuthRequestMore,
    AuthDone,
    AuthSignature,
    ClientIdent,
    ServerIdent,
    IdentMissingFeatures,
    SessionReconnect,
    SessionReset,
    SessionRetry,
    SessionRetryGlobal,
    SessionReconnectOk,
    Wait,
    Message,
    Keepalive2,
    Keepalive2Ack,
    Ack,
    CompressionRequest,
    CompressionDone,
}

impl Tag {
    const ALL: [Tag; 22] = [
        Tag::Hello,
        Tag::AuthRequest,
        Tag::AuthBadMethod,
        Tag::AuthReplyMore,
        Tag::AuthRequestMore,
        Tag::AuthDone,
        Tag::AuthSignature,
        Tag::ClientIdent,
        Tag::ServerIdent,
        Tag::IdentMissingFeatures,
        Tag::SessionReconnect,
        Tag::SessionReset,
        Tag::SessionRetry,
        Tag::SessionRetryGlobal,
        Tag::SessionReconnectOk,
        Tag::Wait,
        Tag::Message,
        Tag::Keepalive2,
        Tag::Keepalive2Ack,
        Tag::Ack,
        Tag::CompressionRequest,
        Tag::CompressionDone,
    ];

    /// The kind with this number; `None` if msgr 2.1 has none.
    pub(super) fn from_u8(value: u8) -> Option<Tag> {
        Tag::ALL.get(usize::from(value).wrapping_sub(1)).copied()
    }
}
