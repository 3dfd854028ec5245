//! Feature bits that peers exchange (Ceph `src/include/ceph_features.h`).
//!
//! Bits are reused once all supported releases know the older meaning; a reused bit counts only
//! together with the marker of its incarnation.

/// Present since Jewel: marks bits of the second incarnation.
const INCARNATION_2: u64 = 1 << 57;
/// Present since Mimic: marks bits of the third incarnation.
const INCARNATION_3: u64 = INCARNATION_2 | 1 << 28;

pub const UID: u64 = 1 << 0;
pub const NOSRCADDR: u64 = 1 << 1;
pub const SERVER_NAUTILUS: u64 = 1 << 2 | INCARNATION_3;
pub const FLOCK: u64 = 1 << 3;
pub const SUBSCRIBE2: u64 = 1 << 4;
pub const MONNAMES: u64 = 1 << 5;
pub const RECONNECT_SEQ: u64 = 1 << 6;
pub const DIRLAYOUTHASH: u64 = 1 << 7;
pub const OBJECTLOCATOR: u64 = 1 << 8;
pub const PGID64: u64 = 1 << 9;
pub const INCSUBOSDMAP: u64 = 1 << 10;
pub const PGPOOL3: u64 = 1 << 11;
pub const OSDREPLYMUX: u64 = 1 << 12;
pub const OSDENC: u64 = 1 << 13;
pub const SERVER_KRAKEN: u64 = 1 << 14 | INCARNATION_2;
pub const MONENC: u64 = 1 << 15;
pub const SERVER_OCTOPUS: u64 = 1 << 16 | INCARNATION_3;
pub const OSD_REPOP_MLCOD: u64 = 1 << 16 | INCARNATION_3;
pub const OS_PERF_STAT_NS: u64 = 1 << 17 | INCARNATION_3;
pub const CRUSH_TUNABLES: u64 = 1 << 18;
pub const OSD_PGLOG_HARDLIMIT: u64 = 1 << 19 | INCARNATION_2;
pub const SERVER_PACIFIC: u64 = 1 << 20 | INCARNATION_3;
pub const SERVER_LUMINOUS: u64 = 1 << 21 | INCARNATION_2;
pub const RESEND_ON_SPLIT: u64 = 1 << 21 | INCARNATION_2;
pub const RADOS_BACKOFF: u64 = 1 << 21 | INCARNATION_2;
pub const OSDMAP_PG_UPMAP: u64 = 1 << 21 | INCARNATION_2;
pub const CRUSH_CHOOSE_ARGS: u64 = 1 << 21 | INCARNATION_2;
pub const OSD_FIXED_COLLECTION_LIST: u64 = 1 << 22 | INCARNATION_2;
pub const MSG_AUTH: u64 = 1 << 23;
pub const RECOVERY_RESERVATION_2: u64 = 1 << 24 | INCARNATION_2;
pub const CRUSH_TUNABLES2: u64 = 1 << 25;
pub const CREATEPOOLID: u64 = 1 << 26;
pub const REPLY_CREATE_INODE: u64 = 1 << 27;
pub const SERVER_MIMIC: u64 = 1 << 28 | INCARNATION_2;
pub const MDSENC: u64 = 1 << 29;
pub const OSDHASHPSPOOL: u64 = 1 << 30;
pub const SERVER_REEF: u64 = 1 << 31 | INCARNATION_3;
pub const STRETCH_MODE: u64 = 1 << 32 | INCARNATION_3;
pub const SERVER_QUINCY: u64 = 1 << 33 | INCARNATION_3;
pub const RANGE_BLOCKLIST: u64 = 1 << 34 | INCARNATION_3;
pub const OSD_CACHEPOOL: u64 = 1 << 35;
pub const CRUSH_V2: u64 = 1 << 36;
pub const EXPORT_PEER: u64 = 1 << 37;
pub const CRUSH_MSR: u64 = 1 << 38 | INCARNATION_2;
pub const OSDMAP_ENC: u64 = 1 << 39;
pub const MDS_INLINE_DATA: u64 = 1 << 40;
pub const CRUSH_TUNABLES3: u64 = 1 << 41;
pub const OSD_PRIMARY_AFFINITY: u64 = 1 << 41;
pub const MSGR_KEEPALIVE2: u64 = 1 << 42;
pub const OSD_POOLRESEND: u64 = 1 << 43;
pub const NVMEOFHA: u64 = 1 << 44 | INCARNATION_2;
pub const NVMEOFHAMAP: u64 = 1 << 45 | INCARNATION_2;
pub const OSD_FADVISE_FLAGS: u64 = 1 << 46;
pub const MDS_QUOTA: u64 = 1 << 47;
pub const CRUSH_V4: u64 = 1 << 48;
pub const SERVER_SQUID: u64 = 1 << 49 | INCARNATION_2;
pub const SERVER_TENTACLE: u64 = 1 << 50 | INCARNATION_2;
pub const NEW_OSDOP_ENCODING: u64 = 1 << 56;
pub const MON_STATEFUL_SUB: u64 = 1 << 57;
pub const SERVER_JEWEL: u64 = 1 << 57;
pub const CRUSH_TUNABLES5: u64 = 1 << 58;
pub const NEW_OSDOPREPLY_ENCODING: u64 = 1 << 58;
pub const FS_FILE_LAYOUT_V2: u64 = 1 << 58;
pub const FS_BTIME: u64 = 1 << 59;
pub const FS_CHANGE_ATTR: u64 = 1 << 59;
pub const MSG_ADDR2: u64 = 1 << 59;
pub const OSD_RECOVERY_DELETES: u64 = 1 << 60;
pub const CEPHX_V2: u64 = 1 << 61;

/// True if `features` has all bits of `wanted`.
pub fn has(features: u64, wanted: u64) -> bool {
    features & wanted == wanted
}

/// Features that Sepiola's daemons and clients advertise.
pub const SUPPORTED: u64 = UID
    | NOSRCADDR
    | SERVER_NAUTILUS
    | FLOCK
    | SUBSCRIBE2
    | MONNAMES
    | RECONNECT_SEQ
    | DIRLAYOUTHASH
    | OBJECTLOCATOR
    | PGID64
    | INCSUBOSDMAP
    | PGPOOL3
    | OSDREPLYMUX
    | OSDENC
    | SERVER_KRAKEN
    | MONENC
    | SERVER_OCTOPUS
    | OSD_REPOP_MLCOD
    | OS_PERF_STAT_NS
    | CRUSH_TUNABLES
    | OSD_PGLOG_HARDLIMIT
    | SERVER_PACIFIC
    | SERVER_LUMINOUS
    | RESEND_ON_SPLIT
    | RADOS_BACKOFF
    | OSDMAP_PG_UPMAP
    | CRUSH_CHOOSE_ARGS
    | OSD_FIXED_COLLECTION_LIST
    | MSG_AUTH
    | RECOVERY_RESERVATION_2
    | CRUSH_TUNABLES2
    | CREATEPOOLID
    | REPLY_CREATE_INODE
    | SERVER_MIMIC
    | MDSENC
    | OSDHASHPSPOOL
    | SERVER_REEF
    | STRETCH_MODE
    | SERVER_QUINCY
    | RANGE_BLOCKLIST
    | OSD_CACHEPOOL
    | CRUSH_V2
    | EXPORT_PEER
    | CRUSH_MSR
    | OSDMAP_ENC
    | MDS_INLINE_DATA
    | CRUSH_TUNABLES3
    | OSD_PRIMARY_AFFINITY
    | MSGR_KEEPALIVE2
    | OSD_POOLRESEND
    | OSD_FADVISE_FLAGS
    | MDS_QUOTA
    | CRUSH_V4
    | SERVER_SQUID
    | SERVER_TENTACLE
    | NEW_OSDOP_ENCODING
    | MON_STATEFUL_SUB
    | SERVER_JEWEL
    | CRUSH_TUNABLES5
    | NEW_OSDOPREPLY_ENCODING
    | FS_FILE_LAYOUT_V2
    | FS_BTIME
    | FS_CHANGE_ATTR
    | MSG_ADDR2
    | OSD_RECOVERY_DELETES
    | CEPHX_V2;
