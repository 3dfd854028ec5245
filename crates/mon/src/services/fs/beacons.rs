//! Beacons of metadata servers: what a server asks for, and the answers.
//!
//! A beacon that changes nothing is answered at once. Any other is answered once its change is durable, so a
//! server never acts in a state that the next leader does not know.

use super::plan;
use super::publish::null_map;
use crate::change::Change;
use crate::cluster_version;
use crate::file_systems::{DEBUG, ERROR, INFO, blocklist, fail, is_transition, roles};
use crate::job::{Effects, FsJob, Job, ServiceJob};
use crate::keys;
use crate::live::MdsWatch;
use crate::service::{Cx, DecideCx};
use crate::state::State;
use auth::Rwx;
use codec::decode_all;
use engine::{ConnId, Message};
use maps::{CompatSet, FsId, MdsInfo, MdsState, NO_FILE_SYSTEM};
use std::collections::BTreeMap;
use types::{EntityType, UTime};
use wire::{MdsBeacon, MdsHealth, MdsReport, MessageBody, PeerFault};

/// Bounds of what is stored about a server. Beacons beyond them are dropped.
const NAME_BYTES_MAX: usize = 256;
const METADATA_BYTES_MAX: usize = 64 << 10;
const HEALTH_METRICS_MAX: usize = 1024;
const HEALTH_BYTES_MAX: usize = 256 << 10;
/// Ceph's servers have a dozen features, of some 30 bytes each.
const COMPAT_BYTES_MAX: usize = 8 << 10;
/// Bound of the servers in the map; further ones are not taken.
const SERVERS_MAX: usize = 1024;

/// Handles a beacon.
pub(super) fn take(watch: &mut MdsWatch, cx: &mut Cx<'_>, conn: ConnId, beacon: MdsBeacon) {
    let Some(session) = cx.sessions.get(conn) else { return };
    let peer = session.peer();
    let is_own = peer.name.kind == EntityType::MDS
        && peer.participant.number as u64 == beacon.gid
        && beacon.fsid == cx.state.monmap.fsid;
    if !is_own || !session.may("mds", Rwx::EXECUTE) || !is_bounded(&beacon) {
        return cx.log_dropped(conn, &PeerFault::NotAllowed { kind: MdsBeacon::KIND });
    }
    let state = cx.state;
    let wanted = MdsState(beacon.state);
    let Some(info) = state.fs.map.server(beacon.gid) else {
        match wanted == MdsState::BOOT {
            true => enqueue(cx, conn, beacon),
            // It was removed from the map, and must start again.
            false => cx.reply(conn, |features| null_map(state).encode(features)),
        }
        return;
    };
    watch.heard(cx.now, beacon.gid, &beacon.health);
    if changes(state, info, &beacon) {
        return enqueue(cx, conn, beacon);
    }
    let answer = answer(state, &beacon);
    cx.reply(conn, |features| answer.encode(features));
}

/// Takes the counters of a server.
pub(super) fn take_report(watch: &mut MdsWatch, cx: &mut Cx<'_>, conn: ConnId, report: &MdsReport) {
    let Some(peer) = cx.sessions.get(conn).map(|session| session.peer()) else { return };
    let is_own = peer.name.kind == EntityType::MDS && peer.participant.number as u64 == report.gid;
    match is_own {
        true => watch.counted(cx.now, report.gid, report.counters.clone()),
        false => cx.log_dropped(conn, &PeerFault::NotAllowed { kind: MdsReport::KIND }),
    }
}

fn is_bounded(beacon: &MdsBeacon) -> bool {
    let length = |facts: &BTreeMap<String, String>| -> usize {
        facts.iter().map(|(key, value)| key.len() + value.len()).sum()
    };
    let metrics = &beacon.health.metrics;
    let health = metrics.iter().map(|metric| metric.message.len() + length(&metric.metadata));
    (1..=NAME_BYTES_MAX).contains(&beacon.name.len())
        && length(&beacon.metadata) <= METADATA_BYTES_MAX
        && beacon.compat.len() <= COMPAT_BYTES_MAX
        && beacon.file_system.len() <= NAME_BYTES_MAX
        && metrics.len() <= HEALTH_METRICS_MAX
        && health.sum::<usize>() <= HEALTH_BYTES_MAX
}

fn enqueue(cx: &mut Cx<'_>, conn: ConnId, beacon: MdsBeacon) {
    let beacon = Box::new(MdsBeacon { health: MdsHealth::default(), ..beacon });
    cx.enqueue(Job::Of(ServiceJob::Fs(FsJob::Beacon { conn, beacon })));
}

/// Whether a beacon of a server in the map asks for something that is not granted yet.
fn changes(state: &State, info: &MdsInfo, beacon: &MdsBeacon) -> bool {
    let wanted = MdsState(beacon.state);
    if info.is_laggy() || info.join_fscid != bound_to(state, &beacon.file_system) {
        return true;
    }
    // A repeated first beacon.
    wanted != MdsState::BOOT && wanted != info.state && is_transition(info.state, wanted)
}

/// The file system of a name that a server is bound to; none if there is no such one yet.
fn bound_to(state: &State, name: &str) -> FsId {
    state.fs.map.named(name).map_or(NO_FILE_SYSTEM, |fs| fs.fscid)
}

fn answer(state: &State, beacon: &MdsBeacon) -> MdsBeacon {
    MdsBeacon {
        epoch: state.fs.map.epoch.0.into(),
        fsid: state.monmap.fsid,
        gid: beacon.gid,
        state: beacon.state,
        sequence: beacon.sequence,
        name: beacon.name.clone(),
        features: types::features::SUPPORTED,
        ..MdsBeacon::default()
    }
}

/// Collects the changes of a beacon, and its answer.
pub(super) fn run(
    cx: &DecideCx<'_>,
    conn: ConnId,
    beacon: &MdsBeacon,
    change: &mut Change,
) -> Effects {
    let state = cx.state;
    let wanted = MdsState(beacon.state);
    let reply = match state.fs.map.server(beacon.gid) {
        None if wanted == MdsState::BOOT => boot(cx, conn, beacon, change),
        None => Some(null_map(state).encode(0)),
        Some(info) => {
            let info = info.clone();
            refresh(state, &info, beacon, change);
            match wanted != info.state && is_transition(info.state, wanted) {
                true => step(state, &info, beacon, change),
                false => Some(answer(state, beacon).encode(0)),
            }
        }
    };
    reply.map(|message| Effects::message(conn, message)).unwrap_or_default()
}

/// Adds a server as a standby, which gets a rank at once if one waits. An earlier run of the same name has
/// ended.
fn boot(
    cx: &DecideCx<'_>,
    conn: ConnId,
    beacon: &MdsBeacon,
    change: &mut Change,
) -> Option<Message> {
    let state = cx.state;
    // A server whose session has ended since repeats its beacon if it lives.
    let session = cx.sessions.get(conn)?;
    let compat: CompatSet = decode_all("features of a metadata server", &beacon.compat).ok()?;
    if state.fs.map.roles.len() >= SERVERS_MAX {
        let (name, count) = (&beacon.name, SERVERS_MAX);
        tracing::warn!(name, "a metadata server is not taken: there are {count} already");
        return None;
    }
    if let Some(reason) = cluster_version::refusal(state, &beacon.metadata) {
        tracing::warn!(name = beacon.name, reason, "a metadata server may not boot");
        return None;
    }
    let earlier = state.fs.map.servers().find(|info| info.name == beacon.name);
    if let Some(earlier) = earlier.map(|info| info.gid) {
        fail(state, change, earlier);
    }
    let standby = MdsInfo {
        gid: beacon.gid,
        name: beacon.name.clone(),
        state: MdsState::STANDBY,
        state_seq: beacon.sequence,
        addrs: session.peer().addrs.clone(),
        features: beacon.features,
        join_fscid: bound_to(state, &beacon.file_system),
        compat,
        ..MdsInfo::default()
    };
    roles::add_standby(change.fsmap(state), standby);
    let metadata = serde_json::to_vec(&beacon.metadata).unwrap_or_default();
    change.put(keys::mds_metadata(beacon.gid), metadata);
    change.note(DEBUG, format!("mds.{} {} up:boot", beacon.name, session.peer().addrs));
    plan::assign(state, change);
    Some(answer(state, beacon).encode(0))
}

/// A server that was silent speaks again, or is bound to another file system.
fn refresh(state: &State, info: &MdsInfo, beacon: &MdsBeacon, change: &mut Change) {
    let join_fscid = bound_to(state, &beacon.file_system);
    if !info.is_laggy() && info.join_fscid == join_fscid {
        return;
    }
    if let Some(info) = change.fsmap(state).server_mut(info.gid) {
        info.laggy_since = UTime::ZERO;
        info.join_fscid = join_fscid;
    }
}

/// Takes a server to the state that it asks for.
fn step(state: &State, info: &MdsInfo, beacon: &MdsBeacon, change: &mut Change) -> Option<Message> {
    let (gid, wanted) = (info.gid, MdsState(beacon.state));
    let reply = answer(state, beacon).encode(0);
    match wanted {
        MdsState::STOPPED => {
            roles::stop(change.fsmap(state), gid);
            let (name, rank) = (&info.name, info.rank);
            change.note(INFO, format!("daemon mds.{name} finished stopping rank {rank}"));
        }
        MdsState::DAMAGED => {
            let osd_epoch = blocklist(state, change, &info.addrs);
            roles::damage(change.fsmap(state), gid, osd_epoch);
            let (name, rank) = (&info.name, info.rank);
            let text = format!("daemon mds.{name} found the metadata of rank {rank} damaged");
            change.note(ERROR, text);
        }
        MdsState::DNE => {
            fail(state, change, gid);
            plan::assign(state, change);
        }
        _ => {
            if let Some(info) = change.fsmap(state).server_mut(gid) {
                (info.state, info.state_seq) = (wanted, beacon.sequence);
            }
            if wanted == MdsState::ACTIVE {
                note_active(state, info, change);
            }
            return Some(reply);
        }
    }
    // It is not in the map any more.
    Some(null_map(state).encode(0))
}

fn note_active(state: &State, info: &MdsInfo, change: &mut Change) {
    let fscid = state.fs.map.roles.get(&info.gid);
    let fs = fscid.and_then(|fscid| state.fs.map.file_systems.get(fscid));
    let (name, rank, fs) = (&info.name, info.rank, fs.map_or("", |fs| fs.map.fs_name.as_str()));
    let text = format!("daemon mds.{name} is now active in filesystem {fs} as rank {rank}");
    change.note(INFO, text);
}
