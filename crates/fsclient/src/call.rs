//! Calls of the client's user, and their answers.

use bytes::Bytes;
use types::Errno;
use wire::{ClientReply, ClientRequest, InodeStat};

/// Number of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A call. Paths begin at the root, without a slash; a part `.snap` leads to the snapshots of a directory.
/// Open files are named by the numbers of their inodes.
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
    /// Takes a snapshot of a directory.
    TakeSnapshot {
        /// The directory.
        directory: String,
        /// Name of the snapshot.
        name: String,
    },
    /// Removes a snapshot of a directory.
    RemoveSnapshot {
        /// The directory.
        directory: String,
        /// Name of the snapshot.
        name: String,
    },
    /// Gives a snapshot of a directory another name.
    RenameSnapshot {
        /// The directory.
        directory: String,
        /// Name of the snapshot.
        from: String,
        /// Its new name.
        to: String,
    },
    /// Bounds what is in a directory and below. Clients hold to it as far as they know of it: what would
    /// exceed it fails with EDQUOT.
    SetQuota {
        /// The directory.
        directory: String,
        /// Most bytes of files; 0 for no bound.
        max_bytes: u64,
        /// Most files and directories, itself included; 0 for no bound.
        max_files: u64,
    },
    /// Reads a file in a snapshot from its beginning to its end. The file has one object.
    ReadSnapshot(String),
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
    /// Closes a file, once. Its locks stay.
    Close(u64),
    /// Locks one byte of an open file for this client alone: EAGAIN if another one has it. The server keeps
    /// the lock as long as the session, and the next server of the rank is told of it.
    Lock {
        /// The file.
        ino: u64,
        /// The byte.
        place: u64,
    },
    /// Gives a lock back.
    Unlock {
        /// The file.
        ino: u64,
        /// The byte.
        place: u64,
    },
    /// A request on names as servers take it. Numbers and times of the request itself are the client's. One
    /// that opens or creates a file opens it, as [`Call::Open`] does.
    Request(Box<ClientRequest>),
    /// A command in JSON to the metadata server, of which the client needs all capabilities. It is asked
    /// once: a server that goes away fails it with EIO.
    Command(String),
    /// Reads from a file as a snapshot shows it, which does not change: up to its end, if that comes first.
    ReadSnapshotRange {
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
    /// A file in a snapshot, and its bytes.
    File(Box<InodeStat>, Bytes),
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

/// How a call ended. EIO: it may have been executed or not; EBADF: a file is not open.
pub type Outcome = Result<Answer, Errno>;
