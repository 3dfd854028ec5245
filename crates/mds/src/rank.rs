//! One rank: its tree, its clients' sessions and capabilities, and requests in progress.
//!
//! A request is planned, demands its inodes from other clients, and waits until they have given back what
//! contradicts it; then it is planned again, executed, and answered. A request that is sent again while it
//! waits is not executed twice.

mod answers;
mod asynchronous;
mod client_caps;
mod client_sessions;
pub(crate) mod cutting;
pub(crate) mod evictions;
mod messages;
mod outbox;
pub(crate) mod purging;
mod quotas;
mod realms;
pub(crate) mod reconnect;
mod replay;
pub(crate) mod shown;
pub(crate) mod snapshots;
mod space;
mod waiting;

use crate::awaited::Awaited;
use crate::caps;
use crate::change::Change;
use crate::cuts::Cuts;
use crate::file_locks::{LockAnswer, LockRequests};
use crate::layouts::DataPools;
use crate::log::Log;
use crate::permissions::Permissions;
use crate::plan::{Plan, Planner, Shown};
use crate::purges::{Purge, Purges};
use crate::replies::snap_context;
use crate::rows::{RowQueue, RowWrite};
use crate::sessions::Sessions;
use bytes::Bytes;
use engine::{Duration, Message, Time};
use fscaps::{Admission, Issue, LockMachine, RequestId, Settings};
use maps::MdsMap;
use namespace::{AttributeChange, Context, Done, Ino, Inode, Operation, SetAttributes, Tree};
use outbox::Outbox;
use std::collections::{BTreeSet, VecDeque};
use types::{Epoch, Errno, PoolId, SnapId, features};
use waiting::{Waiting, WaitingRequests};
use wire::client_request::SetxattrArguments;
use wire::{CapBits, ClientOp, ClientReply, ClientRequest, FileLayout, MessageBody};

/// Requests that wait for maps, and those of one client. Further ones are refused with EINVAL.
const BEHIND_MAX: usize = 1024;
const BEHIND_OF_ONE_MAX: usize = 16;
/// Inode numbers that one record lets the rank use.
const NUMBERS_AT_ONCE: u64 = 4096;

/// The first number for inodes of a run: behind those of earlier runs, whose trees are lost while the data of
/// their files is still there, unless those made more than 4,096 inodes in each second.
fn first_ino(now: Time) -> Ino {
    const START_OF_2026: u32 = 1_767_225_600;
    let seconds = now.wall().seconds.saturating_sub(START_OF_2026);
    Ino(Ino::FIRST.0 + (u64::from(seconds) << 12))
}

/// Values of the map of metadata servers.
#[derive(Debug)]
struct MapValues {
    epoch: u32,
    /// Layout of files below directories without one.
    layout: FileLayout,
    /// Pools that layouts may name, where files may be.
    pools: DataPools,
    /// Most bytes of a file.
    max_file_size: u64,
    /// Whether clients may unlink asynchronously.
    asynchronous_unlinks: bool,
    /// Requests that wait for maps which their clients have already.
    behind: BTreeSet<RequestId>,
}

/// When a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyTime {
    /// It has changed nothing: when the changes of others are durable that the reply may show.
    ShowsOthers,
    /// When its own change is durable.
    Safe,
    /// Twice: when changes of others are durable, and when its own one is.
    Early,
}

/// Results of a request's changes.
#[derive(Debug, Clone, Copy, Default)]
struct Made {
    /// The inode that it has created; 0 for none.
    created: u64,
    /// The snapshot that it has taken, removed or renamed.
    snapshot: Option<SnapId>,
}

/// An executed request.
#[derive(Debug)]
struct Executed {
    shown: Shown,
    /// The inode that it has created; 0 for none.
    created: u64,
    reply: ReplyTime,
}

/// A rank that serves clients.
#[derive(Debug)]
pub struct Rank {
    tree: Tree,
    sessions: Sessions,
    permissions: Permissions,
    caps: LockMachine,
    waiting: WaitingRequests,
    /// Those for which others have given back what they need.
    ready: VecDeque<RequestId>,
    locks: LockRequests,
    /// Time of the input that is handled.
    now: Time,
    next_ino: Ino,
    /// Inode numbers below this one were used by predecessors, as far as they were told to anyone.
    inherited: Ino,
    map: MapValues,
    log: Log,
    /// Data of files that are gone.
    purges: Purges,
    /// Data of files that were cut.
    cuts: Cuts,
    /// Inode numbers below this one may be used, by a record.
    numbers: Ino,
    /// Clients that are awaited after a take-over.
    awaited: Option<Awaited>,
    /// Clients that must be evicted, and were not yet.
    evicting: BTreeSet<u64>,
    /// Those of them of which messages are lost: what they send now is without effect.
    unheard: BTreeSet<u64>,
    /// The OSD map that shuts out the clients that were evicted.
    barrier: Epoch,
    /// Messages to clients that wait until records are durable.
    outbox: Outbox,
}

impl Rank {
    /// A rank with an empty root directory. Files go to `data_pool`.
    pub fn new(now: Time, data_pool: PoolId) -> Self {
        Rank {
            tree: Tree::new(now.wall()),
            sessions: Sessions::default(),
            permissions: Permissions::default(),
            caps: LockMachine::new(Settings::default()),
            waiting: WaitingRequests::default(),
            ready: VecDeque::new(),
            locks: LockRequests::default(),
            now,
            next_ino: first_ino(now),
            inherited: Ino::FIRST,
            map: MapValues {
                epoch: 0,
                layout: FileLayout::simple(data_pool),
                pools: DataPools::default(),
                max_file_size: MdsMap::default().max_file_size,
                asynchronous_unlinks: true,
                behind: BTreeSet::new(),
            },
            log: Log::default(),
            purges: Purges::default(),
            cuts: Cuts::default(),
            numbers: Ino::FIRST,
            awaited: None,
            evicting: BTreeSet::new(),
            unheard: BTreeSet::new(),
            barrier: Epoch::default(),
            outbox: Outbox::default(),
        }
    }

    /// The map, and the epoch of it that replies name.
    pub fn set_map(&mut self, epoch: u32, map: &MdsMap) {
        self.map.epoch = epoch;
        self.set_file_system(&map.fs_name);
        self.set_max_file_size(map.max_file_size);
    }

    /// The maps are newer, or show other pools that layouts may name.
    pub(crate) fn set_data_pools(&mut self, pools: &DataPools) {
        if self.map.pools != *pools {
            self.map.pools = pools.clone();
            if pools.is_short {
                self.stop_acting();
            }
            self.ready.extend(std::mem::take(&mut self.map.behind));
            if self.awaited.is_none() {
                self.log.set_author(None);
                self.settle();
            }
        }
    }

    /// The name of the file system, to which capabilities of clients may be limited.
    pub fn set_file_system(&mut self, name: &str) {
        self.permissions.set_file_system(name);
    }

    /// The greatest size that the map allows for a file. Larger ones stay as they are.
    pub fn set_max_file_size(&mut self, bytes: u64) {
        self.map.max_file_size = bytes;
    }

    /// Whether clients may unlink asynchronously, by the capabilities that they get from now on. They may
    /// until this is called.
    pub fn set_asynchronous_unlinks(&mut self, may: bool) {
        self.map.asynchronous_unlinks = may;
    }

    /// Times of the map for clients that are not heard of. Clients renew their sessions by the first of them.
    pub fn set_session_times(&mut self, timeout: Duration, autoclose: Duration) {
        self.caps.set_session_times(timeout, autoclose);
    }

    /// Sets the time at which messages are sent: they may have waited until something was durable.
    pub(crate) fn set_now(&mut self, now: Time) {
        self.now = self.now.max(now);
    }

    /// The next message and the client that it is for. A client sees nothing that a crash could undo, but for
    /// changes of its own, which it would ask for again.
    pub fn poll_output(&mut self) -> Option<(u64, Message)> {
        let (client, message) = self.outbox.poll(self.log.durable())?;
        if message.kind == ClientReply::KIND {
            self.sessions.latencies.replied(self.now, RequestId { client, tid: message.tid });
        }
        Some((client, message))
    }

    /// The last record that should be stored without delay: a client waits for it.
    pub(crate) fn awaited(&self) -> u64 {
        self.outbox.awaited()
    }

    /// Its tree.
    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Purges in memory.
    #[cfg(test)]
    pub(crate) fn purge_count(&self) -> usize {
        self.purges.len()
    }

    /// Numbers that clients may use.
    #[cfg(test)]
    pub(crate) fn delegated_numbers(&self) -> BTreeSet<u64> {
        let sessions = self.sessions.iter();
        sessions.flat_map(|(_, session)| session.image().delegated.numbers()).collect()
    }

    /// Features of a client's session; none without one.
    #[cfg(test)]
    pub(crate) fn features_of(&self, client: u64) -> u64 {
        self.sessions.get(client).map_or(0, |session| session.features())
    }

    /// Only so many inode numbers may be used before further ones are reserved.
    #[cfg(test)]
    pub(crate) fn leave_numbers(&mut self, count: u64) {
        self.next_ino = Ino(self.numbers.0 - count);
    }

    /// The log of its changes.
    pub(crate) fn log_mut(&mut self) -> &mut Log {
        &mut self.log
    }

    /// Inode numbers below this one may be used.
    pub(crate) fn numbers(&self) -> u64 {
        self.numbers.0
    }

    /// The next rows of a checkpoint, and the LSN that must be durable before they are written.
    pub(crate) fn next_rows(&mut self, rank: u32, queue: &mut RowQueue) -> Option<(u64, RowWrite)> {
        let lsn = self.log.close();
        let write = queue.next(rank, &self.tree, &self.log, &self.sessions, &self.purges)?;
        Some((lsn, write))
    }

    /// When `handle_timeout` should be called. While clients are awaited, `reconnect` has its own timeouts.
    pub fn poll_timeout(&self) -> Option<Time> {
        let due =
            self.caps.poll_timeout().into_iter().chain(self.sessions.quotas.poll_timeout()).min();
        due.filter(|_| self.awaited.is_none())
    }

    /// Looks for leases that have ended and for clients that are silent or late.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.awaited.is_some() {
            return;
        }
        self.now = now;
        self.log.set_author(None);
        self.caps.handle_timeout(now);
        self.settle();
    }

    /// Panics if the parts of the rank contradict each other.
    pub fn check_invariants(&self) {
        self.tree.check_invariants();
        self.caps.check_invariants();
        self.locks.check_invariants();
        self.waiting.check_invariants();
        for ino in self.tree.pending_cuts().into_iter().filter(|_| self.log.is_stored()) {
            assert!(self.cuts.is_pending(ino.0), "the cut of {ino} is known");
        }
    }

    /// Sends a message when all changes so far are durable.
    fn send(&mut self, client: u64, message: Message) {
        let lsn = self.log.close();
        self.outbox.send(client, lsn, message);
    }

    /// Sends a message when all changes of others are durable: it may show the client its own ones early.
    fn send_early(&mut self, client: u64, message: Message) {
        let lsn = self.log.foreign_to(client);
        self.outbox.send(client, lsn, message);
    }

    /// Tells a client that its changes so far are durable, when they are.
    fn send_late(&mut self, client: u64, message: Message) {
        let lsn = self.log.close();
        self.outbox.send_late(client, lsn, message);
    }

    fn handle_request(&mut self, client: u64, tid: u64, request: ClientRequest) {
        self.sessions.counted.requests += 1;
        self.sessions.latencies.arrived(self.now, RequestId { client, tid });
        let session = self.sessions.get_mut(client).expect("the session was checked");
        session.forget_completed(request.oldest_client_tid);
        if let Some(error) = session.failed(tid) {
            return self.answer_failed(RequestId { client, tid }, &request, error);
        }
        let completed = session.completed(tid);
        if let Some(created) = completed
            && (request.has_early_reply() || self.tree.get(Ino(created)).is_none())
        {
            self.sessions.counted.replies += 1;
            // Linux waits for the inode of a create on which it has acted, or for an error.
            let is_create = request.op == ClientOp::CREATE && request.is_asynchronous();
            if is_create && !request.has_early_reply() {
                let gone = Errno::STALE.negative();
                let reply = ClientReply::plain(request.op, gone, self.map.epoch);
                return self.send(client, reply.encode(0).with_tid(tid));
            }
            let extra = self.created(client, created, Vec::new());
            let reply = ClientReply::plain(request.op, 0, self.map.epoch);
            return self.send(client, ClientReply { extra, ..reply }.encode(0).with_tid(tid));
        }
        let id = RequestId { client, tid };
        if self.waiting.has(id) {
            // It was sent again by a new connection, to which the reply will go.
            return;
        }
        if completed.is_none() && self.has_foreign_number(client, &request) {
            return self.refuse_number(client, request.ino);
        }
        self.sessions.counted.asynchronous += u64::from(request.is_asynchronous());
        for release in &request.releases {
            self.caps.handle_update(self.now, &caps::returned_in_request(client, release));
            let entry = caps::entry(Ino(release.ino), &release.name);
            self.caps.handle_lease_released(client, &entry, None);
        }
        let (tree, permissions) = (&self.tree, &self.permissions);
        let check = |ino| {
            let held = || caps::held(&self.caps, client, ino);
            permissions.check_access(tree, client, &request, ino, held)
        };
        match self.locks.handle(tree, id, &request, check) {
            Some(answers) => self.answer_lock_requests(answers),
            // A client that has created a file relies on the capabilities of the reply, also of a second one.
            None => {
                let (since, created) = (self.now, completed.map(Ino));
                let task = self.sessions.counted.requests;
                let (concerned, meant) = (Vec::new(), None);
                let waiting = Waiting { request, since, created, task, concerned, meant };
                if let Some(waiting) = self.keep_order(id, waiting) {
                    self.run(id, waiting);
                }
            }
        }
    }

    fn answer_lock_requests(&mut self, answers: Vec<LockAnswer>) {
        for LockAnswer { id, op, result } in answers {
            self.sessions.counted.replies += 1;
            self.show_barrier(id.client);
            let (code, extra) = match result {
                Ok(extra) => (0, extra),
                Err(error) => (error.negative(), Bytes::new()),
            };
            let reply = ClientReply { extra, ..ClientReply::plain(op, code, self.map.epoch) };
            self.send_early(id.client, reply.encode(0).with_tid(id.tid));
        }
    }

    fn planned(
        &self,
        client: u64,
        request: &ClientRequest,
        created: Option<Ino>,
    ) -> Result<Plan, Errno> {
        let planner = self.planner(client, request);
        match created {
            // It was allowed, and may have made a file that it may not open again.
            Some(created) => planner.show_again(request, created),
            None => self.check(client, request, planner.plan(request)?),
        }
    }

    /// Executes a request, or keeps it until other clients have given back what it needs.
    fn run(&mut self, id: RequestId, waiting: Waiting) {
        self.log.set_author(Some(id.client));
        let Some(waiting) = self.admit(id, waiting) else { return };
        let Waiting { request, created, task, .. } = &waiting;
        let mut plan = match self.planned(id.client, request, *created) {
            Ok(plan) => plan,
            Err(Errno::INVAL) if self.is_behind(id.client, request) => {
                // Others go on meanwhile; it demands again with the next map.
                self.caps.end_request(self.now, id, &[]);
                self.map.behind.insert(id);
                self.waiting.insert(id, waiting);
                return;
            }
            Err(_) if self.waits_for_names(id, request) => {
                self.waiting.insert(id, waiting);
                return;
            }
            Err(error) => {
                // The snapshot may have been removed while it waited as a task.
                self.caps.end_request(self.now, RequestId::task(*task), &[]);
                return self.finish(id, request, Err(error));
            }
        };
        // Its own client, too, may have changes that a snapshot shows.
        let shows_snapshot =
            plan.shown.snapshot.as_ref().is_some_and(|snapshot| snapshot.snap.is_some());
        let is_task = self.demand_stop(&mut plan) || shows_snapshot;
        let demanding = if is_task { RequestId::task(*task) } else { id };
        if !is_task {
            self.caps.end_request(self.now, RequestId::task(*task), &[]);
        }
        match self.caps.handle_request(self.now, demanding, std::mem::take(&mut plan.demand)) {
            Admission::Ready => {
                if is_task {
                    self.caps.end_request(self.now, demanding, &[]);
                }
                if let Some(ino) = self.unfinished_cut(&plan) {
                    // Others go on meanwhile; it demands again when the cut is done.
                    self.caps.end_request(self.now, id, &[]);
                    self.cuts.wait(ino, id);
                    self.waiting.insert(id, waiting);
                    return;
                }
            }
            Admission::Waits => return self.waiting.insert(id, waiting),
            Admission::Refused => return self.finish(id, request, Err(Errno::AGAIN)),
        }
        if request.has_early_reply() {
            // The client takes nothing of the reply, so it must not hold what that would give.
            plan.shown = Shown::default();
        }
        let may_be_early = self.may_be_early(request, &plan);
        let result = self.perform(id, request, &plan);
        let again = created.map_or(0, |ino| ino.0);
        if let (Ok(made), Some(snapshot)) = (&result, &mut plan.shown.snapshot) {
            snapshot.snap = snapshot.snap.or(made.snapshot);
        }
        let result = result.map(|made| Executed {
            shown: plan.shown,
            created: made.created.max(again),
            reply: match (created.is_some() || !plan.operations.is_empty(), may_be_early) {
                (false, _) => ReplyTime::ShowsOthers,
                (true, false) => ReplyTime::Safe,
                (true, true) => ReplyTime::Early,
            },
        });
        self.finish(id, request, result);
    }

    fn may_be_early(&self, request: &ClientRequest, plan: &Plan) -> bool {
        plan.may_be_early()
            && !request.has_early_reply()
            && !plan.operations.iter().any(|operation| self.may_renumber(operation))
    }

    /// Whether a request may be right by maps that its client has, and the server has not.
    fn is_behind(&self, client: u64, request: &ClientRequest) -> bool {
        let osd_epoch = match request.op {
            ClientOp::SETXATTR => request.arguments.read::<SetxattrArguments>().osdmap_epoch,
            ClientOp::SETLAYOUT | ClientOp::SETDIRLAYOUT | ClientOp::CREATE => 0,
            _ => return false,
        };
        let DataPools { map_epoch, osd_epoch: own, .. } = self.map.pools;
        // A rank that is not stored has no OSD map.
        let is_newer = request.map_epoch > map_epoch || own.0 > 0 && osd_epoch > own.0;
        is_newer && self.has_room_behind(client)
    }

    fn has_room_behind(&self, client: u64) -> bool {
        let own = RequestId { client, tid: 0 }..=RequestId { client, tid: u64::MAX };
        let behind = &self.map.behind;
        behind.len() < BEHIND_MAX && behind.range(own).count() < BEHIND_OF_ONE_MAX
    }

    /// A file that a plan cuts and that has not all its objects cut as the last truncation says.
    fn unfinished_cut(&self, plan: &Plan) -> Option<u64> {
        plan.operations.iter().find_map(|operation| {
            let Operation::Change { ino, change } = operation else { return None };
            let AttributeChange::Set(SetAttributes { size: Some(size), .. }) = &**change else {
                return None;
            };
            let is_cut = self.tree.get(*ino).is_some_and(|inode| *size < inode.size);
            (is_cut && self.cuts.is_pending(ino.0)).then_some(ino.0)
        })
    }

    /// The plan, if the client's capabilities allow it and there is room for what it adds.
    fn check(&self, client: u64, request: &ClientRequest, plan: Plan) -> Result<Plan, Errno> {
        let held = |ino| caps::held(&self.caps, client, ino);
        self.permissions.check(&self.tree, client, request, &plan, held)?;
        space::check(self.map.pools.is_full, request, &plan).map(|()| plan)
    }

    /// Bits that a client may have on an inode at all, with those that it wants by a request that was
    /// checked.
    fn allowed(&self, client: u64, ino: Ino, wanted: CapBits) -> CapBits {
        let held = || caps::held(&self.caps, client, ino);
        let opened = wanted.contains(CapBits::FILE_WRITE);
        let allowed = self.permissions.allowed(&self.tree, client, ino, held, opened);
        let is_directory = || self.tree.get(ino).is_some_and(Inode::is_directory);
        match self.map.asynchronous_unlinks || !is_directory() {
            true => allowed,
            false => allowed - CapBits::FILE_READ,
        }
    }

    /// A capability for a client that wants these bits by a request that was checked.
    fn issue_of(&self, client: u64, inode: &Inode, wanted: CapBits) -> Issue {
        let may_delegate = self.may_delegate(client, inode);
        let allowed = self.allowed(client, inode.ino, wanted);
        Issue { may_delegate, ..caps::issue_of(inode, client, wanted, allowed) }
    }

    fn planner(&self, client: u64, request: &ClientRequest) -> Planner<'_> {
        let next_ino = self.told_ino(client, request).unwrap_or(self.next_ino);
        let MapValues { layout: default_layout, pools, max_file_size, .. } = &self.map;
        let max_file_size = *max_file_size;
        Planner { tree: &self.tree, next_ino, default_layout, pools, max_file_size, client }
    }

    /// The number for the inode that a request creates, if its client knows it: it was delegated to the
    /// client, or a predecessor has told it. One that the inode cannot have is that of another inode, or was
    /// not given to anyone.
    fn told_ino(&self, client: u64, request: &ClientRequest) -> Option<Ino> {
        let told = Ino(request.ino);
        let is_used = self.tree.get(told).is_some() || self.purges.has(told.0);
        if is_used || !request.is_replayed() {
            return None;
        }
        if self.has_number(client, told) {
            return Some(told);
        }
        let awaited = self.awaited.as_ref().filter(|_| request.has_early_reply())?;
        let was_given = (Ino::FIRST..self.inherited).contains(&told);
        let is_others =
            awaited.is_claimed_by_another(client, told) || self.is_number_delegated(told);
        (was_given && !is_others).then_some(told)
    }

    /// Changes the tree. The changes are stored with the note that the request is completed, so that a
    /// successor does not execute it again.
    fn perform(
        &mut self,
        id: RequestId,
        request: &ClientRequest,
        plan: &Plan,
    ) -> Result<Made, Errno> {
        self.log.begin_group();
        let made = self.change_and_complete(id, request, plan);
        self.log.end_group();
        made
    }

    fn change_and_complete(
        &mut self,
        id: RequestId,
        request: &ClientRequest,
        plan: &Plan,
    ) -> Result<Made, Errno> {
        let (uid, gid) = request.owner();
        let context = Context { now: request.stamp, uid, gid };
        let (mut created, mut snapshot) = (0, None);
        for operation in &plan.operations {
            let Done { orphan, snapshot: changed, .. } = self.execute(operation, &context)?;
            snapshot = snapshot.or(changed);
            self.tend_truncation(operation, id.client);
            if let Operation::Create { new, .. } = operation {
                created = new.ino.0;
                self.number_used(new.ino);
            }
            orphan.into_iter().for_each(|orphan| self.forget_unused(orphan));
        }
        if !plan.operations.is_empty() {
            let RequestId { client, tid } = id;
            let oldest = request.oldest_client_tid;
            let session = self.sessions.get_mut(client).expect("a request has a session");
            session.complete(tid, created, oldest);
            let completed = Change::Completed { client, tid, created, oldest };
            self.log.change_session(client, &completed);
            // The client learns that nothing is left before it is told that it may go on.
            self.tell_quotas();
        }
        Ok(Made { created, snapshot })
    }

    /// Whether an operation may change the numbers by which clients write. They must not be given out again,
    /// so a client is told of them when they are durable.
    fn may_renumber(&self, operation: &Operation) -> bool {
        let is_realm = |directory: Ino, name: &Bytes| {
            let inode = self.tree.entry(directory, name).and_then(|entry| self.tree.get(entry.ino));
            inode.is_some_and(|inode| inode.policy.realm.is_some())
        };
        !self.tree.existing_snaps().is_empty()
            && match operation {
                Operation::Rename { from, to } => from.0 != to.0 || is_realm(to.0, &to.1),
                Operation::Unlink { directory, name } => is_realm(*directory, name),
                _ => false,
            }
    }

    fn number_used(&mut self, ino: Ino) {
        if ino == self.next_ino {
            self.next_ino.0 += 1;
            self.reserve_numbers();
        }
    }

    /// Keeps the next number within those that may be used. The record of a range is in the journal before
    /// that of an inode that has a number of it, so a successor never gives a number twice.
    fn reserve_numbers(&mut self) {
        if self.next_ino >= self.numbers {
            self.numbers = Ino(self.next_ino.0 + NUMBERS_AT_ONCE);
            self.log.change_numbers(self.numbers.0);
        }
    }

    /// Forgets an inode without a name that no client has a capability on.
    fn forget_unused(&mut self, ino: Ino) {
        // Its holders may not have claimed it yet; `reconnect::activate` looks at all again.
        if self.awaited.is_some() {
            return;
        }
        let Some(inode) = self.tree.get(ino).filter(|inode| inode.nlink == 0) else { return };
        if !self.caps.is_held(caps::inode_id(ino)) {
            let purge = Purge::of(inode, snap_context(&self.tree, ino));
            self.note_purge(ino.0, purge);
            let waiting = self.cuts.end(ino.0);
            self.ready.extend(waiting);
            let forgotten = self.execute(&Operation::Forget { ino }, &Context::default());
            forgotten.expect("an inode without a name may be forgotten");
        }
    }

    /// Notes the purge of an inode with the records that end it. A rank that is not stored removes no data.
    fn note_purge(&mut self, ino: u64, purge: Option<Purge>) {
        if let Some(purge) = purge.filter(|_| self.log.is_stored()) {
            self.log.change_purge(ino, &Change::Purge(ino, purge.clone()));
            self.purges.add(ino, purge);
        }
    }

    fn finish(&mut self, id: RequestId, request: &ClientRequest, result: Result<Executed, Errno>) {
        let RequestId { client, tid } = id;
        self.sessions.counted.replies += 1;
        // Others get back what they may have beside the bits that this client wants from now on. Messages
        // about capabilities go out in the order of their numbers, so these go before the reply.
        let shown = result.as_ref().ok().map(|executed| &executed.shown);
        let user = shown.and_then(|shown| {
            let inode = self.tree.get(shown.target?)?;
            let issue = self.issue_of(client, inode, shown.wanted);
            Some(Issue { is_assumed: shown.is_assumed, ..issue })
        });
        if result.as_ref().is_ok_and(|executed| executed.reply == ReplyTime::Safe) {
            // No message about the capability shows the change before.
            let lsn = self.log.close();
            self.outbox.hold_back(client, lsn);
        }
        self.caps.end_request(self.now, id, user.as_slice());
        self.take_cap_outputs();
        self.let_next_go(client, request);
        let plain = ClientReply::plain(request.op, 0, self.map.epoch);
        let encode = |reply: ClientReply| reply.encode(features::SUPPORTED).with_tid(tid);
        let executed = match result {
            Ok(executed) => executed,
            Err(error) if request.is_asynchronous() => {
                self.note_failed(id, request, error);
                let reply = ClientReply { result: error.negative(), ..plain };
                return self.send(client, encode(reply));
            }
            Err(error) => {
                let reply = ClientReply { result: error.negative(), ..plain };
                return self.send_early(client, encode(reply));
            }
        };
        self.show_barrier(client);
        let reply = self.reply(client, request.op, &executed.shown, executed.created);
        match executed.reply {
            ReplyTime::ShowsOthers => self.send_early(client, encode(reply)),
            ReplyTime::Early if self.log.is_stored() => {
                if executed.created != 0 {
                    self.outbox.hold_back(client, self.log.numbers_recorded());
                }
                self.sessions.counted.early_replies += 1;
                self.send_early(client, encode(ClientReply { is_safe: false, ..reply }));
                self.send_late(client, encode(plain));
            }
            ReplyTime::Safe | ReplyTime::Early => self.send(client, encode(reply)),
        }
    }

    /// Tries the requests for which a client has given something back, and sends messages about capabilities.
    fn settle(&mut self) {
        self.take_cap_outputs();
        while let Some(id) = self.ready.pop_front() {
            if let Some(waiting) = self.waiting.remove(id) {
                self.run(id, waiting);
                self.take_cap_outputs();
            }
        }
        self.tell_quotas();
    }
}
