//! Tunables of the placement function, and named profiles of them.

use crate::bucket::Algorithm;

/// Tunables of a map. Changing any of them moves data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunables {
    /// Retries in the same bucket after a collision; zero except in legacy maps.
    pub choose_local_tries: u32,
    /// Retries over a permutation of the same bucket; zero except in legacy maps.
    pub choose_local_fallback_tries: u32,
    /// Retries from the top; tries are one more.
    pub choose_total_tries: u32,
    /// A failed leaf search restarts at the top at once.
    pub chooseleaf_descend_once: u32,
    /// Variation of the leaf search by replica: a shift of one less; zero disables it.
    pub chooseleaf_vary_r: u8,
    /// Leaves are searched alike for all replicas, so that fewer move.
    pub chooseleaf_stable: u8,
    /// Version of the formula for the straws of straw buckets.
    pub straw_calc_version: u8,
    /// Bit `n` allows bucket algorithm `n`.
    pub allowed_bucket_algs: u32,
    /// Descents of a multi-step retry rule before a position stays without device.
    pub msr_descents: u32,
    /// Collisions in one bucket before a descent of a multi-step retry rule ends.
    pub msr_collision_tries: u32,
}

/// A named set of tunables, after the release that introduced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// The first release.
    Argonaut,
    /// More retries, all from the top; needs `CRUSH_TUNABLES` and `CRUSH_TUNABLES2`.
    Bobtail,
    /// With leaves that differ by replica; needs `CRUSH_TUNABLES3`.
    Firefly,
    /// With straw2 buckets; needs `CRUSH_V4`.
    Hammer,
    /// With stable leaves; needs `CRUSH_TUNABLES5`.
    Jewel,
}

const MSR_TRIES_DEFAULT: u32 = 100;
const LEGACY_ALGORITHMS: u32 = bits(&[Algorithm::Uniform, Algorithm::List, Algorithm::Straw]);
const ALGORITHMS: u32 = LEGACY_ALGORITHMS | bits(&[Algorithm::Straw2]);

const fn bits(algorithms: &[Algorithm]) -> u32 {
    let mut bits = 0;
    let mut index = 0;
    while index < algorithms.len() {
        bits |= 1 << algorithms[index] as u32;
        index += 1;
    }
    bits
}

impl Profile {
    /// All profiles, the oldest first.
    pub const ALL: [Profile; 5] =
        [Profile::Argonaut, Profile::Bobtail, Profile::Firefly, Profile::Hammer, Profile::Jewel];

    /// The name that `ceph osd crush tunables` takes.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Argonaut => "argonaut",
            Profile::Bobtail => "bobtail",
            Profile::Firefly => "firefly",
            Profile::Hammer => "hammer",
            Profile::Jewel => "jewel",
        }
    }

    /// Parses the names that `ceph osd crush tunables` takes, with `legacy`, `optimal` and `default`.
    pub fn from_name(name: &str) -> Option<Profile> {
        match name {
            "legacy" => Some(Profile::Argonaut),
            "optimal" | "default" => Some(Profile::Jewel),
            _ => Profile::ALL.into_iter().find(|profile| profile.name() == name),
        }
    }
}

impl Tunables {
    /// Tunables of current clusters (profile jewel, fair straws).
    pub fn optimal() -> Self {
        let mut tunables = Tunables::legacy();
        tunables.apply(Profile::Jewel);
        tunables.straw_calc_version = 1;
        tunables
    }

    /// Tunables of a map that has none.
    pub fn legacy() -> Self {
        Tunables {
            choose_local_tries: 2,
            choose_local_fallback_tries: 5,
            choose_total_tries: 19,
            chooseleaf_descend_once: 0,
            chooseleaf_vary_r: 0,
            chooseleaf_stable: 0,
            straw_calc_version: 0,
            allowed_bucket_algs: LEGACY_ALGORITHMS,
            msr_descents: MSR_TRIES_DEFAULT,
            msr_collision_tries: MSR_TRIES_DEFAULT,
        }
    }

    /// Sets everything but the straw formula, which no profile touches.
    pub fn apply(&mut self, profile: Profile) {
        let straw_calc_version = self.straw_calc_version;
        *self = Tunables { straw_calc_version, ..Tunables::legacy() };
        if profile == Profile::Argonaut {
            return;
        }
        self.choose_local_tries = 0;
        self.choose_local_fallback_tries = 0;
        self.choose_total_tries = 50;
        self.chooseleaf_descend_once = 1;
        self.chooseleaf_vary_r = (profile != Profile::Bobtail).into();
        self.chooseleaf_stable = (profile == Profile::Jewel).into();
        if matches!(profile, Profile::Hammer | Profile::Jewel) {
            self.allowed_bucket_algs = ALGORITHMS;
        }
    }

    /// The profile with these values.
    pub fn profile(&self) -> Option<Profile> {
        Profile::ALL.into_iter().find(|&profile| {
            let mut named = self.clone();
            named.apply(profile);
            named == *self
        })
    }

    /// True if new buckets may use the algorithm.
    pub fn is_allowed(&self, algorithm: Algorithm) -> bool {
        self.allowed_bucket_algs & 1 << algorithm as u32 != 0
    }

    /// The algorithm of new buckets: the best of those allowed.
    pub fn default_algorithm(&self) -> Option<Algorithm> {
        use Algorithm::*;
        [Straw2, Straw, Tree, List, Uniform].into_iter().find(|&one| self.is_allowed(one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_recognises_itself() {
        for profile in Profile::ALL {
            let mut tunables = Tunables::optimal();
            tunables.apply(profile);
            assert_eq!(tunables.profile(), Some(profile));
            assert_eq!(tunables.straw_calc_version, 1);
            assert_eq!(Profile::from_name(profile.name()), Some(profile));
        }
        let odd = Tunables { choose_total_tries: 51, ..Tunables::optimal() };
        assert_eq!(odd.profile(), None);
    }
}
