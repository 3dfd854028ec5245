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
        service: u32;
        secrets: Bytes;
    }
}

message! {
    /// Statistics of an OSD and of the placement groups whose primary it is.
    StatsReport = 0x7f02, version 3, compat 1 {
        fsid: Uuid;
        osd: OsdId;
        /// The newest map that the OSD has.
        map_epoch: Epoch;
        usage: OsdUsage;
        /// All groups if `is_complete`, else those that changed.
        pgs: BTreeMap<PgId, PgStat>;
        is_complete: bool;
        /// Messages that `ceph health` shows, by check name (`OSD_STORE_FAILED`).
        health: BTreeMap<String, String>;
        /// Client requests by image, if the monitor asked for them, over this many milliseconds.
        images: Vec<ImageTraffic>, since 2;
        images_ms: u64, since 2;
        slow: SlowRequests, since 3;
        /// Number of bad copies of objects that this OSD, as a primary, had replaced, by the OSD that held
        /// them, since it was started.
        repaired_copies: BTreeMap<OsdId, u64>, since 3;
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
        fsid: Uuid;
        pgs: Vec<PgId>;
        deep: bool;
        repair: bool;
    }
}

message! {
    /// A heartbeat ping to another OSD, or the answer to one.
    Heartbeat = 0x7f30, version 1, compat 1 {
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
        namespace: Bytes;
        image: Bytes;
        writes: u64;
        reads: u64;
        write_bytes: u64;
        read_bytes: u64;
        /// Total time from arrival to reply, in nanoseconds.
        write_ns: u64;
        read_ns: u64;
    }
}

structure! {
    /// Client requests that an OSD has not answered for longer than `osd_op_complaint_time`.
    SlowRequests, version 1, compat 1 {
        count: u64;
        oldest_ms: u64;
        /// Group and stage of the oldest one.
        oldest_in: PgId;
        state: String;
    }
}

structure! {
    /// One OSD's disk and counters.
    OsdUsage, version 1, compat 1 {
        bytes_total: u64;
        bytes_available: u64;
        bytes_used: u64;
        bytes_omap: u64;
        bytes_meta: u64;
        objects: u64;
        /// Averages over the last period.
        commit_latency_us: u64;
        apply_latency_us: u64;
    }
}

structure! {
    /// Statistics of one placement group, reported by its primary.
    PgStat, version 5, compat 1 {
        /// See [`pg_state`].
        state: u64;
        version: EVersion;
        /// The epoch in which the primary reported, and its count of reports within it.
        reported_epoch: Epoch;
        reported_sequence: u64;
        last_change: UTime;
        last_active: UTime;
        last_clean: UTime;
        last_scrub: UTime;
        last_deep_scrub: UTime;
        up: Vec<OsdId>;
        acting: Vec<OsdId>;
        log_size: u64;
        objects: u64;
        clones: u64;
        /// Copies that should exist, those missing or out of place, and objects without any copy.
        copies: u64;
        degraded: u64;
        misplaced: u64;
        unfound: u64;
        bytes: u64;
        omap_bytes: u64;
        omap_keys: u64;
        reads: u64;
        read_bytes: u64;
        writes: u64;
        write_bytes: u64;
        recovered_objects: u64;
        recovered_bytes: u64;
        scrub_errors: u64;
        /// The last interval that ended clean: the part of the history that members still need begins there.
        last_epoch_clean: Epoch, since 2;
        /// Members that peering waits for.
        blocked_by: Vec<OsdId>, since 2;
        /// Removed snapshots still to be trimmed, and those already trimmed (first, number).
        snaptrim_queue: u64, since 3;
        purged_snaps: Vec<(SnapId, u64)>, since 3;
        /// Objects repaired from good copies since the primary took over the group.
        repaired: u64, since 4;
        /// Objects whose omaps are larger than omaps should be, as the last deep scrub found.
        large_omaps: u64, since 5;
    }
}

/// States of a placement group; they combine (`PG_STATE_*`).
pub mod pg_state {
    pub const CREATING: u64 = 1 << 0;
    pub const ACTIVE: u64 = 1 << 1;
    pub const CLEAN: u64 = 1 << 2;
    pub const DOWN: u64 = 1 << 4;
    pub const RECOVERY_UNFOUND: u64 = 1 << 5;
    pub const BACKFILL_UNFOUND: u64 = 1 << 6;
    pub const PREMERGE: u64 = 1 << 7;
    pub const SCRUBBING: u64 = 1 << 8;
    pub const DEGRADED: u64 = 1 << 10;
    pub const INCONSISTENT: u64 = 1 << 11;
    pub const PEERING: u64 = 1 << 12;
    pub const REPAIR: u64 = 1 << 13;
    pub const RECOVERING: u64 = 1 << 14;
    pub const BACKFILL_WAIT: u64 = 1 << 15;
    pub const INCOMPLETE: u64 = 1 << 16;
    pub const STALE: u64 = 1 << 17;
    pub const REMAPPED: u64 = 1 << 18;
    pub const DEEP_SCRUB: u64 = 1 << 19;
    pub const BACKFILLING: u64 = 1 << 20;
    pub const BACKFILL_TOOFULL: u64 = 1 << 21;
    pub const RECOVERY_WAIT: u64 = 1 << 22;
    pub const UNDERSIZED: u64 = 1 << 23;
    pub const ACTIVATING: u64 = 1 << 24;
    pub const PEERED: u64 = 1 << 25;
    pub const SNAPTRIM: u64 = 1 << 26;
    pub const SNAPTRIM_WAIT: u64 = 1 << 27;
    pub const RECOVERY_TOOFULL: u64 = 1 << 28;
    pub const SNAPTRIM_ERROR: u64 = 1 << 29;
    pub const FORCED_RECOVERY: u64 = 1 << 30;
    pub const FORCED_BACKFILL: u64 = 1 << 31;
    pub const FAILED_REPAIR: u64 = 1 << 32;
    pub const LAGGY: u64 = 1 << 33;
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
