//! Scrub stamps: when a group was scrubbed, with what result, and when it is due again.
//!
//! Every member stores the stamps beside its log, so that they, and an administrator's order that is not
//! carried out yet, survive a change of the primary.

use super::findings::Count;
use super::map::{Level, OmapSize};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::{PgId, UTime};

const FORMAT: u8 = 3;
/// Formats without sizes of omaps; the first one without an order, too.
const FORMAT_BEFORE: u8 = 2;
const FORMAT_FIRST: u8 = 1;

/// The key of the stamps in the omap of the group's meta object.
pub const STAMPS_KEY: Bytes = Bytes::from_static(b"scrub");

/// An administrator's order to scrub a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// The level of the ordered scrub.
    pub level: Level,
    /// Whether to repair from a copy that is only presumed to be right, too.
    pub repair: bool,
    /// When it was given; made later than all scrubs before it.
    pub at: UTime,
}

impl Order {
    /// An order that covers both.
    #[must_use]
    pub fn with(self, other: Order) -> Self {
        Order {
            level: self.level.max(other.level),
            repair: self.repair || other.repair,
            at: self.at.max(other.at),
        }
    }
}

/// Sizes of a group's omaps, as a deep scrub found them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OmapTotals {
    /// The size of all omaps together.
    pub size: OmapSize,
    /// Objects whose omap exceeds the limits of a single object.
    pub large_objects: u64,
}

/// The scrub state of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamps {
    /// Time of the last scrub of any kind, and of the last deep one.
    pub last: UTime,
    /// See `last`.
    pub last_deep: UTime,
    /// Errors that were found and not repaired.
    pub errors: Count,
    /// As of the last deep scrub.
    pub omaps: OmapTotals,
    /// The order that is not carried out yet.
    pub order: Option<Order>,
}

/// How often groups are scrubbed, in seconds (`osd_scrub_min_interval` and so on).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intervals {
    /// Seconds between light scrubs.
    pub light: u32,
    /// Seconds between deep scrubs.
    pub deep: u32,
    /// Fraction of an interval over which groups are spread, so that they are not all due at once.
    pub spread: f64,
}

impl Default for Intervals {
    fn default() -> Self {
        const DAY: u32 = 24 * 3600;
        Intervals { light: DAY, deep: 7 * DAY, spread: 0.5 }
    }
}

/// Levels at which scrubs are forbidden (the flags `noscrub` and `nodeep-scrub`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forbidden {
    /// Set if light scrubs are forbidden.
    pub light: bool,
    /// Set if deep scrubs are forbidden.
    pub deep: bool,
}

impl Stamps {
    /// When the group is due, and at which level; `None` if scrubs are forbidden. `since` is when it was
    /// first seen: it is due no earlier than an interval after that.
    pub fn due(
        &self,
        pg: PgId,
        since: UTime,
        intervals: &Intervals,
        forbidden: Forbidden,
    ) -> Option<(UTime, Level)> {
        let spread = 1.0 + intervals.spread * share(pg);
        let after = |stamp: UTime, seconds: u32| {
            let nanos = f64::from(seconds) * spread * 1e9;
            UTime::from_nanos(stamp.max(since).as_nanos().saturating_add(nanos as u64))
        };
        let deep = (after(self.last_deep, intervals.deep), Level::Deep);
        let light = (after(self.last, intervals.light), Level::Light);
        match forbidden {
            // `noscrub` forbids deep scrubs, too.
            Forbidden { light: true, .. } => None,
            Forbidden { deep: true, .. } => Some(light),
            // A deep scrub covers both.
            _ if deep.0 <= light.0 => Some(deep),
            _ => Some(light),
        }
    }

    /// Whether a scrub since has carried out the order. A member that was away may still report it.
    pub fn has_done(&self, order: &Order) -> bool {
        let stamp = if order.level == Level::Deep { self.last_deep } else { self.last };
        stamp >= order.at
    }

    /// A time for an order given at `at` that is later than all scrubs before, whatever clocks say.
    pub fn after(&self, at: UTime) -> UTime {
        at.max(UTime::from_nanos(self.last.max(self.last_deep).as_nanos() + 1))
    }

    /// Records a scrub that has ended. A light one has no sizes of omaps.
    pub fn note(&mut self, level: Level, at: UTime, errors: Count, omaps: OmapTotals) {
        self.last = at;
        match level {
            Level::Deep => {
                self.last_deep = at;
                (self.errors, self.omaps) = (errors, omaps);
            }
            // A light scrub finds no deep errors, so the last ones stay.
            Level::Light => self.errors.shallow = errors.shallow,
        }
    }
}

/// A number in 0..1 that is fixed for a group.
fn share(pg: PgId) -> f64 {
    let mixed = (pg.pool.0 as u64 ^ u64::from(pg.seed) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as f64 / (1u64 << 24) as f64
}

impl Encode for Order {
    fn encode(&self, w: &mut Writer) {
        w.bool(self.level == Level::Deep);
        w.bool(self.repair);
        w.value(&self.at);
    }
}

impl Decode for Order {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let level = if r.bool("deep")? { Level::Deep } else { Level::Light };
        Ok(Order { level, repair: r.bool("repair")?, at: r.value()? })
    }
}

impl Encode for Stamps {
    fn encode(&self, w: &mut Writer) {
        w.u8(FORMAT);
        w.value(&self.last);
        w.value(&self.last_deep);
        w.u64(self.errors.shallow);
        w.u64(self.errors.deep);
        w.bool(self.order.is_some());
        if let Some(order) = &self.order {
            w.value(order);
        }
        w.u64(self.omaps.size.keys);
        w.u64(self.omaps.size.bytes);
        w.u64(self.omaps.large_objects);
    }
}

impl Decode for Stamps {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let format = r.u8("format of scrub stamps")?;
        match format {
            FORMAT_FIRST..=FORMAT => {}
            other => return Err(at.invalid("format of scrub stamps", other.into())),
        }
        let (last, last_deep) = (r.value()?, r.value()?);
        let errors = Count { shallow: r.u64("shallow errors")?, deep: r.u64("deep errors")? };
        let order = match format >= FORMAT_BEFORE && r.bool("presence of an order")? {
            true => Some(r.value()?),
            false => None,
        };
        let mut omaps = OmapTotals::default();
        if format >= FORMAT {
            let (keys, bytes) = (r.u64("keys of omaps")?, r.u64("bytes of omaps")?);
            omaps.size = OmapSize { keys, bytes };
            omaps.large_objects = r.u64("objects with large omaps")?;
        }
        Ok(Stamps { last, last_deep, errors, omaps, order })
    }
}
