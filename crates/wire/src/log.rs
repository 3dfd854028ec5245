//! Entries of the cluster log.

use types::{EntityAddrVec, EntityName, ParticipantName, UTime, Uuid};

message! {
    /// `MLog`: entries for the cluster log, oldest first.
    Log = 52, version 1, compat 1, paxos(version) {
        /// Id of the cluster.
        fsid: Uuid;
        /// The entries; sequence numbers rise.
        entries: Vec<LogEntry>;
    }
}

message! {
    /// `MLogAck`
    LogAck = 53, version 1, compat 1 {
        /// Id of the cluster.
        fsid: Uuid;
        /// The sequence number of the last entry that was recorded.
        last: u64;
        /// Channel of the entries.
        channel: String;
    }
}

structure! {
    /// `LogEntry`
    LogEntry, version 5, compat 5 {
        /// Entity as which the sender authenticates.
        name: EntityName;
        /// Type and number of the sender, as `osd.3`.
        rank: ParticipantName;
        /// Addresses of the sender.
        addrs: EntityAddrVec;
        /// Time of the entry by the sender's clock.
        stamp: UTime;
        /// Number of the entry; rises for each sender.
        sequence: u64;
        /// `clog_type`: 0 debug, 1 info, 2 security, 3 warning, 4 error.
        severity: u16;
        /// Text of the entry.
        text: String;
        /// `cluster` or `audit`
        channel: String;
    }
}
