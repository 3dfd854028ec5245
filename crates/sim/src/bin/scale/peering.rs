//! What the members of a group say to each other when a rack fails, by a sample.
//!
//! Some groups that lose a member are drawn, and all OSDs that have to do with them run: those that they
//! are on before and after. Messages between these are delivered at once; what they send to anybody
//! else, for other groups, is dropped. Of what is sent, only messages of the sample are counted.

use super::cluster::{self, Shape};
use super::osd::Lone;
use super::report::{Report, bytes, timed};
use engine::Message;
use maps::OsdMap;
use pg::message::Body;
use std::collections::{BTreeMap, BTreeSet};
use types::{OsdId, PgId};

struct Sample {
    groups: BTreeSet<PgId>,
    osds: BTreeMap<OsdId, Lone>,
    /// By kind, of the sample's groups: messages and bytes; those to the sample's OSDs apart.
    sent: BTreeMap<u16, (usize, usize)>,
}

pub fn measure(map: &OsdMap, shape: Shape, count: u32, report: &mut Report) {
    let (down_increment, down) = cluster::rack_goes_down(map, shape);
    let (out_increment, out) = cluster::rack_goes_out(&down, shape);
    let rack: BTreeSet<OsdId> = shape.rack(0).collect();
    let mut placement = map.placement();
    let mut loses = |pg: &PgId| placement.pg_to_osds(*pg).up.iter().any(|osd| rack.contains(osd));
    let all = || map.pools.keys().flat_map(|pool| map.pgs(*pool));
    let concerned = all().filter(|pg| loses(pg)).count();
    let groups: BTreeSet<PgId> = all().filter(|pg| loses(pg)).take(count as usize).collect();
    let mut members = BTreeSet::new();
    for map in [map, &out] {
        let mut placement = map.placement();
        members.extend(groups.iter().flat_map(|pg| placement.pg_to_osds(*pg).up));
    }
    report.section(&format!(
        "Peering when a rack fails: {count} of {concerned} groups, on {} OSDs",
        members.len()
    ));
    let osds = members.iter().map(|osd| (*osd, Lone::new(*osd))).collect();
    let mut sample = Sample { groups, osds, sent: BTreeMap::new() };
    let (_, took) = timed(|| sample.step(|osd| osd.tell_map(map)));
    sample.report("all is new", concerned, shape, report);
    report.time("CPU of all of these OSDs", took);
    for osd in &rack {
        sample.osds.remove(osd);
    }
    let (_, took) = timed(|| sample.step(|osd| osd.tell_increment(&down_increment)));
    sample.report("the rack is down", concerned, shape, report);
    report.time("CPU of all of these OSDs", took);
    let (_, took) = timed(|| sample.step(|osd| osd.tell_increment(&out_increment)));
    sample.report("the rack is out", concerned, shape, report);
    report.time("CPU of all of these OSDs", took);
}

impl Sample {
    fn step(&mut self, tell: impl Fn(&mut Lone)) {
        self.sent.clear();
        let ids: Vec<OsdId> = self.osds.keys().copied().collect();
        for id in ids {
            tell(self.osds.get_mut(&id).expect("it runs"));
        }
        while self.pass_on() {}
    }

    /// Delivers what was said last.
    fn pass_on(&mut self) -> bool {
        let mut parcels: Vec<(OsdId, OsdId, Message)> = Vec::new();
        for (from, osd) in &mut self.osds {
            let sent = std::mem::take(&mut osd.sent);
            parcels.extend(sent.into_iter().map(|(to, message)| (*from, to, message)));
        }
        let mut any = false;
        for (from, to, message) in parcels {
            let Ok((header, _)) = Body::decode(&message) else { continue };
            if !self.groups.contains(&header.pg) {
                continue;
            }
            let (messages, size) = self.sent.entry(message.kind).or_default();
            (*messages, *size) = (*messages + 1, *size + message.len());
            if let Some(osd) = self.osds.get_mut(&to) {
                osd.hear(from, message);
                any = true;
            }
        }
        any
    }

    fn report(&self, what: &str, concerned: usize, shape: Shape, report: &mut Report) {
        let messages: usize = self.sent.values().map(|(messages, _)| messages).sum();
        let size: usize = self.sent.values().map(|(_, size)| size).sum();
        let per_group = messages as f64 / self.groups.len() as f64;
        let bytes_per_group = size / self.groups.len();
        let kinds = self.sent.iter().map(|(kind, (count, _))| format!("{kind:#x}: {count}"));
        let kinds: Vec<String> = kinds.collect();
        report.line(format!("{what}: kinds"), kinds.join(", "));
        report.line(
            format!("{what}: per group"),
            format!("{per_group:.1} messages, {}", bytes(bytes_per_group)),
        );
        let total = per_group * concerned as f64;
        report.line(
            format!("{what}: cluster, scaled up by groups"),
            format!("{total:.0} messages, {}", bytes(bytes_per_group * concerned)),
        );
        report.line(
            format!("{what}: per OSD of the cluster"),
            format!("{:.1} messages", total / shape.osds as f64),
        );
    }
}
