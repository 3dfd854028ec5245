//! The usage of the store, as groups and the monitor are told of it.

use super::{HostedGroups, recovering};
use crate::cx::cx;
use crate::env::Stage;
use crate::heartbeats::Heartbeats;
use crate::report::Subject;
use crate::shared::Shared;
use store::{Outcome, StoreError};

/// Sends a report with the usage of the store.
pub(crate) fn usage_known(
    hosted: &mut HostedGroups,
    shared: &mut Shared,
    heartbeats: &Heartbeats,
    outcome: Result<Outcome, StoreError>,
) {
    shared.report.schedule.end_query();
    if let Ok(Outcome::Usage(usage)) = outcome {
        shared.usage.take_usage(usage);
    }
    // Repeated, in case the monitor has not got it.
    shared.monitor.leave(cx!(shared));
    if shared.env.stage != Stage::Failed {
        check_space(hosted, shared);
        recovering::retry(hosted, shared);
    }
    let subject = Subject {
        groups: &mut hosted.groups,
        operations: &hosted.operations,
        leases: &hosted.leases,
        heartbeats,
        usage: &mut shared.usage,
    };
    shared.report.send(cx!(shared), &shared.monitor, subject);
}

/// Tells the groups when the disk becomes full, and when it no longer is.
pub(crate) fn check_space(hosted: &mut HostedGroups, shared: &mut Shared) {
    if shared.usage.is_outdated() {
        shared.request_report();
    }
    let Some(is_full) = shared.usage.take_change() else { return };
    let osd = shared.env.whoami();
    tracing::warn!(%osd, is_full, "the disk crosses the limit of fullness");
    for pg in hosted.groups.ids() {
        hosted.groups.get_mut(pg).expect("it was just there").pg.set_has_space(!is_full);
        hosted.settle_group(shared, pg);
    }
}
