//! A clock of the time in which this OSD was awake.

use engine::{Duration, Time};

/// A timer that fires so late counts as a pause: the process was stopped, the host overloaded, or a
/// turn of the loop long.
const LATE: Duration = Duration::from_millis(100);

/// Leaves out the time in which no answer could have been received.
#[derive(Debug, Default)]
pub struct AwakeClock {
    slept: Duration,
}

impl AwakeClock {
    /// Notes that a timer which was due at `due` fires at `now`.
    pub fn woke(&mut self, due: Time, now: Time) {
        let late = now.since(due);
        if late >= LATE {
            self.slept += late;
        }
    }

    /// The time awake at `now`.
    pub fn at(&self, now: Time) -> Time {
        now - self.slept
    }
}
