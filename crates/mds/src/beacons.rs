//! Beacons to the monitor, the state that the map grants, and the lease to answer clients.

use crate::Config;
use crate::commands::VERSION;
use engine::{Duration, Time};
use maps::MdsMap;
use maps::{MdsInfo, MdsState};
use std::collections::BTreeMap;
use types::ServedVersions;
use types::features::SUPPORTED;
use wire::MdsBeacon;

/// Time between beacons.
const INTERVAL: Duration = Duration::from_millis(500);
/// An acknowledged beacon lets the server answer clients for this long, from when it was sent.
const LEASE: Duration = Duration::from_millis(1500);
/// Beacons without an answer whose times are remembered. Older ones could give no lease any more.
const SENT_MAX: usize = 16;

/// The life of a server in the map: its state, its beacons, its lease.
#[derive(Debug)]
pub(crate) struct Beacons {
    /// State in the map; `BOOT` until the map has this server.
    state: MdsState,
    epoch: u32,
    sequence: u64,
    due: Option<Time>,
    /// Times of beacons without an answer, by number.
    sent: BTreeMap<u64, Time>,
    lease: Option<Time>,
    /// Whether the server has done the work of its state, so that it asks for the next one.
    is_ready: bool,
    /// Whether no server can serve the rank, so that it asks that none gets it.
    is_damaged: bool,
}

impl Beacons {
    /// A server that is not in the map.
    pub fn new() -> Self {
        Beacons {
            state: MdsState::BOOT,
            epoch: 0,
            sequence: 0,
            due: None,
            sent: BTreeMap::new(),
            lease: None,
            is_ready: false,
            is_damaged: false,
        }
    }

    /// State that the map grants.
    pub fn state(&self) -> MdsState {
        self.state
    }

    /// State that the server asks for.
    pub fn wanted(&self) -> MdsState {
        match self.is_damaged {
            true => MdsState::DAMAGED,
            false if self.is_ready => next_state(self.state),
            false => self.state,
        }
    }

    /// Epoch of the newest map.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether clients may be answered now.
    pub fn may_answer(&self, now: Time) -> bool {
        let answers = [MdsState::RECONNECT, MdsState::ACTIVE].contains(&self.state);
        answers && self.lease.is_some_and(|end| now < end)
    }

    /// The server has done the work of its state: the next one is asked for at once.
    pub fn set_ready(&mut self, now: Time) {
        if !self.is_ready {
            self.is_ready = true;
            self.due = self.due.map(|_| now);
        }
    }

    /// No server can serve the rank: the monitor is told at once, and until it has removed this server.
    pub fn set_damaged(&mut self, now: Time) {
        self.is_damaged = true;
        self.due = self.due.map(|_| now);
    }

    /// When a beacon is due; `None` while there is no monitor.
    pub fn due(&self) -> Option<Time> {
        self.due
    }

    /// A session with a monitor is open: the next beacon is due.
    pub fn begin(&mut self, now: Time) {
        self.due = Some(now);
    }

    /// The session with the monitor has ended.
    pub fn pause(&mut self) {
        self.due = None;
    }

    /// Takes a map; false if the server was in the map before, and is not in it any more: it was replaced.
    pub fn handle_map(&mut self, now: Time, gid: u64, map: &MdsMap) -> bool {
        if map.epoch.0 <= self.epoch {
            // Subscriptions send newer maps only. One without servers and of no file system answers a beacon:
            // the monitor does not know this server, perhaps because its store was restored from a backup.
            let is_unknown = map.mds_info.is_empty() && map.fs_name.is_empty();
            return !is_unknown || self.state == MdsState::BOOT;
        }
        self.epoch = map.epoch.0;
        let info: Option<&MdsInfo> = map.mds_info.get(&gid);
        let Some(info) = info else {
            // Standbys are not in the map of a file system, so only a lost rank means an end.
            return self.state == MdsState::BOOT || self.state == MdsState::STANDBY;
        };
        if info.state != self.state {
            tracing::info!(state = info.state.name(), epoch = self.epoch, "the map grants a state");
            self.state = info.state;
            self.is_ready = false;
            // The next state is asked for at once.
            self.due = self.due.map(|_| now);
        }
        true
    }

    /// The beacon that is due, if one is.
    pub fn beacon(&mut self, now: Time, gid: u64, config: &Config) -> Option<MdsBeacon> {
        if self.due.is_none_or(|due| now < due) {
            return None;
        }
        self.due = Some(now + INTERVAL);
        self.sequence += 1;
        self.sent.insert(self.sequence, now);
        if self.sent.len() > SENT_MAX {
            self.sent.pop_first();
        }
        let wanted = self.wanted();
        let metadata = if wanted == MdsState::BOOT { metadata(config) } else { BTreeMap::new() };
        Some(MdsBeacon {
            epoch: self.epoch.into(),
            fsid: config.fsid,
            gid,
            state: wanted.0,
            sequence: self.sequence,
            name: config.name.clone(),
            compat: codec::encode_to_bytes(&maps::CompatSet::of_servers()),
            metadata,
            features: SUPPORTED,
            ..MdsBeacon::default()
        })
    }

    /// The leader has acknowledged a beacon: the lease counts from when it was sent.
    pub fn acknowledged(&mut self, answer: &MdsBeacon) {
        let Some(sent) = self.sent.remove(&answer.sequence) else { return };
        self.sent.retain(|sequence, _| *sequence > answer.sequence);
        self.lease = self.lease.max(Some(sent + LEASE));
        if self.state == MdsState::BOOT {
            // A standby is not in the map of any file system; the answer tells that it is known.
            self.state = MdsState::STANDBY;
        }
    }
}

/// The state that a server asks for when it has done the work of a state.
fn next_state(state: MdsState) -> MdsState {
    match state {
        MdsState::CREATING | MdsState::STARTING => MdsState::ACTIVE,
        MdsState::REPLAY | MdsState::RESOLVE => MdsState::RECONNECT,
        MdsState::RECONNECT | MdsState::REJOIN | MdsState::CLIENTREPLAY => MdsState::ACTIVE,
        MdsState::STOPPING => MdsState::STOPPED,
        other => other,
    }
}

fn metadata(config: &Config) -> BTreeMap<String, String> {
    let facts = [
        ("addr", config.addrs.to_string()),
        ("hostname", config.hostname.clone()),
        ("ceph_version", VERSION.to_owned()),
        ("ceph_version_short", env!("CARGO_PKG_VERSION").to_owned()),
        ("ceph_release", "reef".to_owned()),
        ("arch", std::env::consts::ARCH.to_owned()),
        (ServedVersions::FACT, ServedVersions::OWN.to_string()),
    ];
    facts.map(|(name, fact)| (name.to_owned(), fact)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use maps::CompatSet;
    use types::Epoch;

    const GID: u64 = 4409;

    fn map(epoch: u32, state: Option<MdsState>) -> MdsMap {
        let info =
            state.map(|state| (GID, MdsInfo { gid: GID, rank: 0, state, ..MdsInfo::default() }));
        MdsMap { epoch: Epoch(epoch), mds_info: info.into_iter().collect(), ..MdsMap::default() }
    }

    fn beacon(beacons: &mut Beacons, now: Time) -> Option<MdsBeacon> {
        beacons.beacon(now, GID, &Config::for_tests())
    }

    #[test]
    fn a_server_asks_its_way_to_active() {
        let (mut beacons, now) = (Beacons::new(), Time(1_000));
        assert!(beacon(&mut beacons, now).is_none(), "there is no monitor");
        beacons.begin(now);
        let boot = beacon(&mut beacons, now).unwrap();
        assert_eq!((boot.state, boot.metadata.is_empty()), (MdsState::BOOT.0, false));
        let compat: CompatSet = codec::decode_all("compat", &boot.compat).unwrap();
        let mut demanded = CompatSet::of_file_systems();
        demanded.incompat.insert(7, "mds uses inline data");
        assert!(compat.can_write(&demanded), "as `fs new` demands it");
        assert!(beacon(&mut beacons, now).is_none(), "the next one is not due");
        beacons.acknowledged(&boot);
        let later = now + INTERVAL;
        assert_eq!(beacon(&mut beacons, later).unwrap().state, MdsState::STANDBY.0);
        assert!(beacons.handle_map(later, GID, &map(3, Some(MdsState::REPLAY))));
        assert_eq!(beacon(&mut beacons, later).unwrap().state, MdsState::REPLAY.0);
        beacons.set_ready(later);
        assert_eq!(beacon(&mut beacons, later).unwrap().state, MdsState::RECONNECT.0);
        assert!(beacons.handle_map(later, GID, &map(4, Some(MdsState::RECONNECT))));
        assert_eq!(beacon(&mut beacons, later).unwrap().state, MdsState::RECONNECT.0);
        beacons.set_ready(later);
        assert_eq!(beacon(&mut beacons, later).unwrap().state, MdsState::ACTIVE.0);
        let old = MdsMap { fs_name: "cephfs".to_owned(), ..map(3, None) };
        assert!(beacons.handle_map(later, GID, &old), "this map is old");
        assert!(!beacons.handle_map(later, GID, &map(5, None)), "the rank is another server's");
    }

    #[test]
    fn a_server_that_the_monitor_does_not_know_ends_whatever_the_epoch_is() {
        let (mut beacons, now) = (Beacons::new(), Time(1_000));
        beacons.begin(now);
        assert!(beacons.handle_map(now, GID, &map(4, None)), "it is about to boot");
        assert!(beacons.handle_map(now, GID, &map(4, None)));
        assert!(beacons.handle_map(now, GID, &map(7, Some(MdsState::ACTIVE))));
        // A control store that was restored from a backup.
        assert!(!beacons.handle_map(now, GID, &map(5, None)));
        let standby = |map: MdsMap| {
            let mut beacons = Beacons { state: MdsState::STANDBY, epoch: 4, ..Beacons::new() };
            let (first, second) =
                (beacons.handle_map(now, GID, &map), beacons.handle_map(now, GID, &map));
            (first, second)
        };
        assert_eq!(standby(map(5, None)), (true, false), "a subscription sends a map once");
        let other = MdsMap { fs_name: "cephfs".to_owned(), ..map(5, None) };
        assert_eq!(standby(other), (true, true), "it may become a server of that file system");
    }

    #[test]
    fn the_lease_counts_from_when_the_beacon_was_sent() {
        let (mut beacons, now) = (Beacons::new(), Time(1_000));
        beacons.begin(now);
        beacons.handle_map(now, GID, &map(1, Some(MdsState::ACTIVE)));
        let sent = beacon(&mut beacons, now).unwrap();
        assert!(!beacons.may_answer(now));
        beacons.acknowledged(&sent);
        assert!(beacons.may_answer(now + LEASE - Duration::from_nanos(1)));
        assert!(!beacons.may_answer(now + LEASE));
        beacons.acknowledged(&sent);
        assert!(!beacons.may_answer(now + LEASE), "an answer counts once");
    }
}
