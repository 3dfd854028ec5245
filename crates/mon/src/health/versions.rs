//! Checks of the releases of daemons.

use super::check::{Health, View, next_step};
use crate::cluster_version::next;

/// All daemons are of a new release: the upgrade is complete, but for the last step.
pub(crate) fn check(health: &mut Health, view: &View<'_>) {
    let Ok(next) = next(view.state) else { return };
    let version = view.state.members.cluster_version;
    let line = format!(
        "all daemons serve cluster version {next}, and the cluster is of version {version}"
    );
    let step = "'sepiola cluster finalize' once the new release has proven itself; until then each machine can go back \
                to the release before, and features that need the new version are off";
    let summary = "the upgrade of all daemons is complete and not finalized".to_owned();
    health.warn("UPGRADE_NOT_FINALIZED", 1, summary, next_step([line], step));
}
