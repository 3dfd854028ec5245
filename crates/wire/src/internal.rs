//! Messages between Sepiola's own daemons, which Ceph's clients never see.
//!
//! Their kinds begin at [`KIND_FIRST`], far from Ceph's. Replication between OSDs has its own,
//! defined with crate `pg`.

use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EVersion, Epoch, OsdId, PgId, PoolId, SnapId, UTime, Uuid};

/// First message kind of Sepiola's own messages.
pub const KIND_FIRST: u16 = 0x7f00;

message! {
    /// Asks the monitor for the rotating secrets that seal the tickets for a service.
    RotatingSecretsRequest = 0x7f00, version 1, compat 1 {
        /// An entity type, `CEPH_ENTITY_TYPE_*`.
        service: u32;
    }
}

message! {
    /// The secrets, encoded by crate `auth`. Sent again when they rotate.
    RotatingSecrets = 0x7f01, version 1, compat 1 {
        /// An entity type, `CEPH_ENTITY_TYPE_*`.
        service: u32;
        /// The secrets, encoded by crate `auth`.
        secrets: Bytes;
    }
}

message! {
    /// Statistics of an OSD and of the placement groups whose primary it is.
    StatsReport = 0x7f02, version 4, compat 1 {
        /// Id of the cluster.
        fsid: Uuid;
        /// The OSD that reports.
        osd: OsdId;
        /// The newest map that the OSD has.
        map_epoch: Epoch;
        /// Usage and counters of the OSD itself.
        usage: OsdUsage;
        /// All groups if `is_complete`, else those that changed.
        pgs: BTreeMap<PgId, PgStat>;
        /// False if groups that did not change are left out.
        is_complete: bool;
        /// Messages that `ceph health` shows, by check name (`OSD_STORE_FAILED`).
        health: BTreeMap<String, String>;
        /// Client requests by image, if the monitor asked for them, over this many milliseconds.
        images: Vec<ImageTraffic>, since 2;
        /// Length of the period that `images` covers, in milliseconds.
        images_ms: u64, since 2;
        /// Requests that are in flight for too long.
        slow: SlowRequests, since 3;
        /// Number of bad copies of objects that this OSD, as a primary, had replaced, by the OSD that held
        /// them, since it was started.
        repaired_copies: BTreeMap<OsdId, u64>, since 3;
        /// Counters of the OSD.
        counters: OsdCounters, since 4;
        /// Counters of its store.
        store: StoreCounters, since 4;
    }
}

message! {
    /// The monitor has recorded the report with this tid.
    StatsAck = 0x7f03, version 2, compat 1 {
        /// Number of seconds for which the OSD shall count client requests by image.
        count_images: u32, since 2;
    }
}

message! {
    /// Monitor to OSD: requests a scrub of these groups, or of all whose primary the OSD is.
    ScrubOrder = 0x7f20, version 1, compat 1 {
        /// Id of the cluster.
        fsid: Uuid;
        /// The groups; empty for all whose primary the OSD is.
        pgs: Vec<PgId>;
        /// Also compare data, not only metadata.
        deep: bool;
        /// Also replace bad copies.
        repair: bool;
    }
}

message! {
    /// A heartbeat ping to another OSD, or the answer to one.
    Heartbeat = 0x7f30, version 1, compat 1 {
        /// False for a ping.
        is_answer: bool;
        /// Time of the ping by the sender's clock.
        stamp: u64;
        /// Newest map epoch of the sender.
        epoch: Epoch;
    }
}

structure! {
    /// Client requests to the data of one image.
    ImageTraffic, version 1, compat 1 {
        /// Pool of the image, not of its data.
        pool: PoolId;
        /// Namespace of the image.
        namespace: Bytes;
        /// Id of the image.
        image: Bytes;
        /// Number of write requests.
        writes: u64;
        /// Number of read requests.
        reads: u64;
        /// Bytes written.
        write_bytes: u64;
        /// Bytes read.
        read_bytes: u64;
        /// Total time from arrival to reply, in nanoseconds.
        write_ns: u64;
        /// The same of read requests.
        read_ns: u64;
    }
}

structure! {
    /// Client requests that an OSD has not answered for longer than `osd_op_complaint_time`.
    SlowRequests, version 1, compat 1 {
        /// Number of such requests.
        count: u64;
        /// Age of the oldest one in milliseconds.
        oldest_ms: u64;
        /// Group and stage of the oldest one.
        oldest_in: PgId;
        /// Stage of the oldest one.
        state: String;
    }
}

structure! {
    /// Counters of an OSD since it was started, unless they are called a present state.
    OsdCounters, version 1, compat 1 {
        /// Clients' requests that read, and were answered.
        reads: u64;
        /// Bytes of outputs in their replies.
        read_bytes: u64;
        /// Time from their arrival to their replies, in nanoseconds.
        read_ns: u64;
        /// The same of requests that write.
        writes: u64;
        /// Bytes of their messages.
        write_bytes: u64;
        /// Time from their arrival to their replies, in nanoseconds.
        write_ns: u64;
        /// Part of it until they were executed, in nanoseconds.
        write_queue_ns: u64;
        /// Part of it from their submission until all members had stored them, in nanoseconds.
        write_commit_ns: u64;
        /// Present state: requests in progress.
        in_flight: u64;
        /// Present state: groups of which the OSD has a copy.
        groups: u64;
        /// Times that a group became active with this OSD as its primary.
        activations: u64;
        /// Objects of which a copy was recovered, as primary.
        recovered: u64;
        /// Requests to other OSDs for objects that a client copies.
        fetches: u64;
        /// CPU time in nanoseconds: an equal share of that of all daemons on the same core.
        cpu_ns: u64;
        /// Turns of its core.
        turns: u64;
        /// Turns of its core that took so long that clients noticed.
        stalls: u64;
    }
}

structure! {
    /// Counters of an OSD's store since it was opened, unless they are called a present state.
    StoreCounters, version 1, compat 1 {
        /// Transactions executed.
        commits: u64;
        /// Batches of the log, each of which one write or flush made durable.
        batches: u64;
        /// Bytes of these batches.
        log_bytes: u64;
        /// Time from the end of each batch until it was durable, in nanoseconds.
        batch_ns: u64;
        /// Flushes of devices.
        flushes: u64;
        /// Reads of devices.
        device_reads: u64;
        /// Bytes of these reads.
        device_read_bytes: u64;
        /// Reads that failed, or returned a wrong checksum, and were made again.
        repeated_reads: u64;
        /// Writes to devices.
        device_writes: u64;
        /// Bytes of these writes.
        device_write_bytes: u64;
        /// Blocks of data that were found in memory.
        cache_hits: u64;
        /// Blocks of data that had to be read.
        cache_misses: u64;
        /// Checkpoints completed.
        checkpoints: u64;
        /// Present state: bytes of the log that no checkpoint contains.
        log_used_bytes: u64;
        /// Present state: bytes of changed metadata and deferred writes in memory.
        buffered_bytes: u64;
    }
}

structure! {
    /// One OSD's disk and counters.
    OsdUsage, version 1, compat 1 {
        /// Size of the disk or of the OSD's share of it.
        bytes_total: u64;
        /// Bytes that can still be written.
        bytes_available: u64;
        /// Bytes in use, for data and metadata.
        bytes_used: u64;
        /// Bytes of omaps.
        bytes_omap: u64;
        /// Bytes of other metadata.
        bytes_meta: u64;
        /// Number of objects, with clones.
        objects: u64;
        /// Averages over the last period.
        commit_latency_us: u64;
        /// The same of the time until reads see a write.
        apply_latency_us: u64;
    }
}

structure! {
    /// Statistics of one placement group, reported by its primary.
    PgStat, version 5, compat 1 {
        /// See [`pg_state`].
        state: u64;
        /// Last version of the log.
        version: EVersion;
        /// The epoch in which the primary reported, and its count of reports within it.
        reported_epoch: Epoch;
        /// Number of reports in that epoch.
        reported_sequence: u64;
        /// Time when the state last changed.
        last_change: UTime;
        /// Time when the group was last known to be active.
        last_active: UTime;
        /// Time when the group was last known to be clean.
        last_clean: UTime;
        /// Time of the last scrub, deep or not.
        last_scrub: UTime;
        /// Time of the last deep scrub.
        last_deep_scrub: UTime;
        /// The up set.
        up: Vec<OsdId>;
        /// The acting set.
        acting: Vec<OsdId>;
        /// Number of log entries.
        log_size: u64;
        /// Number of objects, with clones.
        objects: u64;
        /// Number of clones.
        clones: u64;
        /// Copies that should exist, those missing or out of place, and objects without any copy.
        copies: u64;
        /// Number of copies that are missing.
        degraded: u64;
        /// Number of copies that lie on other OSDs than the up set.
        misplaced: u64;
        /// Number of objects of which no reachable copy has the needed version.
        unfound: u64;
        /// Bytes of data.
        bytes: u64;
        /// Bytes of omap keys and values.
        omap_bytes: u64;
        /// Number of omap keys.
        omap_keys: u64;
        /// Number of read operations since the primary took over.
        reads: u64;
        /// Bytes read since the primary took over.
        read_bytes: u64;
        /// Number of write operations since the primary took over.
        writes: u64;
        /// Bytes written since the primary took over.
        write_bytes: u64;
        /// Number of copies recovered since the primary took over.
        recovered_objects: u64;
        /// Bytes of these copies.
        recovered_bytes: u64;
        /// Inconsistencies that the last scrub found and that are not repaired.
        scrub_errors: u64;
        /// The last interval that ended clean: the part of the history that members still need begins there.
        last_epoch_clean: Epoch, since 2;
        /// Members that peering waits for.
        blocked_by: Vec<OsdId>, since 2;
        /// Removed snapshots still to be trimmed, and those already trimmed (first, number).
        snaptrim_queue: u64, since 3;
        /// Removed snapshots that are trimmed, as (first, number).
        purged_snaps: Vec<(SnapId, u64)>, since 3;
        /// Objects repaired from good copies since the primary took over the group.
        repaired: u64, since 4;
        /// Objects whose omaps are larger than omaps should be, as the last deep scrub found.
        large_omaps: u64, since 5;
    }
}

/// States of a placement group; they combine (`PG_STATE_*`).
pub mod pg_state {
    /// The group was not served since its pool was created, or since it was split off.
    pub const CREATING: u64 = 1 << 0;
    /// Clients are served.
    pub const ACTIVE: u64 = 1 << 1;
    /// Every object has all its copies, in the up set.
    pub const CLEAN: u64 = 1 << 2;
    /// Data needed for peering is on OSDs that are down.
    pub const DOWN: u64 = 1 << 4;
    /// Recovery has ended with objects that are unfound.
    pub const RECOVERY_UNFOUND: u64 = 1 << 5;
    /// Backfill has ended with objects that are unfound.
    pub const BACKFILL_UNFOUND: u64 = 1 << 6;
    /// Writes wait because the group is about to be merged.
    pub const PREMERGE: u64 = 1 << 7;
    /// A scrub is in progress.
    pub const SCRUBBING: u64 = 1 << 8;
    /// Some objects have fewer copies than they should.
    pub const DEGRADED: u64 = 1 << 10;
    /// A scrub has found copies that differ.
    pub const INCONSISTENT: u64 = 1 << 11;
    /// The copies agree about the history of the group.
    pub const PEERING: u64 = 1 << 12;
    /// A scrub replaces bad copies.
    pub const REPAIR: u64 = 1 << 13;
    /// Objects are being copied by the log.
    pub const RECOVERING: u64 = 1 << 14;
    /// Waits for reservations for backfill.
    pub const BACKFILL_WAIT: u64 = 1 << 15;
    /// No copy has a history that is complete enough to serve clients.
    pub const INCOMPLETE: u64 = 1 << 16;
    /// The primary has not reported for long.
    pub const STALE: u64 = 1 << 17;
    /// The acting set differs from the up set.
    pub const REMAPPED: u64 = 1 << 18;
    /// The scrub in progress is deep.
    pub const DEEP_SCRUB: u64 = 1 << 19;
    /// A member is filled by copying the whole collection.
    pub const BACKFILLING: u64 = 1 << 20;
    /// A member is too full to be backfilled.
    pub const BACKFILL_TOOFULL: u64 = 1 << 21;
    /// Waits for reservations for recovery.
    pub const RECOVERY_WAIT: u64 = 1 << 22;
    /// The acting set has fewer members than the pool's size.
    pub const UNDERSIZED: u64 = 1 << 23;
    /// Peering is done; members are not yet all told.
    pub const ACTIVATING: u64 = 1 << 24;
    /// Peering is done, and too few members are up to serve clients.
    pub const PEERED: u64 = 1 << 25;
    /// Clones of removed snapshots are being removed.
    pub const SNAPTRIM: u64 = 1 << 26;
    /// Waits for a reservation to remove clones.
    pub const SNAPTRIM_WAIT: u64 = 1 << 27;
    /// A member is too full for recovery.
    pub const RECOVERY_TOOFULL: u64 = 1 << 28;
    /// The removal of clones has failed.
    pub const SNAPTRIM_ERROR: u64 = 1 << 29;
    /// The user has given recovery priority.
    pub const FORCED_RECOVERY: u64 = 1 << 30;
    /// The user has given backfill priority.
    pub const FORCED_BACKFILL: u64 = 1 << 31;
    /// A repair has failed.
    pub const FAILED_REPAIR: u64 = 1 << 32;
    /// Replicas have not renewed the read lease.
    pub const LAGGY: u64 = 1 << 33;
    /// Reads wait until leases of prior intervals have ended.
    pub const WAIT: u64 = 1 << 34;

    /// In the order in which Ceph prints them.
    const NAMES: [(u64, &str); 33] = [
        (STALE, "stale"),
        (CREATING, "creating"),
        (ACTIVE, "active"),
        (ACTIVATING, "activating"),
        (CLEAN, "clean"),
        (RECOVERY_WAIT, "recovery_wait"),
        (RECOVERY_TOOFULL, "recovery_toofull"),
        (RECOVERING, "recovering"),
        (FORCED_RECOVERY, "forced_recovery"),
        (DOWN, "down"),
        (RECOVERY_UNFOUND, "recovery_unfound"),
        (BACKFILL_UNFOUND, "backfill_unfound"),
        (UNDERSIZED, "undersized"),
        (DEGRADED, "degraded"),
        (REMAPPED, "remapped"),
        (PREMERGE, "premerge"),
        (SCRUBBING, "scrubbing"),
        (DEEP_SCRUB, "deep"),
        (INCONSISTENT, "inconsistent"),
        (PEERING, "peering"),
        (REPAIR, "repair"),
        (BACKFILL_WAIT, "backfill_wait"),
        (BACKFILLING, "backfilling"),
        (FORCED_BACKFILL, "forced_backfill"),
        (BACKFILL_TOOFULL, "backfill_toofull"),
        (INCOMPLETE, "incomplete"),
        (PEERED, "peered"),
        (SNAPTRIM, "snaptrim"),
        (SNAPTRIM_WAIT, "snaptrim_wait"),
        (SNAPTRIM_ERROR, "snaptrim_error"),
        (FAILED_REPAIR, "failed_repair"),
        (LAGGY, "laggy"),
        (WAIT, "wait"),
    ];

    /// `active+clean`
    pub fn to_text(state: u64) -> String {
        let names: Vec<&str> =
            NAMES.iter().filter(|(bit, _)| state & bit != 0).map(|(_, name)| *name).collect();
        if names.is_empty() { "unknown".to_owned() } else { names.join("+") }
    }

    /// The bit of a state; `unknown` has none.
    pub fn from_name(name: &str) -> Option<u64> {
        if name == "unknown" {
            return Some(0);
        }
        NAMES.iter().find(|(_, known)| *known == name).map(|(bit, _)| *bit)
    }

    /// The names of all states.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(_, name)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::pg_state;

    #[test]
    fn states_print_as_ceph_does() {
        assert_eq!(pg_state::to_text(0), "unknown");
        assert_eq!(pg_state::to_text(pg_state::ACTIVE | pg_state::CLEAN), "active+clean");
        let degraded = pg_state::DEGRADED | pg_state::UNDERSIZED | pg_state::ACTIVE;
        assert_eq!(pg_state::to_text(degraded), "active+undersized+degraded");
        assert_eq!(pg_state::from_name("degraded"), Some(pg_state::DEGRADED));
        assert_eq!((pg_state::from_name("unknown"), pg_state::from_name("odd")), (Some(0), None));
    }
}
