//! The OSDs' reports about themselves and their placement groups, kept in memory only.
//!
//! After a restart everything is unknown until the OSDs have reported again. Sums over partial reports are
//! lower bounds: a decision that depends on them must check [`Statistics::knows_pool`] and
//! [`Statistics::knows_sizes`] first.

use crate::history::History;
use crate::image_traffic::ImageTraffic;
use engine::Time;
use maps::OsdMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;
use types::{Epoch, OsdId, PgId, PoolId};
use wire::internal::{
    OsdCounters, OsdUsage, PgStat, SlowRequests, StatsReport, StoreCounters, pg_state,
};

/// Rates are averages over this many periods of [`RATE_PERIOD`].
const RATE_PERIODS_KEPT: u64 = 5;
const RATE_PERIOD: Duration = Duration::from_secs(1);

/// The last report of each OSD and of each group, and recent traffic.
#[derive(Debug, Default)]
pub struct Statistics {
    osds: BTreeMap<OsdId, OsdReport>,
    pgs: BTreeMap<PgId, (OsdId, PgStat)>,
    /// The groups of which each OSD was the last reporter, so that a report costs no scan of the groups of
    /// others.
    by_osd: BTreeMap<OsdId, BTreeSet<PgId>>,
    pub images: ImageTraffic,
    pub history: History,
    traffic: VecDeque<(u64, BTreeMap<PoolId, Traffic>)>,
    /// Number of reports so far; serves as the version of the placement group map.
    pub version: u64,
    /// Time of the last report.
    pub stamp: Time,
}

/// The last report of one OSD.
#[derive(Debug, Clone)]
pub struct OsdReport {
    /// The report's number, which grows.
    pub sequence: u64,
    pub usage: OsdUsage,
    /// Time of arrival.
    pub received: Time,
    /// Health checks of the OSD's own: name and message.
    pub health: BTreeMap<String, String>,
    pub slow: SlowRequests,
    /// See [`StatsReport::repaired_copies`].
    pub repaired_copies: BTreeMap<OsdId, u64>,
    pub counters: OsdCounters,
    pub store: StoreCounters,
}

/// Client and recovery traffic: totals, or rates per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
    pub recovered_objects: u64,
    pub recovered_bytes: u64,
}

/// Sums over placement groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub pgs: u64,
    pub objects: u64,
    pub clones: u64,
    /// Copies that objects should have in sum.
    pub copies: u64,
    /// Missing copies, misplaced copies, and objects without any reachable copy.
    pub degraded: u64,
    pub misplaced: u64,
    pub unfound: u64,
    pub bytes: u64,
    pub omap_bytes: u64,
    pub omap_keys: u64,
    /// Entries of the groups' logs.
    pub log_size: u64,
    pub traffic: Traffic,
    pub scrub_errors: u64,
    pub repaired: u64,
    pub large_omaps: u64,
    /// Members of the up sets and of the acting sets, in sum.
    pub up: u64,
    pub acting: u64,
}

impl Totals {
    fn add(&mut self, stat: &PgStat) {
        self.pgs += 1;
        self.objects += stat.objects;
        self.clones += stat.clones;
        self.copies += stat.copies;
        self.degraded += stat.degraded;
        self.misplaced += stat.misplaced;
        self.unfound += stat.unfound;
        self.bytes += stat.bytes;
        self.omap_bytes += stat.omap_bytes;
        self.omap_keys += stat.omap_keys;
        self.log_size += stat.log_size;
        self.traffic.add(Traffic::of(stat));
        self.scrub_errors += stat.scrub_errors;
        self.repaired += stat.repaired;
        self.large_omaps += stat.large_omaps;
        self.up += stat.up.len() as u64;
        self.acting += stat.acting.len() as u64;
    }

    /// The sum over these groups.
    pub fn of<'a>(stats: impl IntoIterator<Item = &'a PgStat>) -> Totals {
        let mut totals = Totals::default();
        stats.into_iter().for_each(|stat| totals.add(stat));
        totals
    }
}

impl Traffic {
    /// The traffic of a group since it was created.
    fn of(stat: &PgStat) -> Traffic {
        Traffic {
            reads: stat.reads,
            read_bytes: stat.read_bytes,
            writes: stat.writes,
            write_bytes: stat.write_bytes,
            recovered_objects: stat.recovered_objects,
            recovered_bytes: stat.recovered_bytes,
        }
    }

    fn between(before: &PgStat, after: &PgStat) -> Traffic {
        Traffic {
            reads: after.reads.saturating_sub(before.reads),
            read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
            writes: after.writes.saturating_sub(before.writes),
            write_bytes: after.write_bytes.saturating_sub(before.write_bytes),
            recovered_objects: after.recovered_objects.saturating_sub(before.recovered_objects),
            recovered_bytes: after.recovered_bytes.saturating_sub(before.recovered_bytes),
        }
    }

    fn add(&mut self, other: Traffic) {
        self.reads += other.reads;
        self.read_bytes += other.read_bytes;
        self.writes += other.writes;
        self.write_bytes += other.write_bytes;
        self.recovered_objects += other.recovered_objects;
        self.recovered_bytes += other.recovered_bytes;
    }

    fn divided(self, divisor: u64) -> Traffic {
        Traffic {
            reads: self.reads / divisor,
            read_bytes: self.read_bytes / divisor,
            writes: self.writes / divisor,
            write_bytes: self.write_bytes / divisor,
            recovered_objects: self.recovered_objects / divisor,
            recovered_bytes: self.recovered_bytes / divisor,
        }
    }
}

impl Statistics {
    /// Records a report. Groups of pools that do not exist are ignored, as are reports of groups that are
    /// older than the known ones.
    pub fn record(&mut self, now: Time, map: &OsdMap, mut report: StatsReport) {
        self.images.record(now, &mut report);
        self.version += 1;
        self.stamp = now;
        let osd = report.osd;
        if report.is_complete {
            let own = self.by_osd.get(&osd).into_iter().flatten();
            let gone: Vec<PgId> = own.filter(|pg| !report.pgs.contains_key(pg)).copied().collect();
            gone.into_iter().for_each(|pg| self.forget_pg(pg));
        }
        for (pg, stat) in report.pgs {
            if map.pool(pg.pool).is_some_and(|pool| pg.seed < pool.pg_num) {
                self.record_pg(now, osd, pg, stat);
            }
        }
        if let Some(known) = self.osds.get(&osd) {
            self.history.count(&known.counters, &report.counters);
        }
        let entry = OsdReport {
            sequence: self.osds.get(&osd).map_or(0, |known| known.sequence),
            usage: report.usage,
            received: now,
            health: report.health,
            slow: report.slow,
            repaired_copies: report.repaired_copies,
            counters: report.counters,
            store: report.store,
        };
        self.osds.insert(osd, entry);
    }

    /// Sets the number of the report that was recorded last.
    pub fn note_sequence(&mut self, osd: OsdId, sequence: u64) {
        if let Some(report) = self.osds.get_mut(&osd) {
            report.sequence = sequence;
        }
    }

    fn record_pg(&mut self, now: Time, osd: OsdId, pg: PgId, stat: PgStat) {
        let stamp = |stat: &PgStat| (stat.reported_epoch, stat.reported_sequence);
        let known = self.pgs.get(&pg);
        if let Some((from, before)) = known {
            if *from != osd && stamp(&stat).0 < stamp(before).0 {
                return;
            }
            if *from == osd {
                let traffic = Traffic::between(before, &stat);
                self.count_traffic(now, pg.pool, traffic);
            }
        }
        if let Some((from, _)) = self.pgs.insert(pg, (osd, stat)) {
            self.unlist(from, pg);
        }
        self.by_osd.entry(osd).or_default().insert(pg);
    }

    /// Panics if the groups of a reporter are not those that it reported last, or if one is beyond the map.
    pub fn check_invariants(&self, map: &OsdMap) {
        let listed = self.by_osd.iter().flat_map(|(osd, pgs)| pgs.iter().map(|pg| (*pg, *osd)));
        let listed: BTreeMap<PgId, OsdId> = listed.collect();
        let reported = self.pgs.iter().map(|(pg, (osd, _))| (*pg, *osd));
        assert!(reported.eq(listed), "each group is listed with its last reporter");
        let beyond = self.beyond(map);
        assert!(beyond.is_empty(), "{beyond:?} are not in the map");
    }

    fn forget_pg(&mut self, pg: PgId) {
        if let Some((from, _)) = self.pgs.remove(&pg) {
            self.unlist(from, pg);
        }
    }

    fn unlist(&mut self, osd: OsdId, pg: PgId) {
        if let Some(own) = self.by_osd.get_mut(&osd) {
            assert!(own.remove(&pg), "a group is listed with its last reporter");
            if own.is_empty() {
                self.by_osd.remove(&osd);
            }
        }
    }

    fn count_traffic(&mut self, now: Time, pool: PoolId, traffic: Traffic) {
        if traffic == Traffic::default() {
            return;
        }
        let period = period_of(now);
        if self.traffic.back().is_none_or(|(last, _)| *last != period) {
            self.traffic.push_back((period, BTreeMap::new()));
            let oldest = period.saturating_sub(RATE_PERIODS_KEPT);
            self.traffic.retain(|(period, _)| *period >= oldest);
        }
        if let Some((_, pools)) = self.traffic.back_mut() {
            pools.entry(pool).or_default().add(traffic);
        }
    }

    /// Drops the OSDs, groups and images that the map no longer has.
    pub fn retain(&mut self, map: &OsdMap) {
        self.beyond(map).into_iter().for_each(|pg| self.forget_pg(pg));
        self.osds.retain(|osd, _| map.exists(*osd));
        self.images.retain(map);
    }

    /// Groups beyond the `pg_num` of their pools. Called for every change of the map, so it costs time per
    /// pool, not per group.
    fn beyond(&self, map: &OsdMap) -> Vec<PgId> {
        let mut found = Vec::new();
        let mut next = self.pgs.first_key_value().map(|(pg, _)| pg.pool);
        while let Some(pool) = next {
            let seed = map.pool(pool).map_or(0, |pool| pool.pg_num);
            let last = PgId { pool, seed: u32::MAX };
            found.extend(self.pgs.range(PgId { pool, seed }..=last).map(|(pg, _)| *pg));
            let others = (Bound::Excluded(last), Bound::Unbounded);
            next = self.pgs.range(others).next().map(|(pg, _)| pg.pool);
        }
        found
    }

    /// The last report of an OSD.
    pub fn osd(&self, osd: OsdId) -> Option<&OsdReport> {
        self.osds.get(&osd)
    }

    /// The last reports of all OSDs, in the order of their ids.
    pub fn osds(&self) -> impl Iterator<Item = (OsdId, &OsdReport)> {
        self.osds.iter().map(|(osd, report)| (*osd, report))
    }

    /// Usage of all OSDs that are in.
    pub fn usage(&self, map: &OsdMap) -> OsdUsage {
        let mut sum = OsdUsage::default();
        for (_, report) in self.osds().filter(|(osd, _)| map.is_in(*osd)) {
            let usage = &report.usage;
            sum.bytes_total += usage.bytes_total;
            sum.bytes_available += usage.bytes_available;
            sum.bytes_used += usage.bytes_used;
            sum.bytes_omap += usage.bytes_omap;
            sum.bytes_meta += usage.bytes_meta;
            sum.objects += usage.objects;
        }
        sum
    }

    /// The newest report of a group, even if its reporter is down now.
    pub fn pg(&self, pg: PgId) -> Option<&PgStat> {
        self.pgs.get(&pg).map(|(_, stat)| stat)
    }

    /// The newest reports of all groups that were reported.
    pub fn pgs(&self) -> impl Iterator<Item = (PgId, &PgStat)> {
        self.pgs.iter().map(|(pg, (_, stat))| (*pg, stat))
    }

    /// A group's current state: `stale` if the incarnation that reported it is over, zero (unknown) if it was
    /// never reported.
    pub fn pg_state(&self, map: &OsdMap, pg: PgId) -> u64 {
        match self.pgs.get(&pg) {
            None => 0,
            Some((from, stat)) if is_of_this_life(map, *from, stat) => stat.state,
            Some((_, stat)) => stat.state | pg_state::STALE,
        }
    }

    /// Whether the statistics of a pool are complete: each group was reported, in an active state and since
    /// the last split or merge, by an OSD that still runs.
    pub fn knows_pool(&self, map: &OsdMap, id: PoolId) -> bool {
        let Some(pool) = map.pool(id) else { return false };
        let first = PgId { pool: id, seed: 0 };
        let last = PgId { pool: id, seed: u32::MAX };
        let is_known = |(from, stat): &&(OsdId, PgStat)| {
            is_of_this_life(map, *from, stat)
                && stat.state & pg_state::ACTIVE != 0
                && stat.reported_epoch >= pool.last_force_op_resend
        };
        let known = self.pgs.range(first..=last).map(|(_, entry)| entry).filter(is_known);
        known.count() == pool.pg_num as usize
    }

    /// Whether each of these OSDs has reported its size.
    pub fn knows_sizes<'a>(&self, osds: impl IntoIterator<Item = &'a OsdId>) -> bool {
        osds.into_iter().all(|osd| self.osd(*osd).is_some_and(|known| known.usage.bytes_total > 0))
    }

    /// Every placement group of the map with its state.
    pub fn pg_states<'a>(&'a self, map: &'a OsdMap) -> impl Iterator<Item = (PgId, u64)> + 'a {
        let pgs = map.pools.keys().flat_map(|pool| map.pgs(*pool));
        pgs.map(|pg| (pg, self.pg_state(map, pg)))
    }

    /// The oldest `last_epoch_clean` of all groups; `None` until all have been reported.
    pub fn oldest_clean_epoch(&self, map: &OsdMap) -> Option<Epoch> {
        let mut oldest = map.epoch;
        for pg in map.pools.keys().flat_map(|pool| map.pgs(*pool)) {
            oldest = oldest.min(self.pg(pg)?.last_epoch_clean);
        }
        Some(oldest)
    }

    /// Number of groups in each state as (state, count), the most frequent first.
    pub fn pgs_by_state(&self, map: &OsdMap) -> Vec<(u64, u64)> {
        let mut counts = BTreeMap::<u64, u64>::new();
        for (_, state) in self.pg_states(map) {
            *counts.entry(state).or_default() += 1;
        }
        let mut counts: Vec<(u64, u64)> = counts.into_iter().collect();
        counts.sort_by_key(|(state, count)| (std::cmp::Reverse(*count), *state));
        counts
    }

    /// The sum over all groups.
    pub fn totals(&self) -> Totals {
        Totals::of(self.pgs().map(|(_, stat)| stat))
    }

    /// The sum over a pool's groups that were reported.
    pub fn pool_totals(&self, pool: PoolId) -> Totals {
        let first = PgId { pool, seed: 0 };
        let last = PgId { pool, seed: u32::MAX };
        Totals::of(self.pgs.range(first..=last).map(|(_, (_, stat))| stat))
    }

    /// Traffic per second of one pool, or of all.
    pub fn rate(&self, now: Time, pool: Option<PoolId>) -> Traffic {
        let newest = period_of(now);
        let mut sum = Traffic::default();
        for (_, pools) in
            self.traffic.iter().filter(|(period, _)| period + RATE_PERIODS_KEPT >= newest)
        {
            let wanted = pools.iter().filter(|(id, _)| pool.is_none_or(|pool| pool == **id));
            wanted.for_each(|(_, traffic)| sum.add(*traffic));
        }
        sum.divided(RATE_PERIODS_KEPT)
    }
}

fn is_of_this_life(map: &OsdMap, from: OsdId, stat: &PgStat) -> bool {
    map.is_up(from) && map.osd(from).is_some_and(|osd| stat.reported_epoch >= osd.info.up_from)
}

fn period_of(now: Time) -> u64 {
    now.0 / RATE_PERIOD.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::{Pool, PoolType};
    use types::Uuid;

    fn map() -> OsdMap {
        let mut map = OsdMap::new(Uuid::default());
        map.pools.insert(PoolId(1), Pool::new(PoolType::Replicated, 3, 8, 0));
        map
    }

    fn report(writes: u64, sequence: u64) -> StatsReport {
        let stat = PgStat {
            state: pg_state::ACTIVE | pg_state::CLEAN,
            reported_epoch: Epoch(3),
            reported_sequence: sequence,
            objects: 2,
            writes,
            write_bytes: writes * 100,
            ..PgStat::default()
        };
        let pgs = [(PgId { pool: PoolId(1), seed: 0 }, stat)].into();
        StatsReport { osd: OsdId(0), pgs, ..StatsReport::default() }
    }

    #[test]
    fn rates_follow_the_counters_and_fade() {
        let (mut stats, map) = (Statistics::default(), map());
        let second = |n: u64| Time(n * 1_000_000_000);
        stats.record(second(100), &map, report(10, 1));
        stats.record(second(101), &map, report(60, 2));
        assert_eq!(stats.rate(second(101), None).writes, 10);
        assert_eq!(stats.rate(second(101), Some(PoolId(2))).writes, 0);
        assert_eq!(stats.rate(second(120), None), Traffic::default());
        assert_eq!(stats.pool_totals(PoolId(1)).traffic.writes, 60);
    }

    #[test]
    fn groups_that_nobody_reported_are_unknown_and_those_of_the_dead_are_stale() {
        let (mut stats, map) = (Statistics::default(), map());
        stats.record(Time(1), &map, report(1, 1));
        let states = stats.pgs_by_state(&map);
        assert_eq!(states[0], (0, 7));
        assert_eq!(states[1].0 & pg_state::STALE, pg_state::STALE);
    }

    #[test]
    fn a_complete_report_takes_away_what_that_osd_alone_had_said() {
        let (mut stats, map) = (Statistics::default(), map());
        let said = |osd: i32, epoch: u32, seeds: &[u32]| {
            let stat = PgStat { reported_epoch: Epoch(epoch), ..PgStat::default() };
            let group = |seed: &u32| (PgId { pool: PoolId(1), seed: *seed }, stat.clone());
            let pgs = seeds.iter().map(group).collect();
            StatsReport { osd: OsdId(osd), pgs, is_complete: true, ..StatsReport::default() }
        };
        let seeds = |stats: &Statistics| stats.pgs().map(|(pg, _)| pg.seed).collect::<Vec<_>>();
        stats.record(Time(1), &map, said(0, 3, &[0, 1, 2]));
        stats.record(Time(2), &map, said(1, 4, &[2, 3]));
        assert_eq!(seeds(&stats), [0, 1, 2, 3]);
        // Group 2 was last reported by OSD 1 by now.
        stats.record(Time(3), &map, said(0, 4, &[1]));
        assert_eq!(seeds(&stats), [1, 2, 3]);
        stats.record(Time(4), &map, said(1, 5, &[]));
        assert_eq!(seeds(&stats), [1]);
        assert_eq!(stats.by_osd.keys().copied().collect::<Vec<_>>(), [OsdId(0)]);
    }

    #[test]
    fn groups_of_removed_pools_are_forgotten() {
        let (mut stats, mut map) = (Statistics::default(), map());
        stats.record(Time(1), &map, report(1, 1));
        map.pools.insert(PoolId(2), Pool::new(PoolType::Replicated, 3, 8, 0));
        let other = report(1, 1).pgs.into_values().next().unwrap();
        let pgs = [1, 7].map(|seed| (PgId { pool: PoolId(2), seed }, other.clone())).into();
        stats.record(Time(2), &map, StatsReport { osd: OsdId(1), pgs, ..StatsReport::default() });
        map.pools.insert(PoolId(2), Pool::new(PoolType::Replicated, 3, 4, 0));
        stats.retain(&map);
        assert_eq!(stats.totals().pgs, 2);
        map.pools.clear();
        stats.retain(&map);
        assert_eq!(stats.totals(), Totals::default());
        assert!(stats.by_osd.is_empty());
    }
}
