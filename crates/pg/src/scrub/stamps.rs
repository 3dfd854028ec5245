//! When a group was scrubbed, with what result, and when it is due again.
//!
//! Every member keeps the stamps beside its log, so that they survive a change of the primary, and with them
//! what an administrator wants done that has not been done yet.

use super::findings::Count;
use super::map::{Level, OmapSize};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::{PgId, UTime};

const FORMAT: u8 = 3;
/// Without sizes of omaps; and without an order, too.
const FORMAT_BEFORE: u8 = 2;
const FORMAT_FIRST: u8 = 1;

/// Their key among the pairs of the group's meta object.
pub const STAMPS_KEY: Bytes = Bytes::from_static(b"scrub");

/// An administrator's wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    pub level: Level,
    /// Whether what is not certain is to be repaired, too.
    pub repair: bool,
    /// When it was given; later than anything that was done before.
    pub at: UTime,
}

impl Order {
    /// What does for this one and for another.
    #[must_use]
    pub fn with(self, other: Order) -> Self {
        Order {
            level: self.level.max(other.level),
            repair: self.repair || other.repair,
            at: self.at.max(other.at),
        }
    }
}

/// Sizes of omaps, as a deep scrub found them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OmapTotals {
    pub size: OmapSize,
    /// Objects that have more than one should have.
    pub large_objects: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamps {
    /// The last scrub of any kind, and the last deep one.
    pub last: UTime,
    pub last_deep: UTime,
    /// Errors that were found and not repaired.
    pub errors: Count,
    /// As of the last deep scrub.
    pub omaps: OmapTotals,
    /// Not carried out yet.
    pub order: Option<Order>,
}

/// How often groups are scrubbed, in seconds (`osd_scrub_min_interval` and so on).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Intervals {
    pub light: u32,
    pub deep: u32,
    /// The share of an interval by which groups are spread, so that they are not all due at once.
    pub spread: f64,
}

impl Default for Intervals {
    fn default() -> Self {
        const DAY: u32 = 24 * 3600;
        Intervals { light: DAY, deep: 7 * DAY, spread: 0.5 }
    }
}

/// What must not be done (the flags `noscrub` and `nodeep-scrub`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forbidden {
    pub light: bool,
    pub deep: bool,
}

impl Stamps {
    /// When the group is due, and for what. `since` is when it was first seen, if it was never
    /// scrubbed.
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
            // Who forbids light ones means all.
            Forbidden { light: true, .. } => None,
            Forbidden { deep: true, .. } => Some(light),
            // A deep one does for both.
            _ if deep.0 <= light.0 => Some(deep),
            _ => Some(light),
        }
    }

    /// A member that was away may still know of an order that was carried out.
    pub fn has_done(&self, order: &Order) -> bool {
        let stamp = if order.level == Level::Deep { self.last_deep } else { self.last };
        stamp >= order.at
    }

    /// What was ordered at that time is later than all that was done, whatever clocks say.
    pub fn after(&self, at: UTime) -> UTime {
        at.max(UTime::from_nanos(self.last.max(self.last_deep).as_nanos() + 1))
    }

    /// A scrub has ended. A light one has seen no omaps.
    pub fn note(&mut self, level: Level, at: UTime, errors: Count, omaps: OmapTotals) {
        self.last = at;
        match level {
            Level::Deep => {
                self.last_deep = at;
                (self.errors, self.omaps) = (errors, omaps);
            }
            // It says nothing of what only a deep one finds.
            Level::Light => self.errors.shallow = errors.shallow,
        }
    }
}

/// A number from 0 to 1 that is a group's own.
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
