//! Recovery of the groups, and objects that are given up.

use super::HostedGroups;
use crate::commands::answer::Requester;
use crate::operations::{own, queue};
use crate::shared::Shared;
use types::{HObject, PgShard};

/// Starts recovery of as many objects as the limit allows.
pub(crate) fn schedule(hosted: &mut HostedGroups, shared: &mut Shared) {
    if !hosted.recovery.scheduler.begin_turn(shared.env.now) {
        return;
    }
    let mut fruitless = 0;
    while let Some(pg) = hosted.recovery.scheduler.take_next(&shared.env, hosted.operations.len()) {
        let group = hosted.groups.get_mut(pg).expect("only groups that exist are queued");
        let started = group.pg.recover_next();
        hosted.settle_group(shared, pg);
        if !hosted.recovery.scheduler.note_start(&shared.env, started, &mut fruitless) {
            return;
        }
    }
}

/// Ends a pause of recovery.
pub(crate) fn kick(hosted: &mut HostedGroups, shared: &mut Shared) {
    hosted.recovery.scheduler.kick();
    schedule(hosted, shared);
}

/// Retries recovery that lacked space or a reservation.
pub(super) fn retry(hosted: &mut HostedGroups, shared: &mut Shared) {
    for pg in hosted.groups.waiting_for_retry() {
        hosted.groups.get_mut(pg).expect("it was just there").pg.retry_recovery();
        hosted.settle_group(shared, pg);
    }
}

/// Gives up lost objects of a group. The command is answered when that is durable.
pub(crate) fn give_up(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    requester: Requester,
    pg: PgShard,
    objects: &[HObject],
) {
    let (epoch, wall) = (shared.epoch(), shared.env.now.wall());
    let command = hosted.lost.begin(requester, pg.pg, objects.len());
    for object in objects {
        tracing::warn!(%pg, %object, "nobody has the object, and it is given up as asked");
        let removal = own::giving_up(pg, object, command, epoch, wall);
        let request = hosted.operations.insert(removal);
        hosted.serve(shared, pg, |s| queue::start(s, request));
    }
}
