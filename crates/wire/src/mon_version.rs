//! Asking a monitor which version of a map is the newest.

message! {
    /// `MMonGetVersion`
    MonGetVersion = 19, version 1, compat 1 {
        /// Id of the request; the reply repeats it.
        handle: u64;
        /// `osdmap`, `mgrmap`, …
        what: String;
    }
}

message! {
    /// `MMonGetVersionReply`
    MonGetVersionReply = 20, version 2, compat 2 {
        /// Id of the request.
        handle: u64;
        /// Newest version.
        version: u64;
        /// Oldest version that the monitor keeps.
        oldest_version: u64, since 2;
    }
}
