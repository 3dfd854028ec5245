//! Messages by which clients get the maps that they lack.

use super::history::MapsHistory;
use engine::Message;
use maps::OsdMap;
use types::Epoch;
use wire::{MessageBody, OsdMapMessage};

/// A message that leads from the map `known` to the newest one, for a reader with `features`.
pub(super) fn share(map: &OsdMap, history: &MapsHistory, known: Epoch, features: u64) -> Message {
    let newest = map.epoch;
    let increments = history.range(known, newest, features);
    let mut message =
        OsdMapMessage { fsid: map.fsid, oldest: newest, newest, ..OsdMapMessage::default() };
    match increments {
        Some(increments) => message.incrementals = increments,
        None => {
            message.full.insert(newest, map.to_bytes(features));
        }
    }
    if let Some(first) = message.incrementals.keys().next() {
        message.oldest = *first;
    }
    message.encode(features)
}
