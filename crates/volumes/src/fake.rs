//! A file system in memory that answers the calls of procedures, for tests.

use crate::failure::Failure;
use crate::order::{Order, Outcome, Volume};
use crate::procedure::{Inputs, Procedure, Request, Response, Target};
use crate::{Job, Pool, scan};
use bytes::Bytes;
use fsclient::{Answer, Call};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use types::{Errno, PoolId, SnapId, UTime, Uuid};
use wire::client_reply::{DirectoryEntry, DirectoryPage};
use wire::client_request::{FileLockArguments, SetattrArguments};
use wire::inode_stat::encode_xattrs;
use wire::{
    ClientOp, ClientReply, ClientRequest, FileLayout, FilePath, InodeStat, QuotaInfo,
    readdir_flags, setattr_mask,
};

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
/// Entries of a page, so that directories have several.
const PAGE: usize = 3;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) stat: InodeStat,
    pub(crate) data: Vec<u8>,
    pub(crate) xattrs: BTreeMap<Bytes, Bytes>,
}

/// Objects by path; a snapshot is a copy of all below `DIRECTORY//NAME`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fake {
    pub(crate) nodes: BTreeMap<String, Node>,
    open: BTreeMap<u64, String>,
    /// Clients by inode and byte that they have locked.
    locks: BTreeMap<(u64, u64), u64>,
    /// Clients that were evicted.
    evicted: BTreeSet<u64>,
    last_ino: u64,
    ids: u8,
    clients: u64,
    /// Commands to the monitors.
    pub(crate) commands: Vec<String>,
    /// Capabilities of each entity that there is; `None` if there is none.
    pub(crate) caps: Option<Value>,
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("paths of tests are text")
}

impl Fake {
    pub(crate) fn new() -> Self {
        let mut fake = Fake { last_ino: 1, ..Fake::default() };
        fake.make("", DIRECTORY | 0o755);
        fake
    }

    fn make(&mut self, path: &str, mode: u32) -> InodeStat {
        self.last_ino += 1;
        let layout = self.nodes.get(parent(path)).map(|node| node.stat.layout.clone());
        let layout = layout.unwrap_or_else(|| FileLayout::simple(PoolId(5)));
        let (ino, snap) = (self.last_ino, SnapId::HEAD.0);
        let stat = InodeStat { ino, snap, mode, nlink: 1, layout, ..InodeStat::default() };
        let node = Node { stat: stat.clone(), data: Vec::new(), xattrs: BTreeMap::new() };
        self.nodes.insert(path.to_owned(), node);
        stat
    }

    pub(crate) fn put(&mut self, path: &str, data: &str) {
        self.make(path, FILE | 0o644);
        let node = self.nodes.get_mut(path).expect("it was made");
        node.data = data.as_bytes().to_vec();
        node.stat.size = data.len() as u64;
        node.stat.mtime = UTime { seconds: 7, nanoseconds: 9 };
    }

    pub(crate) fn make_directory(&mut self, path: &str) {
        self.make(path, DIRECTORY | 0o711);
    }

    fn below(&self, path: &str) -> Vec<String> {
        let prefix = format!("{path}/");
        self.nodes.keys().filter(|known| known.starts_with(&prefix)).cloned().collect()
    }

    fn children(&self, path: &str) -> Vec<String> {
        let of = |known: &&String| parent(known) == path && !known.is_empty() && *known != path;
        let names = self
            .nodes
            .keys()
            .filter(of)
            .map(|known| known.rsplit('/').next().unwrap_or_default().to_owned());
        names.filter(|name| !name.is_empty()).collect()
    }

    fn stat(&self, path: &str) -> Result<InodeStat, Errno> {
        let node = self.nodes.get(path).ok_or(Errno::NOENT)?;
        let mut stat = node.stat.clone();
        if !node.xattrs.is_empty() {
            stat.xattrs = encode_xattrs(&node.xattrs);
        }
        Ok(stat)
    }

    fn free(&self, path: &str) -> Result<(), Errno> {
        let above = self.nodes.get(parent(path)).ok_or(Errno::NOENT)?;
        match (above.stat.mode & DIRECTORY, self.nodes.contains_key(path)) {
            (0, _) => Err(Errno::NOTDIR),
            (_, true) => Err(Errno::EXIST),
            _ => Ok(()),
        }
    }

    fn page(&self, path: &str, after: &str) -> Result<Bytes, Errno> {
        self.stat(path)?;
        let mut names = self.children(path);
        names.retain(|name| name.as_str() > after);
        let mut page = DirectoryPage { flags: 0, ..DirectoryPage::default() };
        if names.len() <= PAGE {
            page.flags = readdir_flags::FRAG_END;
        }
        for name in names.into_iter().take(PAGE) {
            let inode = self.stat(&format!("{path}/{name}"))?;
            page.entries.push(DirectoryEntry { name: name.into(), inode, ..Default::default() });
        }
        Ok(codec::encode_to_bytes(&page))
    }

    fn snapshots(&self, path: &str) -> Bytes {
        let prefix = format!("{path}//");
        let names = self.nodes.keys().filter_map(|known| known.strip_prefix(&prefix));
        let names = names.filter(|name| !name.contains('/'));
        let entries = names.map(|name| DirectoryEntry {
            name: name.to_owned().into(),
            ..DirectoryEntry::default()
        });
        let flags = readdir_flags::FRAG_END;
        codec::encode_to_bytes(&DirectoryPage {
            flags,
            entries: entries.collect(),
            ..DirectoryPage::default()
        })
    }

    fn take_snapshot(&mut self, path: &str) -> Result<(), Errno> {
        let directory = path.rsplit_once("//").ok_or(Errno::INVAL)?.0.to_owned();
        if self.nodes.contains_key(path) {
            return Err(Errno::EXIST);
        }
        let own = self.below(&directory).into_iter().filter(|known| !known.contains("//"));
        let all: Vec<String> = own.chain([directory.clone()]).collect();
        for known in all {
            let mut node = self.nodes[&known].clone();
            node.stat.snap = 3;
            self.nodes.insert(format!("{path}{}", &known[directory.len()..]), node);
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), Errno> {
        let node = self.nodes.get(from).ok_or(Errno::NOENT)?.clone();
        if node.stat.mode & DIRECTORY != 0 {
            self.free(to)?;
        }
        for known in self.below(from).into_iter().chain([from.to_owned()]) {
            let node = self.nodes.remove(&known).expect("it was listed");
            self.nodes.insert(format!("{to}{}", &known[from.len()..]), node);
        }
        Ok(())
    }

    fn set(&mut self, path: &str, request: &ClientRequest) -> Result<(), Errno> {
        let new: SetattrArguments = request.arguments.read();
        let stat = &mut self.nodes.get_mut(path).ok_or(Errno::NOENT)?.stat;
        if new.mask & setattr_mask::MODE != 0 {
            stat.mode = stat.mode & 0o170_000 | new.mode;
        }
        if new.mask & setattr_mask::UID != 0 {
            (stat.uid, stat.gid) = (new.uid, new.gid);
        }
        if new.mask & setattr_mask::MTIME != 0 {
            (stat.atime, stat.mtime) = (new.atime, new.mtime);
        }
        Ok(())
    }

    fn set_xattr(&mut self, path: &str, request: &ClientRequest) -> Result<(), Errno> {
        let node = self.nodes.get_mut(path).ok_or(Errno::NOENT)?;
        let (name, value) = (text(&request.path2.path), request.data.clone());
        match name.as_str() {
            "ceph.quota.max_bytes" => {
                let max_bytes = text(&value).parse().map_err(|_| Errno::INVAL)?;
                node.stat.quota = QuotaInfo { max_bytes, max_files: 0 };
            }
            "ceph.dir.layout.pool" => node.stat.layout.pool = PoolId(6),
            "ceph.dir.layout.pool_namespace" => node.stat.layout.namespace = text(&value),
            _ => drop(node.xattrs.insert(name.into(), value)),
        }
        Ok(())
    }

    /// The path of a request, which may name an inode alone.
    fn path(&self, request: &ClientRequest) -> Result<String, Errno> {
        let FilePath { ino, path } = &request.path;
        if *ino <= 1 {
            return Ok(text(path));
        }
        let mut known = self.nodes.iter().filter(|(path, _)| !path.contains("//"));
        let found = known.find(|(_, node)| node.stat.ino == *ino);
        found.map(|(path, _)| path.clone()).ok_or(Errno::STALE)
    }

    /// `ceph_filelock`
    fn lock_owner(&self, request: &ClientRequest) -> Bytes {
        let asked: FileLockArguments = request.arguments.read();
        let owner = self.locks.get(&(request.path.ino, asked.start)).copied();
        let mut w = codec::Writer::new();
        [asked.start, 1, owner.unwrap_or(0), 0, 0].iter().for_each(|value| w.u64(*value));
        w.u8(if owner.is_some() { 2 } else { 4 });
        w.into_bytes()
    }

    fn lock(&mut self, client: u64, ino: u64, place: u64) -> Result<(), Errno> {
        match *self.locks.entry((ino, place)).or_insert(client) == client {
            true => Ok(()),
            false => Err(Errno::AGAIN),
        }
    }

    /// Ends the session of a client, and its locks with it.
    fn evict(&mut self, client: u64) {
        self.evicted.insert(client);
        self.locks.retain(|_, owner| *owner != client);
    }

    fn request(&mut self, request: &ClientRequest) -> Result<ClientReply, Errno> {
        let (path, second) = (self.path(request)?, text(&request.path2.path));
        if path.split('/').any(|name| name.len() > 255) {
            return Err(Errno::NAMETOOLONG);
        }
        let mut reply = ClientReply::plain(request.op, 0, 0);
        match request.op {
            ClientOp::LOOKUP | ClientOp::GETATTR => reply.target = Some(self.stat(&path)?),
            ClientOp::READDIR => reply.extra = self.page(&path, &second)?,
            ClientOp::LSSNAP => reply.extra = self.snapshots(&path),
            ClientOp::MKSNAP => self.take_snapshot(&path)?,
            ClientOp::RMSNAP => {
                self.stat(&path)?;
                self.below(&path).iter().for_each(|known| drop(self.nodes.remove(known)));
                self.nodes.remove(&path);
            }
            ClientOp::MKDIR => {
                self.free(&path)?;
                reply.target = Some(self.make(&path, DIRECTORY | 0o755));
            }
            ClientOp::SYMLINK => {
                self.free(&path)?;
                reply.target = Some(self.make(&path, LINK | 0o777));
                let node = self.nodes.get_mut(&path).expect("it was made");
                node.stat.symlink = second.into();
            }
            ClientOp::LINK => {
                self.free(&path)?;
                let mut node = self.nodes.get(&second).ok_or(Errno::NOENT)?.clone();
                node.stat.nlink += 1;
                self.nodes.insert(second, node.clone());
                self.nodes.insert(path, node);
            }
            ClientOp::UNLINK | ClientOp::RMDIR => {
                let is_directory = self.stat(&path)?.mode & DIRECTORY != 0;
                if is_directory != (request.op == ClientOp::RMDIR) {
                    return Err(if is_directory { Errno::ISDIR } else { Errno::NOTDIR });
                }
                if !self.below(&path).is_empty() {
                    return Err(Errno::NOTEMPTY);
                }
                self.nodes.remove(&path);
            }
            ClientOp::GETFILELOCK => reply.extra = self.lock_owner(request),
            ClientOp::RENAME => self.rename(&second, &path)?,
            ClientOp::SETATTR => self.set(&path, request)?,
            ClientOp::SETXATTR => self.set_xattr(&path, request)?,
            ClientOp::CREATE | ClientOp::OPEN => {
                let stat = match request.op {
                    ClientOp::CREATE => {
                        self.free(&path)?;
                        self.make(&path, FILE | 0o600)
                    }
                    _ => self.stat(&path)?,
                };
                self.open.insert(stat.ino, path);
                reply.target = Some(stat);
            }
            _ => return Err(Errno::NOTSUPP),
        }
        Ok(reply)
    }

    fn node_of(&mut self, ino: u64) -> Result<&mut Node, Errno> {
        let path = self.open.get(&ino).ok_or(Errno::BADF)?;
        self.nodes.get_mut(path).ok_or(Errno::STALE)
    }

    fn call(&mut self, client: u64, call: Call) -> Result<Answer, Errno> {
        Ok(match call {
            Call::Lock { ino, place } => self.lock(client, ino, place).map(|()| Answer::Done)?,
            Call::Unlock { ino, place } => {
                self.locks.remove(&(ino, place));
                Answer::Done
            }
            Call::Request(request) => Answer::Reply(Box::new(self.request(&request)?)),
            Call::Read { ino, .. } => Answer::Data(self.node_of(ino)?.data.clone().into()),
            Call::Write { ino, offset, data } => {
                let node = self.node_of(ino)?;
                let end = offset as usize + data.len();
                node.data.resize(node.data.len().max(end), 0);
                node.data[offset as usize..end].copy_from_slice(&data);
                node.stat.size = node.data.len() as u64;
                Answer::Done
            }
            Call::ReadSnapshotRange { stat, offset, length } => {
                let of = |node: &&Node| node.stat.ino == stat.ino && node.stat.snap == stat.snap;
                let node = self.nodes.values().find(of).ok_or(Errno::NOENT)?;
                let end = (offset + length).min(node.data.len() as u64);
                Answer::Data(node.data[offset as usize..end as usize].to_vec().into())
            }
            _ => Answer::Done,
        })
    }

    fn inputs(&mut self) -> Inputs {
        self.ids += 2;
        let id = |number: u8| Uuid::from_entropy([number; 16]);
        Inputs { now: UTime::ZERO, ids: [id(self.ids), id(self.ids + 1)] }
    }

    /// Runs a procedure; `None` if it was ended after so many requests.
    pub(crate) fn run<T>(&mut self, mut procedure: Procedure<T>, most: usize) -> Option<T> {
        self.clients += 1;
        let client = self.clients;
        for _ in 0..most {
            if let Some(outcome) = self.step(client, &mut procedure) {
                return Some(outcome);
            }
        }
        let outcome = self.step(client, &mut procedure);
        self.evict(client);
        outcome
    }

    /// Answers one request of a procedure that a client runs; returns its outcome if it is over. It goes no
    /// further if the client was evicted.
    pub(crate) fn step<T>(&mut self, client: u64, procedure: &mut Procedure<T>) -> Option<T> {
        if let Some(outcome) = procedure.poll_outcome() {
            return Some(outcome);
        }
        procedure.check_invariants();
        if self.evicted.contains(&client) {
            return None;
        }
        let (id, request) = procedure.poll_request().expect("a procedure asks");
        let response = match request {
            Request::Call(call) => Response::Call(self.call(client, call)),
            Request::Lock | Request::Unlock => Response::Done,
            Request::Command(Target::Server, command) => {
                let filter = command["filters"][0].as_str().unwrap_or_default();
                let evicted = filter.strip_prefix("id=").and_then(|id| id.parse().ok());
                evicted.into_iter().for_each(|client| self.evict(client));
                Response::Command(Ok(Bytes::new()))
            }
            Request::Command(Target::Monitors, command) => {
                self.commands.push(command.to_string());
                let is_get = command["prefix"] == "auth get";
                let missing = (Errno::NOENT, "no such entity".to_owned());
                let told = self.caps.as_ref().map(|caps| json!([{ "caps": caps }]).to_string());
                let told = told.map(Bytes::from).ok_or(missing);
                Response::Command(if is_get { told } else { Ok(Bytes::from("key\n")) })
            }
        };
        procedure.handle_response(id, response);
        procedure.poll_outcome()
    }

    /// The procedure of a command.
    pub(crate) fn begin(&mut self, prefix: &str, arguments: &[(&str, &str)]) -> Procedure<Outcome> {
        let inputs = self.inputs();
        Self::order(prefix, arguments).procedure(inputs)
    }

    /// The procedure of the only job that there is.
    pub(crate) fn begin_job(&mut self) -> Procedure<Result<(), Failure>> {
        let inputs = self.inputs();
        let jobs = self.run(scan(inputs), usize::MAX).expect("it runs to its end");
        let job = jobs.expect("a search succeeds").remove(0);
        let inputs = self.inputs();
        job.procedure(Self::order("", &[]).volume, inputs)
    }

    fn order(prefix: &str, arguments: &[(&str, &str)]) -> Order {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let pool = |id, name: &str| Pool { id, name: name.to_owned(), ..Pool::default() };
        let volume = Volume {
            name: "v".to_owned(),
            data_pools: vec![pool(5, "data"), pool(6, "fast")],
            ..Volume::default()
        };
        let arguments = arguments.iter().map(pair).collect();
        Order { prefix: prefix.to_owned(), arguments, volume }
    }

    /// Carries out a command, but at most so many requests of it.
    pub(crate) fn some_of(
        &mut self,
        most: usize,
        prefix: &str,
        arguments: &[(&str, &str)],
    ) -> Option<Outcome> {
        let inputs = self.inputs();
        let outcome = self.run(Self::order(prefix, arguments).procedure(inputs), most);
        self.open.clear();
        outcome
    }

    /// Carries out a command; returns its output.
    pub(crate) fn ask(
        &mut self,
        prefix: &str,
        arguments: &[(&str, &str)],
    ) -> Result<String, Errno> {
        let outcome = self.some_of(usize::MAX, prefix, arguments).expect("it runs to its end");
        outcome.map(|printed| printed.output).map_err(|failure| failure.errno)
    }

    /// Does the jobs that there are, but at most so many requests of each.
    pub(crate) fn work(&mut self, most: usize) {
        let inputs = self.inputs();
        let jobs = self.run(scan(inputs), usize::MAX).expect("it runs to its end");
        for job in jobs.expect("a search succeeds") {
            self.job(job, most);
        }
    }

    fn job(&mut self, job: Job, most: usize) {
        let inputs = self.inputs();
        let volume = Self::order("", &[]).volume;
        if let Some(done) = self.run(job.procedure(volume, inputs), most) {
            done.expect("a job succeeds");
        }
        self.open.clear();
    }
}
