//! Requests on names, until they are durable, and the messages that ask for them.

use crate::call::{Call, CallId};
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::client_request::{
    FileLockArguments, GetattrArguments, MkdirArguments, OpenArguments, ReaddirArguments,
    client_flags,
};
use wire::{CapBits, ClientOp, ClientReply, ClientRequest, FilePath, RequestArguments, open_flags};

/// Inode of the root.
const ROOT: u64 = 1;

/// The purpose of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The answer to a call.
    Call(Call),
    /// A page of a directory; names of the pages before.
    Page(Vec<Bytes>),
    /// The size of a file, for a read.
    Size(u64),
    /// A file in a snapshot, to be read.
    Snapshot,
}

/// A request without a safe reply.
#[derive(Debug)]
struct Request {
    message: ClientRequest,
    id: CallId,
    purpose: Purpose,
    is_sent: bool,
    /// The object of the early reply; 0 if it showed none. `None` without a reply.
    answered: Option<u64>,
}

/// A reply to a request.
#[derive(Debug)]
pub(crate) struct Replied {
    pub(crate) id: CallId,
    pub(crate) purpose: Purpose,
    pub(crate) path: FilePath,
    /// The call has had no answer.
    pub(crate) is_first: bool,
}

/// Requests without a safe reply, by number.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    all: BTreeMap<u64, Request>,
    last_tid: u64,
}

impl Requests {
    /// A number for a request or a flush.
    pub(crate) fn next_tid(&mut self) -> u64 {
        self.last_tid += 1;
        self.last_tid
    }

    /// The last number that was given.
    pub(crate) fn last_tid(&self) -> u64 {
        self.last_tid
    }

    /// Keeps a request; returns its number.
    pub(crate) fn add(&mut self, id: CallId, message: ClientRequest, purpose: Purpose) -> u64 {
        let tid = self.next_tid();
        let request = Request { message, id, purpose, is_sent: false, answered: None };
        self.all.insert(tid, request);
        tid
    }

    /// The message of a request, as it is sent now. One that was answered early says so, with the number of
    /// the inode that it has made.
    pub(crate) fn message(&mut self, tid: u64, map_epoch: u32) -> Option<ClientRequest> {
        let oldest_client_tid = self.all.keys().next().copied().unwrap_or(tid);
        let request = self.all.get_mut(&tid)?;
        if std::mem::replace(&mut request.is_sent, true) {
            request.message.retries += 1;
        }
        if let Some(ino) = request.answered {
            request.message.flags |= client_flags::REPLAY;
            request.message.ino = ino;
        }
        Some(ClientRequest { oldest_client_tid, map_epoch, ..request.message.clone() })
    }

    /// Those that were sent, or those that were not.
    pub(crate) fn numbers(&self, is_sent: bool) -> Vec<u64> {
        let chosen = self.all.iter().filter(|(_, request)| request.is_sent == is_sent);
        chosen.map(|(tid, _)| *tid).collect()
    }

    /// A reply has come. The request stays until it has a safe one; of early ones only the first counts.
    pub(crate) fn handle_reply(&mut self, tid: u64, reply: &ClientReply) -> Option<Replied> {
        let request = self.all.get_mut(&tid)?;
        let is_first = request.answered.is_none();
        if !is_first && !reply.is_safe {
            return None;
        }
        let ino = reply.target.as_ref().map_or(0, |stat| stat.ino);
        request.answered.get_or_insert(ino);
        let replied = Replied {
            id: request.id,
            purpose: request.purpose.clone(),
            path: request.message.path.clone(),
            is_first,
        };
        if reply.is_safe {
            self.all.remove(&tid);
        }
        Some(replied)
    }

    /// The last request that was answered early and concerns an inode.
    pub(crate) fn last_early(&self, ino: u64) -> Option<u64> {
        let of_inode = self.all.iter().filter(|(_, request)| request.answered == Some(ino));
        of_inode.map(|(tid, _)| *tid).next_back()
    }

    /// Whether the request with a number is durable, or is none.
    pub(crate) fn is_durable(&self, tid: u64) -> bool {
        !self.all.contains_key(&tid)
    }

    /// Whether all requests up to a number are durable.
    pub(crate) fn are_durable(&self, last: u64) -> bool {
        self.all.keys().next().is_none_or(|tid| *tid > last)
    }

    /// Forgets those that were sent, and those about open files, or all; returns the calls without an answer.
    /// Calls on files are left out, since they fail with their file.
    pub(crate) fn lose(&mut self, all: bool) -> Vec<CallId> {
        let is_of_file = |request: &Request| matches!(request.purpose, Purpose::Size(_));
        let (gone, kept) = std::mem::take(&mut self.all)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(_, one)| all || one.is_sent || is_of_file(one));
        self.all = kept;
        let unanswered = |one: &Request| one.answered.is_none() && !is_of_file(one);
        gone.into_values().filter(unanswered).map(|request| request.id).collect()
    }
}

/// `CEPH_LOCK_FCNTL`, `CEPH_LOCK_EXCL` and `CEPH_LOCK_UNLOCK`.
const FCNTL: u8 = 1;
pub(crate) const EXCLUSIVE: u8 = 2;
const UNLOCK: u8 = 4;

/// Name of the directory that shows the snapshots of the one that it is in.
const SNAPSHOTS: &str = ".snap";

/// A request for a path. An empty name in it stands for `.snap`.
fn request(op: ClientOp, path: &str) -> ClientRequest {
    let names: Vec<&str> =
        path.split('/').map(|name| if name == SNAPSHOTS { "" } else { name }).collect();
    // The snapshots of the root are no empty path.
    let names = if path == SNAPSHOTS { "/".to_owned() } else { names.join("/") };
    let path = FilePath::new(ROOT, Bytes::from(names));
    ClientRequest { op, path, ..ClientRequest::default() }
}

/// A request for a snapshot of a directory.
fn of_snapshot(op: ClientOp, directory: &str, name: &str) -> ClientRequest {
    request(op, format!("{directory}/{SNAPSHOTS}/{name}").trim_start_matches('/'))
}

fn open(op: ClientOp, path: &str, flags: u32) -> ClientRequest {
    let arguments = OpenArguments { flags, mode: 0o644, ..OpenArguments::default() };
    let arguments = RequestArguments::of(&arguments);
    ClientRequest { arguments, ..request(op, path) }
}

/// The request to lock one byte of a file, or to give the lock back.
fn lock(ino: u64, place: u64, kind: u8) -> ClientRequest {
    let arguments =
        FileLockArguments { rule: FCNTL, kind, start: place, length: 1, ..Default::default() };
    let arguments = RequestArguments::of(&arguments);
    let path = FilePath { ino, path: Bytes::new() };
    ClientRequest { arguments, path, ..request(ClientOp::SETFILELOCK, "") }
}

fn attributes(message: ClientRequest) -> ClientRequest {
    let mask = CapBits::PIN | CapBits::ANY_SHARED;
    let arguments = RequestArguments::of(&GetattrArguments { mask });
    ClientRequest { arguments, ..message }
}

/// The request for a page of a directory that begins behind a name.
pub(crate) fn page(path: FilePath, after: Bytes) -> ClientRequest {
    let arguments = ReaddirArguments { flags: 1, ..ReaddirArguments::default() };
    let arguments = RequestArguments::of(&arguments);
    let path2 = FilePath { ino: 0, path: after };
    let op = if is_snapshots(&path.path) { ClientOp::LSSNAP } else { ClientOp::READDIR };
    ClientRequest { arguments, path2, path, ..request(op, "") }
}

/// Whether a path of a request is that of a `.snap`.
fn is_snapshots(path: &[u8]) -> bool {
    path.ends_with(b"/")
}

/// The request for the size of an open file.
pub(crate) fn size(ino: u64) -> ClientRequest {
    let path = FilePath { ino, path: Bytes::new() };
    attributes(ClientRequest { path, ..request(ClientOp::GETATTR, "") })
}

/// The request of a call on names; `None` for other calls.
pub(crate) fn of_call(call: &Call) -> Option<(ClientRequest, Purpose)> {
    let message = match call {
        Call::Mkdir(path) => {
            let arguments = RequestArguments::of(&MkdirArguments { mode: 0o755 });
            ClientRequest { arguments, ..request(ClientOp::MKDIR, path) }
        }
        Call::Rmdir(path) => request(ClientOp::RMDIR, path),
        Call::Unlink(path) => request(ClientOp::UNLINK, path),
        Call::Rename(from, to) => {
            let message = request(ClientOp::RENAME, to);
            ClientRequest { path2: request(ClientOp::RENAME, from).path, ..message }
        }
        Call::Stat(path) => attributes(request(ClientOp::LOOKUP, path)),
        Call::List(path) => {
            let message = page(request(ClientOp::READDIR, path).path, Bytes::new());
            return Some((message, Purpose::Page(Vec::new())));
        }
        Call::Create(path) => {
            let flags = open_flags::READ_WRITE | open_flags::CREATE | open_flags::EXCLUSIVE;
            open(ClientOp::CREATE, path, flags)
        }
        Call::Open(path) => open(ClientOp::OPEN, path, open_flags::READ_WRITE),
        Call::TakeSnapshot { directory, name } => of_snapshot(ClientOp::MKSNAP, directory, name),
        Call::RemoveSnapshot { directory, name } => of_snapshot(ClientOp::RMSNAP, directory, name),
        Call::RenameSnapshot { directory, from, to } => {
            let path2 = of_snapshot(ClientOp::RENAMESNAP, directory, from).path;
            ClientRequest { path2, ..of_snapshot(ClientOp::RENAMESNAP, directory, to) }
        }
        Call::SetQuota { directory, max_bytes, max_files } => {
            let path2 = FilePath { ino: 0, path: Bytes::from_static(b"ceph.quota") };
            let data = Bytes::from(format!("max_bytes={max_bytes} max_files={max_files}"));
            ClientRequest { path2, data, ..request(ClientOp::SETXATTR, directory) }
        }
        Call::ReadSnapshot(path) => {
            return Some((open(ClientOp::OPEN, path, 0), Purpose::Snapshot));
        }
        Call::Request(message) => (**message).clone(),
        Call::Lock { ino, place } => lock(*ino, *place, EXCLUSIVE),
        Call::Unlock { ino, place } => lock(*ino, *place, UNLOCK),
        Call::Write { .. } | Call::Read { .. } | Call::Fsync(_) | Call::Close(_) | Call::Sync => {
            return None;
        }
        Call::ReadSnapshotRange { .. } | Call::Command(_) => return None,
    };
    Some((message, Purpose::Call(call.clone())))
}
