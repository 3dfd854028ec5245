//! A placement group with its state in the OSD: object contexts, waiting requests, watches.

use crate::Osd;
use crate::cx::cx;
use crate::groups::premerge::Premerge;
use crate::groups::states::GroupStates;
use crate::leases::{GroupLease, Leases};
use crate::operations::Operations;
use crate::operations::queues::{Counters, GroupQueues};
use crate::operations::snapshots::PoolSnapshots;
use crate::recovery::scheduler::GroupRecovery;
use crate::report::group_state::GroupReport;
use crate::scrub::{GroupScrub, Scrubbed};
use crate::tokens::Token;
use crate::trim::{GroupTrim, Trimmed};
use crate::watches::GroupWatches;
use crate::work::Work;
use engine::Time;
use pg::{Output, Pg};
use store::RequestKind;
use types::{Epoch, PgId};

/// A placement group of this OSD.
#[derive(Debug)]
pub(crate) struct Group {
    pub pg: Pg,
    /// Identifies this instance of the group in completions of the store.
    pub serial: u64,
    /// The epoch since which this OSD is the primary.
    pub primary_since: Option<Epoch>,
    pub premerge: Premerge,
    pub states: GroupStates,
    pub queues: GroupQueues,
    pub snapshots: PoolSnapshots,
    pub counters: Counters,
    pub watches: GroupWatches,
    pub lease: GroupLease,
    pub recovery: GroupRecovery,
    pub scrub: GroupScrub,
    pub trim: GroupTrim,
    pub report: GroupReport,
}

impl Group {
    /// A group without requests; `serial` must differ from that of all earlier groups.
    pub fn new(pg: Pg, serial: u64) -> Self {
        Group {
            pg,
            serial,
            primary_since: None,
            premerge: Premerge::default(),
            states: GroupStates::default(),
            queues: GroupQueues::default(),
            snapshots: PoolSnapshots::default(),
            counters: Counters::default(),
            watches: GroupWatches::default(),
            lease: GroupLease::default(),
            recovery: GroupRecovery::default(),
            scrub: GroupScrub::default(),
            trim: GroupTrim::default(),
            report: GroupReport::default(),
        }
    }

    /// Whether the group takes no more requests: it is about to be merged, and was clean since the
    /// map said so.
    pub fn must_rest(&mut self) -> bool {
        self.premerge.must_rest(&mut self.pg)
    }

    /// Ends the premerge state.
    pub fn resume(&mut self) {
        self.premerge.resume(&mut self.pg);
    }

    /// Whether the group takes no more requests and has none in progress.
    pub fn is_at_rest(&mut self, operations: &Operations) -> bool {
        self.must_rest() && self.pg.is_settled() && operations.are_idle(&self.queues)
    }

    /// The parts that trimming touches.
    pub fn trimmed(&mut self) -> Trimmed<'_> {
        Trimmed {
            pg: &self.pg,
            trim: &mut self.trim,
            queue: &self.snapshots.removed,
            generation: self.queues.generation,
        }
    }

    /// The parts that scrubs touch.
    pub fn scrubbed(&mut self) -> Scrubbed<'_> {
        Scrubbed {
            serial: self.serial,
            pg: &mut self.pg,
            scrub: &mut self.scrub,
            premerge: &mut self.premerge,
        }
    }

    /// Tells the group the time and the lease that its primary holds. Must precede every input that
    /// may end an interval or begin to serve one; while the group serves, it needs no time.
    pub fn tell_time(&mut self, leases: &Leases, now: Time) {
        let primary = self.pg.members().primary;
        let promised = match primary {
            None => Time::ZERO,
            Some(_) if self.pg.is_primary() => leases.lent_until(),
            Some(primary) => leases.promised_to(primary),
        };
        self.pg.set_time(now, promised);
    }
}

impl Osd {
    /// Performs the outputs of a group until it has none, or until one of them makes other work possible:
    /// that precedes the rest.
    pub(crate) fn drain_group(&mut self, now: Time, pg: PgId) {
        while let Some(group) = self.groups.by_id.get_mut(&pg) {
            let Some(output) = group.pg.poll_output() else {
                if let Some(past) = group.states.note(now, group.pg.interval(), group.pg.state()) {
                    self.groups.state_times.add(past);
                }
                self.recovery.scheduler.update(&group.pg, &mut group.recovery);
                return;
            };
            let serial = group.serial;
            match output {
                Output::Send { to, message } => self.peers.send(cx!(self), to, message),
                Output::Storage { tag, kind } => {
                    let bytes = match &kind {
                        RequestKind::Commit(transaction) | RequestKind::Append(transaction) => {
                            transaction.bytes_added()
                        }
                        _ => 0,
                    };
                    self.usage.begin_commit(bytes);
                    self.outbox.ask(Token::Group { pg, serial, tag, bytes }, kind);
                }
                Output::Committed { ticket } => self.committed(now, pg, ticket),
                Output::Refused { ticket, error } => {
                    if let Some(request) = self.operations.get_mut(ticket) {
                        request.note_refusal(&error);
                    }
                }
                Output::Interrupted { tickets, members_stay } => {
                    self.interrupted(now, pg, &tickets, members_stay);
                }
                Output::Activated => self.activated(now, pg),
                Output::Clean => self.report.schedule.request_soon(now),
                Output::Recovered { object } => self.recovered(pg, &object),
                Output::WantsMap => drop(self.groups.asking.insert(pg)),
                Output::WaitUntil(until) => drop(self.groups.waits.insert((until, pg))),
                Output::WantsInterval => self.groups.retry_later(now),
                Output::Reserve(primary) => self.reserve(pg, primary),
                Output::Release => self.release(pg),
                Output::Removed => self.forget_group(now, pg),
                Output::Quiet => self.stands_still(pg),
                Output::Reshaped => self.reshaped(now, pg, true),
                Output::ReshapeFailed => self.reshaped(now, pg, false),
            }
            if self.work.has_children() {
                return self.work.push(Work::Group(pg));
            }
        }
    }

    /// Forgets a group whose collection is removed.
    pub(crate) fn forget_group(&mut self, now: Time, pg: PgId) {
        self.drop_requests(now, pg);
        self.release(pg);
        if let Some(group) = self.groups.by_id.remove(&pg) {
            self.recovery.scheduler.forget(pg, &group.recovery);
        }
    }
}
