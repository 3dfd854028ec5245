//! Checks before an OSD is stopped or destroyed: `ok-to-stop`, `safe-to-destroy`.

use super::named::osds_listed;
use crate::command::{Answer, Command, Context, Refusal, command};
use serde_json::json;
use std::collections::BTreeSet;
use types::{Errno, OsdId, PgId};
use wire::internal::pg_state;

pub const COMMANDS: &[Command] = &[
    command(
        "osd ok-to-stop name=ids,type=CephString,n=N name=max,type=CephInt,range=1,req=false",
        "check whether osd(s) can be safely stopped without reducing immediate data availability",
        "osd",
        "r",
        ok_to_stop,
    )
    .of_manager(),
    command(
        "osd safe-to-destroy name=ids,type=CephString,n=N",
        "check whether osd(s) can be safely destroyed without reducing data durability",
        "osd",
        "r",
        safe_to_destroy,
    )
    .of_manager(),
];

/// The current state of a placement group.
struct Group {
    pg: PgId,
    acting: Vec<OsdId>,
    is_active: bool,
    min_size: usize,
    /// Some member lacks objects: one member less is counted, as it is unknown which.
    is_recovering: bool,
}

/// The effect on groups when OSDs stop.
#[derive(Default)]
struct Outcome {
    fine: Vec<String>,
    inactive_already: Vec<String>,
    become_inactive: Vec<String>,
}

fn groups(context: &Context<'_>) -> Vec<Group> {
    let (map, stats) = (&context.state.osdmap, context.live.stats);
    let mut placement = map.placement();
    let group = |(pg, state): (PgId, u64)| {
        let stat = stats.pg(pg);
        Group {
            pg,
            acting: placement.pg_to_osds(pg).acting,
            is_active: state & (pg_state::ACTIVE | pg_state::STALE) == pg_state::ACTIVE,
            min_size: map.pool(pg.pool).map_or(0, |pool| usize::from(pool.min_size)),
            is_recovering: stat.is_some_and(|stat| {
                stat.degraded > 0 && state & pg_state::UNDERSIZED == 0 && stat.objects > 0
            }),
        }
    };
    stats.pg_states(map).map(group).collect()
}

fn without(groups: &[Group], osds: &BTreeSet<OsdId>) -> Outcome {
    let mut outcome = Outcome::default();
    for group in groups.iter().filter(|group| group.acting.iter().any(|osd| osds.contains(osd))) {
        let stays = |osd: &&OsdId| **osd != OsdId::NONE && !osds.contains(osd);
        let left = group.acting.iter().filter(stays).count();
        let left = left.saturating_sub(usize::from(group.is_recovering));
        let list = match (group.is_active, left >= group.min_size) {
            (false, _) => &mut outcome.inactive_already,
            (true, false) => &mut outcome.become_inactive,
            (true, true) => &mut outcome.fine,
        };
        list.push(group.pg.to_string());
    }
    outcome
}

impl Outcome {
    fn is_fine(&self) -> bool {
        self.inactive_already.is_empty() && self.become_inactive.is_empty()
    }

    fn bad(&self) -> usize {
        self.inactive_already.len() + self.become_inactive.len()
    }
}

/// Adds OSDs of the same host, then of the same rack and so on, that can be stopped as well.
fn grow(context: &Context<'_>, groups: &[Group], osds: &mut BTreeSet<OsdId>, most: usize) {
    let map = &context.state.osdmap;
    let Some(first) = osds.first().copied() else { return };
    let buckets = std::iter::successors(map.crush.parent(first.0), |id| map.crush.parent(*id));
    for bucket in buckets {
        for device in map.crush.devices_below(bucket) {
            if osds.len() >= most {
                return;
            }
            let osd = OsdId(device);
            if map.is_up(osd) && osds.insert(osd) && !without(groups, osds).is_fine() {
                osds.remove(&osd);
            }
        }
    }
}

fn listed(context: &Context<'_>) -> Result<Vec<OsdId>, Refusal> {
    let all = || context.state.osdmap.existing_osds().map(|(osd, _)| osd).collect();
    osds_listed(context.arguments.list("ids"), all)
}

fn ok_to_stop(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let mut osds: BTreeSet<OsdId> = listed(context)?.into_iter().collect();
    let groups = groups(context);
    let most = context.arguments.int("max").and_then(|max| usize::try_from(max).ok());
    if let Some(most) = most.filter(|most| *most > osds.len())
        && without(&groups, &osds).is_fine()
    {
        grow(context, &groups, &mut osds, most);
    }
    let outcome = without(&groups, &osds);
    let answer = context.json(&json!({
        "ok_to_stop": outcome.is_fine(),
        "osds": osds.iter().map(|osd| osd.0).collect::<Vec<_>>(),
        "num_ok_pgs": outcome.fine.len(),
        "num_not_ok_pgs": outcome.bad(),
        "bad_already_inactive": outcome.inactive_already,
        "bad_become_inactive": outcome.become_inactive,
        "ok_become_degraded": outcome.fine,
    }));
    if outcome.is_fine() {
        return Ok(answer);
    }
    let count = outcome.bad();
    let text =
        format!("unsafe to stop osd(s) at this time ({count} PGs are or would become offline)");
    Ok(answer.saying(text).failing(Errno::BUSY))
}

/// The reason an OSD may not be destroyed yet.
enum Reason {
    /// Groups are mapped to it.
    Active,
    /// Its data may be the only good copy of groups that are not clean.
    Stored,
    /// It has not reported, and not all groups are clean.
    Unknown,
}

fn reason(context: &Context<'_>, osd: OsdId, held: u64, all_clean: bool) -> Option<Reason> {
    let map = &context.state.osdmap;
    if !map.exists(osd) {
        return None;
    }
    if held > 0 {
        return Some(Reason::Active);
    }
    if all_clean {
        return None;
    }
    match context.live.stats.osd(osd) {
        None => Some(Reason::Unknown),
        Some(report) => (report.usage.objects > 0).then_some(Reason::Stored),
    }
}

fn safe_to_destroy(context: &mut Context<'_>) -> Result<Answer, Refusal> {
    let (map, osds) = (&context.state.osdmap, listed(context)?);
    let held = crate::dump::pgs::pgs_per_osd(map);
    let is_clean = |state: u64| {
        let wanted = pg_state::ACTIVE | pg_state::CLEAN;
        state & (wanted | pg_state::STALE) == wanted
    };
    let all_clean = context.live.stats.pg_states(map).all(|(_, state)| is_clean(state));
    let (mut safe, mut active, mut stored, mut unknown) = (vec![], vec![], vec![], vec![]);
    for osd in osds {
        let held = held.get(&osd).copied().unwrap_or(0);
        match reason(context, osd, held, all_clean) {
            None => safe.push(osd),
            Some(Reason::Active) => active.push(osd),
            Some(Reason::Stored) => stored.push(osd),
            Some(Reason::Unknown) => unknown.push(osd),
        }
    }
    let ids = |osds: &[OsdId]| osds.iter().map(|osd| osd.0).collect::<Vec<_>>();
    let names = |osds: &[OsdId]| osds.iter().map(OsdId::to_string).collect::<Vec<_>>().join(",");
    let json = || {
        json!({
            "safe_to_destroy": ids(&safe),
            "active": ids(&active),
            "missing_stats": ids(&unknown),
            "stored_pgs": ids(&stored),
        })
    };
    let answer = context.show(json, String::new);
    let mut text = String::new();
    if !active.is_empty() {
        let pgs: u64 = active.iter().filter_map(|osd| held.get(osd)).sum();
        text += &format!("OSD(s) {} have {pgs} pgs currently mapped to them. ", names(&active));
    }
    if !unknown.is_empty() {
        text += &format!(
            "OSD(s) {} have no reported stats, and not all PGs are active+clean; we cannot draw any \
             conclusions. ",
            names(&unknown)
        );
    }
    if !stored.is_empty() {
        text += &format!(
            "OSD(s) {} last reported they still store some PG data, and not all PGs are \
             active+clean; we cannot be sure they aren't still needed. ",
            names(&stored)
        );
    }
    if text.is_empty() {
        return Ok(answer.saying(format!(
            "OSD(s) {} are safe to destroy without reducing data durability. ",
            names(&safe)
        )));
    }
    let errno = if active.is_empty() { Errno::AGAIN } else { Errno::BUSY };
    Ok(answer.saying(text).failing(errno))
}
