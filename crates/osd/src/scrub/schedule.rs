//! The schedule of scrubs.

use super::{GroupScrub, Running};
use crate::Osd;
use crate::env::{Env, Stage};
use crate::tokens::{ScrubTag, Token};
use engine::{Duration, Time};
use maps::{OsdMap, OsdMapFlags, PoolFlags, PoolOption, PoolOptionValue};
use pg::Pg;
use pg::scrub::{Forbidden, Intervals, Level, STAMPS_KEY, Stamps};
use serde_json::{Value, json};
use store::{Collection, Outcome, RequestKind, StoreError};
use types::{PgId, PoolId, UTime};

/// How often the schedule is checked, if no event causes it earlier.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Pause after an aborted round.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_STEP: Duration = Duration::from_millis(300);
const RETRY_STEPS: u64 = 7;

/// A group that may be scrubbed, the most urgent first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Zero for orders and for objects to check again.
    due: UTime,
    pg: PgId,
    level: Level,
}

impl Osd {
    /// Begins scrubs that are due, as far as `osd_max_scrubs` allows.
    pub(crate) fn scrub_if_due(&mut self, now: Time) {
        if self.env.stage != Stage::Up {
            // Groups that become active cause the next check.
            self.scrub.due = None;
            return;
        }
        if self.scrub.due.is_none_or(|due| now < due) {
            return;
        }
        self.scrub.due = Some(now + LOOK_INTERVAL);
        self.drop_dead_scrubs(now);
        self.load_stamps(now);
        while self.scrub.own.len() < self.env.options.max_scrubs.max(1) {
            let Some(Candidate { pg, level, .. }) = self.next_scrub(now) else { break };
            let order = self.groups.by_id.get(&pg).and_then(|group| group.scrub.wanted(&group.pg));
            self.begin_scrub(now, pg, order.map_or(level, |order| order.level), order);
        }
        let resting = self.groups.by_id.values().filter_map(|group| group.scrub.not_before);
        let first = resting.filter(|not_before| *not_before > now).min();
        self.scrub.due = self.scrub.due.into_iter().chain(first).min();
    }

    fn next_scrub(&self, now: Time) -> Option<Candidate> {
        let groups = self.groups.by_id.iter().filter(|(_, group)| {
            let scrub = &group.scrub;
            group.pg.is_primary()
                && group.pg.is_clean()
                && scrub.running.is_none()
                && scrub.not_before.is_none_or(|not_before| not_before <= now)
        });
        let candidates = groups.filter_map(|(pg, group)| {
            let scrub = &group.scrub;
            if group.scrub.wanted(&group.pg).is_some() || !scrub.repaired.is_empty() {
                return Some(Candidate { due: UTime::ZERO, pg: *pg, level: Level::Light });
            }
            let (intervals, forbidden) = rules(&self.env, self.maps.map(), pg.pool);
            let (due, level) = scrub.stamps?.due(*pg, scrub.since?, &intervals, forbidden)?;
            (due <= now.wall()).then_some(Candidate { due, pg: *pg, level })
        });
        candidates.min()
    }

    /// Reads the scrub stamps of groups whose primary this OSD has become.
    fn load_stamps(&mut self, now: Time) {
        let unknown = self.groups.by_id.iter_mut().filter(|(_, group)| {
            group.pg.is_primary() && group.pg.is_active() && group.scrub.stamps.is_none()
        });
        let mut asks = Vec::new();
        for (pg, group) in unknown {
            group.scrub.since.get_or_insert(now.wall());
            if !std::mem::replace(&mut group.scrub.is_loading, true) {
                asks.push((*pg, group.serial));
            }
        }
        for (pg, serial) in asks {
            let kind = RequestKind::OmapGet {
                collection: Collection(pg),
                object: pg::meta_object(pg),
                keys: vec![STAMPS_KEY],
            };
            self.outbox.ask(Token::Scrub { pg, serial, tag: ScrubTag::LoadStamps }, kind);
        }
    }

    /// Handles loaded scrub stamps.
    pub(super) fn stamps_loaded(
        &mut self,
        now: Time,
        pg: PgId,
        outcome: Result<Outcome, StoreError>,
    ) {
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        group.scrub.is_loading = false;
        let stored = match outcome {
            Ok(Outcome::OmapPairs(pairs)) => pairs.get(&STAMPS_KEY).cloned(),
            _ => None,
        };
        let stamps = stored.map(|stored| codec::decode_all::<Stamps>("scrub stamps", &stored));
        // Damaged stamps count as missing: the group is scrubbed.
        let stamps = stamps.and_then(Result::ok).unwrap_or_default();
        group.scrub.stamps.get_or_insert(stamps);
        if stamps.errors.total() > 0 {
            self.report.request(now);
        }
        self.keep_order(now, pg);
    }

    /// Schedules an aborted round again, with the objects it had to check.
    pub(super) fn retry_scrub(&mut self, now: Time, pg: PgId, running: &Running) {
        let Some(group) = self.groups.by_id.get_mut(&pg) else { return };
        // Spread, so that aborted rounds do not collide again.
        let again = now + RETRY + RETRY_STEP * (self.scrub.rounds % RETRY_STEPS) as u32;
        let scrub = &mut group.scrub;
        scrub.not_before = Some(again);
        if group.pg.is_primary() {
            scrub.repaired.extend(running.recheck.clone());
        }
    }
}

/// Next scrubs of the groups whose primary this OSD is (`dump_scrubs`).
pub(crate) fn dump<'a>(
    env: &Env,
    map: &OsdMap,
    groups: impl Iterator<Item = (&'a Pg, &'a GroupScrub)>,
) -> Value {
    let row = |(pg, scrub): (&Pg, &GroupScrub)| {
        let (stamps, since) = (scrub.stamps?, scrub.since?);
        let (intervals, forbidden) = rules(env, map, pg.id().pool);
        let is_forced = scrub.wanted(pg).is_some();
        let due = stamps.due(pg.id(), since, &intervals, forbidden).map(|(due, _)| due);
        let due = if is_forced { Some(UTime::ZERO) } else { due };
        let most = env.options.scrub_max_interval.as_secs().min(u64::from(u32::MAX)) as u32;
        let deadline = stamps.last.seconds.saturating_add(most);
        Some(json!({
            "pgid": pg.id().to_string(),
            "sched_time": due?.to_iso(),
            "deadline": UTime { seconds: deadline, nanoseconds: 0 }.to_iso(),
            "forced": is_forced,
        }))
    };
    let primaries = groups.filter(|(pg, _)| pg.is_primary());
    Value::from(primaries.filter_map(row).collect::<Vec<_>>())
}

/// When the groups of a pool are scrubbed, and which scrubs the map forbids.
fn rules(env: &Env, map: &OsdMap, id: PoolId) -> (Intervals, Forbidden) {
    let seconds = |duration: Duration| duration.as_secs().min(u64::from(u32::MAX)) as u32;
    let mut intervals = Intervals {
        light: seconds(env.options.scrub_min_interval),
        deep: seconds(env.options.deep_scrub_interval),
        ..Intervals::default()
    };
    let flags = map.flags;
    let mut forbidden = Forbidden {
        light: flags.contains(OsdMapFlags::NOSCRUB),
        deep: flags.contains(OsdMapFlags::NODEEP_SCRUB),
    };
    if let Some(pool) = map.pool(id) {
        forbidden.light |= pool.flags.contains(PoolFlags::NOSCRUB);
        forbidden.deep |= pool.flags.contains(PoolFlags::NODEEP_SCRUB);
        let option = |name: &str| match pool.options.0.get(&PoolOption::from_name(name)?) {
            Some(PoolOptionValue::Double(value)) if *value > 0.0 => Some(*value as u32),
            _ => None,
        };
        intervals.light = option("scrub_min_interval").unwrap_or(intervals.light);
        intervals.deep = option("deep_scrub_interval").unwrap_or(intervals.deep);
    }
    (intervals, forbidden)
}
