//! Timers of the groups: what they repeat, renew or end when its time has come.

use super::{HostedGroups, recovering};
use crate::cx::cx;
use crate::groups::wants::Wants;
use crate::operations::copying;
use crate::shared::Shared;
use types::Errno;

/// Work that inputs only note, done once at the end of each input.
pub(crate) fn finish_input(hosted: &mut HostedGroups, shared: &mut Shared) {
    hosted.grant_memory(shared);
    if !hosted.recovery.scheduler.is_idle() {
        recovering::schedule(hosted, shared);
    }
    if hosted.groups.are_asking() {
        ask_monitor(hosted, shared);
    }
}

/// Sends the requests of groups to the monitor.
fn ask_monitor(hosted: &mut HostedGroups, shared: &mut Shared) {
    let wants = hosted.groups.take_wants(shared.env.now, shared.epoch());
    if let Some(Wants { up_thru, acting }) = wants {
        shared.monitor.ask_for_intervals(cx!(shared), up_thru, acting);
    }
}

/// Repeats the groups' requests to a monitor that may not have got them.
pub(crate) fn ask_again(hosted: &mut HostedGroups) {
    hosted.groups.ask_again();
}

/// Retries requests of groups that were not fulfilled in time.
pub(crate) fn retry_if_due(hosted: &mut HostedGroups, shared: &mut Shared) {
    let now = shared.env.now;
    if !hosted.groups.begin_retry(now) {
        return;
    }
    for pg in hosted.groups.ids() {
        if hosted.groups.retry(now, pg) {
            hosted.settle_group(shared, pg);
        }
    }
    ask_monitor(hosted, shared);
}

/// Ends notifications and watches whose time is up.
pub(crate) fn end_late_watches(hosted: &mut HostedGroups, shared: &mut Shared) {
    let now = shared.env.now;
    if hosted.watches.begin_tick(now) {
        for (notify_id, pg) in hosted.watches.late(now) {
            if let Some(group) = hosted.groups.get_mut(pg) {
                let result = Errno::TIMEDOUT.negative();
                hosted.watches.complete(cx!(shared), &mut group.watched(), notify_id, result);
            }
        }
        hosted.groups.expire_watches(now, &mut shared.work);
    }
    hosted.settle(shared);
}

/// Renews the leases if there were reads or some wait, and wakes groups that waited for the end of leases of
/// prior intervals.
pub(crate) fn renew_leases_if_due(hosted: &mut HostedGroups, shared: &mut Shared) {
    let (groups, now) = (&hosted.groups, shared.env.now);
    let waits =
        |pg| groups.get(pg).is_some_and(|group| !group.queues.waiting_for_readable.is_empty());
    if hosted.leases.begin_renewal(now, waits) {
        hosted.ask_for_leases(shared);
    }
    while let Some(pg) = hosted.groups.end_wait(&hosted.leases, now) {
        hosted.settle_group(shared, pg);
    }
}

/// Requests pieces of copies again that have not come.
pub(crate) fn retry_copies_if_due(hosted: &mut HostedGroups, shared: &mut Shared) {
    let now = shared.env.now;
    let (cx, peers) = (cx!(shared), &mut shared.peers);
    copying::retry_if_due(&mut hosted.operations, cx, peers, now);
    hosted.settle(shared);
}
