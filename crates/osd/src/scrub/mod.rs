//! Scrubs of this OSD: their schedule, reservations, and the handling of findings.
//!
//! The comparison itself is in [`pg::scrub`]. This module passes messages and reads to the rounds,
//! limits the number of groups that are scrubbed at a time as primary and as replica, keeps
//! findings for clients ([`inconsistent`]), and passes what can be repaired to the group, whose
//! recovery does it.
//!
//! Invariants: a round belongs to one interval of its group and ends with it; a repaired object is
//! checked again before it counts as repaired.

mod inconsistent;
mod member;
mod orders;
mod schedule;

use crate::Osd;
use crate::report::repairs::FoundBy;
use crate::tokens::{ScrubTag, Token};
use bytes::Bytes;
use engine::{Duration, Message, Time};
use pg::scrub::message::Body;
use pg::scrub::{
    Count, End, Finding, Level, Member, OmapSize, OmapTotals, Order, Round, RoundOutput,
    STAMPS_KEY, SnapFinding, Stamps, View,
};
use std::collections::{BTreeMap, BTreeSet};
use store::{Change, Collection, Outcome, RequestKind, StoreError, Transaction};
use types::{Epoch, HObject, OsdId, PgId, UTime};

/// A round without an answer for so long is aborted.
const PATIENCE: Duration = Duration::from_secs(60);
/// The schedule is checked so long after groups became active.
const GATHER: Duration = Duration::from_secs(1);
/// Findings of a group that are kept for clients; further ones are only counted.
const FINDINGS_MAX: usize = 1000;
/// Request ids reserved for one round.
const ROUND_NUMBERS: u64 = 1 << 32;

/// Scrubs of the whole OSD.
#[derive(Debug, Default)]
pub(crate) struct Scrubs {
    /// When to look for a group that is due.
    due: Option<Time>,
    /// Groups that are scrubbed here as primary.
    own: BTreeSet<PgId>,
    /// Groups with a reservation by their primary, and the interval of each.
    helped: BTreeMap<PgId, Epoch>,
    rounds: u64,
    findings: u64,
}

/// Scrubs of one group.
#[derive(Debug, Default)]
pub(crate) struct GroupScrub {
    /// `None` until read from the store.
    stamps: Option<Stamps>,
    is_loading: bool,
    /// When the group was first seen here.
    since: Option<UTime>,
    /// An order of an administrator that waits for the stamps to be loaded; then the group keeps it.
    order: Option<Order>,
    /// Earliest start, after a round that was aborted.
    not_before: Option<Time>,
    running: Option<Box<Running>>,
    member: Member,
    member_of: Option<(OsdId, Epoch)>,
    /// Repaired objects that must be checked again.
    repaired: BTreeMap<HObject, Level>,
    /// Objects that were repaired from good copies, after scrubs or failed reads.
    repairs: u64,
    /// Inconsistencies that the last scrub in this interval found.
    findings: BTreeMap<HObject, Finding>,
    snap_findings: BTreeMap<HObject, SnapFinding>,
    /// The interval of the findings.
    findings_of: Option<Epoch>,
}

/// A round whose primary this OSD is.
#[derive(Debug)]
pub(crate) struct Running {
    round: Round,
    serial: u64,
    interval: Epoch,
    order: Option<Order>,
    /// Repaired objects to check again; if there are any, the round covers nothing else.
    recheck: BTreeMap<HObject, Level>,
    count: Count,
    omaps: OmapTotals,
    heard: Time,
}

impl Scrubs {
    /// When to look for a group that is due.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// Number of groups that are scrubbed here as primary.
    pub fn own_count(&self) -> usize {
        self.own.len()
    }

    /// Number of reservations by primaries.
    pub fn helped_count(&self) -> usize {
        self.helped.len()
    }

    /// Checks the schedule soon, because a group became active.
    pub fn hurry(&mut self, now: Time) {
        let soon = now + GATHER;
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
    }
}

impl GroupScrub {
    /// The stamps of the last scrubs; `None` until read from the store.
    pub fn stamps(&self) -> Option<Stamps> {
        self.stamps
    }

    /// Objects that were repaired from good copies, after scrubs or failed reads.
    pub fn repairs(&self) -> u64 {
        self.repairs
    }

    /// Counts an object that is repaired after a failed read.
    pub fn count_repair(&mut self) {
        self.repairs += 1;
    }

    /// Forgets the order of an administrator: this OSD is not the primary any more.
    pub fn forget_order(&mut self) {
        self.order = None;
    }

    /// State bits of the group's scrubs.
    pub fn state_bits(&self) -> u64 {
        use wire::internal::pg_state::{DEEP_SCRUB, INCONSISTENT, REPAIR, SCRUBBING};
        let running = self.running.as_ref().map_or(0, |running| {
            let deep = if running.level() == Level::Deep { DEEP_SCRUB } else { 0 };
            SCRUBBING | deep | if running.may_repair() { REPAIR } else { 0 }
        });
        let errors = self.stamps.map_or(0, |stamps| stamps.errors.total());
        running | if errors > 0 { INCONSISTENT } else { 0 }
    }
}

impl Running {
    pub fn level(&self) -> Level {
        self.round.level()
    }

    /// The round only checks repaired objects again.
    pub fn is_recheck(&self) -> bool {
        !self.recheck.is_empty()
    }

    /// Whether an administrator ordered a repair.
    pub fn may_repair(&self) -> bool {
        self.order.is_some_and(|order| order.repair)
    }
}

impl Osd {
    /// Groups whose primary this OSD is, each with its scrub stamps, if they are known, and whether
    /// a scrub, a repair or a check of repaired objects is pending.
    pub fn scrubs(&self) -> impl Iterator<Item = (PgId, Option<Stamps>, bool)> + '_ {
        let primaries = self.groups.by_id.iter().filter(|(_, group)| group.pg.is_primary());
        primaries.map(|(pg, group)| {
            let scrub = &group.scrub;
            let is_busy = scrub.running.is_some() || !scrub.repaired.is_empty();
            let is_wanted = scrub.order.is_some() || group.wanted_scrub().is_some();
            (*pg, scrub.stamps, is_busy || is_wanted)
        })
    }

    /// Number of inconsistent objects that scrubs of this OSD as primary found since it started.
    pub fn scrub_findings(&self) -> u64 {
        self.scrub.findings
    }

    /// Handles a message of a scrub from another member. Messages of other intervals are ignored.
    pub(crate) fn take_scrub_message(&mut self, now: Time, from: OsdId, message: &Message) {
        let (header, body) = match Body::decode(message) {
            Ok(decoded) => decoded,
            Err(error) => {
                tracing::error!(%from, %error, "a scrub's message does not decode");
                return;
            }
        };
        let pg = header.pg;
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        if header.interval != group.pg.interval() || !group.pg.members().acting.contains(&from) {
            return;
        }
        match body {
            Body::Reserve => self.promise_help(pg, from),
            Body::Release => drop(self.scrub.helped.remove(&pg)),
            Body::Scan(number, level, extent) => {
                group.scrub.member_of = Some((from, header.interval));
                group.scrub.member.begin(Collection(pg), number, level, extent);
                self.pump_member(pg);
            }
            Body::Keep(stamps) => {
                group.scrub.stamps = Some(stamps);
                group.pg.set_scrub_order(stamps.order);
                self.store_stamps(pg, stamps);
            }
            Body::Reserved(_) | Body::Map(..) => {
                let view = view(&group.pg);
                if let Some(running) = &mut group.scrub.running {
                    running.heard = now;
                    running.round.handle_message(from, body, view);
                }
                self.pump_scrub(now, pg);
            }
        }
    }

    /// Handles a completion of the store for a scrub.
    pub(crate) fn scrub_completed(
        &mut self,
        now: Time,
        pg: PgId,
        tag: ScrubTag,
        outcome: Result<Outcome, StoreError>,
    ) {
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        match tag {
            ScrubTag::LoadStamps => self.stamps_loaded(now, pg, outcome),
            ScrubTag::StoreStamps | ScrubTag::StoreIndex => {}
            ScrubTag::Member(tag) => {
                group.scrub.member.handle_completion(tag, outcome);
                self.pump_member(pg);
            }
            ScrubTag::Round(serial, tag) => {
                let view = view(&group.pg);
                let Some(running) = &mut group.scrub.running else { return };
                if running.serial == serial {
                    running.heard = now;
                    running.round.handle_completion(tag, outcome, view);
                    self.pump_scrub(now, pg);
                }
            }
        }
    }

    /// Begins a round. Objects that were repaired are checked again first, in a round of their own.
    pub(crate) fn begin_scrub(&mut self, now: Time, pg: PgId, level: Level, order: Option<Order>) {
        let whoami = self.env.config.id;
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        self.scrub.rounds += 1;
        let serial = self.scrub.rounds;
        let first = serial.wrapping_mul(ROUND_NUMBERS);
        let members = group.pg.members().acting.clone();
        let repaired = std::mem::take(&mut group.scrub.repaired);
        let is_recheck = !repaired.is_empty();
        let round = match is_recheck {
            true => {
                let level = repaired.values().copied().max().unwrap_or_default();
                let names = repaired.keys().cloned().collect();
                Round::of_names(pg, whoami, members, level, names, first)
            }
            false => Round::new(pg, whoami, members, level, first),
        };
        if !is_recheck {
            group.scrub.findings.clear();
            group.scrub.snap_findings.clear();
        }
        group.scrub.findings_of = Some(group.pg.interval());
        tracing::debug!(%pg, level = ?round.level(), is_recheck, "scrub begins");
        group.scrub.running = Some(Box::new(Running {
            round,
            serial,
            interval: group.pg.interval(),
            order,
            recheck: repaired,
            count: Count::default(),
            omaps: OmapTotals::default(),
            heard: now,
        }));
        self.scrub.own.insert(pg);
        self.report.request(now);
        self.pump_scrub(now, pg);
    }

    /// Performs the outputs of a round.
    pub(crate) fn pump_scrub(&mut self, now: Time, pg: PgId) {
        loop {
            let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
            let Some(running) = &mut group.scrub.running else { return };
            if let Some(finding) = running.round.poll_finding() {
                self.take_finding(now, pg, finding);
                continue;
            }
            if let Some(finding) = running.round.poll_snap_finding() {
                self.take_snap_finding(now, pg, finding);
                continue;
            }
            if let Some((object, size)) = running.round.poll_omap() {
                self.take_omap(pg, &object, size);
                continue;
            }
            let (serial, group_serial) = (running.serial, group.serial);
            match running.round.poll_output() {
                Some(RoundOutput::Send(to, body)) => self.send_scrub(pg, to, &body),
                Some(RoundOutput::Storage(tag, kind)) => {
                    let tag = ScrubTag::Round(serial, tag);
                    self.outbox.ask(Token::Scrub { pg, serial: group_serial, tag }, kind);
                }
                Some(RoundOutput::Index(pairs)) => self.add_to_index(pg, pairs),
                None => break,
            }
        }
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        let ended = group.scrub.running.take_if(|running| running.round.end().is_some());
        if let Some(running) = ended {
            self.end_scrub(now, pg, &running);
        }
    }

    /// Handles an inconsistent object: it is repaired if a good copy is known.
    fn take_finding(&mut self, now: Time, pg: PgId, finding: Finding) {
        let may_repair = self.env.options.scrub_auto_repair;
        self.scrub.findings += 1;
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        // A premerge group takes no changes before it is merged.
        let rests = group.must_rest();
        let Some(running) = &mut group.scrub.running else { return };
        let level = running.round.level();
        let wanted = may_repair && finding.is_certain() || running.may_repair();
        let object = finding.name.clone();
        tracing::error!(
            %pg, %object, authority = ?finding.authority, bad = ?finding.bad,
            "scrub: copies of an object differ or cannot be read"
        );
        // An object that is inconsistent again after a repair is not repaired again.
        let wanted = wanted && !running.is_recheck();
        let repaired = wanted && !rests && group.pg.repair(now.wall(), &finding);
        let context = group.queues.find(&object).and_then(|key| self.operations.context_mut(key));
        if repaired && let Some(context) = context {
            // It is loaded again when it is needed and has been recovered.
            context.forget_state();
        }
        if repaired {
            group.scrub.repairs += 1;
            group.scrub.repaired.insert(object, level);
            self.note_repair(pg, FoundBy::Scrub, &finding.bad);
        } else {
            running.count += finding.count();
            if group.scrub.findings.len() < FINDINGS_MAX {
                group.scrub.findings.insert(object, finding);
            }
        }
        self.settle_group(pg);
    }

    /// Handles an object whose clones do not match its snapset. Missing clones cannot be restored;
    /// extra clones are removed if an administrator ordered a repair.
    fn take_snap_finding(&mut self, now: Time, pg: PgId, finding: SnapFinding) {
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        let rests = group.must_rest();
        let Some(running) = &mut group.scrub.running else { return };
        tracing::error!(
            %pg, object = %finding.name, missing = ?finding.missing, extra = ?finding.extra,
            "scrub: an object and its clones do not belong together"
        );
        let superfluous: Vec<HObject> = finding.superfluous().collect();
        let is_all = finding.errors == pg::scrub::snapset::EXTRA_CLONES;
        let mut removed = running.may_repair() && !rests && !superfluous.is_empty();
        if removed {
            for clone in &superfluous {
                removed &= group.pg.remove_remains(now.wall(), clone);
            }
        }
        if !(removed && is_all) {
            running.count += finding.count();
            if group.scrub.snap_findings.len() < FINDINGS_MAX {
                group.scrub.snap_findings.insert(finding.name.clone(), finding);
            }
        }
        self.settle_group(pg);
    }

    /// Handles the size of an omap that a deep scrub has read.
    fn take_omap(&mut self, pg: PgId, object: &HObject, size: OmapSize) {
        let options = &self.env.options;
        let is_large = size.keys > options.omap_keys_usual || size.bytes > options.omap_bytes_usual;
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        // Repaired copies were counted by the earlier round.
        let Some(running) = group.scrub.running.as_mut().filter(|run| !run.is_recheck()) else {
            return;
        };
        running.omaps.size.keys += size.keys;
        running.omaps.size.bytes += size.bytes;
        if is_large {
            running.omaps.large_objects += 1;
            self.note_large_omap(pg, object, size);
        }
    }

    /// Restores pairs of the index of clones that stored heads imply; outdated ones do no harm.
    fn add_to_index(&mut self, pg: PgId, pairs: BTreeMap<Bytes, Bytes>) {
        let Some(group) = self.groups.by_id.get(&pg).filter(|_| !pairs.is_empty()) else { return };
        let change = Change::OmapSet { object: pg::meta_object(pg), pairs };
        let kind = RequestKind::Commit(Transaction { changes: vec![(Collection(pg), change)] });
        let serial = group.serial;
        self.outbox.ask(Token::Scrub { pg, serial, tag: ScrubTag::StoreIndex }, kind);
    }

    fn end_scrub(&mut self, now: Time, pg: PgId, running: &Running) {
        self.scrub.own.remove(&pg);
        self.scrub.due = Some(now);
        self.report.request(now);
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        let (objects, busy) = running.round.progress();
        let scrub = &mut group.scrub;
        match running.round.end().expect("the caller saw it") {
            End::Complete => tracing::debug!(%pg, objects, busy, "scrub ends"),
            end => {
                tracing::debug!(%pg, ?end, "scrub came to nothing");
                return self.retry_scrub(now, pg, running);
            }
        }
        if running.is_recheck() {
            let mut stamps = scrub.stamps.unwrap_or_default();
            stamps.errors += running.count;
            return self.publish_stamps(pg, stamps);
        }
        let mut stamps = scrub.stamps.unwrap_or_default();
        let next = group.wanted_scrub().filter(|order| Some(*order) != running.order);
        // The clock of the primary that took the order may have been ahead of ours.
        let at = running.order.map_or(UTime::ZERO, |order| order.at);
        stamps.note(running.level(), at.max(now.wall()), running.count, running.omaps);
        // An order that came meanwhile is not done by a scrub that began before it.
        let next = next.map(|order| Order { at: stamps.after(order.at), ..order });
        group.pg.set_scrub_order(next);
        self.publish_stamps(pg, stamps);
    }

    /// Has all members keep the stamps, and the order that is still to be done.
    fn publish_stamps(&mut self, pg: PgId, stamps: Stamps) {
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        let order = group.pg.scrub_order().filter(|order| !stamps.has_done(order));
        let stamps = Stamps { order, ..stamps };
        group.scrub.stamps = Some(stamps);
        let members = group.pg.members().acting.clone();
        for member in members {
            if member != self.env.config.id {
                self.send_scrub(pg, member, &Body::Keep(stamps));
            }
        }
        self.store_stamps(pg, stamps);
    }

    fn store_stamps(&mut self, pg: PgId, stamps: Stamps) {
        let Some(group) = self.groups.by_id.get(&pg) else { return };
        let pairs = BTreeMap::from([(STAMPS_KEY, codec::encode_to_bytes(&stamps))]);
        let change = Change::OmapSet { object: pg::meta_object(pg), pairs };
        let kind = RequestKind::Commit(Transaction { changes: vec![(Collection(pg), change)] });
        let serial = group.serial;
        self.outbox.ask(Token::Scrub { pg, serial, tag: ScrubTag::StoreStamps }, kind);
    }

    /// Aborts rounds whose interval is over, or that get no answers.
    pub(crate) fn drop_dead_scrubs(&mut self, now: Time) {
        for pg in std::mem::take(&mut self.scrub.own) {
            let Some(group) = self.groups.by_id.get_mut(&pg) else { continue };
            let (interval, is_clean) = (group.pg.interval(), group.pg.is_active());
            let Some(running) = &mut group.scrub.running else { continue };
            if running.interval == interval && is_clean && now < running.heard + PATIENCE {
                self.scrub.own.insert(pg);
                continue;
            }
            let mut running = group.scrub.running.take().expect("looked at above");
            if running.interval == interval {
                running.round.stop(End::Failed(self.env.config.id));
                while let Some(output) = running.round.poll_output() {
                    if let RoundOutput::Send(to, body) = output {
                        self.send_scrub(pg, to, &body);
                    }
                }
            }
            self.retry_scrub(now, pg, &running);
        }
    }
}

/// The state of a group that rounds need.
pub(crate) fn view(pg: &pg::Pg) -> View<'_> {
    View { log: pg.log(), committed: pg.committed(), recoveries: pg.recoveries_begun() }
}
