//! Entries of the cluster log.

use types::{EntityAddrVec, EntityName, ParticipantName, UTime, Uuid};

message! {
    /// `MLog`: entries for the cluster log, oldest first.
    Log = 52, version 1, compat 1, paxos(version) {
        fsid: Uuid;
        entries: Vec<LogEntry>;
    }
}

message! {
    /// `MLogAck`
    LogAck = 53, version 1, compat 1 {
        fsid: Uuid;
        /// The sequence number of the last entry that was recorded.
        last: u64;
        channel: String;
    }
}

structure! {
    /// `LogEntry`
    LogEntry, version 5, compat 5 {
        name: EntityName;
        rank: ParticipantName;
        addrs: EntityAddrVec;
        stamp: UTime;
        sequence: u64;
        /// `clog_type`: 0 debug, 1 info, 2 security, 3 warning, 4 error.
        severity: u16;
        text: String;
        /// `cluster` or `audit`
        channel: String;
    }
}
