//! Pace of a load: how many keys a page has, and how long a member may take for it.

use std::time::Duration;
use tonic::{Code, Status};

/// How long one member may take to answer.
pub(crate) const ATTEMPT_TIME: Duration = Duration::from_secs(1);
/// Halvings of a page; its time doubles as often, up to 16 s. A member that is silent holds a load up no
/// longer.
const HALVINGS_MAX: u32 = 4;

/// The pace of the next page.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pace {
    /// Pages that came too late since the last load that succeeded.
    halvings: u32,
}

impl Pace {
    /// The keys of a page that has so many if nothing is late.
    pub(crate) fn limit(self, keys: i64) -> i64 {
        (keys >> self.halvings).max(1)
    }

    /// Time limit of the page.
    pub(crate) fn time(self) -> Duration {
        ATTEMPT_TIME * (1 << self.halvings)
    }

    /// The pace after a failure.
    pub(crate) fn after(self, status: &Status) -> Self {
        match status.code() {
            Code::DeadlineExceeded => Pace { halvings: HALVINGS_MAX.min(self.halvings + 1) },
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_came_too_late_is_asked_for_in_parts_with_more_time() {
        let late = Status::deadline_exceeded("it does not answer");
        let pace = Pace::default();
        assert_eq!((pace.limit(256), pace.time()), (256, ATTEMPT_TIME));
        let pace = pace.after(&Status::unavailable("connection refused"));
        assert_eq!((pace.limit(256), pace.time()), (256, ATTEMPT_TIME));
        let pace = pace.after(&late);
        assert_eq!((pace.limit(256), pace.time()), (128, 2 * ATTEMPT_TIME));
        let last = (0..9).fold(pace, |pace, _| pace.after(&late));
        assert_eq!((last.limit(256), last.limit(8), last.time()), (16, 1, 16 * ATTEMPT_TIME));
    }
}
