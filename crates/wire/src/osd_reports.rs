//! Reports of a running OSD to the monitor about itself and its peers.

use std::collections::BTreeMap;
use types::{EntityAddrVec, Epoch, OsdId, PgId, UTime, Uuid};

message! {
    /// `MOSDAlive`: asks for `up_thru` to be set to epoch `want`.
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
    /// `MOSDPGTemp`: requests a temporary acting set for placement groups.
    OsdPgTemp = 78, version 2, compat 1, paxos(version) {
        map_epoch: Epoch;
        /// An empty set withdraws an earlier request.
        pg_temp: BTreeMap<PgId, Vec<OsdId>>;
        forced: bool, since 2;
    }
}
