//! The newest map, and what leads to it.

use super::Maps;
use bytes::Bytes;
use maps::{Incremental, OsdMap};
use types::Epoch;
use wire::OsdMapMessage;

/// The outcome of looking for a newer map in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    /// The map is newer now.
    Newer,
    /// The message has no further map, or one that does not decode.
    Nothing,
    /// An increment does not fit: a full map is needed.
    Failed,
}

impl Maps {
    /// Applies the next map of a message whose oldest one is `first`.
    pub fn apply_next(&mut self, message: &OsdMapMessage, first: Epoch) -> Applied {
        let mut epoch = first.max(self.map.epoch.next());
        while epoch <= message.newest.max(first) {
            if let Some(encoded) = message.incrementals.get(&epoch)
                && epoch == self.map.epoch.next()
                && self.map.epoch.0 > 0
            {
                return self.apply_increment(encoded);
            }
            if let Some(encoded) = message.full.get(&epoch) {
                return self.replace(encoded);
            }
            epoch = epoch.next();
        }
        Applied::Nothing
    }

    fn apply_increment(&mut self, encoded: &Bytes) -> Applied {
        match codec::decode_all::<Incremental>("increment", encoded) {
            Ok(increment) if self.apply(&increment) => {
                self.stored.note(self.map.epoch, encoded.clone());
                self.history.push(self.map.epoch, encoded.clone());
                Applied::Newer
            }
            _ => Applied::Failed,
        }
    }

    fn replace(&mut self, encoded: &Bytes) -> Applied {
        match codec::decode_all::<OsdMap>("map", encoded) {
            Ok(map) => self.map = map,
            Err(error) => {
                tracing::error!(%error, "the map does not decode");
                return Applied::Nothing;
            }
        }
        self.stored.note_replaced();
        self.history.clear();
        Applied::Newer
    }

    fn apply(&mut self, increment: &Incremental) -> bool {
        let applied = self.map.apply(increment);
        if let Err(error) = &applied {
            tracing::error!(epoch = %increment.epoch, %error, "an increment does not fit the map");
        }
        applied.is_ok()
    }
}
