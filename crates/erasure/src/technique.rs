//! Techniques: names and limits of the codes that Ceph's plugins have.

use std::fmt::{Display, Formatter, Result};

/// Bound for the shards of an object, `k + m`. Ceph's limits are higher or not checked; larger codes are
/// refused.
pub const SHARDS_MAX: usize = 32;

/// A family of codes. All work on bytes (`w = 8`) and are systematic: shards 0 to k - 1 are the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Technique {
    /// Plugin `isa`, `reed_sol_van`: row i has the powers of 2^i. Ceph's default since 20.2.
    IsaVandermonde,
    /// Plugin `isa`, `cauchy`.
    IsaCauchy,
    /// Plugin `jerasure`, `reed_sol_van`: a systematic form of a Vandermonde matrix.
    JerasureVandermonde,
    /// Plugin `jerasure`, `reed_sol_r6_op`: two parities as in RAID 6.
    JerasureRaid6,
}

impl Technique {
    /// All techniques.
    pub const ALL: [Technique; 4] = [
        Technique::IsaVandermonde,
        Technique::IsaCauchy,
        Technique::JerasureVandermonde,
        Technique::JerasureRaid6,
    ];

    /// The technique with the names of a profile, if there is one.
    pub fn from_names(plugin: &str, technique: &str) -> Option<Technique> {
        Technique::ALL.into_iter().find(|one| (one.plugin(), one.name()) == (plugin, technique))
    }

    /// The value of `plugin` in a profile.
    pub fn plugin(self) -> &'static str {
        match self {
            Technique::IsaVandermonde | Technique::IsaCauchy => "isa",
            Technique::JerasureVandermonde | Technique::JerasureRaid6 => "jerasure",
        }
    }

    /// The value of `technique` in a profile.
    pub fn name(self) -> &'static str {
        match self {
            Technique::IsaVandermonde | Technique::JerasureVandermonde => "reed_sol_van",
            Technique::IsaCauchy => "cauchy",
            Technique::JerasureRaid6 => "reed_sol_r6_op",
        }
    }

    /// The largest number of parities.
    pub fn parities_max(self) -> usize {
        match self {
            Technique::IsaVandermonde => 4,
            Technique::IsaCauchy | Technique::JerasureVandermonde => SHARDS_MAX - DATA_MIN,
            Technique::JerasureRaid6 => 2,
        }
    }

    /// The smallest number of parities.
    pub fn parities_min(self) -> usize {
        if self == Technique::JerasureRaid6 { 2 } else { 1 }
    }

    /// The largest number of data shards beside `m` parities.
    pub fn data_max(self, m: usize) -> usize {
        match (self, m) {
            // With more, some sets of four erasures cannot be decoded.
            (Technique::IsaVandermonde, 4) => 21,
            _ => SHARDS_MAX.saturating_sub(m),
        }
    }
}

/// Ceph refuses one data shard: its replicated pools are for that.
pub(crate) const DATA_MIN: usize = 2;

impl Display for Technique {
    fn fmt(&self, to: &mut Formatter<'_>) -> Result {
        write!(to, "{} {}", self.plugin(), self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_profiles() {
        for technique in Technique::ALL {
            let (plugin, name) = (technique.plugin(), technique.name());
            assert_eq!(Technique::from_names(plugin, name), Some(technique));
        }
        assert_eq!(Technique::from_names("clay", "reed_sol_van"), None);
    }
}
