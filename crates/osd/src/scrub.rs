//! Scrubs on this OSD: which group next, with whom, and what is made of what they find.
//!
//! The comparing itself is [`pg::scrub`]'s. Here rounds get their messages and reads, one group at a
//! time is scrubbed as primary and few are helped as members, findings are kept for clients
//! ([`inconsistent`]), and what can be repaired is handed to the group, whose recovery does it.
//!
//! Invariants: a round belongs to one interval of its group and ends with it; what was repaired is
//! looked at again before it counts as repaired.

mod inconsistent;
mod orders;
mod schedule;

use crate::Osd;
use crate::complaints::FoundBy;
use crate::storage::Pending;
use bytes::Bytes;
use engine::{Duration, Message, Time};
use pg::message::Header;
use pg::scrub::message::Body;
use pg::scrub::{
    Count, End, Finding, Level, Member, MemberTag, OmapSize, OmapTotals, Order, Round, RoundOutput,
    RoundTag, STAMPS_KEY, SnapFinding, Stamps, View,
};
use std::collections::{BTreeMap, BTreeSet};
use store::{Change, Collection, Outcome, RequestKind, StoreError, Transaction};
use types::{Epoch, HObject, OsdId, PgId, UTime};

/// A round that gets no answer for so long is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// So long after groups became active the schedule is looked at.
const GATHER: Duration = Duration::from_secs(1);
/// Findings of a group that are kept for clients.
const FINDINGS_MAX: usize = 1000;
/// Numbers of questions of one round.
const ROUND_NUMBERS: u64 = 1 << 32;

/// What the OSD as a whole knows of scrubs.
#[derive(Debug, Default)]
pub(crate) struct Scrubs {
    /// When to look for a group that is due.
    pub due: Option<Time>,
    /// Groups that are scrubbed here as primary.
    pub own: BTreeSet<PgId>,
    /// Groups whose primaries were promised help, and in which interval.
    helped: BTreeMap<PgId, Epoch>,
    rounds: u64,
    findings: u64,
}

/// What one group knows of its scrubs.
#[derive(Debug, Default)]
pub(crate) struct GroupScrub {
    /// Nothing until they were read from the store.
    pub stamps: Option<Stamps>,
    pub is_loading: bool,
    /// When the group was first looked at here.
    pub since: Option<UTime>,
    /// What an administrator wants, until the stamps are known; then the group has it.
    pub order: Option<Order>,
    /// Not before then, after a round that came to nothing.
    pub not_before: Option<Time>,
    pub running: Option<Box<Running>>,
    pub member: Member,
    member_of: Option<(OsdId, Epoch)>,
    /// Repaired, to be looked at again.
    pub repaired: BTreeMap<HObject, Level>,
    /// Objects that were replaced from good copies, by scrubs or by reads that met damage.
    pub repairs: u64,
    /// What is wrong, as the last scrub in this interval saw it.
    pub findings: BTreeMap<HObject, Finding>,
    pub snap_findings: BTreeMap<HObject, SnapFinding>,
    /// In which interval the findings were made.
    pub findings_of: Option<Epoch>,
}

/// A round of which this OSD is the primary.
#[derive(Debug)]
pub(crate) struct Running {
    round: Round,
    serial: u64,
    interval: Epoch,
    order: Option<Order>,
    /// Only what was repaired is looked at, if anything was.
    recheck: BTreeMap<HObject, Level>,
    count: Count,
    omaps: OmapTotals,
    heard: Time,
}

impl Scrubs {
    /// Groups whose primaries were promised help.
    pub fn helped_count(&self) -> usize {
        self.helped.len()
    }

    /// A group became fit for being scrubbed.
    pub fn hurry(&mut self, now: Time) {
        let soon = now + GATHER;
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
    }
}

impl GroupScrub {
    /// What a group's state says besides how it is with its copies.
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

    pub fn is_recheck(&self) -> bool {
        !self.recheck.is_empty()
    }

    pub fn may_repair(&self) -> bool {
        self.order.is_some_and(|order| order.repair)
    }
}

/// What the store was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScrubTag {
    LoadStamps,
    StoreStamps,
    StoreIndex,
    Round(u64, RoundTag),
    Member(MemberTag),
}

impl Osd {
    /// The groups of which this OSD is the primary: when they were scrubbed, as far as is known, and
    /// whether something found is still being repaired, or is to be looked at again.
    pub fn scrubs(&self) -> impl Iterator<Item = (PgId, Option<Stamps>, bool)> + '_ {
        let primaries = self.groups.iter().filter(|(_, group)| group.pg.is_primary());
        primaries.map(|(pg, group)| {
            let scrub = &group.scrub;
            let is_busy = scrub.running.is_some() || !scrub.repaired.is_empty();
            let is_wanted = scrub.order.is_some() || group.wanted_scrub().is_some();
            (*pg, scrub.stamps, is_busy || is_wanted)
        })
    }

    /// How often a scrub of this OSD as primary found something wrong with an object, since it started.
    pub fn scrub_findings(&self) -> u64 {
        self.scrubs.findings
    }

    pub(crate) fn take_scrub_message(&mut self, now: Time, from: OsdId, message: &Message) {
        let (header, body) = match Body::decode(message) {
            Ok(decoded) => decoded,
            Err(error) => {
                tracing::error!(%from, %error, "a scrub's message does not decode");
                return;
            }
        };
        let pg = header.pg;
        let Some(group) = self.groups.get_mut(&pg) else { return };
        if header.interval != group.pg.interval() || !group.pg.members().acting.contains(&from) {
            return;
        }
        match body {
            Body::Reserve => self.promise_help(pg, from),
            Body::Release => drop(self.scrubs.helped.remove(&pg)),
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

    pub(crate) fn scrub_completed(
        &mut self,
        now: Time,
        pg: PgId,
        tag: ScrubTag,
        outcome: Result<Outcome, StoreError>,
    ) {
        let Some(group) = self.groups.get_mut(&pg) else { return };
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

    /// Reads for another OSD's scrub, and its answer.
    fn pump_member(&mut self, pg: PgId) {
        while let Some(group) = self.groups.get_mut(&pg) {
            if let Some((tag, kind)) = group.scrub.member.poll_request() {
                let serial = group.serial;
                self.ask_store(Pending::Scrub { pg, serial, tag: ScrubTag::Member(tag) }, kind);
                continue;
            }
            let Some((number, mut map)) = group.scrub.member.poll_answer() else { return };
            let Some((primary, interval)) = group.scrub.member_of else { return };
            if interval == group.pg.interval() {
                if let Some(map) = &mut map {
                    self.add_to_index(pg, std::mem::take(&mut map.unindexed));
                }
                self.send_scrub(pg, primary, &Body::Map(number, map));
            }
        }
    }

    fn send_scrub(&mut self, pg: PgId, to: OsdId, body: &Body) {
        let Some(group) = self.groups.get(&pg) else { return };
        let header = Header { pg, epoch: self.map.epoch, interval: group.pg.interval() };
        self.send_to_osd(to, body.encode(&header));
    }

    fn promise_help(&mut self, pg: PgId, to: OsdId) {
        let groups = &self.groups;
        self.scrubs.helped.retain(|pg, interval| {
            groups.get(pg).is_some_and(|group| group.pg.interval() == *interval)
        });
        let is_free = self.scrubs.helped.len() < self.options.max_scrubs.max(1);
        if is_free {
            let interval = self.groups[&pg].pg.interval();
            self.scrubs.helped.insert(pg, interval);
        }
        self.send_scrub(pg, to, &Body::Reserved(is_free));
    }

    pub(crate) fn begin_scrub(&mut self, now: Time, pg: PgId, level: Level, order: Option<Order>) {
        let whoami = self.config.id;
        let Some(group) = self.groups.get_mut(&pg) else { return };
        self.scrubs.rounds += 1;
        let serial = self.scrubs.rounds;
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
        self.scrubs.own.insert(pg);
        self.reporting.request(now);
        self.pump_scrub(now, pg);
    }

    /// Does what a round wants done.
    pub(crate) fn pump_scrub(&mut self, now: Time, pg: PgId) {
        loop {
            let Some(group) = self.groups.get_mut(&pg) else { return };
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
                    self.ask_store(Pending::Scrub { pg, serial: group_serial, tag }, kind);
                }
                Some(RoundOutput::Index(pairs)) => self.add_to_index(pg, pairs),
                None => break,
            }
        }
        let Some(group) = self.groups.get_mut(&pg) else { return };
        let ended = group.scrub.running.take_if(|running| running.round.end().is_some());
        if let Some(running) = ended {
            self.end_scrub(now, pg, &running);
        }
    }

    /// Something is wrong with an object: it is repaired, if it is clear how.
    fn take_finding(&mut self, now: Time, pg: PgId, finding: Finding) {
        let may_repair = self.options.scrub_auto_repair;
        self.scrubs.findings += 1;
        let Some(group) = self.groups.get_mut(&pg) else { return };
        // Of a group at rest nothing changes before it is merged.
        let rests = group.must_rest();
        let Some(running) = &mut group.scrub.running else { return };
        let level = running.round.level();
        let wanted = may_repair && finding.is_certain() || running.may_repair();
        let object = finding.name.clone();
        tracing::error!(
            %pg, %object, authority = ?finding.authority, bad = ?finding.bad,
            "scrub: copies of an object differ or cannot be read"
        );
        // What was repaired once and is wrong again is not repaired for ever.
        let wanted = wanted && !running.is_recheck();
        let repaired = wanted && !rests && group.pg.repair(now.wall(), &finding);
        if repaired && let Some(context) = group.objects.get_mut(&object) {
            // It is read again when it is needed and has been replaced.
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
        self.pump_group(now, pg);
    }

    /// An object's clones are not those that it names. What is not there cannot be made; what nobody
    /// can see goes if an administrator wants it repaired.
    fn take_snap_finding(&mut self, now: Time, pg: PgId, finding: SnapFinding) {
        let Some(group) = self.groups.get_mut(&pg) else { return };
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
        self.pump_group(now, pg);
    }

    /// A deep scrub has read an omap.
    fn take_omap(&mut self, pg: PgId, object: &HObject, size: OmapSize) {
        let options = &self.options;
        let is_large = size.keys > options.omap_keys_usual || size.bytes > options.omap_bytes_usual;
        let Some(group) = self.groups.get_mut(&pg) else { return };
        // Repaired copies were counted before.
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

    /// Pairs that belong to stored heads, and were lost; whether they are still true does not matter.
    fn add_to_index(&mut self, pg: PgId, pairs: BTreeMap<Bytes, Bytes>) {
        let Some(group) = self.groups.get(&pg).filter(|_| !pairs.is_empty()) else { return };
        let change = Change::OmapSet { object: pg::meta_object(pg), pairs };
        let kind = RequestKind::Commit(Transaction { changes: vec![(Collection(pg), change)] });
        let serial = group.serial;
        self.ask_store(Pending::Scrub { pg, serial, tag: ScrubTag::StoreIndex }, kind);
    }

    fn end_scrub(&mut self, now: Time, pg: PgId, running: &Running) {
        self.scrubs.own.remove(&pg);
        self.scrubs.due = Some(now);
        self.reporting.request(now);
        let Some(group) = self.groups.get_mut(&pg) else { return };
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
        // What was ordered meanwhile is not done by what had begun before.
        let next = next.map(|order| Order { at: stamps.after(order.at), ..order });
        group.pg.set_scrub_order(next);
        self.publish_stamps(pg, stamps);
    }

    /// All members keep the stamps, and what is still to be done.
    fn publish_stamps(&mut self, pg: PgId, stamps: Stamps) {
        let Some(group) = self.groups.get_mut(&pg) else { return };
        let order = group.pg.scrub_order().filter(|order| !stamps.has_done(order));
        let stamps = Stamps { order, ..stamps };
        group.scrub.stamps = Some(stamps);
        let members = group.pg.members().acting.clone();
        for member in members {
            if member != self.config.id {
                self.send_scrub(pg, member, &Body::Keep(stamps));
            }
        }
        self.store_stamps(pg, stamps);
    }

    fn store_stamps(&mut self, pg: PgId, stamps: Stamps) {
        let Some(group) = self.groups.get(&pg) else { return };
        let pairs = BTreeMap::from([(STAMPS_KEY, codec::encode_to_bytes(&stamps))]);
        let change = Change::OmapSet { object: pg::meta_object(pg), pairs };
        let kind = RequestKind::Commit(Transaction { changes: vec![(Collection(pg), change)] });
        let serial = group.serial;
        self.ask_store(Pending::Scrub { pg, serial, tag: ScrubTag::StoreStamps }, kind);
    }

    /// Rounds whose interval is over, or that nobody answers, come to nothing.
    pub(crate) fn drop_dead_scrubs(&mut self, now: Time) {
        for pg in std::mem::take(&mut self.scrubs.own) {
            let Some(group) = self.groups.get_mut(&pg) else { continue };
            let (interval, is_clean) = (group.pg.interval(), group.pg.is_active());
            let Some(running) = &mut group.scrub.running else { continue };
            if running.interval == interval && is_clean && now < running.heard + PATIENCE {
                self.scrubs.own.insert(pg);
                continue;
            }
            let mut running = group.scrub.running.take().expect("looked at above");
            if running.interval == interval {
                running.round.stop(End::Failed(self.config.id));
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

pub(crate) fn view(pg: &pg::Pg) -> View<'_> {
    View { log: pg.log(), committed: pg.committed(), recoveries: pg.recoveries_begun() }
}
