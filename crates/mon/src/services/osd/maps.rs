//! Messages with OSD maps: those of subscriptions, and single ones.

use crate::sessions::Subscription;
use crate::state::State;
use bytes::Bytes;
use engine::Message;
use std::collections::BTreeMap;
use types::Epoch;
use wire::{MessageBody, OsdMapMessage};

/// Incrementals in one message; a subscriber that needs more gets several messages.
const INCREMENTALS_PER_MESSAGE: usize = 40;
/// Bound of the map messages that are cached, by start epoch and features of the subscriber.
const MAP_READERS_MAX: usize = 64;

/// Cache of messages with OSD maps. Thousands of sessions at the same epoch need the same ones.
#[derive(Debug, Default)]
pub(super) struct MapMessages {
    /// The epoch up to which they lead.
    newest: Epoch,
    /// By the first epoch, and the subscriber's features.
    messages: BTreeMap<(u64, u64), Vec<Message>>,
}

impl MapMessages {
    /// All maps from `subscription.next`: incrementals as far as they are kept, else the newest full map.
    pub fn serve(
        &mut self,
        state: &State,
        features: u64,
        subscription: &mut Subscription,
    ) -> Vec<Message> {
        let (newest, first) = (state.osdmap.epoch, subscription.next);
        if first > newest.0.into() {
            return Vec::new();
        }
        subscription.next = u64::from(newest.0) + 1;
        assert!(subscription.next > first, "a subscription that was served advances");
        if self.newest != newest || self.messages.len() >= MAP_READERS_MAX {
            (self.newest, self.messages) = (newest, BTreeMap::new());
        }
        let messages = self.messages.entry((first, features));
        messages.or_insert_with(|| osdmaps(state, features, Epoch(first as u32))).clone()
    }
}

fn osdmaps(state: &State, features: u64, first: Epoch) -> Vec<Message> {
    let newest = state.osdmap.epoch;
    let oldest = state.history.incrementals.first_key_value().map(|(epoch, _)| *epoch);
    if first.0 == 0 || oldest.is_none_or(|oldest| first < oldest) {
        return full_map(state, features, newest).into_iter().collect();
    }
    let maps: Vec<(Epoch, Bytes)> = state
        .history
        .incrementals
        .range(first..)
        .map(|(epoch, bytes)| (*epoch, bytes.clone()))
        .collect();
    let message = |chunk: &[(Epoch, Bytes)]| {
        let reencode = |bytes: &Bytes| maps::reencode_incremental(bytes, features);
        let incrementals =
            chunk.iter().filter_map(|(epoch, bytes)| Some((*epoch, reencode(bytes).ok()?)));
        let message = OsdMapMessage {
            fsid: state.osdmap.fsid,
            incrementals: incrementals.collect(),
            full: BTreeMap::new(),
            oldest: oldest.unwrap_or(newest),
            newest,
        };
        message.encode(features)
    };
    maps.chunks(INCREMENTALS_PER_MESSAGE).map(message).collect()
}

/// A message with one full map; `None` if it is not kept.
pub(super) fn full_map(state: &State, features: u64, epoch: Epoch) -> Option<Message> {
    let map = if epoch == state.osdmap.epoch {
        state.osdmap.to_bytes(features)
    } else {
        maps::reencode_full(state.history.full.get(&epoch)?, features).ok()?
    };
    let message = OsdMapMessage {
        fsid: state.osdmap.fsid,
        incrementals: BTreeMap::new(),
        full: [(epoch, map)].into(),
        oldest: epoch,
        newest: state.osdmap.epoch,
    };
    Some(message.encode(features))
}
