//! What a running OSD tells the monitor about itself and its peers.

use std::collections::BTreeMap;
use types::{EntityAddrVec, Epoch, OsdId, PgId, UTime, Uuid};

message! {
    /// `MOSDAlive`: asks that the map says the OSD lived through epoch `want`.
    OsdAlive = 73, version 1, compat 1, paxos(version) {
        want: Epoch;
    }
}

message! {
    /// `MOSDFailure`: a peer does not answer heartbeats, or does again.
    OsdFailure = 72, version 4, compat 4, paxos(version) {
        fsid: Uuid;
        target: OsdId;
        target_addrs: EntityAddrVec;
        epoch: Epoch;
        /// See the constants.
        flags: u8;
        failed_for_seconds: i32;
    }
}

impl OsdFailure {
    /// The peer failed; without it, the report takes back an earlier one.
    pub const FAILED: u8 = 1;
    /// Certain (connection refused), not a timeout.
    pub const IMMEDIATE: u8 = 2;
    /// Our own: nobody listens at its address, so the process that did does not run any more. Other
    /// evidence that is certain, such as a session that broke, does not say that.
    pub const DEAD: u8 = 128;
}

message! {
    /// `MOSDBeacon`: the OSD lives.
    OsdBeacon = 79, version 3, compat 1, paxos(version) {
        pgs: Vec<PgId>;
        min_last_epoch_clean: Epoch;
        last_purged_snaps_scrub: UTime, since 2;
        report_interval_seconds: i32, since 3;
    }
}

message! {
    /// `MOSDMarkMeDown`: the OSD stops, or with the same message the monitor's acknowledgement.
    OsdMarkMeDown = 74, version 4, compat 3, paxos(version) {
        fsid: Uuid;
        target: OsdId;
        target_addrs: EntityAddrVec;
        epoch: Epoch;
        request_ack: bool;
        down_and_dead: bool, since 4;
    }
}

message! {
    /// `MOSDPGTemp`: asks that placement groups be served by others than CRUSH says, for a while.
    OsdPgTemp = 78, version 2, compat 1, paxos(version) {
        map_epoch: Epoch;
        /// An empty set takes an earlier request back.
        pg_temp: BTreeMap<PgId, Vec<OsdId>>;
        forced: bool, since 2;
    }
}
