//! Snap realms as the client knows them: the snapshots that its writes must preserve.
//!
//! A realm is told by traces of replies and messages. Of two accounts of a realm the one with the greater
//! number counts.

use std::collections::{BTreeMap, BTreeSet};
use types::SnapId;
use wire::{ClaimedRealm, SnapContext, SnapRealmInfo};

/// Realms in a chain; longer ones, which cannot be, are cut.
const CHAIN_MAX: usize = 256;

/// All realms that the client was told of, by inode.
#[derive(Debug, Default)]
pub(crate) struct Realms {
    known: BTreeMap<u64, SnapRealmInfo>,
}

impl Realms {
    /// Takes what is news of realms.
    pub(crate) fn learn(&mut self, told: impl IntoIterator<Item = SnapRealmInfo>) {
        for realm in told {
            let known = self.known.entry(realm.ino).or_default();
            if realm.seq > known.seq {
                *known = realm;
            } else {
                known.parent = realm.parent;
            }
        }
    }

    /// Realms are below another one from now on.
    pub(crate) fn split(&mut self, realms: &[u64], parent: u64) {
        for realm in realms {
            if let Some(known) = self.known.get_mut(realm) {
                known.parent = parent;
            }
        }
    }

    /// Snapshots that a write to an inode of a realm must preserve.
    pub(crate) fn context(&self, realm: u64) -> SnapContext {
        let (mut snaps, mut since, mut seq) = (BTreeSet::new(), 0, 0);
        let mut next = Some(realm);
        for _ in 0..CHAIN_MAX {
            let Some(known) = next.and_then(|ino| self.known.get(&ino)) else { break };
            let own = known.snaps.iter().chain(&known.prior_parent_snaps);
            snaps.extend(own.copied().filter(|snap| *snap >= since).map(SnapId));
            seq = known.seq.max(seq);
            since = known.parent_since.max(since);
            next = Some(known.parent).filter(|parent| *parent != 0);
        }
        SnapContext { seq: SnapId(seq), snaps: snaps.into_iter().rev().collect() }
    }

    /// A realm and those above it.
    pub(crate) fn chain(&self, realm: u64) -> Vec<u64> {
        let above = |realm: &u64| self.known.get(realm).map(|it| it.parent).filter(|ino| *ino != 0);
        std::iter::successors(Some(realm), above).take(CHAIN_MAX).collect()
    }

    /// The realms, as the next server must know them.
    pub(crate) fn claims(&self) -> Vec<ClaimedRealm> {
        let claim = |(ino, realm): (&u64, &SnapRealmInfo)| ClaimedRealm {
            ino: *ino,
            seq: realm.seq,
            parent: realm.parent,
        };
        self.known.iter().map(claim).collect()
    }
}

/// Whether a snapshot was taken since a write with the older context.
pub(crate) fn has_new_snapshot(old: &SnapContext, new: &SnapContext) -> bool {
    new.snaps.first().is_some_and(|newest| *newest > old.seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn realm(ino: u64, parent: u64, seq: u64, snaps: &[u64]) -> SnapRealmInfo {
        SnapRealmInfo { ino, parent, seq, snaps: snaps.to_vec(), ..SnapRealmInfo::default() }
    }

    #[test]
    fn a_write_preserves_snapshots_of_its_realm_and_of_those_above() {
        let mut realms = Realms::default();
        let moved =
            SnapRealmInfo { parent_since: 4, prior_parent_snaps: vec![2], ..realm(7, 1, 6, &[6]) };
        realms.learn([moved, realm(1, 0, 5, &[5, 3])]);
        let snaps = [6, 5, 2].map(SnapId).to_vec();
        assert_eq!(realms.context(7), SnapContext { seq: SnapId(6), snaps });
        realms.learn([realm(1, 0, 4, &[])]);
        assert_eq!(realms.context(1).snaps, [5, 3].map(SnapId), "it is older");
        assert_eq!(realms.context(9), SnapContext::default(), "it is unknown");
    }
}
