//! The cluster version: which daemons serve it, and whether it can be raised.
//!
//! A new release serves the cluster version of the one before and its own. Daemons of both work together, and
//! each can go back, as long as the cluster version is that of the older release: nothing is written that the
//! older one cannot read. `cluster finalize` raises it once all daemons serve the next one; older daemons may
//! not join any more.

use crate::keys;
use crate::state::{CorruptKey, State};
use codec::{DecodeError, DecodeErrorKind};
use maps::{Osd, OsdState};
use std::collections::BTreeMap;
use types::{ClusterVersion, ServedVersions};

/// A daemon, and the cluster versions that it serves; `None` for a monitor that does not run.
pub struct Daemon {
    /// `osd.3`, `mon.a`, `mds.b`
    pub name: String,
    pub served: Option<ServedVersions>,
}

impl Daemon {
    fn serves(&self, version: ClusterVersion) -> bool {
        self.served.is_some_and(|served| served.contains(version))
    }
}

/// The versions that a daemon serves, by the metadata of its boot.
pub fn served(facts: &BTreeMap<String, String>) -> ServedVersions {
    ServedVersions::of_text(facts.get(ServedVersions::FACT).map(String::as_str))
}

/// The reason why a daemon may not be part of the cluster.
pub fn refusal(state: &State, facts: &BTreeMap<String, String>) -> Option<&'static str> {
    let served = served(facts);
    match state.members.cluster_version {
        version if served.newest < version => Some(
            "its release is older than the cluster version, to which the cluster was finalized; install the release \
             of the other daemons",
        ),
        version if served.oldest > version => Some(
            "its release is too new for the cluster version; install the release before it on all machines first, \
             and run 'sepiola cluster finalize'",
        ),
        _ => None,
    }
}

/// The error of a monitor that does not serve the cluster version: it would not know what others write.
pub fn check_served(served: ServedVersions, state: &State) -> Result<(), CorruptKey> {
    if served.contains(state.members.cluster_version) {
        return Ok(());
    }
    let kind = DecodeErrorKind::Unknown { value: state.members.cluster_version.0.into() };
    let source = Some(DecodeError { field: "cluster version", offset: 0, kind });
    Err(CorruptKey { key: keys::CLUSTER_VERSION.to_owned(), source })
}

/// All daemons that are part of the cluster. An OSD that never booted, or was destroyed, is none.
pub fn daemons(state: &State) -> Vec<Daemon> {
    let mons = state.monmap.mons().map(|mon| Daemon {
        name: format!("mon.{}", mon.name),
        served: state.members.present.get(&mon.name).map(|present| present.served()),
    });
    let is_kept = |osd: &Osd| !osd.state.contains(OsdState::DESTROYED);
    let osds =
        state.osdmap.existing_osds().filter(|(_, osd)| is_kept(osd)).filter_map(|(id, _)| {
            let facts = state.osd_metadata.get(&id)?;
            Some(Daemon { name: format!("osd.{id}"), served: Some(served(facts)) })
        });
    let servers = state.fs.map.servers().map(|server| Daemon {
        name: format!("mds.{}", server.name),
        served: Some(state.fs.metadata.get(&server.gid).map_or(ServedVersions::UNSAID, served)),
    });
    mons.chain(osds).chain(servers).collect()
}

/// The next cluster version, or the daemons that do not serve it; a cluster without daemons has none to
/// follow.
pub fn next(state: &State) -> Result<ClusterVersion, Vec<Daemon>> {
    let next = state.members.cluster_version.next();
    let (serving, others): (Vec<Daemon>, Vec<Daemon>) =
        daemons(state).into_iter().partition(|daemon| daemon.serves(next));
    if others.is_empty() && !serving.is_empty() { Ok(next) } else { Err(others) }
}
