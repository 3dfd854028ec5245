//! Feature bits that peers exchange (Ceph `src/include/ceph_features.h`).
//!
//! Bits are reused once all supported releases know the older meaning; a reused bit counts only
//! together with the marker of its incarnation.

/// Present since Jewel: marks bits of the second incarnation.
const INCARNATION_2: u64 = 1 << 57;
/// Present since Mimic: marks bits of the third incarnation.
const INCARNATION_3: u64 = INCARNATION_2 | 1 << 28;

/// Messages carry user ids.
pub const UID: u64 = 1 << 0;
/// A peer learns its own address from the other end.
pub const NOSRCADDR: u64 = 1 << 1;
/// Nautilus or later.
pub const SERVER_NAUTILUS: u64 = 1 << 2 | INCARNATION_3;
/// CephFS: `flock`.
pub const FLOCK: u64 = 1 << 3;
/// `MMonSubscribe` with an epoch and flags for each item.
pub const SUBSCRIBE2: u64 = 1 << 4;
/// Monitor maps name the monitors.
pub const MONNAMES: u64 = 1 << 5;
/// Sequence numbers are exchanged when a session is resumed.
pub const RECONNECT_SEQ: u64 = 1 << 6;
/// CephFS: the hash of a directory layout.
pub const DIRLAYOUTHASH: u64 = 1 << 7;
/// Object locators may carry a key.
pub const OBJECTLOCATOR: u64 = 1 << 8;
/// Placement groups with 64-bit pool ids.
pub const PGID64: u64 = 1 << 9;
/// Incrementals of the OSD map may be subscribed to.
pub const INCSUBOSDMAP: u64 = 1 << 10;
/// Pools in version 3 of their encoding.
pub const PGPOOL3: u64 = 1 << 11;
/// Replies of OSDs share one session.
pub const OSDREPLYMUX: u64 = 1 << 12;
/// Messages between OSDs in their versioned encoding.
pub const OSDENC: u64 = 1 << 13;
/// Kraken or later.
pub const SERVER_KRAKEN: u64 = 1 << 14 | INCARNATION_2;
/// Messages between monitors in their versioned encoding.
pub const MONENC: u64 = 1 << 15;
/// Octopus or later.
pub const SERVER_OCTOPUS: u64 = 1 << 16 | INCARNATION_3;
/// Replicated operations carry the version to which all copies are durable.
pub const OSD_REPOP_MLCOD: u64 = 1 << 16 | INCARNATION_3;
/// Latencies of stores in nanoseconds.
pub const OS_PERF_STAT_NS: u64 = 1 << 17 | INCARNATION_3;
/// CRUSH tunables for retries (Argonaut).
pub const CRUSH_TUNABLES: u64 = 1 << 18;
/// The length of logs of placement groups has a hard bound.
pub const OSD_PGLOG_HARDLIMIT: u64 = 1 << 19 | INCARNATION_2;
/// Pacific or later.
pub const SERVER_PACIFIC: u64 = 1 << 20 | INCARNATION_3;
/// Luminous or later.
pub const SERVER_LUMINOUS: u64 = 1 << 21 | INCARNATION_2;
/// Clients resend requests when a placement group splits.
pub const RESEND_ON_SPLIT: u64 = 1 << 21 | INCARNATION_2;
/// OSDs may tell clients to hold requests back.
pub const RADOS_BACKOFF: u64 = 1 << 21 | INCARNATION_2;
/// OSD maps may contain upmaps.
pub const OSDMAP_PG_UPMAP: u64 = 1 << 21 | INCARNATION_2;
/// CRUSH maps may contain weight sets.
pub const CRUSH_CHOOSE_ARGS: u64 = 1 << 21 | INCARNATION_2;
/// Collections are listed in the bitwise order, heads and clones alike.
pub const OSD_FIXED_COLLECTION_LIST: u64 = 1 << 22 | INCARNATION_2;
/// Messages of msgr1 are signed.
pub const MSG_AUTH: u64 = 1 << 23;
/// Reservations of recovery may be preempted.
pub const RECOVERY_RESERVATION_2: u64 = 1 << 24 | INCARNATION_2;
/// CRUSH: `chooseleaf_descend_once` (Bobtail).
pub const CRUSH_TUNABLES2: u64 = 1 << 25;
/// Creating a pool returns its id.
pub const CREATEPOOLID: u64 = 1 << 26;
/// CephFS: replies to creations carry the inode.
pub const REPLY_CREATE_INODE: u64 = 1 << 27;
/// Mimic or later.
pub const SERVER_MIMIC: u64 = 1 << 28 | INCARNATION_2;
/// Messages of metadata servers in their versioned encoding.
pub const MDSENC: u64 = 1 << 29;
/// The pool is hashed into the input of CRUSH.
pub const OSDHASHPSPOOL: u64 = 1 << 30;
/// Reef or later.
pub const SERVER_REEF: u64 = 1 << 31 | INCARNATION_3;
/// OSD maps and pools may be in stretch mode.
pub const STRETCH_MODE: u64 = 1 << 32 | INCARNATION_3;
/// Quincy or later.
pub const SERVER_QUINCY: u64 = 1 << 33 | INCARNATION_3;
/// The blocklist may contain networks.
pub const RANGE_BLOCKLIST: u64 = 1 << 34 | INCARNATION_3;
/// Cache tiers.
pub const OSD_CACHEPOOL: u64 = 1 << 35;
/// CRUSH rules may set tries, and choose with `indep`.
pub const CRUSH_V2: u64 = 1 << 36;
/// CephFS: capabilities are handed over between metadata servers.
pub const EXPORT_PEER: u64 = 1 << 37;
/// CRUSH rules of the MSR kind.
pub const CRUSH_MSR: u64 = 1 << 38 | INCARNATION_2;
/// OSD maps with a section for clients and one for OSDs.
pub const OSDMAP_ENC: u64 = 1 << 39;
/// CephFS: small files in the inode.
pub const MDS_INLINE_DATA: u64 = 1 << 40;
/// CRUSH: `chooseleaf_vary_r` (Firefly).
pub const CRUSH_TUNABLES3: u64 = 1 << 41;
/// OSD maps may contain primary affinities.
pub const OSD_PRIMARY_AFFINITY: u64 = 1 << 41;
/// Keepalives carry a time stamp and are answered.
pub const MSGR_KEEPALIVE2: u64 = 1 << 42;
/// Clients resend requests when a pool stops being full.
pub const OSD_POOLRESEND: u64 = 1 << 43;
/// NVMe-oF gateways in groups.
pub const NVMEOFHA: u64 = 1 << 44 | INCARNATION_2;
/// The map of NVMe-oF gateways in its later encoding.
pub const NVMEOFHAMAP: u64 = 1 << 45 | INCARNATION_2;
/// Operations carry hints on caching.
pub const OSD_FADVISE_FLAGS: u64 = 1 << 46;
/// CephFS: quotas of directories.
pub const MDS_QUOTA: u64 = 1 << 47;
/// CRUSH: straw2 buckets.
pub const CRUSH_V4: u64 = 1 << 48;
/// Squid or later.
pub const SERVER_SQUID: u64 = 1 << 49 | INCARNATION_2;
/// Tentacle or later.
pub const SERVER_TENTACLE: u64 = 1 << 50 | INCARNATION_2;
/// `MOSDOp` in version 7 and later.
pub const NEW_OSDOP_ENCODING: u64 = 1 << 56;
/// A monitor remembers subscriptions until the session ends.
pub const MON_STATEFUL_SUB: u64 = 1 << 57;
/// Jewel or later.
pub const SERVER_JEWEL: u64 = 1 << 57;
/// CRUSH: `chooseleaf_stable` (Jewel).
pub const CRUSH_TUNABLES5: u64 = 1 << 58;
/// `MOSDOpReply` in version 7 and later.
pub const NEW_OSDOPREPLY_ENCODING: u64 = 1 << 58;
/// CephFS: layouts with pool ids of 64 bits and a namespace.
pub const FS_FILE_LAYOUT_V2: u64 = 1 << 58;
/// CephFS: birth times.
pub const FS_BTIME: u64 = 1 << 59;
/// CephFS: change attributes.
pub const FS_CHANGE_ATTR: u64 = 1 << 59;
/// Addresses with a type and a length, several for each daemon.
pub const MSG_ADDR2: u64 = 1 << 59;
/// Deletions are recovered like other updates.
pub const OSD_RECOVERY_DELETES: u64 = 1 << 60;
/// cephx authorizers carry a challenge.
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
