//! Authentication within an open session: renewal of tickets.

use bytes::Bytes;

message! {
    /// `MAuth`: a request to the monitor by authentication protocol `protocol`, for example for new tickets.
    Auth = 17, version 1, compat 1, paxos(version) {
        /// `CEPH_AUTH_*`; with 0, the payload lists the protocols that the client knows.
        protocol: u32;
        payload: Bytes;
        monmap_epoch: u32;
    }
}

message! {
    /// `MAuthReply`
    AuthReply = 18, version 1, compat 1 {
        protocol: u32;
        /// 0 or a negative errno.
        result: i32;
        /// 0 if there is none.
        global_id: u64;
        payload: Bytes;
        text: String;
    }
}
