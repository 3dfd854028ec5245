//! Why a server serves no longer.

/// Why a run of a server serves no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The monitors have given the rank to another server, have removed this one, or have put it on the
    /// blocklist.
    Replaced,
    /// A request to the pool failed. A successor may do better.
    Failed(String),
    /// No server can serve the stored state.
    Damaged {
        /// The damage.
        reason: String,
        /// The rank, as commands name it.
        role: String,
    },
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Replaced => f.write_str(
                "the monitors have given its rank away, or have put it on the blocklist",
            ),
            End::Failed(reason) => write!(f, "it cannot serve its rank: {reason}"),
            End::Damaged { reason, role } => write!(
                f,
                "rank {role} is damaged and no server may have it: {reason}; when that is mended, \
                 run `ceph mds repaired {role}`"
            ),
        }
    }
}
