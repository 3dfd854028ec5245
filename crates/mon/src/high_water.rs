//! High-water mark of the control store: kept outside of the store, it reveals that the store went back in
//! time.
//!
//! A store that was restored from a backup is older than maps the monitor has already published. OSDs with a
//! newer map reveal that, but only when they connect, and by then the store may have made other maps with the
//! same epochs. The mark is read before anything is decided. The host makes it durable in the monitor's
//! directory before the monitor receives the completion that raises it.

use crate::keys;
use codec::decode_all;
use control::{Completion, Request, Transaction};
use maps::MonMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use types::{Epoch, Uuid};

/// The mark of one cluster: a cluster that is created anew in the same place begins with an empty mark.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HighWater {
    fsid: String,
    epoch: u32,
    global_id: u64,
}

impl HighWater {
    /// The newest OSD map of that cluster that was seen.
    pub(crate) fn epoch(&self, fsid: Uuid) -> Epoch {
        Epoch(if self.is_of(fsid) { self.epoch } else { 0 })
    }

    /// The lower bound of client ids of that cluster that are not reserved, as far as was seen.
    pub(crate) fn global_id(&self, fsid: Uuid) -> u64 {
        if self.is_of(fsid) { self.global_id } else { 0 }
    }

    fn is_of(&self, fsid: Uuid) -> bool {
        self.fsid == fsid.to_string()
    }

    fn raise(&mut self, epoch: u32, global_id: u64) {
        self.epoch = self.epoch.max(epoch);
        self.global_id = self.global_id.max(global_id);
    }
}

/// Raises the mark by observing the requests and completions between a monitor and its store.
#[derive(Debug, Default)]
pub struct HighWaterGauge {
    mark: HighWater,
    /// The (epoch, global id) that each transaction in flight would raise it to, by token.
    asked: BTreeMap<u64, (u32, u64)>,
}

impl HighWaterGauge {
    /// A gauge that continues from a stored mark.
    pub fn new(mark: HighWater) -> Self {
        HighWaterGauge { mark, asked: BTreeMap::new() }
    }

    /// The current mark, to be made durable.
    pub fn mark(&self) -> &HighWater {
        &self.mark
    }

    /// Observes a request of the monitor.
    pub fn asked(&mut self, request: &Request) {
        if let Request::Commit { token, transaction } = request {
            let reached = reached(transaction);
            if reached != (0, 0) {
                self.asked.insert(*token, reached);
            }
        }
    }

    /// Observes a completion for the monitor. Returns true if the mark has changed: then it must be durable
    /// before the monitor receives the completion.
    pub fn told(&mut self, completion: &Completion) -> bool {
        let before = self.mark.clone();
        match completion {
            Completion::Committed { token, outcome } => {
                let reached = self.asked.remove(token);
                if let (Some((epoch, global_id)), Ok(_)) = (reached, outcome) {
                    self.mark.raise(epoch, global_id);
                }
            }
            Completion::Changed { events } => {
                for event in events {
                    let (epoch, global_id) = value_of(&event.key, event.value.as_deref());
                    self.mark.raise(epoch, global_id);
                }
            }
            Completion::Loaded { entries, .. } => {
                let newest = entries.iter().rfind(|entry| entry.key.starts_with("monmap/"));
                let map = newest.and_then(|entry| decode_all::<MonMap>("map", &entry.value).ok());
                if let Some(map) = map.filter(|map| !self.mark.is_of(map.fsid)) {
                    self.mark = HighWater { fsid: map.fsid.to_string(), ..HighWater::default() };
                }
                for entry in entries {
                    let (epoch, global_id) = value_of(&entry.key, Some(&entry.value));
                    self.mark.raise(epoch, global_id);
                }
            }
            Completion::Unread { .. } | Completion::Leased { .. } | Completion::Missed => {}
        }
        self.mark != before
    }
}

fn reached(transaction: &Transaction) -> (u32, u64) {
    let values = transaction.writes.iter().map(|(key, value)| value_of(key, value.as_deref()));
    values.fold((0, 0), |(epoch, id), (other, another)| (epoch.max(other), id.max(another)))
}

/// The (epoch, global id) that a key with this value stands for; zeros if it is another key.
fn value_of(key: &str, value: Option<&[u8]>) -> (u32, u64) {
    let Some(value) = value else { return (0, 0) };
    if key == keys::GLOBAL_ID {
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        return (0, number.unwrap_or(0));
    }
    let epoch = key.strip_prefix(keys::OSDMAP_FULL).and_then(|epoch| epoch.parse().ok());
    (epoch.unwrap_or(0), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use control::{CommitError, Entry, Event};

    fn commit(token: u64, epoch: u32) -> Request {
        let mut transaction = Transaction::default();
        transaction.put(keys::osdmap_full(Epoch(epoch)), &b"map"[..]);
        Request::Commit { token, transaction }
    }

    fn changed(key: String, value: Option<Bytes>) -> Completion {
        Completion::Changed { events: vec![Event { key, value, revision: 9 }] }
    }

    fn loaded(fsid: Uuid, epoch: u32) -> Completion {
        let monmap = MonMap { fsid, ..MonMap::default() };
        let entry = |key: String, value: Bytes| Entry { key, value, revision: 1 };
        let entries = vec![
            entry(keys::monmap(Epoch(1)), codec::encode_to_bytes(&monmap)),
            entry(keys::osdmap_full(Epoch(epoch)), Bytes::from_static(b"map")),
        ];
        Completion::Loaded { token: 1, entries, revision: 1 }
    }

    #[test]
    fn only_what_was_committed_raises_the_mark_and_nothing_lowers_it() {
        let fsid = Uuid([1; 16]);
        let mut gauge = HighWaterGauge::default();
        assert!(gauge.told(&loaded(fsid, 4)));
        gauge.asked(&commit(1, 5));
        let outcome = Err(CommitError::Conflict);
        assert!(!gauge.told(&Completion::Committed { token: 1, outcome }));
        gauge.asked(&commit(2, 5));
        assert_eq!(gauge.mark().epoch(fsid), Epoch(4));
        assert!(gauge.told(&Completion::Committed { token: 2, outcome: Ok(2) }));
        assert_eq!(gauge.mark().epoch(fsid), Epoch(5));
        // Another monitor makes a map and reserves ids; old maps are dropped.
        let map = Some(Bytes::from_static(b"map"));
        assert!(gauge.told(&changed(keys::osdmap_full(Epoch(7)), map)));
        assert!(gauge.told(&changed(keys::GLOBAL_ID.to_owned(), Some("77".into()))));
        assert!(!gauge.told(&changed(keys::osdmap_full(Epoch(9)), None)));
        assert!(!gauge.told(&loaded(fsid, 2)));
        assert_eq!((gauge.mark().epoch(fsid), gauge.mark().global_id(fsid)), (Epoch(7), 77));
    }

    #[test]
    fn another_cluster_in_the_same_place_begins_anew() {
        let (old, new) = (Uuid([1; 16]), Uuid([2; 16]));
        let mut gauge = HighWaterGauge::default();
        assert!(gauge.told(&loaded(old, 900)));
        assert_eq!(gauge.mark().epoch(new), Epoch(0));
        assert!(gauge.told(&loaded(new, 3)));
        assert_eq!((gauge.mark().epoch(new), gauge.mark().epoch(old)), (Epoch(3), Epoch(0)));
    }
}
