//! The monitor map's encoding, for peers since Nautilus.

use super::{AuthCiphers, MonFeatures, MonInfo, MonMap};
use codec::{Encode, Writer};

impl MonMap {
    pub(super) const VERSION: u8 = 10;
    /// The version that introduced address vectors and ranks.
    pub(super) const COMPAT: u8 = 6;
}

/// The same encoding for all peers: readers skip fields that are newer than they are.
impl Encode for MonMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(Self::VERSION, Self::COMPAT, |w| {
            w.value(&self.fsid);
            w.value(&self.epoch);
            w.value(&self.last_changed);
            w.value(&self.created);
            encode_features(w, self.persistent_features);
            encode_features(w, self.optional_features);
            w.value(&self.mon_info);
            w.value(&self.ranks);
            w.value(&self.min_mon_release);
            w.value(&self.removed_ranks);
            w.u8(self.strategy.0);
            w.value(&self.disallowed_leaders);
            w.bool(self.stretch_mode_enabled);
            w.value(&self.tiebreaker_mon);
            w.value(&self.stretch_marked_down_mons);
            encode_ciphers(w, &self.auth);
        });
    }
}

fn encode_features(w: &mut Writer, features: MonFeatures) {
    w.versioned(1, 1, |w| w.value(&features));
}

fn encode_ciphers(w: &mut Writer, ciphers: &AuthCiphers) {
    w.value(&ciphers.epoch);
    w.i32(ciphers.service);
    let mut allowed = ciphers.allowed.clone();
    allowed.sort_unstable();
    w.value(&allowed);
    w.i32(ciphers.preferred);
}

impl Encode for MonInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(MonInfo::VERSION, 1, |w| {
            w.value(&self.name);
            w.value(&self.public_addrs);
            w.u16(self.priority);
            w.u16(self.weight);
            w.value(&self.crush_location);
            w.value(&self.time_added);
        });
    }
}

impl MonInfo {
    pub(super) const VERSION: u8 = 6;
}
