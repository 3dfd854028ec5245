//! Conditions for marking OSDs down and out.

use crate::change::Change;
use crate::failures::{Verdict, lag};
use crate::job::Effects;
use crate::live::Hold;
use crate::service::DecideCx;
use crate::state::{Overrides, State};
use engine::{ConnId, Time};
use maps::{Osd, OsdMap, OsdState};
use std::time::Duration;
use types::OsdId;
use wire::{MessageBody, OsdMarkMeDown};

/// Severities of the cluster log, as [`Change::note`] takes them.
const INFO: u16 = 1;
const WARNING: u16 = 3;

/// Marks an OSD down that is about to shut down, and acknowledges that.
pub(super) fn mark_down_on_request(
    cx: &DecideCx<'_>,
    conn: ConnId,
    message: &OsdMarkMeDown,
    change: &mut Change,
) -> Effects {
    let (map, osd) = (&cx.state.osdmap, message.target);
    let is_current = map.client_addrs(osd) == Some(&message.target_addrs);
    if is_current && !map.holds(osd, OsdState::NODOWN) {
        match message.down_and_dead {
            true => change.mark_dead(cx.state, osd),
            false => change.mark_down(cx.state, osd),
        }
        change.note(INFO, format!("osd.{osd} marked itself down"));
    }
    if !message.request_ack {
        return Effects::default();
    }
    let features = cx.sessions.features(conn);
    let ack = OsdMarkMeDown { request_ack: false, ..message.clone() };
    Effects::message(conn, ack.encode(features))
}

/// Marks OSDs out that have been down for too long.
pub(super) fn plan_outs(cx: &DecideCx<'_>, change: &mut Change) {
    let map = &cx.state.osdmap;
    let down = map.existing_osds().filter(|(_, known)| !known.is_up() && known.is_in());
    for (osd, known) in down {
        let Some(after) = out_after(cx.state, cx.running, cx.now, known) else {
            continue;
        };
        let down_at = Time(known.xinfo.down_stamp.as_nanos());
        let is_overdue = down_at > Time::ZERO && cx.now.since(down_at) >= after;
        if is_overdue && may_mark_out(cx.state, cx.running, change, osd) {
            mark_out(cx.state, change, osd, known);
            let text = format!(
                "Marking osd.{osd} out (has been down for {} seconds)",
                cx.now.since(down_at).as_secs()
            );
            change.note(WARNING, text);
        }
    }
}

pub(super) fn describe(map: &OsdMap, osd: OsdId, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Certain { reporter, .. } => {
            format!("reported immediately failed by osd.{reporter}")
        }
        Verdict::Silent { reporters, level, failed_for, grace, .. } => {
            let place: Vec<String> = map
                .crush
                .full_location(osd.0)
                .into_iter()
                .rev()
                .map(|(kind, name)| format!("{kind}={name}"))
                .collect();
            format!(
                "failed ({}) ({reporters} reporters from different {level} after {:.6} >= grace {:.6})",
                place.join(","),
                failed_for.as_secs_f64(),
                grace.as_secs_f64(),
            )
        }
    }
}

/// Time for which an OSD may be down before it is marked out; `None`: never.
pub(super) fn out_after(
    state: &State,
    running: &Overrides,
    now: Time,
    known: &Osd,
) -> Option<Duration> {
    let options = state.options(running);
    if known.state.contains(OsdState::DESTROYED) {
        return Some(options.duration("mon_osd_destroyed_out_interval"))
            .filter(|interval| !interval.is_zero());
    }
    let interval = options.duration("mon_osd_down_out_interval");
    if interval.is_zero() {
        return None;
    }
    match options.switch("mon_osd_adjust_down_out_interval") {
        true => Some(interval + lag(state, running, now, &known.xinfo)),
        false => Some(interval),
    }
}

/// Whether an OSD may be marked down by failure detection: not if so few would remain that the reporters are
/// more likely to be cut off.
pub(super) fn may_mark_down(
    state: &State,
    running: &Overrides,
    change: &Change,
    osd: OsdId,
) -> bool {
    let map = &state.osdmap;
    if !map.is_up(osd) || map.holds(osd, OsdState::NODOWN) {
        return false;
    }
    let going: Vec<OsdId> = change
        .incremental()
        .into_iter()
        .flat_map(|incremental| &incremental.new_state)
        .filter(|(osd, flips)| map.is_up(**osd) && flips.contains(OsdState::UP))
        .map(|(osd, _)| *osd)
        .collect();
    assert!(going.len() <= map.up_count(), "OSDs that are marked down were up");
    !going.contains(&osd) && are_enough_up(state, running, map.up_count() - going.len())
}

fn are_enough_up(state: &State, running: &Overrides, up: usize) -> bool {
    up as f64
        >= state.options(running).real("mon_osd_min_up_ratio") * state.osdmap.osd_count() as f64
}

/// The reason why an OSD stays up in spite of failure reports.
pub(super) fn hold_of(state: &State, running: &Overrides, osd: OsdId) -> Option<Hold> {
    if state.osdmap.holds(osd, OsdState::NODOWN) {
        return Some(Hold::NoDown);
    }
    (!are_enough_up(state, running, state.osdmap.up_count())).then_some(Hold::FewAreUp)
}

pub(super) fn may_mark_out(
    state: &State,
    running: &Overrides,
    change: &Change,
    osd: OsdId,
) -> bool {
    let map = &state.osdmap;
    let going = change.incremental().map_or(0, |incremental| {
        incremental.new_weight.iter().filter(|(osd, to)| map.is_in(**osd) && **to == 0).count()
    });
    assert!(going <= map.in_count(), "OSDs that are marked out were in");
    let is_in = (map.in_count() - going) as f64;
    !map.holds(osd, OsdState::NOOUT)
        && is_in >= state.options(running).real("mon_osd_min_in_ratio") * map.osd_count() as f64
        && !is_subtree_down(state, running, osd)
}

/// Whether a whole rack, or another bucket of the configured type, is down with the OSD: then it is likely to
/// come back as a whole, and there may be no room for all its data.
fn is_subtree_down(state: &State, running: &Overrides, osd: OsdId) -> bool {
    let (map, limit) =
        (&state.osdmap, state.options(running).text("mon_osd_down_out_subtree_limit"));
    let Some(type_id) = map.crush.type_id(limit).filter(|type_id| *type_id > 0) else {
        return false;
    };
    let above = std::iter::successors(map.crush.parent(osd.0), |id| map.crush.parent(*id));
    let mut large = above.filter(|id| map.crush.item_type(*id).is_some_and(|own| own >= type_id));
    large.any(|bucket| {
        map.crush.devices_below(bucket).into_iter().all(|device| !map.is_up(OsdId(device)))
    })
}

pub(super) fn mark_out(state: &State, change: &mut Change, osd: OsdId, known: &Osd) {
    assert!(known.is_in(), "osd.{osd} is in until it is marked out");
    let incremental = change.osdmap(state);
    let mut xinfo = known.xinfo;
    xinfo.old_weight = known.weight;
    incremental.new_xinfo.insert(osd, xinfo);
    incremental.new_weight.insert(osd, 0);
    // An empty set of bits would mean the UP bit.
    if !known.state.contains(OsdState::AUTOOUT) {
        let states = incremental.new_state.entry(osd).or_default();
        *states = *states | OsdState::AUTOOUT;
    }
}
