//! A client takes the place of one that is gone, as servers of other protocols do when they start again.

use types::EntityAddrVec;

message! {
    /// `MClientReclaim`: a client names another one, whose sessions it takes over or ends.
    ClientReclaim = 27, version 1, compat 1 {
        /// The name that the other client has given itself; empty if it is done.
        uuid: String;
        /// [`ClientReclaim::RESET`], [`ClientReclaim::FINISH`]
        flags: u32;
    }
}

impl ClientReclaim {
    /// The other client's session ends, with all that it holds.
    pub const RESET: u32 = 1;
    /// The client has taken what it needs.
    pub const FINISH: u32 = 1 << 31;
}

message! {
    /// `MClientReclaimReply`
    ClientReclaimReply = 28, version 1, compat 1 {
        /// 0, or a negative error.
        result: i32;
        /// The OSD map that shuts the other client out.
        epoch: u32;
        /// Addresses of the other client; none if there was no such client.
        addrs: EntityAddrVec;
    }
}
