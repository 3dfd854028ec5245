//! `CompatSet`: the named on-disk features that a daemon has, or that a map demands of it.

use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;

/// The incompatible features of Ceph's metadata server, by bit. Bit 7 is not that of a new map.
const MDS_FEATURES: [(u64, &str); 9] = [
    (1, "base v0.20"),
    (2, "client writeable ranges"),
    (3, "default file layouts on dirs"),
    (4, "dir inode in separate object"),
    (5, "mds uses versioned encoding"),
    (6, "dirfrag is stored in omap"),
    (8, "no anchor table"),
    (9, "file layout v2"),
    (10, "snaprealm v2"),
];

/// The feature of bit 7.
const INLINE_DATA: (u64, &str) = (7, "mds uses inline data");

/// `CompatSet`: three sets of features.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompatSet {
    /// Features that need not be known.
    pub compat: FeatureSet,
    /// Features that must be known to write.
    pub ro_compat: FeatureSet,
    /// Features that must be known to read and write.
    pub incompat: FeatureSet,
}

/// `CompatSet::FeatureSet`: features by bit number, with their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureSet {
    /// The bits of all features. Bit 0 is set in sets that daemons make.
    pub mask: u64,
    /// Names by bit.
    pub names: BTreeMap<u64, String>,
}

impl Default for FeatureSet {
    fn default() -> Self {
        FeatureSet { mask: 1, names: BTreeMap::new() }
    }
}

impl FeatureSet {
    /// Adds a feature; its bit must be less than 64 to count in the mask.
    pub fn insert(&mut self, bit: u64, name: impl Into<String>) {
        let in_mask = u32::try_from(bit).ok().and_then(|bit| 1u64.checked_shl(bit));
        self.mask |= in_mask.unwrap_or(0);
        self.names.insert(bit, name.into());
    }

    fn contains(&self, other: &FeatureSet) -> bool {
        other.names.keys().all(|bit| self.names.contains_key(bit))
    }

    fn merge(&mut self, other: &FeatureSet) -> bool {
        let before = self.names.len();
        other.names.iter().for_each(|(bit, name)| self.insert(*bit, name));
        self.names.len() > before
    }
}

impl CompatSet {
    /// The set of a new map, which Ceph's metadata servers since 16.2 can serve.
    pub fn of_file_systems() -> Self {
        let mut set = CompatSet::default();
        MDS_FEATURES.iter().for_each(|(bit, name)| set.incompat.insert(*bit, *name));
        set
    }

    /// The set of a metadata server. `fs new` demands inline data, too, because Ceph's servers have it; no
    /// client uses it.
    pub fn of_servers() -> Self {
        let mut set = CompatSet::of_file_systems();
        set.incompat.insert(INLINE_DATA.0, INLINE_DATA.1);
        set
    }

    /// Whether a daemon with these features may serve a map that demands `other`.
    pub fn can_write(&self, other: &CompatSet) -> bool {
        self.incompat.contains(&other.incompat) && self.ro_compat.contains(&other.ro_compat)
    }

    /// Adds the features of another set. Returns whether there were new ones.
    pub fn merge(&mut self, other: &CompatSet) -> bool {
        let changed = self.compat.merge(&other.compat);
        let changed = self.ro_compat.merge(&other.ro_compat) || changed;
        self.incompat.merge(&other.incompat) || changed
    }
}

impl Encode for FeatureSet {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.mask);
        w.value(&self.names);
    }
}

impl Decode for FeatureSet {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(FeatureSet { mask: r.u64("feature mask")?, names: r.value()? })
    }
}

impl Encode for CompatSet {
    fn encode(&self, w: &mut Writer) {
        [&self.compat, &self.ro_compat, &self.incompat].into_iter().for_each(|set| w.value(set));
    }
}

impl Decode for CompatSet {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(CompatSet { compat: r.value()?, ro_compat: r.value()?, incompat: r.value()? })
    }
}
