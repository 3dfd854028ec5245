//! The cluster version.

use super::data::Key;
use super::values::number;
use crate::keys::VersionGroup;
use types::ClusterVersion;

pub(super) const KEYS: &[Key] = &[Key {
    name: "cluster-version",
    group: Some(VersionGroup::META),
    apply: |state, _, value| {
        let stored = value.map(number).transpose()?;
        let version = stored.map(u32::try_from).transpose().map_err(|_| None)?;
        state.members.cluster_version = version.map(ClusterVersion).unwrap_or_default();
        Ok(())
    },
}];
