//! Requests for file locks. They need no capabilities, and are answered when the lock is there.

use crate::caps;
use bytes::Bytes;
use codec::{Reader, Writer};
use fscaps::{
    FileLock, FileLocks, InodeId, LockKind, LockOwner, LockRequest, LockRule, RequestId, SetOutcome,
};
use namespace::{Ino, Tree};
use std::collections::BTreeSet;
use types::Errno;
use wire::client_request::FileLockArguments;
use wire::{ClientOp, ClientRequest};

/// `CEPH_LOCK_FCNTL`, `CEPH_LOCK_FLOCK`, and both for a request that was interrupted.
const FCNTL: u8 = 1;
const FLOCK: u8 = 2;
const FCNTL_INTERRUPTED: u8 = 3;
const FLOCK_INTERRUPTED: u8 = 4;
/// `CEPH_LOCK_SHARED`, `CEPH_LOCK_EXCL`, `CEPH_LOCK_UNLOCK`
const SHARED: u8 = 1;
const EXCLUSIVE: u8 = 2;
const UNLOCK: u8 = 4;

/// Answer to a request.
#[derive(Debug)]
pub(crate) struct LockAnswer {
    /// The request.
    pub id: RequestId,
    /// Its operation.
    pub op: ClientOp,
    /// The code, and the own part of the reply.
    pub result: Result<Bytes, Errno>,
}

impl LockAnswer {
    fn set(id: RequestId, result: Result<Bytes, Errno>) -> Self {
        LockAnswer { id, op: ClientOp::SETFILELOCK, result }
    }
}

/// Locks of files, and the requests that wait for them.
#[derive(Debug, Default)]
pub(crate) struct LockRequests {
    locks: FileLocks,
    waiting: BTreeSet<RequestId>,
}

impl LockRequests {
    /// Handles a request for a lock or about one; `None` if it is about something else. `check` says whether
    /// the client may lock parts of a file. Its own answer comes later if it waits; other requests may be
    /// answered by it.
    pub fn handle(
        &mut self,
        tree: &Tree,
        id: RequestId,
        request: &ClientRequest,
        check: impl FnOnce(Ino) -> Result<(), Errno>,
    ) -> Option<Vec<LockAnswer>> {
        let is_set = request.op == ClientOp::SETFILELOCK;
        if !is_set && request.op != ClientOp::GETFILELOCK {
            return None;
        }
        if self.waiting.contains(&id) {
            // It was sent again by a new connection, to which the reply will go.
            return Some(Vec::new());
        }
        let mut answers = Vec::new();
        let ino = locked_inode(tree, request).and_then(|ino| check(ino).map(|()| ino));
        let outcome = ino.map(caps::inode_id).and_then(|ino| match is_set {
            true => self.set(id, ino, request, &mut answers),
            false => self.get(id, ino, request).map(Some),
        });
        match outcome.transpose() {
            Some(result) => answers.push(LockAnswer { id, op: request.op, result }),
            None => drop(self.waiting.insert(id)),
        }
        self.collect_locked(&mut answers);
        Some(answers)
    }

    /// The session of a client has ended: returns answers to others that waited for its locks.
    pub fn remove_client(&mut self, client: u64) -> Vec<LockAnswer> {
        self.waiting.retain(|id| id.client != client);
        self.locks.remove_client(client);
        let mut answers = Vec::new();
        self.collect_locked(&mut answers);
        answers
    }

    /// A client of a predecessor claims locks of a file. Those that contradict others' it loses.
    ///
    /// # Errors
    ///
    /// They do not decode; those before the fault are taken.
    pub fn reclaim(&mut self, client: u64, ino: Ino, claimed: &[u8]) -> codec::Result<()> {
        let mut r = Reader::new(claimed);
        for rule in [LockRule::Posix, LockRule::Flock] {
            // Without locks there is not even a count.
            let count = if r.is_empty() { 0 } else { r.u32("number of locks")? };
            for _ in 0..count {
                let lock = claimed_lock(client, &mut r)?;
                let (id, ino) = (RequestId { client, tid: 0 }, caps::inode_id(ino));
                let request = LockRequest { id, ino, rule, lock, waits: false };
                let outcome = self.locks.handle_set(request);
                if outcome != SetOutcome::Locked {
                    tracing::warn!(
                        client,
                        ino = ino.0,
                        ?lock,
                        ?outcome,
                        "a claimed file lock is lost"
                    );
                }
            }
        }
        Ok(())
    }

    /// Panics if locks contradict each other.
    pub fn check_invariants(&self) {
        self.locks.check_invariants();
    }

    /// `None` if the request waits.
    fn set(
        &mut self,
        id: RequestId,
        ino: InodeId,
        request: &ClientRequest,
        answers: &mut Vec<LockAnswer>,
    ) -> Result<Option<Bytes>, Errno> {
        let arguments: FileLockArguments = request.arguments.read();
        let (rule, is_interrupted) = rule_of(arguments.rule)?;
        let lock = lock_of(id.client, &arguments);
        if is_interrupted {
            let waiting = self.locks.handle_interrupt(ino, rule, &lock);
            if let Some(waiting) = waiting.filter(|waiting| self.waiting.remove(waiting)) {
                answers.push(LockAnswer::set(waiting, Err(Errno::INTR)));
            }
            return Ok(Some(Bytes::new()));
        }
        if arguments.kind == UNLOCK {
            self.locks.handle_unlock(ino, rule, &lock);
            return Ok(Some(Bytes::new()));
        }
        let waits = arguments.wait != 0;
        match self.locks.handle_set(LockRequest { id, ino, rule, lock, waits }) {
            SetOutcome::Locked => Ok(Some(Bytes::new())),
            SetOutcome::Waits => Ok(None),
            SetOutcome::Held => Err(Errno::AGAIN),
            SetOutcome::Deadlock => Err(Errno::DEADLK),
            SetOutcome::TooMany => Err(Errno::NOLCK),
        }
    }

    /// The lock that stands against one, or an unlocked range.
    fn get(&self, id: RequestId, ino: InodeId, request: &ClientRequest) -> Result<Bytes, Errno> {
        let arguments: FileLockArguments = request.arguments.read();
        let (rule, _) = rule_of(arguments.rule)?;
        let asked = lock_of(id.client, &arguments);
        let found = self.locks.handle_get(ino, rule, &asked);
        let kind = match found.map(|found| found.kind) {
            None => UNLOCK,
            Some(LockKind::Shared) => SHARED,
            Some(LockKind::Exclusive) => EXCLUSIVE,
        };
        let shown = found.unwrap_or(asked);
        let length = if shown.end == u64::MAX { 0 } else { shown.end - shown.start };
        // `ceph_filelock`
        let mut w = Writer::new();
        let LockOwner { client, number } = shown.owner;
        [shown.start, length, client, number, shown.pid].iter().for_each(|value| w.u64(*value));
        w.u8(kind);
        Ok(w.into_bytes())
    }

    fn collect_locked(&mut self, answers: &mut Vec<LockAnswer>) {
        while let Some(id) = self.locks.poll_locked() {
            if self.waiting.remove(&id) {
                answers.push(LockAnswer::set(id, Ok(Bytes::new())));
            }
        }
    }
}

fn locked_inode(tree: &Tree, request: &ClientRequest) -> Result<Ino, Errno> {
    let from = if request.path.ino == 0 { Ino::ROOT } else { Ino(request.path.ino) };
    tree.walk(from, request.path.names())?.existing()
}

/// The kind of locking, and whether it is about an interrupted request.
fn rule_of(rule: u8) -> Result<(LockRule, bool), Errno> {
    match rule {
        FCNTL => Ok((LockRule::Posix, false)),
        FLOCK => Ok((LockRule::Flock, false)),
        FCNTL_INTERRUPTED => Ok((LockRule::Posix, true)),
        FLOCK_INTERRUPTED => Ok((LockRule::Flock, true)),
        _ => Err(Errno::INVAL),
    }
}

fn lock_of(client: u64, arguments: &FileLockArguments) -> FileLock {
    let FileLockArguments { kind, owner, pid, start, length, .. } = *arguments;
    let kind = if kind == SHARED { LockKind::Shared } else { LockKind::Exclusive };
    FileLock::new(LockOwner { client, number: owner }, pid, kind, start, length)
}

/// `ceph_filelock` as [`LockRequests::get`] writes it. Clients do not say who they are.
fn claimed_lock(client: u64, r: &mut Reader<'_>) -> codec::Result<FileLock> {
    let [start, length] = [r.u64("start")?, r.u64("length")?];
    let (_, number, pid) = (r.u64("client")?, r.u64("owner")?, r.u64("pid")?);
    let kind = if r.u8("kind")? == SHARED { LockKind::Shared } else { LockKind::Exclusive };
    Ok(FileLock::new(LockOwner { client, number }, pid, kind, start, length))
}
