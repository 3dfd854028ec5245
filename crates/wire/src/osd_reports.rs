//! Reports of a running OSD to the monitor about itself and its peers.

use std::collections::BTreeMap;
use types::{EntityAddrVec, Epoch, OsdId, PgId, UTime, Uuid};

message! {
    /// `MOSDAlive`: asks for `up_thru` to be set to epoch `want`.
    OsdAlive = 73, version 1, compat 1, paxos(version) {
        /// Epoch to which `up_thru` is set.
        want: Epoch;
    }
}

message! {
    /// `MOSDFailure`: a peer does not answer heartbeats, or does again.
    OsdFailure = 72, version 4, compat 4, paxos(version) {
        /// Id of the cluster.
        fsid: Uuid;
        /// The peer.
        target: OsdId;
        /// Addresses of the peer's incarnation.
        target_addrs: EntityAddrVec;
        /// Map epoch of the reporter.
        epoch: Epoch;
        /// See the constants.
        flags: u8;
        /// Seconds since the last answer.
        failed_for_seconds: i32;
    }
}

impl OsdFailure {
    /// The peer failed; without the flag, the report withdraws an earlier one.
    pub const FAILED: u8 = 1;
    /// Certain (connection refused), not a timeout.
    pub const IMMEDIATE: u8 = 2;
    /// Sepiola's own flag: no process listens at the peer's address, so its process does not run. Other
    /// certain evidence, such as a broken session, does not prove that.
    pub const DEAD: u8 = 128;
}

message! {
    /// `MOSDBeacon`: the OSD is alive.
    OsdBeacon = 79, version 3, compat 1, paxos(version) {
        /// Groups whose primary the OSD is.
        pgs: Vec<PgId>;
        /// Least `last_epoch_clean` of these groups.
        min_last_epoch_clean: Epoch;
        /// Time of the last comparison of trimmed snapshots with the map.
        last_purged_snaps_scrub: UTime, since 2;
        /// Seconds between beacons.
        report_interval_seconds: i32, since 3;
    }
}

message! {
    /// `MOSDMarkMeDown`: the OSD stops, or with the same message the monitor's acknowledgement.
    OsdMarkMeDown = 74, version 4, compat 3, paxos(version) {
        /// Id of the cluster.
        fsid: Uuid;
        /// The OSD that stops.
        target: OsdId;
        /// Addresses of its incarnation.
        target_addrs: EntityAddrVec;
        /// Map epoch of the OSD.
        epoch: Epoch;
        /// True if the OSD waits for the acknowledgement.
        request_ack: bool;
        /// True if the OSD is certainly dead, and not only unreachable.
        down_and_dead: bool, since 4;
    }
}

message! {
    /// `MOSDPGTemp`: requests a temporary acting set for placement groups.
    OsdPgTemp = 78, version 2, compat 1, paxos(version) {
        /// Map epoch of the OSD.
        map_epoch: Epoch;
        /// An empty set withdraws an earlier request.
        pg_temp: BTreeMap<PgId, Vec<OsdId>>;
        /// Set the entries even if the map has them already.
        forced: bool, since 2;
    }
}
