//! The primary's knowledge of the other copies in this interval.

use crate::choice::Infos;
use crate::{Missing, Pg, PgInfo};
use std::collections::BTreeMap;
use types::{EVersion, HObject, OsdId};

/// The copy of another OSD.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peer {
    /// `None` if it has no copy.
    pub info: Option<PgInfo>,
    /// Size of the missing set that it reported.
    pub missing_count: u64,
    /// Its missing set, with the objects that it will miss when it follows our log. Complete only if
    /// `is_missing_known`; of an incomparable copy this is the missing set that it reported.
    pub missing: Missing,
    pub is_missing_known: bool,
    /// Set if its log ends before ours begins, or diverges from it: the objects of our log that it
    /// lacks are unknown.
    pub is_incomparable: bool,
}

impl Peer {
    /// Whether it has the object in the version `need` of our history.
    pub fn has(&self, object: &HObject, need: EVersion) -> bool {
        let Some(info) = &self.info else { return false };
        self.is_missing_known
            && info.last_update >= need
            && *object < info.last_backfill
            && !self.missing.contains(object)
    }

    /// Whether it may have the object in that version although its log cannot prove it: its log is
    /// incomparable, or it is a backfill target that has not reached the object, whose former content stays
    /// in place until then.
    pub fn may_have(&self, object: &HObject, need: EVersion) -> bool {
        let Some(info) = &self.info else { return false };
        need > EVersion::ZERO
            && info.last_update >= need
            && (self.is_incomparable || *object >= info.last_backfill)
            && !self.missing.contains(object)
    }
}

impl Pg {
    /// The infos of all known copies, with an empty one for each member that has no copy.
    pub(crate) fn infos<'a>(&'a self, empty: &'a PgInfo) -> Infos<'a> {
        let mut infos: Infos<'a> = BTreeMap::from([(self.core.own.whoami, &self.core.copy.info)]);
        let members = &self.core.placement.members;
        for (osd, peer) in &self.primary.peers {
            match &peer.info {
                Some(info) => drop(infos.insert(*osd, info)),
                None if members.is_member(*osd) => drop(infos.insert(*osd, empty)),
                None => {}
            }
        }
        infos
    }

    pub(crate) fn peer_mut(&mut self, osd: OsdId) -> &mut Peer {
        self.primary.peers.entry(osd).or_default()
    }
}
