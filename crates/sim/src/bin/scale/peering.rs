//! Messages between the members of a sample of groups when a rack fails.
//!
//! Of the OSDs outside of the rack, the one that shares most groups with the rack is selected, and a sample
//! of these groups. All members of these groups before and after the failure run. Messages between them are
//! delivered at once, and a monitor without any logic of its own supplies the maps that they request;
//! messages to other OSDs, for other groups, are dropped. Only messages of the sample are counted.

use super::cluster::{self, Shape, change};
use super::osd::Lone;
use super::report::{Report, bytes, duration};
use engine::Message;
use maps::{Incremental, OsdMap};
use pg::message::Body;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{OsdId, PgId};
use wire::{MessageBody, OsdAlive, OsdPgTemp};

/// Writes to each group before the rack fails: the log is full, and its first entries are trimmed.
const WRITES: u32 = 1300;
/// Log entries that trimming keeps at least.
const LOG_LEAST: usize = 1000;
/// A step of time without other events, and the number of steps in which groups must become active.
const STEP: Duration = Duration::from_millis(500);
const STEPS_MAX: usize = 200;
/// Number of steps in which groups must become clean.
const STEPS_BEHIND: usize = 60;

#[derive(Default)]
struct Count {
    messages: usize,
    bytes: usize,
}

struct Sample {
    map: OsdMap,
    groups: BTreeSet<PgId>,
    /// The OSD that is a member of all groups of the sample.
    busiest: OsdId,
    osds: BTreeMap<OsdId, Lone>,
    /// Messages of the sample's groups, by kind.
    sent: BTreeMap<u16, Count>,
    /// Messages that the busiest OSD sent and received.
    own: Count,
    epochs: u32,
}

/// Measures peering of many groups.
pub fn measure(map: &OsdMap, shape: Shape, count: u32, report: &mut Report) {
    let (_, map_out) = cluster::rack_goes_out(map, shape);
    let rack: BTreeSet<OsdId> = shape.rack(0).collect();
    let shared = groups_shared_with(map, &rack);
    let concerned: BTreeSet<PgId> = shared.values().flatten().copied().collect();
    let (busiest, groups) = shared.iter().max_by_key(|(_, groups)| groups.len()).expect("some");
    let groups: BTreeSet<PgId> = groups.iter().copied().take(count as usize).collect();
    let mut members = BTreeSet::new();
    for map in [map, &map_out] {
        let mut placement = map.placement();
        members.extend(groups.iter().flat_map(|pg| placement.pg_to_osds(*pg).up));
    }
    report.section("Peering when a rack fails");
    let sizes = shared.values().map(BTreeSet::len);
    report.line("groups that lose a member", concerned.len());
    report.line("of one OSD that stays, on average", sizes.clone().sum::<usize>() / shared.len());
    report.line("of one OSD that stays, at most", sizes.max().unwrap_or(0));
    report.line("groups of the sample, and OSDs", format!("{}, {}", groups.len(), members.len()));
    let osds = members.iter().map(|osd| (*osd, Lone::new(*osd))).collect();
    // All OSDs see the creation of the pools, else they would look for earlier intervals.
    let mut bare = map.clone();
    (bare.pools, bare.pool_names) = Default::default();
    let (pools, map) = change(&bare, |increment| {
        (increment.new_pools, increment.new_pool_names) =
            (map.pools.clone(), map.pool_names.clone());
    });
    let (sent, own) = (BTreeMap::new(), Count::default());
    let mut sample = Sample { map, groups, busiest: *busiest, osds, sent, own, epochs: 0 };
    sample.osds.values_mut().for_each(|osd| osd.tell_map(&bare));
    sample.tell(&pools);
    sample.settle();
    sample.write();
    sample.pass_on_all();
    sample.osds.retain(|osd, _| !rack.contains(osd));
    sample.epochs = 0;
    let down = cluster::rack_goes_down(&sample.map, shape).0;
    sample.step("the rack is down", concerned.len(), report, down);
    let out = cluster::rack_goes_out(&sample.map, shape).0;
    sample.step("the rack is out", concerned.len(), report, out);
}

/// For each OSD outside of the rack, the groups that have a member in the rack.
fn groups_shared_with(map: &OsdMap, rack: &BTreeSet<OsdId>) -> BTreeMap<OsdId, BTreeSet<PgId>> {
    let mut placement = map.placement();
    let mut shared: BTreeMap<OsdId, BTreeSet<PgId>> = BTreeMap::new();
    for pg in map.pools.keys().flat_map(|pool| map.pgs(*pool)) {
        let up = placement.pg_to_osds(pg).up;
        if up.iter().any(|osd| rack.contains(osd)) {
            for osd in up.into_iter().filter(|osd| !rack.contains(osd)) {
                shared.entry(osd).or_default().insert(pg);
            }
        }
    }
    shared
}

impl Sample {
    /// Applies an event and runs until all groups are active, and then until no messages are left.
    fn step(&mut self, what: &str, concerned: usize, report: &mut Report, increment: Incremental) {
        self.sent.clear();
        (self.own, self.epochs) = (Count::default(), 0);
        self.osds.values_mut().for_each(|osd| osd.spent = Duration::ZERO);
        self.map.apply(&increment).expect("it fits");
        self.tell(&increment);
        let spent_before = self.busiest().spent;
        self.settle();
        self.report(&format!("{what}, until active"), concerned, spent_before, report);
        for _ in 0..STEPS_BEHIND {
            self.go_on();
        }
        self.report(&format!("{what}, in the end"), concerned, spent_before, report);
    }

    fn busiest(&self) -> &Lone {
        &self.osds[&self.busiest]
    }

    fn tell(&mut self, increment: &Incremental) {
        self.epochs += 1;
        self.osds.values_mut().for_each(|osd| osd.tell_increment(increment));
    }

    fn is_active(&self) -> bool {
        let active = self.osds.values().flat_map(|osd| osd.osd.groups());
        let active: BTreeSet<PgId> =
            active.filter(|pg| pg.is_primary() && pg.is_active()).map(|pg| pg.id()).collect();
        self.groups.is_subset(&active)
    }

    fn settle(&mut self) {
        self.pass_on_all();
        for _ in 0..STEPS_MAX {
            if self.is_active() {
                return;
            }
            self.go_on();
        }
        let groups = self.osds.values().flat_map(|osd| osd.osd.groups());
        let states = groups.filter(|pg| pg.is_primary() && self.groups.contains(&pg.id()));
        let states: Vec<_> = states.map(|pg| (pg.id(), pg.state())).collect();
        panic!("groups did not become active: {states:?}");
    }

    /// Delivers requested maps, or else advances time.
    fn go_on(&mut self) {
        if !self.grant() {
            for osd in self.osds.values_mut() {
                osd.wait(osd.now + STEP);
            }
        }
        self.pass_on_all();
    }

    /// Grants the requests of OSDs to the monitor, in one epoch.
    fn grant(&mut self) -> bool {
        let (mut alive, mut temporary) = (BTreeMap::new(), BTreeMap::new());
        for (id, osd) in &mut self.osds {
            for message in std::mem::take(&mut osd.asked) {
                match message.kind {
                    OsdAlive::KIND => {
                        let want = OsdAlive::decode(&message).expect("it is ours").want;
                        alive.insert(*id, want);
                    }
                    OsdPgTemp::KIND => {
                        let wish = OsdPgTemp::decode(&message).expect("it is ours").pg_temp;
                        temporary
                            .extend(wish.into_iter().filter(|(pg, _)| self.groups.contains(pg)));
                    }
                    _ => {}
                }
            }
        }
        alive.retain(|osd, want| self.map.osd(*osd).is_some_and(|osd| osd.info.up_thru < *want));
        temporary
            .retain(|pg, set| self.map.pg_temp.get(pg).map_or(!set.is_empty(), |now| now != set));
        if alive.is_empty() && temporary.is_empty() {
            return false;
        }
        let (increment, map) = change(&self.map, |increment| {
            increment.new_up_thru = alive;
            increment.new_pg_temp = temporary;
        });
        self.map = map;
        self.tell(&increment);
        true
    }

    fn write(&mut self) {
        for number in 0..WRITES {
            for pg in self.groups.clone() {
                let primary = self.map.pg_to_osds(pg).acting_primary.expect("it is active");
                self.osds.get_mut(&primary).expect("it runs").write(&self.map, pg, number);
            }
            self.pass_on_all();
        }
        let logs = self.busiest().osd.groups().filter(|pg| self.groups.contains(&pg.id()));
        let lengths: Vec<usize> = logs.map(|pg| pg.log().len()).collect();
        assert!(lengths.iter().all(|length| *length >= LOG_LEAST), "short logs: {lengths:?}");
    }

    fn pass_on_all(&mut self) {
        while self.pass_on() {}
    }

    /// Delivers the messages of the last step.
    fn pass_on(&mut self) -> bool {
        let mut messages: Vec<(OsdId, OsdId, Message)> = Vec::new();
        for (from, osd) in &mut self.osds {
            let sent = std::mem::take(&mut osd.sent);
            messages.extend(sent.into_iter().map(|(to, message)| (*from, to, message)));
        }
        let mut any = false;
        for (from, to, message) in messages {
            let Ok((header, _)) = Body::decode(&message) else { continue };
            if !self.groups.contains(&header.pg) {
                continue;
            }
            let count = self.sent.entry(message.kind).or_default();
            count.add(&message);
            if from == self.busiest || to == self.busiest {
                self.own.add(&message);
            }
            if let Some(osd) = self.osds.get_mut(&to) {
                osd.hear(from, message);
                any = true;
            }
        }
        any
    }

    fn report(&self, what: &str, concerned: usize, spent_before: Duration, report: &mut Report) {
        let groups = self.groups.len();
        let messages: usize = self.sent.values().map(|count| count.messages).sum();
        let size: usize = self.sent.values().map(|count| count.bytes).sum();
        let kinds = self.sent.iter().map(|(kind, count)| {
            format!("{kind:#x}: {} of {}", count.messages, bytes(count.bytes / count.messages))
        });
        let kinds: Vec<String> = kinds.collect();
        let scaled = |count: usize| count * concerned / groups;
        let line = |messages, size| format!("{messages:.1} messages, {}", bytes(size));
        report.line(format!("{what}: kinds"), kinds.join(", "));
        report.line(
            format!("{what}: per group"),
            line(messages as f64 / groups as f64, size / groups),
        );
        report.line(
            format!("{what}: all groups, scaled up"),
            line(scaled(messages) as f64, scaled(size)),
        );
        report.line(
            format!("{what}: the busiest OSD, sent and heard"),
            line(self.own.messages as f64, self.own.bytes),
        );
        report.line(format!("{what}: epochs"), self.epochs);
        let spent = self.busiest().spent - spent_before;
        report.line(
            format!("{what}: CPU of the busiest OSD, besides the event's map"),
            duration(spent),
        );
    }
}

impl Count {
    fn add(&mut self, message: &Message) {
        self.messages += 1;
        self.bytes += message.len();
    }
}
