//! Rate limit for log messages about failures of the control store.

use engine::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Pause before the same reason is logged again.
const SAME_AGAIN: Duration = Duration::from_secs(60);
/// Pause before another reason of the same failure is logged: members of an etcd may word it differently.
const OTHER_AGAIN: Duration = Duration::from_secs(10);

/// The last message about each subject.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    said: BTreeMap<&'static str, (Time, String)>,
}

impl Complaints {
    /// Whether to log this now; if so, it is noted as logged.
    pub fn is_due(&mut self, now: Time, subject: &'static str, reason: &str) -> bool {
        let is_due = self.said.get(subject).is_none_or(|(when, said)| {
            let pause = if said == reason { SAME_AGAIN } else { OTHER_AGAIN };
            now.since(*when) >= pause
        });
        if is_due {
            self.said.insert(subject, (now, reason.to_owned()));
        }
        is_due
    }

    /// Forgets a failure that is over; true if it was logged.
    pub fn is_over(&mut self, subject: &'static str) -> bool {
        self.said.remove(subject).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_logged_when_it_begins_when_it_changes_and_once_a_minute() {
        let at = |seconds: u64| Time(seconds * 1_000_000_000);
        let mut complaints = Complaints::default();
        assert!(complaints.is_due(at(1), "lease", "no quorum"));
        assert!(complaints.is_due(at(1), "load", "no quorum"), "each subject for itself");
        assert!(!complaints.is_due(at(60), "lease", "no quorum"));
        assert!(complaints.is_due(at(61), "lease", "no quorum"));
        assert!(!complaints.is_due(at(62), "lease", "no space"));
        assert!(complaints.is_due(at(71), "lease", "no space"));
        assert!(complaints.is_over("lease") && !complaints.is_over("lease"));
        assert!(complaints.is_due(at(72), "lease", "no space"));
    }
}
