//! Rhythm and clock of the background work on images.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use types::UTime;

/// Interval of polling for tasks.
pub const PAUSE: Duration = Duration::from_secs(1);

/// The wall clock.
pub fn now() -> UTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UTime::from_nanos(since.as_nanos() as u64)
}
