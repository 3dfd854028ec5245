//! Time in which this OSD was awake.

use engine::{Duration, Time};

/// A timer that fires so much late counts as a pause: the process was stopped, the machine loaded, or
/// a turn of the loop long.
const LATE: Duration = Duration::from_millis(100);

/// Leaves out the time in which nobody could have been heard.
#[derive(Debug, Default)]
pub struct AwakeClock {
    slept: Duration,
}

impl AwakeClock {
    /// A timer that was `due` fires `now`.
    pub fn woke(&mut self, due: Time, now: Time) {
        let late = now.since(due);
        if late >= LATE {
            self.slept += late;
        }
    }

    pub fn at(&self, now: Time) -> Time {
        now - self.slept
    }
}
