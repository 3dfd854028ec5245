//! The lock machine: inputs of clients and of the server, and the outputs that follow from them.

mod questions;
mod ranges_and_leases;

use crate::exchange::{Claim, Issue, IssuedCap, Notice, Output, Release, Update};

use crate::held::Held;
use crate::inode::{Change, InodeCaps};
use crate::leases::Leases;
use crate::ranges::Ranges;
use crate::recall::{Pressure, recall};
use crate::requests::{
    ACCESSES_MAX, Admission, Demand, Entry, InProgress, InodeId, RequestId, Requests,
};
use crate::sessions::{Finding, Sessions, Settings};
use crate::table;
use engine::{Duration, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::{CapBits, CapOp};

/// Pause between two looks at silent sessions, late answers, and memory.
const TICK: Duration = Duration::from_secs(1);

/// Id of the capability that a client assumes on an inode that it has made before it asked. Linux 6.1 warns
/// and goes on with it if a reply that names another one was faster than the client itself.
const ASSUMED_ID: u64 = 1;

/// Capabilities of all clients on all inodes of one rank.
///
/// Each input queues at most two messages for each holder of an inode that it concerns; the owner takes them
/// by `poll_output` before the next input.
#[derive(Debug, Default)]
pub struct LockMachine {
    settings: Settings,
    pressure: Pressure,
    sessions: Sessions,
    inodes: BTreeMap<InodeId, InodeCaps>,
    /// Directories in which asynchronous creates and unlinks are or were possible.
    delegating: BTreeSet<InodeId>,
    requests: Requests,
    leases: Leases,
    ranges: Ranges,
    last_id: u64,
    /// Whether clients of a predecessor may have more than the machine knows.
    awaits_claims: bool,
    next_tick: Time,
    outputs: VecDeque<Output>,
}

impl LockMachine {
    /// A machine without sessions.
    pub fn new(settings: Settings) -> Self {
        LockMachine { settings, ..LockMachine::default() }
    }

    /// The file system has other times for clients that are not heard of.
    pub fn set_session_times(&mut self, timeout: Duration, autoclose: Duration) {
        self.settings.session_timeout = timeout;
        self.settings.session_autoclose = autoclose;
    }

    /// The next effect.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When `handle_timeout` should be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        let tick = (!self.sessions.is_empty()).then_some(self.next_tick);
        tick.into_iter().chain(self.leases.next_expiry()).min()
    }

    /// Looks for leases that have ended, and each second for silent sessions, late answers and memory.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(entry) = self.leases.poll_expired(now) {
            self.wake_for_entry(&entry);
        }
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + TICK;
        for finding in self.sessions.examine(now, &self.settings) {
            self.outputs.push_back(match finding {
                Finding::Evict(client, reason) => Output::Evict { client, reason },
                Finding::Late(client, ino, since) => Output::LateRelease { client, ino, since },
            });
        }
        for (client, caps_max) in
            recall(&self.sessions, self.pressure, self.settings.session_caps_max)
        {
            self.outputs.push_back(Output::Recall { client, caps_max });
        }
        self.sessions.iter_mut().for_each(|session| session.recent -= session.recent.div_ceil(4));
    }

    /// Memory is short, or not any more.
    pub fn handle_pressure(&mut self, pressure: Pressure) {
        self.pressure = pressure;
    }

    /// A client has opened a session.
    pub fn open_session(&mut self, now: Time, client: u64) {
        if self.sessions.is_empty() {
            self.next_tick = now + TICK;
        }
        self.sessions.open(now, client);
    }

    /// A client has renewed its session.
    pub fn handle_renewal(&mut self, now: Time, client: u64) {
        self.sessions.renew(now, client);
    }

    /// A session has ended, or its client was evicted and cannot write any more. Returns the inodes on which
    /// it had capabilities.
    pub fn close_session(&mut self, now: Time, client: u64) -> Vec<InodeId> {
        for id in self.requests.of(client).collect::<Vec<_>>() {
            self.end_request(now, id, &[]);
        }
        for entry in self.leases.remove_client(client) {
            self.wake_for_entry(&entry);
        }
        let Some(session) = self.sessions.remove(client) else { return Vec::new() };
        for ino in &session.caps {
            self.inodes.get_mut(ino).expect("a capability has an inode").holders.remove(&client);
            self.given_back(now, *ino);
        }
        for ino in self.ranges.remove_client(client) {
            self.outputs.push_back(Output::RecordRange { ino, client, end: None });
        }
        session.caps.into_iter().collect()
    }

    // --- requests ---

    /// A request needs parts of inodes. A request that demands again needs only what it demands now.
    pub fn handle_request(&mut self, now: Time, id: RequestId, demand: Demand) -> Admission {
        let needed = demand.accesses.len() + demand.entries.len();
        if !self.requests.has_room(id) || needed > ACCESSES_MAX {
            return Admission::Refused;
        }
        let mut request = InProgress::new(demand);
        // It is answered here, not told.
        request.is_ready = true;
        let entries = request.entries.clone();
        for (ino, access) in &request.accesses {
            self.inodes.entry(*ino).or_default().requests.insert(id, *access);
        }
        let told = request.entries.iter().map(|entry| {
            let told = self.leases.begin_change(id, entry);
            told.into_iter().map(move |(client, seq)| (client, entry.clone(), seq))
        });
        for (client, entry, seq) in told.flatten().collect::<Vec<_>>() {
            self.outputs.push_back(Output::RevokeLease { client, entry, seq });
        }
        let inodes: Vec<InodeId> = request.accesses.keys().copied().collect();
        let before = self.requests.insert(id, request);
        if let Some(before) = before {
            self.end_entries(id, &before);
            for ino in before.accesses.keys().filter(|ino| !inodes.contains(ino)) {
                self.forget_request(id, *ino);
                self.evaluate(now, *ino);
            }
        }
        inodes.iter().for_each(|ino| self.evaluate(now, *ino));
        let is_ready = self.admits(id);
        self.requests.get_mut(id).expect("it was inserted").is_ready = is_ready;
        // Its client has forgotten its own leases, for which others may have waited.
        entries.iter().for_each(|entry| self.wake_for_entry(entry));
        if is_ready { Admission::Ready } else { Admission::Waits }
    }

    /// A request was executed, or refused: others may have again what it needed. `users` are capabilities
    /// that its reply is going to give, with the bits that are wanted newly, so that no client gets bits in
    /// between.
    pub fn end_request(&mut self, now: Time, id: RequestId, users: &[Issue]) {
        let Some(request) = self.requests.remove(id) else { return };
        self.end_entries(id, &request);
        for user in users {
            self.hold(user);
        }
        for ino in request.accesses.keys() {
            self.forget_request(id, *ino);
            let is_answered = users.iter().any(|user| user.ino == *ino);
            self.evaluate_for(now, *ino, is_answered.then_some(id.client));
        }
    }

    fn forget_request(&mut self, id: RequestId, ino: InodeId) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.requests.remove(&id);
        }
    }

    fn end_entries(&mut self, id: RequestId, request: &InProgress) {
        request.entries.iter().for_each(|entry| self.leases.end_change(id, entry));
    }

    fn admits(&self, id: RequestId) -> bool {
        let request = self.requests.get(id).expect("the request is in progress");
        let mut accesses = request.accesses.iter();
        accesses.all(|(ino, access)| {
            // Before all claims are known, requests are replayed only; their client has what it got later.
            let is_replay = self.awaits_claims;
            self.inodes.get(ino).is_none_or(|inode| inode.admits(id.client, access, is_replay))
        }) && request.entries.iter().all(|entry| self.leases.admits(id.client, entry))
    }

    fn wake(&mut self, id: RequestId) {
        if self.requests.get(id).is_some_and(|request| !request.is_ready) && self.admits(id) {
            self.requests.get_mut(id).expect("it is in progress").is_ready = true;
            self.outputs.push_back(Output::Ready(id));
        }
    }

    pub(crate) fn wake_for_entry(&mut self, entry: &Entry) {
        self.leases.changing(entry).into_iter().for_each(|id| self.wake(id));
    }

    // --- capabilities ---

    /// Gives a client a capability in a reply, or renews the one that it has, with all bits that it may have
    /// now. `None` if it has none and memory is short.
    ///
    /// A reply takes nothing away: revocations that follow from it are sent behind it.
    pub fn issue(&mut self, now: Time, issue: Issue) -> Option<IssuedCap> {
        let Issue { ino, client, .. } = issue;
        self.hold(&issue)?;
        let silent = self.sessions.silent();
        let inode = self.inodes.get_mut(&ino)?;
        inode.retarget(silent);
        let bits = inode.grantable(client, silent);
        let held = inode.holders.get_mut(&client).expect("it was inserted");
        held.grant_in_reply(bits);
        let issued = IssuedCap {
            cap_id: held.id,
            seq: held.seq(),
            mseq: held.mseq,
            caps: held.pending(),
            wanted: held.wanted(),
        };
        self.evaluate(now, ino);
        Some(issued)
    }

    /// Makes a client a holder, and notes what it wants; `None` if it has nothing and may get nothing.
    fn hold(&mut self, issue: &Issue) -> Option<()> {
        let session = self.sessions.get_mut(issue.client)?;
        let is_full = self.pressure.is_full || session.caps.len() >= self.settings.session_caps_max;
        // A capability that the client assumes is there whatever the bound: without it, what the client says
        // of its file would be ignored, also by fsync.
        if is_full && !issue.is_assumed && !session.caps.contains(&issue.ino) {
            return None;
        }
        session.recent += u64::from(session.caps.insert(issue.ino));
        let inode = self.inodes.entry(issue.ino).or_default();
        inode.kind = issue.kind;
        let held = inode.holders.entry(issue.client).or_insert_with(|| {
            if issue.is_assumed {
                return Held::new(ASSUMED_ID);
            }
            self.last_id = self.last_id.max(ASSUMED_ID) + 1;
            Held::new(self.last_id)
        });
        held.allow(issue.allowed);
        held.want(held.wanted() | issue.wanted);
        held.may_delegate = issue.may_delegate && !is_full;
        if held.may_delegate {
            self.delegating.insert(issue.ino);
        }
        Some(())
    }

    /// A client says what it has and wants; false if it means a capability that it does not have.
    pub fn handle_update(&mut self, now: Time, update: &Update) -> bool {
        let Update { client, ino, .. } = *update;
        let Some(held) = self.held_mut(ino, client, update.cap_id, update.mseq) else {
            return false;
        };
        held.want(match held.has_seen_issue(update.issue_seq) {
            true => update.wanted,
            false => held.wanted() | update.wanted,
        });
        held.confirm(update.seq, update.kept | CapBits::PIN);
        self.confirmed(now, client, ino);
        true
    }

    /// A client has told what it has.
    fn confirmed(&mut self, now: Time, client: u64, ino: InodeId) {
        if !self.inodes[&ino].holders[&client].is_revoking() {
            self.sessions.end_revocation(client, ino);
        }
        self.tend_range(ino, client);
        self.given_back(now, ino);
    }

    /// A client has dropped a capability; false if it has not seen the last reply that gave it.
    pub fn handle_release(&mut self, now: Time, release: &Release) -> bool {
        let Release { client, ino, cap_id, mseq, issue_seq } = *release;
        let Some(held) = self.held_mut(ino, client, cap_id, mseq) else { return false };
        if !held.has_seen_issue(issue_seq) {
            // A reply has given the capability again meanwhile; older bits are gone all the same.
            held.released(issue_seq);
            self.confirmed(now, client, ino);
            return false;
        }
        self.remove_cap(now, ino, client);
        true
    }

    /// Takes a capability away without asking, also if a reply that gives it is on its way: the client must
    /// be told, behind that reply. False if it has no such capability.
    pub fn withdraw(&mut self, now: Time, ino: InodeId, client: u64, cap_id: u64) -> bool {
        let has_it = self.cap_id(ino, client) == Some(cap_id);
        if has_it {
            self.remove_cap(now, ino, client);
        }
        has_it
    }

    fn remove_cap(&mut self, now: Time, ino: InodeId, client: u64) {
        let inode = self.inodes.get_mut(&ino).expect("a capability has an inode");
        inode.holders.remove(&client);
        self.sessions.end_revocation(client, ino);
        if let Some(session) = self.sessions.get_mut(client) {
            session.caps.remove(&ino);
        }
        self.tend_range(ino, client);
        self.given_back(now, ino);
    }

    /// Takes a capability that a client claims after a take-over; false if it has bits that contradict those
    /// of others or that the client may not have, and that it must give back. Nothing is granted before
    /// [`LockMachine::handle_claims_complete`].
    pub fn handle_claim(&mut self, claim: &Claim) -> bool {
        let Claim { client, ino, kind, cap_id, mseq, issued, wanted, allowed } = *claim;
        let Some(session) = self.sessions.get_mut(client) else { return false };
        session.caps.insert(ino);
        self.last_id = self.last_id.max(cap_id);
        let inode = self.inodes.entry(ino).or_default();
        inode.kind = kind;
        let mut held = Held::adopted(cap_id, mseq, issued, wanted);
        held.allow(allowed);
        let is_right = inode.adopt(client, held, &table::ROWS);
        if !is_right {
            self.notice(CapOp::REVOKE, ino, client);
        }
        is_right
    }

    /// A client sends again what it has written by bits that it had given back before the take-over, without
    /// knowing whether that arrived: it has these bits until its message is handled, which must follow
    /// [`LockMachine::handle_claims_complete`] at once.
    pub fn handle_claimed_flush(&mut self, client: u64, ino: InodeId, cap_id: u64, dirty: CapBits) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.adopt_returned(client, cap_id, dirty, &table::ROWS);
        }
    }

    /// Clients of a predecessor are going to claim what they had: nothing is granted or revoked until
    /// [`LockMachine::handle_claims_complete`].
    pub fn begin_claims(&mut self) {
        self.awaits_claims = true;
    }

    /// All clients have claimed what they had: states follow from that.
    pub fn handle_claims_complete(&mut self, now: Time) {
        self.awaits_claims = false;
        for ino in self.inodes.keys().copied().collect::<Vec<_>>() {
            self.evaluate(now, ino);
        }
    }

    /// Asynchronous creates and unlinks in a directory are possible, or not any more.
    pub fn set_delegation(&mut self, now: Time, ino: InodeId, is_possible: bool) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            let holders = inode.holders.values_mut();
            holders.for_each(|held| held.may_delegate &= is_possible);
            self.evaluate(now, ino);
        }
    }

    fn held_mut(&mut self, ino: InodeId, client: u64, cap_id: u64, mseq: u32) -> Option<&mut Held> {
        let held = self.inodes.get_mut(&ino)?.holders.get_mut(&client)?;
        (held.id == cap_id && mseq >= held.mseq).then_some(held)
    }

    /// Sends a client its capability again, since attributes have changed.
    pub fn repeat(&mut self, ino: InodeId, client: u64) {
        let inode = self.inodes.get_mut(&ino);
        let Some(held) = inode.and_then(|inode| inode.holders.get_mut(&client)) else { return };
        held.grant(CapBits::NONE);
        self.notice(CapOp::GRANT, ino, client);
    }

    /// The same for all clients but one that have any of these bits.
    pub fn repeat_to_others(&mut self, ino: InodeId, client: u64, bits: CapBits) {
        let Some(inode) = self.inodes.get(&ino) else { return };
        let others = inode.holders.iter().filter(|(other, _)| **other != client);
        let others = others.filter(|(_, held)| held.issued().intersects(bits));
        for other in others.map(|(other, _)| *other).collect::<Vec<_>>() {
            self.repeat(ino, other);
        }
    }

    fn notice(&mut self, op: CapOp, ino: InodeId, client: u64) {
        let held = &self.inodes[&ino].holders[&client];
        self.outputs.push_back(Output::Notice(Notice {
            client,
            op,
            ino,
            cap_id: held.id,
            seq: held.seq(),
            issue_seq: held.issue_seq(),
            mseq: held.mseq,
            caps: held.pending(),
            wanted: held.wanted(),
        }));
    }

    /// Revokes what clients should not have, and grants what they want and may have.
    fn evaluate(&mut self, now: Time, ino: InodeId) {
        self.evaluate_for(now, ino, None);
    }

    fn evaluate_for(&mut self, now: Time, ino: InodeId, answered: Option<u64>) {
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        if inode.is_unused() {
            self.inodes.remove(&ino);
            self.delegating.remove(&ino);
            return;
        }
        if self.awaits_claims {
            return;
        }
        for change in inode.evaluate(self.sessions.silent(), answered) {
            match change {
                Change::Revoked(client) => {
                    let held = &self.inodes[&ino].holders[&client];
                    if held.is_revoking() {
                        self.sessions.begin_revocation(now, client, ino);
                    }
                    self.notice(CapOp::REVOKE, ino, client);
                }
                Change::Granted(client) => self.notice(CapOp::GRANT, ino, client),
            }
        }
    }

    /// A client has less of an inode than before: tells requests that can go on.
    fn given_back(&mut self, now: Time, ino: InodeId) {
        let waiting = self.inodes.get(&ino).map(|inode| inode.requests.keys().copied().collect());
        let waiting: Vec<RequestId> = waiting.unwrap_or_default();
        self.evaluate(now, ino);
        waiting.into_iter().for_each(|id| self.wake(id));
    }
}
