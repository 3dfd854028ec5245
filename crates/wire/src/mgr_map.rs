//! The message that carries the manager map.

use bytes::Bytes;
use codec::Result;
use engine::Message;

/// `MMgrMap`: a manager map, encoded by crate `maps`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MgrMapMessage {
    /// The encoded map.
    pub map: Bytes,
}

impl crate::MessageBody for MgrMapMessage {
    const KIND: u16 = 0x704;

    fn encode(&self, _features: u64) -> Message {
        Message::new(Self::KIND, 1, 1, self.map.clone())
    }

    fn decode(message: &Message) -> Result<Self> {
        Ok(MgrMapMessage { map: message.front.clone() })
    }
}
