//! How full the cluster, or one pool, is.

use types::Uuid;

message! {
    /// `MStatfs`
    Statfs = 13, version 2, compat 1, paxos(version) {
        /// Id of the cluster.
        fsid: Uuid;
        /// Of one pool only.
        data_pool: Option<i64>, since 2;
    }
}

message! {
    /// `MStatfsReply`
    StatfsReply = 14, version 1, compat 1 {
        /// Id of the cluster.
        fsid: Uuid;
        /// Version of the statistics.
        version: u64;
        /// KiB of all OSDs.
        kib: u64;
        /// KiB in use.
        kib_used: u64;
        /// KiB that can still be written.
        kib_available: u64;
        /// Number of objects.
        objects: u64;
    }
}
