//! The wait for the end of read leases of earlier intervals. See `leases.rs`.

use crate::core::{Core, Output};
use crate::intervals::Interval;
use crate::peers::Known;
use types::{Epoch, OsdId};

/// Whether a lease of an earlier interval still holds; if so, asks for [`crate::Pg::time_passed`] at its end.
pub(super) fn must_wait(core: &mut Core, known: &Known) -> bool {
    let mut prior = std::mem::take(&mut core.leases.prior);
    prior.retain(|osd, since| !is_over(core, known, osd, since));
    core.leases.prior = prior;
    let until = core.leases.prior.until();
    if until > core.leases.now {
        core.outputs.push_back(Output::WaitUntil(until));
    }
    until > core.leases.now
}

/// Whether neither the primary that was replaced in `since` nor any of its replicas answers reads any
/// more: each has answered us, has restarted, or is dead.
fn is_over(core: &Core, known: &Known, primary: OsdId, since: Epoch) -> bool {
    let is_settled = |osd: OsdId| {
        let status = core.placement.osds.as_ref().map(|osds| osds.status(osd)).unwrap_or_default();
        osd == core.own.whoami.osd
            || osd == OsdId::NONE
            || known.has_heard_of(osd)
            || status.up_from > since
            || status.dead_epoch.next() >= since
    };
    // The members of a gap are not known, so a lease from before one is waited for.
    let ended = |interval: &&Interval| !interval.is_gap && interval.last.next() == since;
    let mut past = core.copy.past.iter().filter(ended);
    let replicas = past.next().map(|interval| interval.acting.iter().copied());
    replicas.is_some_and(|mut osds| osds.all(is_settled)) && is_settled(primary)
}
