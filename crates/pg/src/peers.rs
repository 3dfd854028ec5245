//! What the primary knows of the other copies in this interval.

use crate::choice::Infos;
use crate::{Missing, Pg, PgInfo};
use std::collections::BTreeMap;
use types::{EVersion, HObject, OsdId};

#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    /// `None` if it has no copy.
    pub info: Option<PgInfo>,
    /// How many objects its log knows and its store does not have.
    pub missing_count: u64,
    /// Those, and what it will miss when it follows our log; known only of some.
    pub missing: Missing,
    pub is_missing_known: bool,
    /// Its log ends before ours begins, or has parted from it, so what it misses of ours is not to be known.
    pub is_incomparable: bool,
}

impl Peer {
    /// Whether it has the object in the version that `need` names, in the history that we follow.
    pub fn has(&self, object: &HObject, need: EVersion) -> bool {
        let Some(info) = &self.info else { return false };
        self.is_missing_known
            && info.last_update >= need
            && *object < info.last_backfill
            && !self.missing.contains(object)
    }

    /// Whether it may have the object in that version all the same: its log does not tell, or it is being filled in for that
    /// reason and has not come so far. Until then all that it had before lies there still.
    pub fn may_have(&self, object: &HObject, need: EVersion) -> bool {
        let Some(info) = &self.info else { return false };
        need > EVersion::ZERO
            && info.last_update >= need
            && (self.is_incomparable || *object >= info.last_backfill)
            && !self.missing.contains(object)
    }
}

impl Pg {
    /// All copies that count, and an empty one for each member that has none.
    pub(crate) fn infos<'a>(&'a self, empty: &'a PgInfo) -> Infos<'a> {
        let mut infos: Infos<'a> = BTreeMap::from([(self.whoami, &self.info)]);
        for (osd, peer) in &self.peers {
            match &peer.info {
                Some(info) => drop(infos.insert(*osd, info)),
                None if self.members.is_member(*osd) => drop(infos.insert(*osd, empty)),
                None => {}
            }
        }
        infos
    }

    pub(crate) fn peer_mut(&mut self, osd: OsdId) -> &mut Peer {
        self.peers.entry(osd).or_default()
    }
}
