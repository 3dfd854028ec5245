//! The end of watches whose clients are silent or blocklisted.

use super::state::GroupWatches;
use engine::Time;
use maps::OsdMap;
use pg::WatcherKey;
use types::HObject;

impl GroupWatches {
    /// The watches whose time is up. Each is named again later if its removal is lost.
    pub fn expire(&mut self, now: Time) -> Vec<(HObject, WatcherKey)> {
        let mut ended = Vec::new();
        for (object, watches) in &mut self.by_object {
            for (key, watch) in watches {
                if watch.deadline.is_some_and(|deadline| deadline <= now) {
                    watch.deadline = Some(now + watch.timeout);
                    ended.push((object.clone(), *key));
                }
            }
        }
        ended
    }

    /// The watches of blocklisted clients: they end immediately, because the client that fenced them takes
    /// over what they held.
    pub fn blocklisted(&self, map: &OsdMap) -> Vec<(HObject, WatcherKey)> {
        if map.blocklist.is_empty() && map.range_blocklist.is_empty() {
            return Vec::new();
        }
        let ended = self.iter().filter(|(.., watch)| map.is_blocklisted(&watch.addr));
        ended.map(|(object, key, _)| (object.clone(), *key)).collect()
    }

    /// Likewise for the watches of one object.
    pub fn blocklisted_of(&self, map: &OsdMap, object: &HObject) -> Vec<WatcherKey> {
        let watches = self.of(object).into_iter().flatten();
        let ended = watches.filter(|(_, watch)| map.is_blocklisted(&watch.addr));
        ended.map(|(key, _)| *key).collect()
    }
}
