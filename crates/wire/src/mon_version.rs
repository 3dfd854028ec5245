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
        handle: u64;
        version: u64;
        oldest_version: u64, since 2;
    }
}
