//! Messages for the monitor map.

use bytes::Bytes;

message! {
    /// `MMonGetMap`: asks for the monitor map once.
    MonGetMap = 5, version 1, compat 1 {}
}

message! {
    /// `MMonMap`: a monitor map, encoded by crate `maps`.
    MonMapMessage = 4, version 1, compat 1 {
        /// The encoded map.
        map: Bytes;
    }
}
