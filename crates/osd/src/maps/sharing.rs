//! Messages by which clients get the maps that they lack.

use super::Maps;
use engine::Message;
use types::Epoch;
use wire::{MessageBody, OsdMapMessage};

impl Maps {
    /// A message that leads from the map `known` to the newest one, for a reader with `features`.
    pub fn share(&self, known: Epoch, features: u64) -> Message {
        let newest = self.map.epoch;
        let increments = self.history.range(known, newest, features);
        let mut message = OsdMapMessage {
            fsid: self.map.fsid,
            oldest: newest,
            newest,
            ..OsdMapMessage::default()
        };
        match increments {
            Some(increments) => message.incrementals = increments,
            None => {
                message.full.insert(newest, self.map.to_bytes(features));
            }
        }
        if let Some(first) = message.incrementals.keys().next() {
            message.oldest = *first;
        }
        message.encode(features)
    }
}
