//! The clock of a process.

use engine::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Interval in nanoseconds between readings of the wall clock.
const READ_INTERVAL: u64 = 100_000_000;
/// Slew: of this many nanoseconds, one is added or left out to follow the wall clock. Timers stay exact to 1
/// %, less than the margin that leases leave for clock drift.
const SLEW: i64 = 100;
/// A difference in nanoseconds above which a warning is logged, as slewing takes long.
const FAR: i64 = 5_000_000_000;

/// Wall-clock time that never runs backwards and never jumps: the system's time at start plus monotonic time,
/// slewed towards the system's clock by [`SLEW`]. All copies agree.
#[derive(Debug, Clone)]
pub struct Clock {
    start_wall: u64,
    start: Instant,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Offset from monotonic time, in nanoseconds.
    offset: AtomicI64,
    /// Monotonic time of the last reading of the wall clock.
    last_read: AtomicU64,
    /// The last time returned.
    last_returned: AtomicU64,
    is_far: AtomicU64,
}

impl Clock {
    /// A clock that begins at the wall time of this moment.
    pub fn start() -> Self {
        Clock { start_wall: wall(), start: Instant::now(), shared: Arc::default() }
    }

    /// The time now, never earlier than what was returned before.
    pub fn now(&self) -> Time {
        let elapsed = nanos(self.start.elapsed());
        Time(self.shared.at(self.start_wall, elapsed, wall))
    }
}

/// CPU time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

impl Shared {
    /// The time after `elapsed` nanoseconds; reads the wall clock if that is due.
    fn at(&self, start: u64, elapsed: u64, wall: impl FnOnce() -> u64) -> u64 {
        let last_read = self.last_read.load(Ordering::Acquire);
        let is_due = elapsed.saturating_sub(last_read) >= READ_INTERVAL;
        let claim = || {
            self.last_read.compare_exchange(last_read, elapsed, Ordering::AcqRel, Ordering::Acquire)
        };
        if is_due && claim().is_ok() {
            let plain = start.saturating_add(elapsed);
            let wanted = wall().wrapping_sub(plain) as i64;
            let most = (elapsed - last_read) as i64 / SLEW;
            let offset = self.offset.load(Ordering::Acquire);
            let apart = wanted.saturating_sub(offset);
            self.offset.store(offset + apart.clamp(-most, most), Ordering::Release);
            self.warn_if_far(apart);
        }
        let offset = self.offset.load(Ordering::Acquire);
        let shows = start.saturating_add(elapsed).saturating_add_signed(offset);
        self.last_returned.fetch_max(shows, Ordering::AcqRel).max(shows)
    }

    fn warn_if_far(&self, apart: i64) {
        let is_far = u64::from(apart.abs() > FAR);
        if self.is_far.swap(is_far, Ordering::AcqRel) < is_far {
            tracing::warn!(
                seconds = apart / 1_000_000_000,
                "the clock of this machine was set; this process follows it by 36 s in an hour, or at once \
                 when it is started again"
            );
        }
    }
}

fn wall() -> u64 {
    nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_800_000_000_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    /// The times returned at each tenth of a second of an hour while the wall clock is `ahead`.
    fn hour(ahead: i64) -> Vec<u64> {
        let shared = Shared::default();
        let steps = (1..=36_000u64).map(|step| step * SECOND / 10);
        let show = |elapsed| {
            shared.at(START, elapsed, || (START + elapsed).saturating_add_signed(ahead)) - START
        };
        steps.map(show).collect()
    }

    #[test]
    fn a_clock_that_was_set_is_followed_without_a_jump() {
        for ahead in [10, -10, 20_000, -20_000] {
            let last_returned = hour(ahead * SECOND as i64);
            for pair in last_returned.windows(2) {
                let step = pair[1] - pair[0];
                assert!((99_000_000..=101_000_000).contains(&step), "a step of {step}");
            }
            let gained = last_returned[35_999] as i64 - 3600 * SECOND as i64;
            let most = 36 * SECOND as i64;
            assert_eq!(gained, (ahead * SECOND as i64).clamp(-most, most));
        }
    }

    #[test]
    fn a_time_returned_to_one_core_is_not_in_the_future_of_another() {
        let shared = Shared::default();
        let early = shared.at(START, SECOND, || START + SECOND);
        // Another core has read monotonic time earlier, and arrives later.
        assert_eq!(shared.at(START, SECOND - 5, || unreachable!("it is not due")), early);
    }
}
