//! Where groups lie: what it costs to know, and how evenly it is spread.

use super::cluster::{self, Shape, change};
use super::maps::reweight;
use super::report::{Report, bytes, timed};
use maps::{OsdMap, RawTable};
use types::{OsdId, PgId};

pub fn measure(map: &OsdMap, shape: Shape, report: &mut Report) {
    report.section("Which groups lie where");
    let groups: Vec<PgId> = map.pools.keys().flat_map(|pool| map.pgs(*pool)).collect();
    let (_, took) = timed(|| {
        let mut placement = map.placement();
        groups.iter().map(|pg| placement.pg_to_osds(*pg).acting.len()).sum::<usize>()
    });
    report.time("asking CRUSH about every group", took);
    report.time("the same, per group", took / groups.len() as u32);
    let mut table = RawTable::default();
    let (_, took) = timed(|| table.update(map));
    report.time("filling a table", took);
    report.line("memory of a table", bytes(table.memory()));
    let (_, down) = cluster::rack_goes_down(map, shape);
    update(&mut table, &down, "a rack goes down", report);
    let (_, out) = cluster::rack_goes_out(&down, shape);
    update(&mut table, &out, "a rack goes out", report);
    let (_, back) = change(&out, |increment| {
        shape.rack(0).for_each(|osd| {
            increment.new_weight.insert(osd, maps::WEIGHT_IN);
        });
    });
    update(&mut table, &back, "a rack comes in again", report);
    let (_, one) = change(&back, |increment| {
        increment.new_weight.insert(OsdId(3), 0);
    });
    update(&mut table, &one, "one OSD goes out", report);
    let mut next = one.clone();
    next.apply(&reweight(&one)).expect("it fits");
    update(&mut table, &next, "one OSD's CRUSH weight changes", report);
    let (own, took) = timed(|| table.groups_of(OsdId(5)));
    report.time(format!("finding the {} groups of one OSD in the table", own.len()), took);
    balance(map, shape, report);
}

fn update(table: &mut RawTable, map: &OsdMap, what: &str, report: &mut Report) {
    let before = table.computed();
    let (_, took) = timed(|| table.update(map));
    let asked = table.computed() - before;
    report.time(format!("{what}: update ({asked} groups asked about)"), took);
}

fn balance(map: &OsdMap, shape: Shape, report: &mut Report) {
    report.section("Balance of placement, copies per OSD");
    let mut table = RawTable::default();
    table.update(map);
    let mut counts = vec![0u32; shape.osds];
    for pg in map.pools.keys().flat_map(|pool| map.pgs(*pool)) {
        map.look_up(&table, pg).up.iter().for_each(|osd| counts[osd.0 as usize] += 1);
    }
    let mean = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
    let variance = counts.iter().map(|c| (f64::from(*c) - mean).powi(2)).sum::<f64>();
    let deviation = (variance / counts.len() as f64).sqrt();
    let (min, max) = (counts.iter().min(), counts.iter().max());
    let (min, max) = (*min.expect("there are OSDs"), *max.expect("there are OSDs"));
    report.line("mean", format!("{mean:.1}"));
    report.line("standard deviation", format!("{deviation:.1}, {:.1} %", 100.0 * deviation / mean));
    let share = |count: u32| 100.0 * f64::from(count) / mean;
    report.line("fewest", format!("{min}, {:.0} % of the mean", share(min)));
    report.line("most", format!("{max}, {:.0} % of the mean", share(max)));
}
