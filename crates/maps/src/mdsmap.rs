//! `MDSMap`: one file system: its pools, its ranks and the metadata servers that serve them.

mod encoding;

use crate::mds_info::{MdsGid, MdsInfo, MdsRank, MdsState};
use crate::{CompatSet, NO_RANK};
use std::collections::{BTreeMap, BTreeSet};
use types::{Epoch, PoolId, UTime};

/// `MDSMap`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdsMap {
    /// Epoch of the file system map in which this map last changed.
    pub epoch: Epoch,
    /// `MdsMap::NOT_JOINABLE` and others.
    pub flags: u32,
    /// Epoch of the last failure.
    pub last_failure: Epoch,
    /// The rank of the root directory.
    pub root: MdsRank,
    /// Seconds without renewal after which a client's session is stale.
    pub session_timeout: u32,
    /// Seconds without renewal after which a client is evicted.
    pub session_autoclose: u32,
    /// Greatest size of a file in bytes.
    pub max_file_size: u64,
    /// Greatest size of the extended attributes of an inode in bytes.
    pub max_xattr_size: u64,
    /// Wanted number of active ranks.
    pub max_mds: i32,
    /// The servers with ranks, by global id.
    pub mds_info: BTreeMap<MdsGid, MdsInfo>,
    /// Data pools; the first one is the default.
    pub data_pools: Vec<PoolId>,
    /// Not used; -1.
    pub cas_pool: PoolId,
    /// On-disk features that a server must know.
    pub compat: CompatSet,
    /// The pool of metadata.
    pub metadata_pool: PoolId,
    /// Time of creation.
    pub created: UTime,
    /// Time of the last change.
    pub modified: UTime,
    /// The rank of the table of snapshots.
    pub tableserver: MdsRank,
    /// Ranks that exist, whether they are served or not.
    pub in_ranks: BTreeSet<MdsRank>,
    /// Epoch in which each rank was last taken; filled for old readers.
    pub inc: BTreeMap<MdsRank, i32>,
    /// The server of each rank that has one.
    pub up: BTreeMap<MdsRank, MdsGid>,
    /// Ranks without a server.
    pub failed: BTreeSet<MdsRank>,
    /// Ranks that were given up.
    pub stopped: BTreeSet<MdsRank>,
    /// Epoch of the OSD map with the blocklist entry of the last server that failed.
    pub last_failure_osd_epoch: Epoch,
    /// Features that were ever allowed: bit 0 for snapshots.
    pub ever_allowed_features: u8,
    /// Features that an administrator has allowed.
    pub explicitly_allowed_features: u8,
    /// Whether small files may be stored in their inodes; never set.
    pub inline_data_enabled: bool,
    /// Whether clients may use the file system.
    pub enabled: bool,
    /// Its name.
    pub fs_name: String,
    /// Ranks whose metadata is damaged.
    pub damaged: BTreeSet<MdsRank>,
    /// Name of the balancer's script; empty.
    pub balancer: String,
    /// Ranks among which the balancer may move directories; empty, since Linux 6.1 misreads it.
    pub bal_rank_mask: String,
    /// Standbys below which health warns; -1 for one.
    pub standby_count_wanted: i32,
    /// `max_mds` before the file system was shut down.
    pub old_max_mds: i32,
    /// Features that clients must have, as a bit set in bytes.
    pub required_client_features: Vec<u8>,
}

impl MdsMap {
    /// Servers with a rank, by rank.
    pub fn ranked(&self) -> impl Iterator<Item = &MdsInfo> {
        self.up.values().filter_map(|gid| self.mds_info.get(gid))
    }

    /// Flag: no server may take a rank.
    pub const NOT_JOINABLE: u32 = 1 << 0;
    /// Flag: snapshots are allowed.
    pub const ALLOW_SNAPS: u32 = 1 << 1;
    /// Flag: snapshots are allowed with several ranks.
    pub const ALLOW_MULTIMDS_SNAPS: u32 = 1 << 4;
    /// Flag: standbys may follow the journals of active ranks.
    pub const ALLOW_STANDBY_REPLAY: u32 = 1 << 5;
    /// Flag: servers refuse new sessions of clients.
    pub const REFUSE_CLIENT_SESSION: u32 = 1 << 6;

    /// The server of a rank.
    pub fn server(&self, rank: MdsRank) -> Option<&MdsInfo> {
        self.mds_info.get(self.up.get(&rank)?)
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Number of ranks in a state.
    pub fn count(&self, state: MdsState) -> usize {
        self.mds_info.values().filter(|info| info.state == state).count()
    }

    /// Whether no rank waits for a server or for its clients.
    pub fn is_degraded(&self) -> bool {
        let recovery = MdsState::REPLAY..MdsState::ACTIVE;
        let recovers = |info: &MdsInfo| info.rank != NO_RANK && recovery.contains(&info.state);
        !self.failed.is_empty() || !self.damaged.is_empty() || self.mds_info.values().any(recovers)
    }

    /// Panics if its parts contradict each other.
    pub fn check_invariants(&self) {
        for (rank, gid) in &self.up {
            let server = self.mds_info.get(gid);
            assert!(server.is_some_and(|info| info.rank == *rank), "rank {rank} has its server");
            assert!(self.in_ranks.contains(rank), "rank {rank} exists");
        }
        for rank in self.failed.iter().chain(&self.damaged) {
            assert!(!self.up.contains_key(rank), "rank {rank} has no server");
        }
    }
}

impl Default for MdsMap {
    fn default() -> Self {
        MdsMap {
            epoch: Epoch(0),
            flags: MdsMap::ALLOW_SNAPS | MdsMap::ALLOW_MULTIMDS_SNAPS,
            last_failure: Epoch(0),
            root: 0,
            session_timeout: 60,
            session_autoclose: 300,
            max_file_size: 1 << 40,
            max_xattr_size: 1 << 16,
            max_mds: 1,
            mds_info: BTreeMap::new(),
            data_pools: Vec::new(),
            cas_pool: PoolId(-1),
            compat: CompatSet::of_file_systems(),
            metadata_pool: PoolId(-1),
            created: UTime::ZERO,
            modified: UTime::ZERO,
            tableserver: 0,
            in_ranks: BTreeSet::new(),
            inc: BTreeMap::new(),
            up: BTreeMap::new(),
            failed: BTreeSet::new(),
            stopped: BTreeSet::new(),
            last_failure_osd_epoch: Epoch(0),
            ever_allowed_features: 0,
            explicitly_allowed_features: 0,
            inline_data_enabled: false,
            enabled: false,
            fs_name: String::new(),
            damaged: BTreeSet::new(),
            balancer: String::new(),
            bal_rank_mask: String::new(),
            standby_count_wanted: -1,
            old_max_mds: 0,
            required_client_features: Vec::new(),
        }
    }
}
