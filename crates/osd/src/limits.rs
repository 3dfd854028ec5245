//! Bounds and intervals, each with Ceph's name and default where it has one.

use engine::Duration;

/// `osd_max_object_size`
pub const OBJECT_SIZE_MAX: u64 = 128 << 20;
/// `osd_max_write_size`: of all data in one request.
pub const REQUEST_DATA_MAX: usize = 90 << 20;
/// All data that a request may write, with repetitions; more than the largest object makes no
/// sense.
pub const WRITTEN_BYTES_MAX: u64 = OBJECT_SIZE_MAX + REQUEST_DATA_MAX as u64;
/// `osd_max_object_name_len`, also for locator keys.
pub const OBJECT_NAME_LEN_MAX: usize = 2048;
/// `osd_max_object_namespace_len`
pub const NAMESPACE_LEN_MAX: usize = 256;
/// `osd_max_attr_name_len`
pub const XATTR_NAME_LEN_MAX: usize = 100;
/// Names and values of all attributes of one object in an erasure-coded pool, far below the store's bound
/// of 16 MiB: members settle the attributes of several committed writes at once, and none of them
/// may be refused then.
pub const SHARD_XATTRS_BYTES_MAX: usize = 1 << 20;
/// The set of clones and the watchers of such an object likewise.
pub const SHARD_METADATA_BYTES_MAX: usize = 4 << 20;
/// `osd_max_omap_entries_per_request`
pub const OMAP_ENTRIES_PER_REQUEST_MAX: u64 = 1024;
/// Far below `osd_max_omap_bytes_per_request`: a page is held in memory, and clients ask for more.
pub const OMAP_BYTES_PER_REQUEST_MAX: usize = 4 << 20;
/// Keys whose values are looked up at once, and the bytes a value is estimated to take.
pub const OMAP_KEYS_AT_ONCE: usize = 64;
pub const OMAP_VALUE_USUAL: u64 = 64 << 10;
/// `osd_max_write_op_reply_len`: output of an operation that writes.
pub const WRITE_REPLY_LEN_MAX: usize = 64;
/// `osd_max_pgls`
pub const LISTING_ENTRIES_MAX: u64 = 1024;
/// Bytes reserved for a page of names: those of objects, their keys and namespaces, twice.
pub const LISTING_COST: u64 =
    LISTING_ENTRIES_MAX * 2 * (2 * OBJECT_NAME_LEN_MAX + NAMESPACE_LEN_MAX + 128) as u64;
/// `osd_copyfrom_max_chunk`
pub const COPY_CHUNK_MAX: u64 = 8 << 20;
/// Time after which a missing piece of a copy is requested again; it doubles up to so many times.
pub const COPY_RETRY: Duration = Duration::from_secs(15);
pub const COPY_RETRY_DOUBLINGS: u32 = 4;
/// `osd_client_watch_timeout`
pub const WATCH_TIMEOUT_SECONDS_DEFAULT: u32 = 30;
/// `osd_default_notify_timeout`
pub const NOTIFY_TIMEOUT_SECONDS_DEFAULT: u32 = 30;
/// Operations in one request, beyond which it is refused; librados itself never comes near.
pub const REQUEST_OPS_MAX: usize = 1024;

/// Message bytes of one session's requests in progress, beyond which it is paused until half are
/// left.
pub const SESSION_BYTES_MAX: usize = 64 << 20;
/// Requests of one session likewise.
pub const SESSION_REQUESTS_MAX: usize = 4096;
/// The same for all clients together (`osd_client_message_size_cap`, `osd_client_message_cap`).
pub const REQUESTS_BYTES_MAX: usize = 256 << 20;
pub const REQUESTS_MAX: usize = 65_536;

/// Memory for replies, loaded state and repeated data of requests. One request may have all of it:
/// a sparse read of the largest object takes twice its size.
pub const EXPANSION_BYTES_MAX: u64 = 272 << 20;
/// Memory for objects that are being copied to this OSD.
pub const COPY_BYTES_MAX: u64 = 272 << 20;
/// Memory for pieces of objects that are being copied, here or elsewhere.
pub const PIECE_BYTES_MAX: u64 = 64 << 20;

/// Object contexts that an OSD keeps in memory while no request uses them, about a kilobyte each;
/// its placement groups have equal shares.
const OBJECTS_CACHED_MAX: usize = 32_768;
/// The least share, for OSDs with very many groups.
const OBJECTS_CACHED_SHARE_MIN: usize = 32;

/// Idle object contexts that each of `groups` groups may keep.
pub fn objects_cached_max(groups: usize) -> usize {
    (OBJECTS_CACHED_MAX / groups.max(1)).max(OBJECTS_CACHED_SHARE_MIN)
}

/// How often timers are checked while there is something to time.
pub const TICK: Duration = Duration::from_millis(500);
/// Minimum interval of heartbeats, whatever `osd_heartbeat_interval` says.
pub const HEARTBEAT_MIN: Duration = Duration::from_millis(50);
/// Average round trip of heartbeats beyond which it is reported to the monitor
/// (`mon_warn_on_slow_ping_time`).
pub const SLOW_HEARTBEAT: Duration = Duration::from_secs(1);
/// Lines of the cluster log in one report, and waiting for a report; further lines are dropped.
pub const LOG_LINES_MAX: usize = 20;
pub const LOG_LINES_WAITING_MAX: usize = 1000;
/// Groups that handle a new map in one turn, at some 20 µs each.
pub const GROUPS_PLACED_MAX: usize = 128;
/// Consecutive maps that groups handle before they store the intervals that these began.
pub const MAPS_TOLD_MAX: usize = 32;
/// Inputs held while groups handle a map, and the bytes of their messages; beyond them the map is
/// handled in the same turn.
pub const HELD_INPUTS_MAX: usize = 65_536;
pub const HELD_BYTES_MAX: usize = 64 << 20;
/// Held inputs that are handled in one turn.
pub const HELD_INPUTS_PER_TURN: usize = 256;
/// Missing objects that one report examines to count the unfound ones.
pub const UNFOUND_LOOKS_MAX: usize = 8192;
/// Searches for an object to recover that may fail in one turn.
pub const FRUITLESS_SEARCHES_MAX: usize = 16;
/// How often statistics are reported to the monitor.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(5);
/// Pause after all monitors were found unreachable.
pub const MONITOR_RETRY: Duration = Duration::from_secs(1);
/// Time after which a booting OSD asks the monitor again to mark it up.
pub const BOOT_RETRY: Duration = Duration::from_secs(5);
/// Retries of a boot after which the OSD turns to another monitor, if there is one.
pub const BOOT_RETRIES_MAX: u32 = 4;
/// Pause before a group retries recovery that a full disk has stopped.
pub const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Duration of a read lease (`osd_read_lease`), and how often it is renewed. A new primary waits so
/// long after the previous one fell silent.
pub const READ_LEASE: Duration = Duration::from_millis(800);
pub const READ_LEASE_RENEWAL: Duration = Duration::from_millis(250);
/// Age of an unanswered heartbeat from which leases are no longer renewed for the suspected peer.
pub const GRANT_SILENCE_MAX: Duration = Duration::from_millis(900);
/// The share of the disk that must stay free: beyond it, writes that add bytes are refused
/// (`osd_failsafe_full_ratio`).
pub const FAILSAFE_FREE_PERCENT: u64 = 3;
/// The share that must stay free for an OSD to be backfilled with more groups
/// (`mon_osd_backfillfull_ratio`).
pub const BACKFILL_FREE_PERCENT: u64 = 10;
/// Group messages for newer maps that one session may have sent before it is paused, and their
/// bytes.
pub const EARLY_MESSAGES_MAX: usize = 16_384;
pub const EARLY_BYTES_MAX: usize = 64 << 20;
