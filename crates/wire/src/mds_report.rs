//! Counters of a metadata server for the monitor: `ceph fs status` and the metrics show them.

message! {
    /// A metadata server with a rank reports its counters.
    MdsReport = 0x7f04, version 1, compat 1 {
        /// Global id of the server's run.
        gid: u64;
        /// Counters of its rank.
        counters: MdsCounters;
    }
}

structure! {
    /// Counters of a metadata server since it took over its rank, unless they are called a present state.
    MdsCounters, version 1, compat 1 {
        /// Requests of clients, repeated ones too.
        requests: u64;
        /// Requests that were answered.
        replies: u64;
        /// Those that were answered before their change was stored.
        early_replies: u64;
        /// Creates and unlinks on which the client had acted before it asked.
        asynchronous: u64;
        /// Time from the arrival of requests until their first reply was sent, in nanoseconds.
        reply_ns: u64;
        /// Number of these replies.
        replies_timed: u64;
        /// Present state: requests in progress.
        in_flight: u64;
        /// Present state: sessions of clients.
        sessions: u64;
        /// Present state: inodes in memory.
        inodes: u64;
        /// Present state: directories among them.
        directories: u64;
        /// Present state: capabilities of all clients.
        caps: u64;
        /// Records written to the journal.
        records: u64;
        /// Present state: segments of the journal.
        segments: u64;
        /// Present state: records that no checkpoint contains.
        records_kept: u64;
        /// Present state: inodes of which data objects remain to be removed.
        purges: u64;
        /// Clients that were evicted.
        evictions: u64;
        /// CPU time in nanoseconds: an equal share of that of all daemons on the same core.
        cpu_ns: u64;
    }
}
