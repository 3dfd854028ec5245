//! The time that hosts tell engines.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;
use types::UTime;

/// Nanoseconds since 1970 that never run backwards and never jump: the host reads the wall clock at start,
/// adds monotonic time, and slews towards the wall clock. So one value serves timers and timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// Before all times of a host.
    pub const ZERO: Time = Time(0);
    /// After all times of a host.
    pub const FAR_FUTURE: Time = Time(u64::MAX);

    /// The time as Ceph writes it.
    pub fn wall(self) -> UTime {
        UTime::from_nanos(self.0)
    }

    /// Duration since an earlier time; zero since a later one.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, duration: Duration) -> Time {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    fn sub(self, duration: Duration) -> Time {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_sub(nanos))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.wall().to_iso())
    }
}
