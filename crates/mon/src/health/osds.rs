//! Checks of OSDs: down and silent ones, flags, fullness.

use super::check::{Health, Severity, View, next_step, plural};
use crate::keys;
use crate::live::{Hold, SilentOsd};
use crate::state::{BLOCKLIST_LIMITED_MAX, State};
use maps::{Osd, OsdMap, OsdMapFlags, OsdState};
use std::collections::{BTreeMap, BTreeSet};
use types::OsdId;
use wire::internal::SlowRequests;

pub(crate) fn check(health: &mut Health, view: &View<'_>) {
    let map = &view.state.osdmap;
    if map.osd_count() == 0 {
        return health.warn("TOO_FEW_OSDS", 1, "no OSDs exist".to_owned(), Vec::new());
    }
    check_down(health, view);
    check_silent(health, view);
    check_refusals(health, view.state);
    check_slow_requests(health, view);
    check_repairs(health, view);
    check_repeated_reads(health, view);
    check_buckets(health, map);
    check_flapping(health, view);
    check_flags(health, map);
    check_holds(health, map);
    check_blocklist(health, map);
    check_fullness(health, map);
    check_ratios(health, map);
}

/// `root=default,host=a`
fn place(map: &OsdMap, item: i32) -> String {
    let levels = map.crush.full_location(item).into_iter().rev();
    levels.map(|(kind, name)| format!("{kind}={name}")).collect::<Vec<_>>().join(",")
}

fn check_down(health: &mut Health, view: &View<'_>) {
    let map = &view.state.osdmap;
    let down: Vec<OsdId> = map
        .existing_osds()
        .filter(|(_, osd)| osd.is_in() && !osd.is_up())
        .map(|(osd, _)| osd)
        .collect();
    let lines = down.iter().map(|osd| format!("osd.{osd} ({}) is down", place(map, osd.0)));
    let interval = view.options().duration("mon_osd_down_out_interval").as_secs();
    let step = match interval {
        0 => "start them again, or take them out with 'ceph osd out'".to_owned(),
        seconds => format!(
            "start them again; their data moves elsewhere once they have been down for {seconds} s, \
             unless 'ceph osd set noout' holds that off"
        ),
    };
    let details = next_step(lines, &step);
    health.warn("OSD_DOWN", down.len(), format!("{} osds down", down.len()), details);
}

/// OSDs that are up although they do not report, or are reported as failed.
fn check_silent(health: &mut Health, view: &View<'_>) {
    const REPORTERS_NAMED_MAX: usize = 5;
    let map = &view.state.osdmap;
    let describe = |silent: &SilentOsd| {
        let mut line = format!("osd.{} ({}) is up", silent.osd, place(map, silent.osd.0));
        if let Some(silent_for) = silent.silent_for {
            line += &format!(", and has not reported for {} s", silent_for.as_secs());
        }
        if let Some(reported) = &silent.reported {
            let named = reported.reporters.iter().take(REPORTERS_NAMED_MAX);
            let names: Vec<String> = named.map(|osd| format!("osd.{osd}")).collect();
            let more = if reported.reporters.len() > names.len() { ", ..." } else { "" };
            line += &format!(
                ", and {}{more} (of {} {}{}; {} must agree) do not hear from it",
                names.join(", "),
                reported.domains,
                reported.level,
                plural(reported.domains),
                reported.domains_needed
            );
        }
        match silent.hold {
            Some(Hold::NoDown) => line += "; the flag nodown keeps it up",
            Some(Hold::FewAreUp) => {
                line += "; it stays up because fewer than mon_osd_min_up_ratio are"
            }
            None => (),
        }
        line
    };
    let silent = view.live.osds.silent.iter().filter(|silent| map.is_up(silent.osd));
    let lines: Vec<String> = silent.map(describe).collect();
    let count = lines.len();
    let timeout = view.options().duration("mon_osd_report_timeout").as_secs();
    let step = format!(
        "look at its process, its disk, its machine and its network; stop the process, or use 'ceph osd down', to let others \
         take over at once. An OSD that does not report is marked down after {timeout} s (mon_osd_report_timeout)"
    );
    let details = next_step(lines, &step);
    health.warn("OSD_SILENT", count, format!("{count} osds are up and silent"), details);
}

/// OSDs that are down because they refuse to start, with the reasons that they stored.
fn check_refusals(health: &mut Health, state: &State) {
    let down = state.osdmap.existing_osds().filter(|(_, osd)| !osd.is_up());
    let lines: Vec<String> = down
        .filter_map(|(osd, _)| Some((osd, state.config_keys.get(&keys::osd_refusal(osd))?)))
        .map(|(osd, reason)| {
            format!("osd.{osd} does not start: {}", String::from_utf8_lossy(reason))
        })
        .collect();
    let count = lines.len();
    let step = "look at the disk ('sepiola store fsck' says what is damaged), start the OSD again, or give it \
                another disk with 'sepiola osd replace --id N'";
    let details = next_step(lines, step);
    let summary = format!("{count} osds do not start");
    health.warn("OSD_START_FAILED", count, summary, details);
}

/// Client requests that are older than `osd_op_complaint_time`, from the last report of each OSD.
fn check_slow_requests(health: &mut Health, view: &View<'_>) {
    const NAMED_MAX: usize = 10;
    let map = &view.state.osdmap;
    let reports =
        view.live.stats.osds().filter(|(osd, report)| map.is_up(*osd) && report.slow.count > 0);
    let slow: Vec<(OsdId, &SlowRequests)> =
        reports.map(|(osd, report)| (osd, &report.slow)).collect();
    let count: u64 = slow.iter().map(|(_, slow)| slow.count).sum();
    let oldest = slow.iter().map(|(_, slow)| slow.oldest_ms / 1000).max().unwrap_or_default();
    let names: Vec<String> =
        slow.iter().take(NAMED_MAX).map(|(osd, _)| format!("osd.{osd}")).collect();
    let more = if slow.len() > NAMED_MAX { "..." } else { "" };
    let have = match names.as_slice() {
        [one] => format!("{one} has slow ops"),
        all => format!("daemons [{}]{more} have slow ops.", all.join(",")),
    };
    let lines = slow.iter().map(|(osd, slow)| {
        format!(
            "osd.{osd} has {} slow ops, the oldest for {} sec in pg {}, which is {}",
            slow.count,
            slow.oldest_ms / 1000,
            slow.oldest_in,
            slow.state
        )
    });
    let step = "where a group is not active, see PG_AVAILABILITY and 'ceph pg PGID query'; where it is, 'ceph tell \
                osd.N dump_ops_in_flight' names the requests: disks may be slow ('ceph osd perf'), or an object wait \
                for a copy that is being recovered";
    let details = next_step(lines, step);
    let summary = format!("{count} slow ops, oldest one blocked for {oldest} sec, {have}");
    health.warn("SLOW_OPS", slow.len(), summary, details);
}

/// OSDs of which so many copies had to be repaired that their disks are suspect. Each primary counts the
/// copies that it repaired.
fn check_repairs(health: &mut Health, view: &View<'_>) {
    let limit = view.options().number("mon_osd_warn_num_repaired");
    let mut copies = BTreeMap::<OsdId, u64>::new();
    for (osd, count) in view.live.stats.osds().flat_map(|(_, report)| &report.repaired_copies) {
        *copies.entry(*osd).or_default() += count;
    }
    copies.retain(|osd, count| *count >= limit.max(1) && view.state.osdmap.is_up(*osd));
    let lines = copies.iter().map(|(osd, count)| {
        format!("osd.{osd} had {count} bad copies of objects replaced since it was started")
    });
    let step = "look at its disk ('smartctl', the kernel's log) and replace it with 'sepiola osd replace --id N' if it \
                goes bad; once the OSD is started again, it is counted anew";
    let details = next_step(lines, step);
    let summary = format!("Too many repaired reads on {} OSDs", copies.len());
    health.warn("OSD_TOO_MANY_REPAIRS", copies.len(), summary, details);
}

/// OSDs whose disks returned data only when they were asked again.
fn check_repeated_reads(health: &mut Health, view: &View<'_>) {
    let reports =
        view.live.stats.osds().filter(|(osd, report)| {
            view.state.osdmap.is_up(*osd) && report.store.repeated_reads > 0
        });
    let lines: Vec<String> = reports
        .map(|(osd, report)| {
            format!("osd.{osd} reads with retries: {}", report.store.repeated_reads)
        })
        .collect();
    let count = lines.len();
    let step = "look at its disk ('smartctl', the kernel's log), its cables and controller, and replace it with 'sepiola \
                osd replace --id N' if it goes bad; once the OSD is started again, it is counted anew";
    let details = next_step(lines, step);
    let summary = format!("{count} OSD(s) have spurious read errors");
    health.warn("BLUESTORE_SPURIOUS_READ_ERRORS", count, summary, details);
}

/// Buckets whose OSDs are all down, by type: `OSD_HOST_DOWN`, `OSD_RACK_DOWN`, `OSD_ROOT_DOWN`.
fn check_buckets(health: &mut Health, map: &OsdMap) {
    const LEVELS: [(&str, &str); 3] =
        [("host", "OSD_HOST_DOWN"), ("rack", "OSD_RACK_DOWN"), ("root", "OSD_ROOT_DOWN")];
    if map.existing_osds().all(|(_, osd)| osd.is_up()) {
        return;
    }
    for (level, name) in LEVELS {
        let type_id = map.crush.type_id(level);
        let buckets = map.crush.buckets().filter(|bucket| Some(bucket.type_id()) == type_id);
        let visible = buckets.filter(|bucket| !map.crush.is_shadow(bucket.id()));
        let dark: Vec<(i32, usize)> = visible
            .map(|bucket| (bucket.id(), map.crush.devices_below(bucket.id())))
            .filter(|(_, devices)| {
                devices.iter().any(|osd| map.is_in(OsdId(*osd)))
                    && devices.iter().all(|osd| !map.is_up(OsdId(*osd)))
            })
            .map(|(id, devices)| (id, devices.len()))
            .collect();
        let osds: usize = dark.iter().map(|(_, osds)| osds).sum();
        let lines = dark.iter().map(|(id, osds)| {
            let bucket = map.crush.item_name(*id).unwrap_or_default();
            format!("{level} {bucket} ({}) ({osds} osds) is down", place(map, *id))
        });
        let step = format!("look whether the {level} has power and reaches the network");
        let details = next_step(lines, &step);
        let summary = format!("{} {level}{} ({osds} osds) down", dark.len(), plural(dark.len()));
        health.warn(name, dark.len(), summary, details);
    }
}

fn check_flapping(health: &mut Health, view: &View<'_>) {
    let held = &view.live.osds.kept_down;
    let lines = held.iter().map(|osd| format!("osd.{osd} was marked down again and again"));
    let step = "look at its network and its disk, then restart it: a new process may boot at once";
    let details = next_step(lines, step);
    let summary =
        format!("{} osds kept down: others do not hear from them although they live", held.len());
    health.warn("OSD_FLAPPING", held.len(), summary, details);
}

fn check_flags(health: &mut Health, map: &OsdMap) {
    let worth = OsdMapFlags::FULL
        | OsdMapFlags::PAUSERD
        | OsdMapFlags::PAUSEWR
        | OsdMapFlags::PAUSEREC
        | OsdMapFlags::NOUP
        | OsdMapFlags::NODOWN
        | OsdMapFlags::NOIN
        | OsdMapFlags::NOOUT
        | OsdMapFlags::NOBACKFILL
        | OsdMapFlags::NOREBALANCE
        | OsdMapFlags::NORECOVER
        | OsdMapFlags::NOSCRUB
        | OsdMapFlags::NODEEP_SCRUB
        | OsdMapFlags::NOTIERAGENT
        | OsdMapFlags::NOSNAPTRIM;
    let set = OsdMapFlags(map.flags.0 & worth.0);
    let lines = set.names().map(|name| format!("flag {name} is set"));
    let details = next_step(lines, "clear each with 'ceph osd unset FLAG' when its reason is gone");
    let count = set.0.count_ones() as usize;
    health.warn("OSDMAP_FLAGS", count, format!("{set} flag(s) set"), details);
}

/// Flags of single OSDs, buckets and device classes.
fn check_holds(health: &mut Health, map: &OsdMap) {
    let held = OsdState::NOUP | OsdState::NODOWN | OsdState::NOIN | OsdState::NOOUT;
    let of = |state: OsdState| OsdState(state.0 & held.0);
    let osds = map
        .existing_osds()
        .filter(|(_, osd)| osd.state.intersects(held))
        .map(|(id, osd)| format!("osd.{id} has flags {}", of(osd.state)));
    let buckets = map.crush_node_flags.iter().map(|(id, flags)| {
        let kind = map.crush.item_type(*id).and_then(|kind| map.crush.type_name(kind));
        let name = map.crush.item_name(*id).unwrap_or_default();
        format!("{} {name} has flags {}", kind.unwrap_or_default(), of(*flags))
    });
    let classes = map.device_class_flags.iter().map(|(id, flags)| {
        let name = map.crush.class_name(*id).unwrap_or_default();
        format!("device class '{name}' has flags {}", of(*flags))
    });
    let lines: Vec<String> = osds.chain(buckets).chain(classes).collect();
    let summary = format!(
        "{} OSDs or CRUSH {{nodes, device-classes}} have {{NOUP,NODOWN,NOIN,NOOUT}} flags set",
        lines.len()
    );
    let count = lines.len();
    let details = next_step(lines, "clear them with 'ceph osd unset-group FLAGS WHO'");
    health.warn("OSD_FLAGS", count, summary, details);
}

/// Beyond this number of entries clients can no longer fence others, such as former owners of images.
fn check_blocklist(health: &mut Health, map: &OsdMap) {
    let count = map.blocklist.len() + map.range_blocklist.len();
    if count < BLOCKLIST_LIMITED_MAX {
        return;
    }
    let line = format!(
        "{count} addresses are blocklisted; clients may add none from {BLOCKLIST_LIMITED_MAX} on"
    );
    let step = "'ceph osd blocklist ls' shows whom and until when; 'ceph osd blocklist rm ADDR' removes an entry, once \
                that client is known to be gone";
    let summary = "the blocklist is full: images of dead clients cannot be taken over".to_owned();
    health.warn("OSD_BLOCKLIST_FULL", 1, summary, next_step([line], step));
}

/// Shows the marks in the map, not the current usage: OSDs act on the marks, which have some hysteresis.
fn check_fullness(health: &mut Health, map: &OsdMap) {
    const NEXT: &str = "delete data, add OSDs, or move data with 'ceph osd reweight'; \
                        'ceph osd df' shows where there is room";
    let marked = |mark: OsdState| -> BTreeSet<OsdId> {
        let holds = |osd: &Osd| osd.is_up() && osd.is_in() && osd.state.contains(mark);
        map.existing_osds().filter(|(_, osd)| holds(osd)).map(|(osd, _)| osd).collect()
    };
    for (mark, name, severity, what, detail) in [
        (OsdState::FULL, "OSD_FULL", Severity::Error, "full", "full: pools on it take no writes"),
        (
            OsdState::BACKFILLFULL,
            "OSD_BACKFILLFULL",
            Severity::Warning,
            "backfillfull",
            "backfill full: no data moves to it",
        ),
        (OsdState::NEARFULL, "OSD_NEARFULL", Severity::Warning, "nearfull", "near full"),
    ] {
        let osds = marked(mark);
        let details = next_step(osds.iter().map(|osd| format!("osd.{osd} is {detail}")), NEXT);
        let summary = format!("{} {what} osd(s)", osds.len());
        health.add(name, severity, osds.len(), summary, details);
    }
}

fn check_ratios(health: &mut Health, map: &OsdMap) {
    let (near, backfill, full) = (map.nearfull_ratio, map.backfillfull_ratio, map.full_ratio);
    if near <= backfill && backfill <= full {
        return;
    }
    let line = format!("nearfull {near}, backfillfull {backfill}, full {full}");
    let details =
        next_step([line], "set them in this order with 'ceph osd set-nearfull-ratio' and so on");
    let summary = "full ratio(s) out of order".to_owned();
    health.add("OSD_OUT_OF_ORDER_FULL", Severity::Error, 1, summary, details);
}

#[cfg(test)]
mod tests {
    use crate::health::{View, health};
    use crate::live::testing::Overview;
    use crate::services::CHECKS;
    use crate::state::State;
    use crate::statistics::Statistics;
    use engine::Time;
    use maps::{Osd, OsdState, WEIGHT_IN};
    use std::time::Duration;

    #[test]
    fn marks_of_fullness_and_kept_osds_are_told_with_what_to_do() {
        let mut state = State::default();
        let marked = |mark: OsdState| Osd {
            state: OsdState::EXISTS | OsdState::UP | mark,
            weight: WEIGHT_IN,
            ..Osd::default()
        };
        state.osdmap.osds =
            [OsdState::FULL, OsdState::BACKFILLFULL, OsdState::NEARFULL].map(marked).to_vec();
        state.osdmap.nearfull_ratio = 0.9;
        state.osdmap.backfillfull_ratio = 0.85;
        state.osdmap.full_ratio = 0.95;
        let mut overview = Overview::default();
        overview.osds.kept_down = vec![types::OsdId(1)];
        let (stats, now) = (&Statistics::default(), Time(0) + Duration::from_secs(1));
        let health =
            health(&View { state: &state, live: overview.live(stats), checks: CHECKS, now });
        for name in [
            "OSD_FULL",
            "OSD_BACKFILLFULL",
            "OSD_NEARFULL",
            "OSD_FLAPPING",
            "OSD_OUT_OF_ORDER_FULL",
        ] {
            let check = &health.checks[name];
            assert_eq!(check.count, 1, "{name}");
            assert!(check.details.last().unwrap().starts_with("next: "), "{name}");
        }
        assert_eq!(health.checks["OSD_FULL"].summary, "1 full osd(s)");
    }
}
