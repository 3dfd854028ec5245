//! Faults of the OSDs of erasure-coded groups: declared lost, or with a shard whose log cannot be read.

use super::waits::waits;
use crate::cast::Cast;
use crate::fault::{Fault, Plan};
use engine::Duration;
use stdx::Prng;

/// An administrator tries so often to declare an OSD lost, in intervals of up to so long.
const LOSSES_MAX: u64 = 6;
const LOSS_MS_MAX: u64 = 4_000;
/// Time until a lost OSD returns.
const LOST_MS_MAX: u64 = 15_000;
/// Starts of an OSD with an unreadable log, after the first one.
const FAILING_STARTS_MAX: u64 = 3;
const FAILING_MS_MAX: u64 = 6_000;

/// An OSD dies, an administrator declares it lost, and it returns with all that it had.
pub(super) fn lose(prng: &mut Prng, cast: &Cast) -> Plan {
    let osd = *prng.choose(&cast.osds);
    let attempts: Vec<Duration> = waits(prng, LOSSES_MAX, LOSS_MS_MAX).collect();
    let last = attempts.last().copied().unwrap_or_default();
    let back = last + Duration::from_millis(1 + prng.below(LOST_MS_MAX));
    let mut follows = vec![(Duration::ZERO, Fault::Crash(vec![osd]))];
    follows.extend(attempts.into_iter().map(|wait| (wait, Fault::Lose(osd))));
    follows.push((back, Fault::Start(vec![osd])));
    // It counts when the OSD is declared lost.
    (Fault::Start(Vec::new()), follows)
}

/// The log of one shard of an OSD cannot be read, each time that it starts, until it heals.
pub(super) fn fail_copy(prng: &mut Prng, cast: &Cast) -> Plan {
    let osd = *prng.choose(&cast.osds);
    let mut follows = vec![(Duration::ZERO, Fault::FailCopy(osd))];
    let mut last = Duration::ZERO;
    for wait in waits(prng, FAILING_STARTS_MAX, FAILING_MS_MAX) {
        let back = wait + Duration::from_millis(1 + prng.below(FAILING_MS_MAX));
        follows.push((wait, Fault::Crash(vec![osd])));
        follows.push((back, Fault::Start(vec![osd])));
        last = last.max(back);
    }
    follows.push((
        last + Duration::from_millis(1 + prng.below(FAILING_MS_MAX)),
        Fault::CopyHeals(osd),
    ));
    (Fault::Start(Vec::new()), follows)
}
