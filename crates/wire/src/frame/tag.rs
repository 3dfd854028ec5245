//! Kinds of frames.

/// Kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tag {
    /// [`super::Control::Hello`]
    Hello = 1,
    /// [`super::Control::AuthRequest`]
    AuthRequest,
    /// [`super::Control::AuthBadMethod`]
    AuthBadMethod,
    /// [`super::Control::AuthReplyMore`]
    AuthReplyMore,
    /// [`super::Control::AuthRequestMore`]
    AuthRequestMore,
    /// [`super::Control::AuthDone`]
    AuthDone,
    /// [`super::Control::AuthSignature`]
    AuthSignature,
    /// [`super::Control::ClientIdent`]
    ClientIdent,
    /// [`super::Control::ServerIdent`]
    ServerIdent,
    /// [`super::Control::IdentMissingFeatures`]
    IdentMissingFeatures,
    /// [`super::Control::SessionReconnect`]
    SessionReconnect,
    /// [`super::Control::SessionReset`]
    SessionReset,
    /// [`super::Control::SessionRetry`]
    SessionRetry,
    /// [`super::Control::SessionRetryGlobal`]
    SessionRetryGlobal,
    /// [`super::Control::SessionReconnectOk`]
    SessionReconnectOk,
    /// [`super::Control::Wait`]
    Wait,
    /// [`super::Frame::Message`]
    Message,
    /// [`super::Control::Keepalive2`]
    Keepalive2,
    /// [`super::Control::Keepalive2Ack`]
    Keepalive2Ack,
    /// [`super::Control::Ack`]
    Ack,
    /// [`super::Control::CompressionRequest`]
    CompressionRequest,
    /// [`super::Control::CompressionDone`]
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
