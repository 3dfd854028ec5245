//! Calls of the client's user, and their answers.

use bytes::Bytes;
use types::Errno;
use wire::{ClientReply, ClientRequest, InodeStat};

/// Number of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A call. Paths begin at the root, without a slash. Open files are named by the numbers of their inodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Makes a directory.
    Mkdir(String),
    /// Removes an empty directory.
    Rmdir(String),
    /// Removes the name of a file.
    Unlink(String),
    /// Gives an object another name.
    Rename(String, String),
    /// Attributes of an object.
    Stat(String),
    /// Names in a directory.
    List(String),
    /// Makes a file, which must not exist, and opens it.
    Create(String),
    /// Opens a file to read and write.
    Open(String),
    /// Writes to an open file.
    Write {
        /// The file.
        ino: u64,
        /// Where.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Reads from an open file: up to its end, if that comes first.
    Read {
        /// The file.
        ino: u64,
        /// Where.
        offset: u64,
        /// How much.
        length: u64,
    },
    /// Makes an open file durable: all writes to it, and the creation of it by this client.
    Fsync(u64),
    /// Makes all calls before it durable.
    Sync,
    /// Closes a file, once.
    Close(u64),
    /// A request on names as servers take it. Numbers and times of the request itself are the client's. One
    /// that opens or creates a file opens it, as [`Call::Open`] does.
    Request(Box<ClientRequest>),
    /// A command in JSON to the metadata server, of which the client needs all capabilities. It is asked
    /// once: a server that goes away fails it with EIO.
    Command(String),
    /// Reads from a file as a snapshot shows it, which does not change: up to its end, if that comes first.
    ReadSnapshot {
        /// The file, as the server has shown it.
        stat: Box<InodeStat>,
        /// Where.
        offset: u64,
        /// How much: at most [`Call::READ_MAX`].
        length: u64,
    },
}

impl Call {
    /// Bytes that a read of a snapshot may ask for; more is EINVAL.
    pub const READ_MAX: u64 = 8 << 20;
}

/// The answer to a call that has succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// An object and its attributes; of a file that was opened, too.
    Inode(Box<InodeStat>),
    /// Names of a directory.
    Names(Vec<Bytes>),
    /// Bytes of a file.
    Data(Bytes),
    /// The reply of the server to a command.
    Command {
        /// 0 or a negative errno.
        result: i32,
        /// A sentence for the user.
        text: String,
        /// Its output.
        output: Bytes,
    },
    /// The server's first reply to a request that has succeeded.
    Reply(Box<ClientReply>),
}

/// How a call ended. EIO: it may have been executed or not; EBADF, that a file is not open.
pub type Outcome = Result<Answer, Errno>;
