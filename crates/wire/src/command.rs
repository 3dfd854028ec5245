//! Commands in JSON, to monitors, managers and OSDs, and their replies.

use types::Uuid;

message! {
    /// `MMonCommand`: a command to the monitor; `input` is the content of the user's `-i` file.
    MonCommand = 50, version 1, compat 1, paxos(version), data(input) {
        /// Id of the cluster; nil if the sender does not know it.
        fsid: Uuid;
        /// Normally one JSON object.
        command: Vec<String>;
    }
}

message! {
    /// `MMonCommandAck`: `output` is the command's standard output.
    MonCommandAck = 51, version 1, compat 1, paxos(version), data(output) {
        /// 0 or a negative errno.
        result: i32;
        /// Text for the user (standard error).
        text: String;
        /// The command, repeated.
        command: Vec<String>;
    }
}

message! {
    /// `MCommand`: a command to one daemon (`ceph tell osd.3 …`).
    Command = 97, version 1, compat 1, data(input) {
        /// Id of the cluster; nil if the sender does not know it.
        fsid: Uuid;
        /// Normally one JSON object.
        command: Vec<String>;
    }
}

message! {
    /// `MCommandReply`
    CommandReply = 98, version 1, compat 1, data(output) {
        /// 0 or a negative errno.
        result: i32;
        /// Text for the user (standard error).
        text: String;
    }
}

message! {
    /// `MMgrCommand`: a command to the manager, since Octopus.
    MgrCommand = 0x709, version 1, compat 1, data(input) {
        /// Id of the cluster; nil if the sender does not know it.
        fsid: Uuid;
        /// Normally one JSON object.
        command: Vec<String>;
    }
}

message! {
    /// `MMgrCommandReply`
    MgrCommandReply = 0x70a, version 1, compat 1, data(output) {
        /// 0 or a negative errno.
        result: i32;
        /// Text for the user (standard error).
        text: String;
    }
}
