//! Cost of computing placement, and how evenly groups are spread.

use super::cluster::{self, Shape, change};
use super::maps::reweight;
use super::report::{Report, bytes, timed};
use maps::{OsdMap, RawTable};
use mon::balancer::{Limits, plan};
use std::time::Duration;
use types::{OsdId, PgId};

/// Defaults of `upmap_max_deviation` and `upmap_max_optimizations`.
const DEVIATION_DEFAULT: f64 = 5.0;
const STEP_DEFAULT: usize = 10;
/// Upmap items per step; bounds the number of steps.
const STEP: usize = 1000;

/// Measures the placement of all groups.
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

/// The spread as it is, and after the balancer with a given deviation in groups per OSD.
fn balance(map: &OsdMap, shape: Shape, report: &mut Report) {
    report.section("Balance of placement, copies per OSD");
    let (mut map, mut table) = (map.clone(), RawTable::default());
    table.update(&map);
    spread(&map, &table, shape, "without exchanges", report);
    for max_deviation in [DEVIATION_DEFAULT, 1.0] {
        let one = Limits { max_deviation, max_changes: STEP_DEFAULT };
        let (_, took) = timed(|| plan(&map, &table, one));
        report.time(format!("within {max_deviation}: a step of {STEP_DEFAULT}"), took);
        let (mut steps, mut exchanges, mut longest) = (0, 0, Duration::ZERO);
        loop {
            let limits = Limits { max_deviation, max_changes: STEP };
            let (plan, took) = timed(|| plan(&map, &table, limits));
            if plan.is_empty() {
                report.time(format!("within {max_deviation}: a step that finds nothing"), took);
                break;
            }
            (steps, exchanges, longest) = (steps + 1, exchanges + plan.len(), longest.max(took));
            map = change(&map, |increment| {
                for (pg, items) in plan {
                    match items.is_empty() {
                        true => drop(increment.old_pg_upmap_items.insert(pg)),
                        false => drop(increment.new_pg_upmap_items.insert(pg, items)),
                    }
                }
            })
            .1;
            table.update(&map);
        }
        report.time(
            format!("within {max_deviation}: the longest of {steps} steps of {STEP}"),
            longest,
        );
        report.line(format!("within {max_deviation}: groups changed"), exchanges);
        spread(&map, &table, shape, &format!("within {max_deviation}"), report);
    }
}

fn spread(map: &OsdMap, table: &RawTable, shape: Shape, what: &str, report: &mut Report) {
    let mut counts = vec![0u32; shape.osds];
    for pg in map.pools.keys().flat_map(|pool| map.pgs(*pool)) {
        map.look_up(table, pg).up.iter().for_each(|osd| counts[osd.0 as usize] += 1);
    }
    let mean = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
    let variance = counts.iter().map(|c| (f64::from(*c) - mean).powi(2)).sum::<f64>();
    let deviation = (variance / counts.len() as f64).sqrt();
    let (min, max) = (counts.iter().min(), counts.iter().max());
    let (min, max) = (*min.expect("there are OSDs"), *max.expect("there are OSDs"));
    let share = |count: f64| 100.0 * count / mean;
    report.line(
        format!("{what}: standard deviation of {mean:.1}"),
        format!("{deviation:.2}, {:.1} %", share(deviation)),
    );
    report.line(
        format!("{what}: fewest and most"),
        format!("{min} ({:.0} %), {max} ({:.0} %)", share(f64::from(min)), share(f64::from(max))),
    );
}
