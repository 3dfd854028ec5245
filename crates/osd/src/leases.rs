//! Read leases: a primary that was replaced does not answer reads with outdated data.
//!
//! A primary answers a read only while it holds leases of all acting members: each has guaranteed not
//! to serve a new interval before a time is over ([`limits::READ_LEASE`]). A member counts from
//! when it received the request for the lease, the primary from when it sent it, so clocks need not
//! agree, only run equally fast. Leases are between OSDs, not groups: one small message for each
//! pair, and only while there are reads.
//!
//! A member reports the leases that it has granted when it is queried for a group's info, and a new
//! primary waits for the rest (`pg::leases`). A member that has restarted recently may have granted
//! any lease before, and reports that. A replica may answer reads for as long as its primary may:
//! the primary tells how long that is, and the replica counts from when it sent the grant to which
//! the primary refers.

use crate::cx::Cx;
use crate::env::Stage;
use crate::limits;
use crate::sessions::peers::Peers;
use codec::{Reader, Writer};
use engine::{Duration, Message, Time};
use maps::OsdMap;
use pg::Pg;
use std::collections::{BTreeMap, BTreeSet};
use types::{Epoch, OsdId, PgShard};

/// Message types of requests for leases, and of grants.
pub(crate) const REQUEST: u16 = 0x7100;
pub(crate) const GRANT: u16 = 0x7101;
/// Their version.
const VERSION: u16 = 1;

/// The read leases that this OSD holds and has granted.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// When this process began to run.
    started: Option<Time>,
    /// Leases granted to other OSDs, and their ends.
    granted: BTreeMap<OsdId, Time>,
    /// Leases that this OSD holds from others, and their ends.
    held: BTreeMap<OsdId, Time>,
    /// Ends of the leases of primaries, which hold for their replicas, with the epochs of their reports.
    primaries: BTreeMap<OsdId, (Epoch, Time)>,
    /// The latest end of leases that replicas of this OSD rely on.
    replica_reads_until: Time,
    /// The times of the latest grants by members, on their clocks, with the incarnation (`up_from`)
    /// of each: echoed to them.
    echoes: BTreeMap<OsdId, (Epoch, u64)>,
    /// Whether there were reads since leases were last requested.
    is_used: bool,
    due: Option<Time>,
    /// Groups with reads that wait for a lease.
    waiting: BTreeSet<PgShard>,
}

/// The lease of one group, if this OSD is its primary.
#[derive(Debug)]
pub(crate) struct GroupLease {
    /// Its end as last checked.
    readable_until: Time,
}

impl GroupLease {
    /// Whether it was seen to be held until after this time.
    pub fn is_known(&self, now: Time) -> bool {
        now < self.readable_until
    }

    /// It must be checked again before the next read.
    pub fn forget(&mut self) {
        self.readable_until = Time::ZERO;
    }
}

impl Default for GroupLease {
    fn default() -> Self {
        GroupLease { readable_until: Time::ZERO }
    }
}

impl Leases {
    /// When leases must be renewed.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Notes the start of this process; later calls have no effect.
    pub fn begin(&mut self, now: Time) {
        self.started.get_or_insert(now);
    }

    /// Until when a primary may rely on leases of this OSD, including those granted before a restart.
    pub fn granted_until(&self, osd: OsdId) -> Time {
        let before = self.started.map_or(Time::FAR_FUTURE, |started| started + limits::READ_LEASE);
        self.granted.get(&osd).map_or(before, |until| (*until).max(before))
    }

    /// Until when replicas may rely on leases of this OSD, including those from before a restart.
    pub fn replica_reads_until(&self) -> Time {
        let before = self.started.map_or(Time::FAR_FUTURE, |started| started + limits::READ_LEASE);
        self.replica_reads_until.max(before)
    }

    /// Whether this OSD may have sent a message at a time that a peer returns.
    fn has_sent(&self, at: Time, now: Time) -> bool {
        at <= now && self.started.is_some_and(|started| started <= at)
    }

    /// Whether the lease of a member is held now.
    pub fn is_held_by(&self, member: OsdId, now: Time) -> bool {
        self.held.get(&member).is_some_and(|until| now < *until)
    }

    fn held_by(&self, members: impl Iterator<Item = OsdId>) -> Time {
        let held = members.map(|osd| self.held.get(&osd).copied().unwrap_or(Time::ZERO));
        held.min().unwrap_or(Time::FAR_FUTURE)
    }

    /// Whether leases must be renewed now; if so, the groups of which `waits` is false wait no more.
    pub fn begin_renewal(&mut self, now: Time, waits: impl Fn(PgShard) -> bool) -> bool {
        if self.due.is_none_or(|due| now < due) {
            return false;
        }
        self.due = None;
        self.waiting.retain(|pg| waits(*pg));
        self.is_used || !self.waiting.is_empty()
    }

    /// Whether this OSD, as the primary of a group, may answer a read now.
    pub fn may_read(&mut self, now: Time, pg: &Pg, own: OsdId, group: &mut GroupLease) -> bool {
        self.is_used = true;
        if group.is_known(now) {
            return true;
        }
        let acting = pg.members().acting_members().map(|member| member.osd);
        let held = self.held_by(acting.filter(|osd| *osd != own));
        // Checked often enough that leases are renewed before they end, as long as there are reads.
        group.readable_until = held.min(now + limits::READ_LEASE_RENEWAL / 2);
        now < held
    }

    /// Whether a replica may answer, under the map of this epoch. A lease that the primary reported with a
    /// newer map counts only with that map: this OSD may no longer be a member. One from before the interval
    /// depends on leases of earlier members; the present ones may have granted none.
    pub fn may_read_as_replica(&self, now: Time, pg: &Pg, newest: Epoch) -> bool {
        let lease = pg.members().primary.and_then(|primary| self.primaries.get(&primary));
        let epochs = pg.interval()..=newest;
        lease.is_some_and(|(epoch, until)| epochs.contains(epoch) && now < *until)
    }

    /// A read of a group waits until all members have renewed their leases. Returns whether no other group
    /// waits: then leases must be requested.
    pub fn wait(&mut self, pg: PgShard) -> bool {
        let is_first = self.waiting.is_empty();
        self.waiting.insert(pg);
        is_first
    }

    /// The groups with reads that wait for a lease, ascending.
    pub fn waiting(&self) -> Vec<PgShard> {
        self.waiting.iter().copied().collect()
    }

    /// The reads of a group wait no more.
    pub fn end_wait(&mut self, pg: PgShard) {
        self.waiting.remove(&pg);
    }

    /// Requests leases from these members, those of all groups whose primary this OSD is.
    pub fn ask(&mut self, cx: &mut Cx<'_>, peers: &mut Peers, members: BTreeSet<OsdId>) {
        let now = cx.env.now;
        assert!(!members.contains(&cx.env.whoami()), "an OSD needs no lease of itself");
        self.is_used = false;
        self.due = Some(now + limits::READ_LEASE_RENEWAL);
        let held = self.held_by(members.iter().copied());
        if !members.is_empty() {
            self.replica_reads_until = self.replica_reads_until.max(held);
        }
        let lease = held.since(now);
        for member in members {
            // Times of an earlier incarnation are on another clock.
            let life = life_of(cx.map, member);
            let echo = self.echoes.get(&member).filter(|(of, _)| *of == life);
            let echo = echo.map_or(0, |(_, echo)| *echo);
            let mut w = Writer::new();
            w.value(&cx.map.epoch);
            w.u64(now.0);
            w.u64(echo);
            w.u64(lease.as_nanos() as u64);
            peers.send(cx, member, Message::new(REQUEST, VERSION, VERSION, w.into_bytes()));
        }
    }

    /// Handles a request for a lease, or a grant; true if reads may go on. `silence` is the time for which
    /// nothing was heard of the sender. Fails if the message does not decode.
    pub fn handle_message(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        (from, silence): (OsdId, Duration),
        message: &Message,
    ) -> codec::Result<bool> {
        pg::message::check_compat(message, VERSION)?;
        let mut r = Reader::new(&message.front);
        let (epoch, sent): (Epoch, u64) = (r.value()?, r.u64("sent")?);
        if message.kind == REQUEST {
            let (echo, lease) = (r.u64("echo")?, r.u64("lease")?);
            if silence < limits::GRANT_SILENCE_MAX {
                let lease = (epoch, Time(echo), Duration::from_nanos(lease));
                self.grant(cx, peers, from, sent, lease);
            }
            return Ok(false);
        }
        let theirs = r.u64("time of the grant")?;
        self.echoes.insert(from, (life_of(cx.map, from), theirs));
        Ok(self.granted_by(cx, from, epoch, Time(sent)))
    }

    /// Grants a lease. The caller refuses it to a peer that is about to be reported: if messages to it are
    /// lost, the grant would only make its successor wait.
    fn grant(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        to: OsdId,
        sent: u64,
        (epoch, echo, lease): (Epoch, Time, Duration),
    ) {
        let now = cx.env.now;
        if cx.env.stage != Stage::Up {
            return;
        }
        self.granted.insert(to, now + limits::READ_LEASE);
        if self.has_sent(echo, now) {
            let until = echo + lease.min(limits::READ_LEASE);
            self.primaries.insert(to, (epoch, until));
        }
        let mut w = Writer::new();
        w.value(&cx.map.epoch);
        w.u64(sent);
        w.u64(now.0);
        peers.send(cx, to, Message::new(GRANT, VERSION, VERSION, w.into_bytes()));
    }

    /// A grant by a member with a newer map counts only with that map: the member may already serve a new
    /// interval. A grant that an earlier incarnation of this OSD requested refers to another clock.
    fn granted_by(&mut self, cx: &Cx<'_>, from: OsdId, epoch: Epoch, sent: Time) -> bool {
        let is_up = cx.env.stage == Stage::Up;
        if epoch > cx.map.epoch || !is_up || !self.has_sent(sent, cx.env.now) {
            return false;
        }
        let held = self.held.entry(from).or_default();
        *held = (*held).max(sent + limits::READ_LEASE);
        true
    }

    /// Panics unless all groups with reads that wait for a lease are noted.
    pub fn check_invariants(&self, waiting: impl Iterator<Item = PgShard>) {
        for pg in waiting {
            assert!(self.waiting.contains(&pg), "{pg}: its reads wait, and nothing resumes them");
        }
        assert!(
            self.waiting.is_empty() || self.due.is_some(),
            "leases are requested for reads that wait"
        );
    }
}

/// The epoch since which an OSD is up.
fn life_of(map: &OsdMap, osd: OsdId) -> Epoch {
    map.osd(osd).map_or(Epoch(0), |osd| osd.info.up_from)
}
