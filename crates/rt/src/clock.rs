//! The one place that reads clocks.

use engine::Time;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wall-clock time that never runs backwards: the system's time at start, then monotonic time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start_wall: Duration,
    start: Instant,
}

impl Clock {
    pub fn start() -> Self {
        let start_wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { start_wall, start: Instant::now() }
    }

    pub fn now(&self) -> Time {
        Time::ZERO + self.start_wall + self.start.elapsed()
    }
}
