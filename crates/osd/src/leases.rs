//! Read leases: a primary that was replaced does not answer reads with outdated data.
//!
//! A primary answers a read only while it holds leases of all acting members: each has promised not
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

use crate::cx::cx;
use crate::operations::keys::ObjectKey;
use crate::operations::request::Request;
use crate::work::Work;
use crate::{Osd, limits};
use codec::{Reader, Writer};
use engine::{Duration, Message, Time};
use std::collections::{BTreeMap, BTreeSet};
use types::{Epoch, OsdId, PgId};

/// Message types of requests for leases, and of grants.
pub(crate) const ASK: u16 = 0x7100;
pub(crate) const PROMISE: u16 = 0x7101;
/// Their version.
const VERSION: u16 = 1;

/// The read leases that this OSD holds and has granted.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// When this process began to run.
    started: Option<Time>,
    /// Leases granted to other OSDs, and their ends.
    promised: BTreeMap<OsdId, Time>,
    /// Leases that this OSD holds from others, and their ends.
    held: BTreeMap<OsdId, Time>,
    /// Ends of the leases of primaries, which hold for their replicas, with the epochs of their reports.
    lent: BTreeMap<OsdId, (Epoch, Time)>,
    /// The latest end of leases that replicas of this OSD rely on.
    lent_until: Time,
    /// The times of the latest grants by members, on their clocks, with the incarnation (`up_from`)
    /// of each: echoed to them.
    echoes: BTreeMap<OsdId, (Epoch, u64)>,
    /// Whether there were reads since leases were last requested.
    is_used: bool,
    due: Option<Time>,
    /// Groups with reads that wait for a lease.
    waiting: BTreeSet<PgId>,
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
    pub fn promised_to(&self, osd: OsdId) -> Time {
        let before = self.started.map_or(Time::FAR_FUTURE, |started| started + limits::READ_LEASE);
        self.promised.get(&osd).map_or(before, |until| (*until).max(before))
    }

    /// Until when replicas may rely on leases of this OSD, including those from before a restart.
    pub fn lent_until(&self) -> Time {
        let before = self.started.map_or(Time::FAR_FUTURE, |started| started + limits::READ_LEASE);
        self.lent_until.max(before)
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
}

impl Osd {
    /// Whether this OSD, as the primary of the group, may answer a read now.
    pub(crate) fn may_read(&mut self, now: Time, pg: PgId) -> bool {
        self.leases.is_used = true;
        let own = self.env.config.id;
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return false };
        if now < group.lease.readable_until {
            return true;
        }
        let acting = group.pg.members().acting.iter().copied();
        let held = self.leases.held_by(acting.filter(|osd| *osd != own));
        // Checked often enough that leases are renewed before they end, as long as there are reads.
        group.lease.readable_until = held.min(now + limits::READ_LEASE_RENEWAL / 2);
        now < held
    }

    /// Whether a replica may answer. A lease that the primary reported with a newer map counts only with
    /// that map: this OSD may no longer be a member. One from before the interval rests on leases
    /// of earlier members; the present ones may have granted none.
    fn may_read_as_replica(&self, now: Time, pg: PgId) -> bool {
        let Some(group) = self.groups.by_id.get(&pg).map(|group| &group.pg) else { return false };
        let lent = group.members().primary.and_then(|primary| self.leases.lent.get(&primary));
        let epochs = group.interval()..=self.epoch();
        lent.is_some_and(|(epoch, until)| epochs.contains(epoch) && now < *until)
    }

    /// Whether a replica may answer with the state in its object context: writes bypass the
    /// context, and its reads, which may overlap without end, share the state that the first of
    /// them has loaded.
    pub(crate) fn serves_as_replica(&mut self, now: Time, object: ObjectKey) -> bool {
        let Some(context) = self.operations.context(object) else { return false };
        let pg = context.pg;
        if !self.may_read_as_replica(now, pg) {
            return false;
        }
        let Some(group) = self.groups.by_id.get(&pg) else { return false };
        let Some(context) = self.operations.context_mut(object) else { return false };
        let serves = group.pg.can_serve_read(&context.name)
            && group.pg.is_unchanged_since(&context.name, context.valid_through);
        if serves {
            context.valid_through = group.pg.log().head();
        }
        serves
    }

    /// Makes a request wait until all members have renewed their leases. It keeps its place in the order of
    /// its object, or later writes of its client would overtake it; loaded data is loaded again.
    pub(crate) fn wait_for_lease(&mut self, now: Time, pg: PgId, object: ObjectKey, key: u64) {
        self.operations.mark_begun(object, key);
        self.operations.unload(key);
        self.operations.unload_behind(object, key);
        let group = self.groups.by_id.get_mut(&pg).expect("the caller has it");
        group.queues.unleased.push(key);
        let is_first = self.leases.waiting.is_empty();
        self.leases.waiting.insert(pg);
        if is_first {
            self.ask_for_promises(now);
        }
    }

    /// Requests leases from all members of groups whose primary this OSD is.
    fn ask_for_promises(&mut self, now: Time) {
        self.leases.is_used = false;
        self.leases.due = Some(now + limits::READ_LEASE_RENEWAL);
        let own = self.env.config.id;
        let groups = self.groups.by_id.values().filter(|group| group.pg.is_primary());
        let members = groups.flat_map(|group| group.pg.members().acting.iter().copied());
        let members: BTreeSet<OsdId> = members.filter(|osd| *osd != own).collect();
        let held = self.leases.held_by(members.iter().copied());
        if !members.is_empty() {
            self.leases.lent_until = self.leases.lent_until.max(held);
        }
        let lent = held.since(now);
        for member in members {
            // Times of an earlier incarnation are on another clock.
            let life = self.life_of(member);
            let echo = self.leases.echoes.get(&member).filter(|(of, _)| *of == life);
            let echo = echo.map_or(0, |(_, echo)| *echo);
            let mut w = Writer::new();
            w.value(&self.epoch());
            w.u64(now.0);
            w.u64(echo);
            w.u64(lent.as_nanos() as u64);
            self.peers.send(cx!(self), member, Message::new(ASK, VERSION, VERSION, w.into_bytes()));
        }
    }

    fn life_of(&self, osd: OsdId) -> Epoch {
        self.maps.map().osd(osd).map_or(Epoch(0), |osd| osd.info.up_from)
    }

    /// Renews the leases if there were reads or some wait, and ends waits that are over.
    pub(crate) fn renew_leases_if_due(&mut self, now: Time) {
        if self.leases.due.is_none_or(|due| now < due) {
            return;
        }
        self.leases.due = None;
        let groups = &self.groups.by_id;
        let waits =
            |pg: &PgId| groups.get(pg).is_some_and(|group| !group.queues.unleased.is_empty());
        self.leases.waiting.retain(waits);
        if self.leases.is_used || !self.leases.waiting.is_empty() {
            self.ask_for_promises(now);
        }
    }

    /// Handles a request for a lease, or a grant. Fails if it does not decode.
    pub(crate) fn take_lease_message(
        &mut self,
        now: Time,
        from: OsdId,
        message: &Message,
    ) -> codec::Result<()> {
        pg::message::check_compat(message, VERSION)?;
        let mut r = Reader::new(&message.front);
        let (epoch, sent): (Epoch, u64) = (r.value()?, r.u64("sent")?);
        match message.kind {
            ASK => {
                let (echo, lent) = (r.u64("echo")?, r.u64("lent")?);
                let lent = (epoch, Time(echo), Duration::from_nanos(lent));
                self.asked_for_promise(now, from, sent, lent);
            }
            _ => {
                let theirs = r.u64("time of the promise")?;
                self.leases.echoes.insert(from, (self.life_of(from), theirs));
                self.promised_by(now, from, epoch, Time(sent));
            }
        }
        Ok(())
    }

    /// Grants a lease, unless the peer is about to be reported: if messages to it are lost, the
    /// grant would only make its successor wait.
    fn asked_for_promise(
        &mut self,
        now: Time,
        from: OsdId,
        sent: u64,
        (epoch, echo, lent): (Epoch, Time, Duration),
    ) {
        if !self.is_up() || self.heartbeats.silence(now, from) >= limits::PROMISE_SILENCE_MAX {
            return;
        }
        self.leases.promised.insert(from, now + limits::READ_LEASE);
        if self.leases.has_sent(echo, now) {
            let until = echo + lent.min(limits::READ_LEASE);
            self.leases.lent.insert(from, (epoch, until));
        }
        let mut w = Writer::new();
        w.value(&self.epoch());
        w.u64(sent);
        w.u64(now.0);
        self.peers.send(cx!(self), from, Message::new(PROMISE, VERSION, VERSION, w.into_bytes()));
    }

    /// A grant by a member with a newer map counts only with that map: the member may already serve a new
    /// interval. A grant that an earlier incarnation of this OSD requested refers to another clock.
    fn promised_by(&mut self, now: Time, from: OsdId, epoch: Epoch, sent: Time) {
        if epoch > self.epoch() || !self.is_up() || !self.leases.has_sent(sent, now) {
            return;
        }
        let held = self.leases.held.entry(from).or_default();
        *held = (*held).max(sent + limits::READ_LEASE);
        self.resume_reads(now);
    }

    fn resume_reads(&mut self, now: Time) {
        for pg in self.leases.waiting.clone() {
            if self.groups.by_id.contains_key(&pg) && !self.may_read(now, pg) {
                continue;
            }
            self.leases.waiting.remove(&pg);
            let Some(group) = self.groups.by_id.get_mut(&pg) else { continue };
            for key in std::mem::take(&mut group.queues.unleased) {
                // If it restarted meanwhile, it is in the queue of its object.
                let waits = |request: &Request| request.pg == pg && request.waits_outside();
                if self.operations.get(key).is_some_and(waits) {
                    self.work.push(Work::Continue(key));
                    self.settle();
                }
            }
        }
    }

    /// Wakes groups that waited for the end of leases of prior intervals.
    pub(crate) fn end_waits(&mut self, now: Time) {
        while let Some((until, pg)) =
            self.groups.waits.first().copied().filter(|(until, _)| *until <= now)
        {
            self.groups.waits.remove(&(until, pg));
            let Some(group) = self.groups.by_id.get_mut(&pg) else { continue };
            group.tell_time(&self.leases, now);
            group.pg.time_passed();
            self.settle_group(pg);
        }
    }
}
