//! Authentication within an open session: renewal of tickets.

use bytes::Bytes;

message! {
    /// `MAuth`: a request to the monitor by authentication protocol `protocol`, for example for new tickets.
    Auth = 17, version 1, compat 1, paxos(version) {
        /// `CEPH_AUTH_*`; with 0, the payload lists the protocols that the client knows.
        protocol: u32;
        /// Input of the authentication protocol.
        payload: Bytes;
        /// Epoch of the sender's monitor map.
        monmap_epoch: u32;
    }
}

message! {
    /// `MAuthReply`
    AuthReply = 18, version 1, compat 1 {
        /// `CEPH_AUTH_*`: the protocol that the monitor has chosen.
        protocol: u32;
        /// 0 or a negative errno.
        result: i32;
        /// 0 if there is none.
        global_id: u64;
        /// Output of the authentication protocol.
        payload: Bytes;
        /// Text for the user if the result is an error.
        text: String;
    }
}
