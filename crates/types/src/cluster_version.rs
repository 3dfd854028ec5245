//! The version of a cluster, by which releases agree on what they write to stores and to each other.

use std::fmt;
use std::str::FromStr;

/// Version of what the daemons of a cluster may write: to stores, to the control store, and in messages to
/// each other. It is raised by an administrator only (`sepiola cluster finalize`), never by a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterVersion(pub u32);

impl ClusterVersion {
    /// That of release 0.1, and of clusters that have recorded none.
    pub const FIRST: Self = ClusterVersion(1);

    /// The version after this one.
    #[must_use]
    pub fn next(self) -> Self {
        ClusterVersion(self.0.saturating_add(1))
    }
}

impl Default for ClusterVersion {
    fn default() -> Self {
        ClusterVersion::FIRST
    }
}

impl fmt::Display for ClusterVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The cluster versions that a daemon serves, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServedVersions {
    /// A cluster that is older must be finalized by an earlier release first.
    pub oldest: ClusterVersion,
    /// The version to which a cluster of such daemons can be finalized.
    pub newest: ClusterVersion,
}

impl ServedVersions {
    /// The versions that this release serves. A release raises `newest` by at most one, and `oldest` one
    /// release later.
    pub const OWN: Self =
        ServedVersions { oldest: ClusterVersion::FIRST, newest: ClusterVersion::FIRST };
    /// Daemons that do not say what they serve are of release 0.1.
    pub const UNSAID: Self =
        ServedVersions { oldest: ClusterVersion::FIRST, newest: ClusterVersion::FIRST };
    /// Name of the fact by which a daemon says what it serves, in the metadata of its boot.
    pub const FACT: &str = "sepiola_cluster_versions";

    /// The versions that a daemon serves by its own words.
    pub fn of_text(said: Option<&str>) -> Self {
        said.and_then(|text| text.parse().ok()).unwrap_or(ServedVersions::UNSAID)
    }

    /// Whether a daemon may be part of a cluster of this version.
    pub fn contains(self, version: ClusterVersion) -> bool {
        (self.oldest..=self.newest).contains(&version)
    }
}

impl Default for ServedVersions {
    fn default() -> Self {
        ServedVersions::OWN
    }
}

/// `1-2`
impl fmt::Display for ServedVersions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.oldest, self.newest)
    }
}

/// A text that is not a range of cluster versions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a range of cluster versions such as 1-2")]
pub struct ParseServedVersionsError(pub String);

impl FromStr for ServedVersions {
    type Err = ParseServedVersionsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseServedVersionsError(text.to_owned());
        let (oldest, newest) = text.split_once('-').ok_or_else(error)?;
        let version = |text: &str| text.parse().map(ClusterVersion).map_err(|_| error());
        let served = ServedVersions { oldest: version(oldest)?, newest: version(newest)? };
        if served.oldest <= served.newest { Ok(served) } else { Err(error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_as_it_is_written() {
        let served = ServedVersions { oldest: ClusterVersion(1), newest: ClusterVersion(2) };
        assert_eq!(served.to_string(), "1-2");
        assert_eq!("1-2".parse(), Ok(served));
        for text in ["", "1", "2-1", "1-", "-1", "a-b", "1-4294967296"] {
            assert!(text.parse::<ServedVersions>().is_err(), "{text}");
        }
    }

    #[test]
    fn both_ends_are_served() {
        let served: ServedVersions = "2-3".parse().expect("a range");
        let is_served = [1, 2, 3, 4].map(|version| served.contains(ClusterVersion(version)));
        assert_eq!(is_served, [false, true, true, false]);
    }
}
