//! Jobs that read rows, their requests to members, and reads of our own store.

use super::client::ClientRead;
use super::content::{Content, ShardContent};
use super::ranges::RowSet;
use crate::Member;
use crate::message::{NoRows, ShardRows};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{EVersion, HObject};

/// The purpose of a job. At most one job has it at a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// Old rows that a write of this version needs.
    Write(EVersion),
    /// A client's read with this ticket.
    Client(u64),
    /// The recovery or backfill of the job's object.
    Recovery,
}

/// The versions that the shards of a job may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Versions {
    /// Any that is not older than what the member has settled: writes of the object may be in flight, but
    /// none changes the wanted rows. Nothing is decoded.
    Each,
    /// This one. No write of the object is in flight. Zero stands for one that is not known, and is the same
    /// for all.
    Same(EVersion),
}

/// Rows to read of one object.
#[derive(Debug, Clone)]
pub(crate) struct RowRequest {
    /// Returns with the result.
    pub purpose: Purpose,
    /// The object.
    pub object: HObject,
    /// The rows of each shard, by position.
    pub wanted: BTreeMap<usize, RowSet>,
    /// Members that have the object, or may have it, in order of preference. Several may have the same shard.
    pub sources: Vec<Member>,
    /// See there.
    pub versions: Versions,
    /// Whether the object's attributes are wanted, too. They are the same on all shards.
    pub with_attrs: bool,
}

/// The reason why a job has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failed {
    /// A row must be decoded, and shards of the object may have different versions now.
    MustDecode,
    /// Fewer shards than it takes can be read.
    TooFew,
    /// All members that were asked say that they do not have the object.
    Absent,
}

/// The end of a job.
#[derive(Debug)]
pub(crate) struct Done {
    /// The request.
    pub request: RowRequest,
    /// The wanted rows, or the reason why there are none.
    pub outcome: Result<Content, Failed>,
    /// Members that do not have the object in its version, or cannot read it, although they should.
    pub bad: Vec<Member>,
}

/// Rows that are being read. The end of an interval drops them; the numbers go on.
#[derive(Debug, Default)]
pub(crate) struct RowReads {
    /// The newest number of a job or request.
    last: u64,
    pub(super) jobs: BTreeMap<u64, Job>,
    /// Requests to members, and to our own store, by number.
    pub(super) asked: BTreeMap<u64, Asked>,
    /// Reads of our own store, for us or another member, by number.
    pub(super) local: BTreeMap<u64, Local>,
    /// Reads that wait until changes up to a version are visible.
    pub(super) unsettled: Vec<(u64, Local, EVersion)>,
    /// Strays whose logs are parts of ours, and the ends of these. They may settle what is committed of them.
    pub(super) strays: BTreeMap<Member, EVersion>,
    /// Jobs that have ended, in order.
    pub(super) done: VecDeque<Done>,
    /// Reads of clients, by ticket.
    clients: BTreeMap<u64, ClientRead>,
}

/// A job in progress.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) request: RowRequest,
    /// Sources that are left out.
    pub failed: BTreeSet<Member>,
    /// Sources that are left out because they say that they do not have the object.
    pub absent: usize,
    /// The version of the rows that are here; `None` before the first answer.
    pub version: Option<EVersion>,
    pub(super) attrs: Option<BTreeMap<Bytes, Bytes>>,
    /// Rows that were read, and the members they are from.
    pub shards: BTreeMap<usize, (Member, ShardContent)>,
    /// Answers with another version so far.
    pub mismatches: u32,
    /// See [`Done::bad`].
    pub bad: Vec<Member>,
}

/// A request for rows of one shard.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) job: u64,
    pub(super) member: Member,
    pub(super) rows: RowSet,
    /// The member must have this version of the object, or a later one.
    pub(super) least: EVersion,
    /// Whether the member may lack the object, as its creation is not settled.
    pub(super) may_be_absent: bool,
}

/// The reader of rows of our own store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A primary, with the number of its request.
    Primary(Member, u64),
    /// A job, whose request has the number of the read.
    Job,
    /// A write of this version, whose old rows are all of our shard.
    Write(EVersion),
    /// A delta of our parity, which needs the old rows.
    Delta,
    /// A transfer of changed rows, which needs the version of the others.
    Transfer,
}

/// The end of a read for another part of this copy.
#[derive(Debug)]
pub(crate) struct OwnRows {
    /// Neither a primary nor a job.
    pub reader: Reader,
    /// The number that [`super::read_own`] has returned.
    pub number: u64,
    /// The rows, or the reason why there are none.
    pub outcome: Result<ShardRows, NoRows>,
}

/// A read of our own store.
#[derive(Debug)]
pub(super) struct Local {
    /// Takes the rows.
    pub reader: Reader,
    pub(super) object: HObject,
    pub(super) ranges: Vec<(u64, u64)>,
    pub(super) with_attrs: bool,
    /// Version, bytes of the shard, and attributes.
    pub meta: Option<(EVersion, u64, BTreeMap<Bytes, Bytes>)>,
    pub(super) data: Vec<Option<Bytes>>,
    /// Reads that failed, and were begun again.
    pub failures: u32,
    /// The shard was being replaced while a part was read: what was read may be of neither content.
    pub is_replaced: bool,
}

impl RowReads {
    /// Drops all reads. Answers and completions are ignored.
    pub fn clear(&mut self) {
        self.jobs.clear();
        self.asked.clear();
        self.local.clear();
        self.unsettled.clear();
        self.strays.clear();
        self.done.clear();
        self.clients.clear();
    }

    /// Drops jobs of this purpose on an object.
    pub fn stop(&mut self, purpose: &Purpose, object: &HObject) {
        let is_meant = |job: &Job| job.request.purpose == *purpose && job.request.object == *object;
        self.jobs.retain(|_, job| !is_meant(job));
        self.asked.retain(|_, asked| self.jobs.contains_key(&asked.job));
        let is_meant =
            |done: &Done| done.request.purpose == *purpose && done.request.object == *object;
        self.done.retain(|done| !is_meant(done));
    }

    /// Notes a stray whose log ends at this version and is a part of ours.
    pub fn note_stray(&mut self, stray: Member, head: EVersion) {
        self.strays.insert(stray, head);
    }

    /// The next job that has ended.
    pub fn take_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// Adds a client's read.
    pub fn add_client(&mut self, ticket: u64, read: ClientRead) {
        let before = self.clients.insert(ticket, read);
        assert!(before.is_none(), "a ticket belongs to one read");
    }

    /// Takes a client's read.
    pub fn take_client(&mut self, ticket: u64) -> Option<ClientRead> {
        self.clients.remove(&ticket)
    }

    /// The number of a new job or request.
    pub(super) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl Job {
    /// A job that has read nothing.
    pub fn new(request: RowRequest) -> Self {
        Job {
            request,
            failed: BTreeSet::new(),
            absent: 0,
            version: None,
            attrs: None,
            shards: BTreeMap::new(),
            mismatches: 0,
            bad: Vec::new(),
        }
    }

    /// Leaves out a source, with its rows.
    pub fn leave_out(&mut self, member: Member) {
        self.failed.insert(member);
        self.shards.retain(|_, (from, _)| *from != member);
    }

    /// The first source that is not left out.
    pub fn first_source(&self) -> Option<Member> {
        self.request.sources.iter().find(|source| !self.failed.contains(source)).copied()
    }

    /// Whether all sources that are left out say that they do not have the object, and there are some.
    pub fn is_absent(&self) -> bool {
        self.absent > 0 && self.absent == self.failed.len()
    }

    /// Drops all rows, to read them again.
    pub fn restart(&mut self) {
        self.shards.clear();
        self.version = None;
        self.attrs = None;
    }
}
