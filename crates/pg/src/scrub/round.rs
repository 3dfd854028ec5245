//! One scrub of a group, run by its primary.
//!
//! ```text
//! Reserving → Listing → Scanning ⟲ (each chunk) → over
//! ```
//!
//! Clients are not delayed. An object that is written while its chunk is scanned is not compared, but scanned
//! again, a few times; then it is left to the next scrub, as *busy*. A round that meets recoveries as often
//! ends without result. Comparing is sound because the primary's log
//! has every write that any member may have applied: an object without a log entry above the version that
//! was committed when the chunk began was the same for all members while they read it.
//!
//! Knows nothing of repair, nor of the time.

use super::compare::{Expected, compare};
use super::families::{Families, SnapFinding, check_family};
use super::findings::Finding;
use super::map::{Level, OmapSize, ScrubMap, ScrubObject};
use super::message::Body;
use super::scan::{Extent, Scan, ScanTag};
use super::shards::compare_shards;
use crate::Member;
use crate::backend::erasure::geometry::Geometry;
use crate::{EntryKind, PgLog, is_meta_object};
use bytes::Bytes;
use erasure::Code;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use store::{Collection, Outcome, RequestKind, StoreError};
use types::{EVersion, HObject, PgId, PgShard};

/// Objects in a chunk at most.
const CHUNK_OBJECTS_MAX: usize = 32;
/// Scans of an object that is being written, at most.
const TRIES_MAX: u32 = 5;

/// The state of the group that a round needs at each step.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The primary's log.
    pub log: &'a PgLog,
    /// All writes up to here are durable on all members.
    pub committed: EVersion,
    /// Number of recoveries that were begun in this interval; `None` while one of them has not ended.
    pub recoveries: Option<u64>,
    /// The places and the code of shards, in a group that has them.
    pub(crate) shards: Option<(Geometry, &'a Code)>,
}

/// A round's request to its own store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundTag {
    /// The names of the next chunk.
    Chunk,
    /// A request of the scan with this number.
    Scan(u64, ScanTag),
}

/// Effects for the OSD to carry out.
#[derive(Debug)]
pub enum RoundOutput {
    /// Send the body to a member.
    Send(Member, Body),
    /// Submit a request to the store; its outcome goes to [`Round::handle_completion`] with the tag.
    Storage(RoundTag, RequestKind),
    /// Pairs to add to this copy's clone index.
    Index(BTreeMap<Bytes, Bytes>),
}

/// How a round ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// All objects were scanned.
    Complete,
    /// A member refused its reservation.
    Refused(Member),
    /// A store cannot list its objects.
    Failed(Member),
    /// Objects were recovered all the time.
    Recovering,
}

#[derive(Debug)]
enum Stage {
    /// Members without a reservation, in descending order; the last one was asked. All primaries ask in
    /// the same order, so that no two rounds hold reservations that the other one needs.
    Reserving(Vec<Member>),
    Listing,
    Scanning(Box<Chunk>),
    Over(End),
}

#[derive(Debug)]
struct Chunk {
    /// The first object of the next chunk.
    end: HObject,
    /// The committed version when the members were asked.
    since: EVersion,
    /// The recoveries at that time, see [`View::recoveries`].
    recoveries: Option<u64>,
    own: Option<Scan>,
    maps: BTreeMap<Member, ScrubMap>,
    tries: u32,
    /// Set if the chunk is one family: an object and all its clones, the object last.
    family: Option<Vec<HObject>>,
}

/// One scrub of a group. Drain the `poll_*` functions after every call.
#[derive(Debug)]
pub struct Round {
    pg: PgId,
    whoami: Member,
    members: Vec<Member>,
    level: Level,
    stage: Stage,
    cursor: HObject,
    /// The objects that are left, in a round that is limited to some.
    only: Option<Vec<HObject>>,
    /// The number of the latest scan.
    number: u64,
    objects: u64,
    busy: u64,
    findings: VecDeque<Finding>,
    families: Families,
    snap_findings: VecDeque<SnapFinding>,
    omaps: BTreeMap<HObject, OmapSize>,
    outputs: VecDeque<RoundOutput>,
}

impl Round {
    /// A round over the acting set `members`, all of which must be complete. Scans are numbered from
    /// `first_number` on: numbers must differ from other rounds', so that late answers are told apart.
    pub fn new(
        pg: PgId,
        whoami: Member,
        members: Vec<Member>,
        level: Level,
        first_number: u64,
    ) -> Self {
        assert!(members.contains(&whoami), "the primary is scrubbed too");
        let mut round = Round {
            pg,
            whoami,
            level,
            stage: Stage::Listing,
            cursor: HObject::hash_start(pg.pool, 0),
            only: None,
            number: first_number,
            objects: 0,
            busy: 0,
            findings: VecDeque::new(),
            families: Families::default(),
            snap_findings: VecDeque::new(),
            omaps: BTreeMap::new(),
            outputs: VecDeque::new(),
            members,
        };
        let mut others: Vec<Member> = round.others().collect();
        others.sort_unstable();
        others.reverse();
        round.reserve(others);
        round
    }

    /// A round that scans only these objects.
    pub fn of_names(
        pg: PgId,
        whoami: Member,
        members: Vec<Member>,
        level: Level,
        names: Vec<HObject>,
        first_number: u64,
    ) -> Self {
        let mut round = Round::new(pg, whoami, members, level, first_number);
        round.only = Some(names);
        round
    }

    /// The level of the round.
    pub fn level(&self) -> Level {
        self.level
    }

    /// How the round ended, if it did.
    pub fn end(&self) -> Option<&End> {
        match &self.stage {
            Stage::Over(end) => Some(end),
            _ => None,
        }
    }

    /// Numbers of objects that were compared, and of objects that were left as busy.
    pub fn progress(&self) -> (u64, u64) {
        (self.objects, self.busy)
    }

    /// The next effect to carry out.
    pub fn poll_output(&mut self) -> Option<RoundOutput> {
        self.outputs.pop_front()
    }

    /// The next inconsistency that was found.
    pub fn poll_finding(&mut self) -> Option<Finding> {
        self.findings.pop_front()
    }

    /// The next inconsistency of clones that was found.
    pub fn poll_snap_finding(&mut self) -> Option<SnapFinding> {
        self.snap_findings.pop_front()
    }

    /// The next size of an omap of the primary's; each is returned once.
    pub fn poll_omap(&mut self) -> Option<(HObject, OmapSize)> {
        self.omaps.pop_first()
    }

    /// Ends the round early or regularly, and gives the reservations back.
    pub fn stop(&mut self, end: End) {
        if self.end().is_none() {
            let others: Vec<Member> = self.others().collect();
            others.into_iter().for_each(|osd| self.send(osd, Body::Release));
            self.stage = Stage::Over(end);
        }
    }

    /// Handles a message of another member. `view` must be current.
    pub fn handle_message(&mut self, from: Member, body: Body, view: View<'_>) {
        match body {
            Body::Reserved(false) => self.stop(End::Refused(from)),
            Body::Reserved(true) => {
                let Stage::Reserving(waiting) = &mut self.stage else { return };
                if waiting.last() == Some(&from) {
                    waiting.pop();
                    let waiting = std::mem::take(waiting);
                    self.reserve(waiting);
                }
            }
            Body::Map(number, map) if number == self.number => self.take_map(from, map, view),
            _ => {}
        }
    }

    /// Handles the outcome of a [`RoundOutput::Storage`]. `view` must be current.
    pub fn handle_completion(
        &mut self,
        tag: RoundTag,
        outcome: Result<Outcome, StoreError>,
        view: View<'_>,
    ) {
        match tag {
            RoundTag::Chunk => self.listed(outcome, view),
            RoundTag::Scan(number, tag) if number == self.number => {
                let Stage::Scanning(chunk) = &mut self.stage else { return };
                let Some(scan) = &mut chunk.own else { return };
                scan.handle(tag, outcome);
                self.pump_scan(view);
            }
            RoundTag::Scan(..) => {}
        }
    }

    fn others(&self) -> impl Iterator<Item = Member> + '_ {
        self.members.iter().copied().filter(|osd| *osd != self.whoami)
    }

    fn send(&mut self, to: Member, body: Body) {
        self.outputs.push_back(RoundOutput::Send(to, body));
    }

    fn collection(&self) -> Collection {
        Collection(PgShard { pg: self.pg, shard: self.whoami.shard })
    }

    fn reserve(&mut self, waiting: Vec<Member>) {
        match waiting.last() {
            None => self.list(),
            Some(next) => {
                self.send(*next, Body::Reserve);
                self.stage = Stage::Reserving(waiting);
            }
        }
    }

    fn list(&mut self) {
        self.stage = Stage::Listing;
        let (collection, from) = (self.collection(), self.cursor.clone());
        let kind = RequestKind::List { collection, from, entries_max: CHUNK_OBJECTS_MAX };
        self.outputs.push_back(RoundOutput::Storage(RoundTag::Chunk, kind));
    }

    fn listed(&mut self, outcome: Result<Outcome, StoreError>, view: View<'_>) {
        let Stage::Listing = self.stage else { return };
        let end = match outcome {
            Ok(Outcome::List(_, next)) => next.unwrap_or_else(HObject::max),
            _ => return self.stop(End::Failed(self.whoami)),
        };
        let extent = Extent::Range(self.cursor.clone(), end.clone());
        match self
            .only
            .as_mut()
            .map(|only| only.split_off(only.len().saturating_sub(CHUNK_OBJECTS_MAX)))
        {
            Some(names) => self.ask(Extent::Names(names), HObject::max(), 0, view),
            None => self.ask(extent, end, 0, view),
        }
    }

    /// Has all members scan the extent.
    fn ask(&mut self, extent: Extent, end: HObject, tries: u32, view: View<'_>) {
        self.ask_at(self.level, extent, end, tries, view);
    }

    /// Has all members scan an object with all its clones.
    fn ask_family(&mut self, family: Vec<HObject>, tries: u32, view: View<'_>) {
        let extent = Extent::Names(family.clone());
        self.ask_at(Level::Light, extent, HObject::max(), tries, view);
        if let Stage::Scanning(chunk) = &mut self.stage {
            chunk.family = Some(family);
        }
    }

    fn ask_at(&mut self, level: Level, extent: Extent, end: HObject, tries: u32, view: View<'_>) {
        assert!(!matches!(self.stage, Stage::Over(_)), "a round that is over scans nothing");
        self.number += 1;
        let others: Vec<Member> = self.others().collect();
        for osd in others {
            self.send(osd, Body::Scan(self.number, level, extent.clone()));
        }
        let own = Some(Scan::new(self.collection(), extent, level));
        let (since, recoveries, maps) = (view.committed, view.recoveries, BTreeMap::new());
        let chunk = Chunk { end, since, recoveries, own, maps, tries, family: None };
        self.stage = Stage::Scanning(Box::new(chunk));
        self.pump_scan(view);
    }

    fn pump_scan(&mut self, view: View<'_>) {
        let Stage::Scanning(chunk) = &mut self.stage else { return };
        let Some(mut scan) = chunk.own.take() else { return };
        while let Some((tag, kind)) = scan.poll_request() {
            let tag = RoundTag::Scan(self.number, tag);
            self.outputs.push_back(RoundOutput::Storage(tag, kind));
        }
        match scan.is_done() {
            true => self.take_map(self.whoami, scan.finish().ok(), view),
            false => chunk.own = Some(scan),
        }
    }

    fn take_map(&mut self, from: Member, map: Option<ScrubMap>, view: View<'_>) {
        let Stage::Scanning(chunk) = &mut self.stage else { return };
        if !self.members.contains(&from) {
            return;
        }
        let Some(mut map) = map else { return self.stop(End::Failed(from)) };
        if !map.unindexed.is_empty() {
            self.outputs.push_back(RoundOutput::Index(std::mem::take(&mut map.unindexed)));
        }
        chunk.maps.insert(from, map);
        assert!(chunk.maps.len() <= self.members.len(), "only members have maps");
        if chunk.maps.len() == self.members.len() {
            self.compare_maps(view);
        }
    }

    /// Compares the maps of the chunk, once all are there.
    fn compare_maps(&mut self, view: View<'_>) {
        let Stage::Scanning(chunk) = std::mem::replace(&mut self.stage, Stage::Listing) else {
            unreachable!("called in this stage")
        };
        let Chunk { mut end, since, recoveries, mut maps, tries, family, .. } = *chunk;
        // A member that has far more objects than the primary returns only the first of them.
        end = maps.values().filter_map(|map| map.until.clone()).chain([end]).min().expect("one");
        // The objects that were recovered meanwhile are not known, so all count as written.
        let was_recovering = recoveries.is_none() || recoveries != view.recoveries;
        let written = (!was_recovering).then(|| written_since(view, since)).flatten();
        // Nothing would have been compared: another round must do it when the group has recovered. A finding
        // of this one may be what is being repaired.
        if was_recovering && tries + 1 >= TRIES_MAX {
            return self.stop(End::Recovering);
        }
        let is_still = |name: &HObject| written.as_ref().is_some_and(|w| !w.contains(name));
        let mut again = BTreeSet::new();
        for map in maps.values_mut() {
            map.objects.retain(|name, _| *name < end && !is_meta_object(name));
            let moving = map.objects.keys().filter(|name| !is_still(name));
            again.extend(moving.cloned());
            map.objects.retain(|name, _| is_still(name));
        }
        // The size of an omap that is written all the time is approximate.
        let is_last = tries + 1 >= TRIES_MAX;
        if let Some(own) = maps.get_mut(&self.whoami) {
            let mut read = std::mem::take(&mut own.omaps);
            read.retain(|name, _| *name < end && !is_meta_object(name));
            read.retain(|name, _| is_last || is_still(name));
            self.omaps.append(&mut read);
        }
        let expected = |name: &HObject| expected(view.log, name);
        let findings = match view.shards {
            None => compare(&maps, self.whoami, expected),
            Some(code) => compare_shards(code, &maps, self.whoami, expected),
        };
        let mut own = maps.remove(&self.whoami).unwrap_or_default();
        if view.shards.is_some() {
            // Families are compared by the sizes that clients see.
            own.objects.values_mut().for_each(ScrubObject::take_logical_size);
        }
        if let Some(family) = family {
            return self.finish_family(family, own, findings, !again.is_empty(), tries, view);
        }
        self.objects += own.objects.len() as u64;
        findings.iter().for_each(|finding| self.families.doubt(&finding.name));
        self.findings.extend(findings);
        self.families.see(own);
        if !again.is_empty() && tries + 1 < TRIES_MAX {
            let names = again.into_iter().collect();
            return self.ask(Extent::Names(names), end, tries + 1, view);
        }
        again.iter().for_each(|name| self.families.doubt(name));
        self.busy += again.len() as u64;
        if self.only.is_none() {
            self.families.pass(&end);
        }
        if self.only.as_ref().is_some_and(|only| !only.is_empty()) {
            return self.list();
        }
        match end.max {
            true => self.scan_next_suspect(view),
            false => {
                self.cursor = end;
                self.list();
            }
        }
    }

    /// All objects were scanned once; the suspect families are scanned again.
    fn scan_next_suspect(&mut self, view: View<'_>) {
        match self.families.next_suspect() {
            Some(family) => self.ask_family(family, 0, view),
            None => self.stop(End::Complete),
        }
    }

    fn finish_family(
        &mut self,
        family: Vec<HObject>,
        own: ScrubMap,
        findings: Vec<Finding>,
        was_written: bool,
        tries: u32,
        view: View<'_>,
    ) {
        if was_written && tries + 1 < TRIES_MAX {
            return self.ask_family(family, tries + 1, view);
        }
        let head = family.last().expect("a family has a head");
        match findings.is_empty() {
            true if !was_written => self.snap_findings.extend(check_family(head, &own)),
            true => self.busy += 1,
            false => self.findings.extend(findings),
        }
        self.scan_next_suspect(view);
    }
}

/// The objects that may have changed since; `None` if the log does not reach back so far.
fn written_since<'a>(view: View<'a>, since: EVersion) -> Option<BTreeSet<&'a HObject>> {
    if view.log.tail() > since {
        return None;
    }
    let changes = view.log.above(since).filter(|entry| entry.changes_object());
    Some(changes.map(|entry| &entry.object).collect())
}

/// The state of an object according to the log.
fn expected(log: &PgLog, name: &HObject) -> Expected {
    let last = log.entries().rev().find(|entry| entry.changes_object() && entry.object == *name);
    match last {
        None => Expected::Unknown,
        Some(entry) if entry.kind == EntryKind::Delete => Expected::Absent,
        Some(entry) => Expected::Version(entry.version),
    }
}
