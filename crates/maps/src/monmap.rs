//! `MonMap`: names, ranks and addresses of the monitors.

mod decode;
mod encode;

use crate::Release;
use crate::bits::bit_set;
use std::collections::{BTreeMap, BTreeSet};
use types::{EntityAddrVec, Epoch, UTime, Uuid};

/// `MonMap`
///
/// `ranks` holds each key of `mon_info` once; the rank of a monitor is its index in `ranks`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MonMap {
    /// Version of the map.
    pub epoch: Epoch,
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Time of the last change.
    pub last_changed: UTime,
    /// Time when the cluster was created.
    pub created: UTime,
    /// Features that stay required once all monitors have had them.
    pub persistent_features: MonFeatures,
    /// Features that are required as long as they are set.
    pub optional_features: MonFeatures,
    /// By name, `a` of `mon.a`.
    pub mon_info: BTreeMap<String, MonInfo>,
    /// Names of the monitors by rank.
    pub ranks: Vec<String>,
    /// Oldest release that a monitor must have to join.
    pub min_mon_release: Release,
    /// Ranks that were removed in this epoch.
    pub removed_ranks: BTreeSet<u32>,
    /// Election strategy.
    pub strategy: ElectionStrategy,
    /// Monitors that cannot become leader; only for the strategy `DISALLOW`.
    pub disallowed_leaders: BTreeSet<String>,
    /// True if stretch mode is on.
    pub stretch_mode_enabled: bool,
    /// The monitor that decides between two sites in stretch mode.
    pub tiebreaker_mon: String,
    /// Monitors that are treated as down in stretch mode.
    pub stretch_marked_down_mons: BTreeSet<String>,
    /// Ciphers of cephx.
    pub auth: AuthCiphers,
}

/// `mon_info_t`: one monitor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MonInfo {
    /// The name without its prefix: `a` of `mon.a`.
    pub name: String,
    /// Addresses for clients.
    pub public_addrs: EntityAddrVec,
    /// Clients prefer lower values.
    pub priority: u16,
    /// Relative share of clients among monitors of one priority, as in DNS SRV records.
    pub weight: u16,
    /// Place in the CRUSH hierarchy: type -> bucket.
    pub crush_location: BTreeMap<String, String>,
    /// Time when the monitor was added.
    pub time_added: UTime,
}

/// Ciphers that cephx may use; encoded by 20.2.4 and later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthCiphers {
    /// Version of these settings.
    pub epoch: Epoch,
    /// Cipher of service tickets (`CEPH_CRYPTO_*`).
    pub service: i32,
    /// Ciphers that keys may have (`CEPH_CRYPTO_*`).
    pub allowed: Vec<i32>,
    /// Cipher of new keys (`CEPH_CRYPTO_*`).
    pub preferred: i32,
}

impl AuthCiphers {
    /// `CEPH_CRYPTO_AES`
    pub const AES: i32 = 1;
    /// `CEPH_CRYPTO_AES256KRB5`
    pub const AES256K: i32 = 2;
}

/// The meaning of a map without these fields.
impl Default for AuthCiphers {
    fn default() -> Self {
        AuthCiphers {
            epoch: Epoch(0),
            service: Self::AES,
            allowed: vec![Self::AES, Self::AES256K],
            preferred: Self::AES,
        }
    }
}

/// Ceph's strategy of monitor elections; kept for the encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ElectionStrategy(pub u8);

impl ElectionStrategy {
    /// The lowest rank wins.
    pub const CLASSIC: ElectionStrategy = ElectionStrategy(1);
    /// The lowest rank wins that is not disallowed.
    pub const DISALLOW: ElectionStrategy = ElectionStrategy(2);
    /// The monitor with the best connections wins.
    pub const CONNECTIVITY: ElectionStrategy = ElectionStrategy(3);
}

bit_set! {
    /// `mon_feature_t`
    MonFeatures(u64) {
        KRAKEN = 0, "kraken";
        LUMINOUS = 1, "luminous";
        MIMIC = 2, "mimic";
        OSDMAP_PRUNE = 3, "osdmap-prune";
        NAUTILUS = 4, "nautilus";
        OCTOPUS = 5, "octopus";
        PACIFIC = 6, "pacific";
        PINGING = 7, "elector-pinging";
        QUINCY = 8, "quincy";
        REEF = 9, "reef";
        SQUID = 10, "squid";
        TENTACLE = 11, "tentacle";
        CEPHX_AUTH_AES256K = 31, "cephx_auth_aes256k";
        NVMEOF_BEACON_DIFF = 32, "nvmeof_beacon_diff";
    }
}

impl MonMap {
    /// A map of the given monitors, ranked in the given order.
    pub fn new(fsid: Uuid, created: UTime, mons: Vec<MonInfo>) -> Self {
        MonMap {
            epoch: Epoch(1),
            fsid,
            last_changed: created,
            created,
            ranks: mons.iter().map(|mon| mon.name.clone()).collect(),
            mon_info: mons.into_iter().map(|mon| (mon.name.clone(), mon)).collect(),
            strategy: ElectionStrategy::CLASSIC,
            ..MonMap::default()
        }
    }

    /// The rank of a monitor, by name.
    pub fn rank(&self, name: &str) -> Option<usize> {
        self.ranks.iter().position(|known| known == name)
    }

    /// The monitor with a rank.
    pub fn mon(&self, rank: usize) -> Option<&MonInfo> {
        self.mon_info.get(self.ranks.get(rank)?)
    }

    /// Monitors by rank.
    pub fn mons(&self) -> impl Iterator<Item = &MonInfo> {
        self.ranks.iter().filter_map(|name| self.mon_info.get(name))
    }
}
