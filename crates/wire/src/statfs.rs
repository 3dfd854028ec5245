//! How full the cluster, or one pool, is.

use types::Uuid;

message! {
    /// `MStatfs`
    Statfs = 13, version 2, compat 1, paxos(version) {
        fsid: Uuid;
        /// Of one pool only.
        data_pool: Option<i64>, since 2;
    }
}

message! {
    /// `MStatfsReply`
    StatfsReply = 14, version 1, compat 1 {
        fsid: Uuid;
        version: u64;
        kib: u64;
        kib_used: u64;
        kib_available: u64;
        objects: u64;
    }
}
