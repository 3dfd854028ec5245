//! Client I/O statistics per image (`rbd perf image stats`), collected only while they are requested.
//!
//! OSDs count by the image ids in object names. A worker with a client of its own (see
//! [`crate::image_tasks`]) fetches the ids without a known name and reports their names.

use crate::image_tasks::{COMPLETED_MAX, ImageTask};
use engine::Time;
use maps::OsdMap;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::{OsdId, PoolId};
use wire::internal::{ImageTraffic as Counters, StatsReport};

/// Statistics are collected for so long after the last request for them.
const ASKED_FOR: Duration = Duration::from_secs(60);
/// Age at which the last report of an OSD no longer counts as current.
const CURRENT_FOR: Duration = Duration::from_secs(12);
/// Age at which a name is looked up again, since the image may have been renamed.
const NAME_KEPT: Duration = Duration::from_secs(60);
/// Images that are counted; further ones are ignored.
const IMAGES_MAX: usize = 10_000;
/// Names that are looked up at once.
const UNNAMED_MAX: usize = 256;

/// Pool, namespace and image id (or name, in results).
pub type ImageKey = (PoolId, String, String);

/// Traffic by image; empty while no client requests it.
#[derive(Debug, Default)]
pub struct ImageTraffic {
    asked: Option<Time>,
    /// Sums since the first request.
    totals: BTreeMap<ImageKey, Counters>,
    /// The last report of each OSD.
    latest: BTreeMap<OsdId, Latest>,
    /// The name and when it was reported; `None` if there is no such image.
    names: BTreeMap<ImageKey, (Option<String>, Time)>,
    /// Tasks that were completed lately, with their numbers, so that a request that was resent is not
    /// executed again.
    pub completed: VecDeque<(Time, u64, ImageTask)>,
}

/// A report's time of arrival, the seconds that it covers, and its counters.
#[derive(Debug)]
struct Latest {
    at: Time,
    seconds: f64,
    images: Vec<Counters>,
}

/// An update by a command or a worker.
#[derive(Debug)]
pub enum Note {
    /// Statistics were requested.
    Asked,
    /// Names of images; `None` if there is no such image.
    Names(Vec<(ImageKey, Option<String>)>),
    /// A task with its number was completed.
    Done(u64, ImageTask),
}

/// Rates per second, or totals: writes, reads, bytes written and read, and the nanoseconds of a write and of
/// a read; in Ceph's order.
pub type Row = [f64; 6];
/// The names of a [`Row`]'s columns.
pub const COLUMNS: [&str; 6] =
    ["write_ops", "read_ops", "write_bytes", "read_bytes", "write_latency", "read_latency"];

impl ImageTraffic {
    /// Applies an update.
    pub fn take_note(&mut self, now: Time, note: Note) {
        match note {
            Note::Asked => {
                self.expire(now);
                self.asked = Some(now);
            }
            Note::Names(names) => {
                for (key, name) in names {
                    self.names.insert(key, (name, now));
                }
                self.names.retain(|key, _| self.totals.contains_key(key));
            }
            Note::Done(sequence, task) => {
                if self.completed.iter().all(|(_, _, known)| known.id != task.id) {
                    self.completed.push_back((now, sequence, task));
                }
                while self.completed.len() > COMPLETED_MAX {
                    self.completed.pop_front();
                }
            }
        }
    }

    /// Seconds for which OSDs are to go on counting; zero if no client requests statistics.
    pub fn wanted_for(&self, now: Time) -> u32 {
        let asked = self.asked.map_or(Duration::MAX, |asked| now.since(asked));
        ASKED_FOR.saturating_sub(asked).as_secs() as u32
    }

    fn expire(&mut self, now: Time) {
        if self.asked.is_some() && self.wanted_for(now) == 0 {
            *self = ImageTraffic::default();
        }
    }

    /// Takes the image counters out of an OSD's report.
    pub fn record(&mut self, now: Time, report: &mut StatsReport) {
        self.expire(now);
        let images = std::mem::take(&mut report.images);
        if self.asked.is_none() || report.images_ms == 0 {
            return;
        }
        for counters in &images {
            let key = key(counters);
            if self.totals.len() < IMAGES_MAX || self.totals.contains_key(&key) {
                add(self.totals.entry(key).or_default(), counters);
            }
        }
        assert!(self.totals.len() <= IMAGES_MAX, "{} images are counted", self.totals.len());
        let seconds = report.images_ms as f64 / 1000.0;
        self.latest.insert(report.osd, Latest { at: now, seconds, images });
    }

    /// Images whose names are not known, or may have changed.
    pub fn unnamed(&self, now: Time) -> impl Iterator<Item = &ImageKey> {
        let is_current = move |key: &ImageKey| {
            self.names.get(key).is_some_and(|(_, at)| now.since(*at) < NAME_KEPT)
        };
        let wanted = self.totals.keys().filter(move |key| !is_current(key));
        wanted.take(if self.wanted_for(now) > 0 { UNNAMED_MAX } else { 0 })
    }

    /// Current rates by image name. Images without a known name are left out.
    pub fn rates(&self, now: Time) -> BTreeMap<ImageKey, Row> {
        let mut sums = BTreeMap::<ImageKey, Row>::new();
        let current = self.latest.values().filter(|latest| now.since(latest.at) < CURRENT_FOR);
        for latest in current {
            for counters in &latest.images {
                let row = sums.entry(key(counters)).or_default();
                let rates = row_of(counters).map(|value| value / latest.seconds);
                row.iter_mut().zip(rates).for_each(|(sum, rate)| *sum += rate);
            }
        }
        // Per operation, not per second.
        for [writes, reads, _, _, write_ns, read_ns] in sums.values_mut() {
            *write_ns /= if *writes > 0.0 { *writes } else { 1.0 };
            *read_ns /= if *reads > 0.0 { *reads } else { 1.0 };
        }
        self.named(sums)
    }

    /// Sums since the first request, by image name.
    pub fn totals(&self) -> BTreeMap<ImageKey, Row> {
        self.named(self.totals.iter().map(|(key, sum)| (key.clone(), row_of(sum))).collect())
    }

    fn named(&self, rows: BTreeMap<ImageKey, Row>) -> BTreeMap<ImageKey, Row> {
        let named = rows.into_iter().filter_map(|(key, row)| {
            let (name, _) = self.names.get(&key)?;
            Some(((key.0, key.1, name.clone()?), row))
        });
        named.collect()
    }

    /// Drops entries of pools and OSDs that the map no longer has.
    pub fn retain(&mut self, map: &OsdMap) {
        self.totals.retain(|(pool, ..), _| map.pool(*pool).is_some());
        self.latest.retain(|osd, _| map.exists(*osd));
    }
}

fn key(counters: &Counters) -> ImageKey {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (counters.pool, text(&counters.namespace), text(&counters.image))
}

fn add(sum: &mut Counters, more: &Counters) {
    sum.writes += more.writes;
    sum.reads += more.reads;
    sum.write_bytes += more.write_bytes;
    sum.read_bytes += more.read_bytes;
    sum.write_ns += more.write_ns;
    sum.read_ns += more.read_ns;
}

fn row_of(counters: &Counters) -> Row {
    let Counters { writes, reads, write_bytes, read_bytes, write_ns, read_ns, .. } = *counters;
    [writes, reads, write_bytes, read_bytes, write_ns, read_ns].map(|value| value as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(osd: i32, writes: u64, ms: u64) -> StatsReport {
        let image = Counters {
            pool: PoolId(1),
            image: "10ab".into(),
            writes,
            write_bytes: writes * 4096,
            write_ns: writes * 1000,
            ..Counters::default()
        };
        let images = vec![image];
        StatsReport { osd: OsdId(osd), images, images_ms: ms, ..StatsReport::default() }
    }

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    #[test]
    fn rates_are_sums_of_what_osds_said_last_and_names_are_asked_for() {
        let mut traffic = ImageTraffic::default();
        traffic.record(at(9), &mut report(0, 1000, 1000));
        assert_eq!((traffic.wanted_for(at(9)), traffic.totals.len()), (0, 0), "nobody asks");
        traffic.take_note(at(10), Note::Asked);
        assert_eq!(traffic.wanted_for(at(11)), 59);
        traffic.record(at(12), &mut report(0, 100, 2000));
        traffic.record(at(15), &mut report(1, 50, 5000));
        traffic.record(at(17), &mut report(0, 20, 5000));
        assert!(traffic.rates(at(17)).is_empty(), "without a name");
        let key = traffic.unnamed(at(17)).next().unwrap().clone();
        assert_eq!(key, (PoolId(1), String::new(), "10ab".to_owned()));
        traffic.take_note(at(17), Note::Names(vec![(key, Some("disk".to_owned()))]));
        assert_eq!(traffic.unnamed(at(18)).next(), None);
        let name = (PoolId(1), String::new(), "disk".to_owned());
        let expected = [14.0, 0.0, 14.0 * 4096.0, 0.0, 1000.0, 0.0];
        assert_eq!(traffic.rates(at(18))[&name], expected);
        assert_eq!(traffic.totals()[&name][0], 170.0);
        assert!(traffic.rates(at(40)).is_empty());
        traffic.record(at(90), &mut report(0, 1, 1000));
        assert!(traffic.totals().is_empty(), "nobody asks any more");
    }
}
