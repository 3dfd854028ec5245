//! Operations on pools that librados requests by message instead of command (`MPoolOp`).

use crate::change::Change;
use crate::commands::new_pool::{self, NewPool};
use crate::commands::pools;
use crate::file_systems::user_of;
use crate::service::DecideCx;
use crate::services::fs::may_remove_snapshots;
use crate::sessions::{Caps, Session, Sessions};
use crate::state::{Overrides, State};
use auth::{MonAccess, OsdCaps, Rwx};
use codec::encode_to_bytes;
use engine::{ConnId, Message};
use maps::{Pool, PoolFlags};
use types::{EntityType, Epoch, Errno, PoolId, SnapId};
use wire::{MessageBody, PoolOp, PoolOpKind, PoolOpReply};

/// The reply's data on success: the id of a new snapshot.
type Outcome = Result<Option<SnapId>, Errno>;

/// Runs an operation, and returns its reply.
pub(crate) fn run(cx: &DecideCx<'_>, conn: ConnId, op: &PoolOp, change: &mut Change) -> Message {
    let outcome = match is_allowed(cx.sessions, cx.state, conn, op) {
        true => decide(cx, op, change),
        false => Err(Errno::PERM),
    };
    let current = cx.state.osdmap.epoch;
    let epoch = if change.touches_osdmap() { current.next() } else { current };
    reply(cx.state, outcome, epoch)
}

fn reply(state: &State, outcome: Outcome, epoch: Epoch) -> Message {
    let (result, response) = match outcome {
        Ok(snap) => (0, snap.map(|snap| encode_to_bytes(&snap))),
        Err(errno) => (errno.negative(), None),
    };
    let reply = PoolOpReply {
        version: epoch.0.into(),
        fsid: state.monmap.fsid,
        result,
        epoch: epoch.0,
        response,
    };
    reply.encode(0)
}

/// The reply to an operation that is not executed.
pub(crate) fn refusal(state: &State, tid: u64, errno: Errno) -> Message {
    reply(state, Err(errno), state.osdmap.epoch).with_tid(tid)
}

/// Whether a session may do this. Self-managed snapshots are part of working with a pool's objects:
/// besides capabilities for the monitor, those for OSDs count. All other operations need capabilities for
/// the monitor.
pub(crate) fn is_allowed(sessions: &Sessions, state: &State, conn: ConnId, op: &PoolOp) -> bool {
    let Some(session) = sessions.get(conn) else { return false };
    match op.op {
        PoolOpKind::DeleteUnmanagedSnap if may_remove_snapshots(session) => true,
        // The numbers are the metadata server's: one that it has not used yet would be lost to it.
        PoolOpKind::DeleteUnmanagedSnap if user_of(state, PoolId(op.pool.into())).is_some() => {
            false
        }
        PoolOpKind::CreateUnmanagedSnap | PoolOpKind::DeleteUnmanagedSnap => {
            may_snapshot(session, state, PoolId(op.pool.into()))
        }
        _ => session.may("osd", Rwx::WRITE),
    }
}

fn may_snapshot(session: &Session, state: &State, pool: PoolId) -> bool {
    let Caps::Mon(caps) = session.caps() else { return false };
    let (name, peer) = (&session.peer().name, session.ip());
    let pool = state.osdmap.pool_name(pool);
    let arguments = pool.map(|pool| ("poolname".to_owned(), pool.to_owned())).into_iter().collect();
    let access = MonAccess {
        name,
        service: "osd",
        command: "osd pool op unmanaged-snap",
        arguments: &arguments,
        needed: Rwx::WRITE,
        peer,
    };
    caps.allows(&access)
        || state.entities.get(name).is_some_and(|entity| {
            let caps = OsdCaps::parse(entity.caps_for(EntityType::OSD));
            caps.is_ok_and(|caps| caps.allows_snapshots(pool, peer))
        })
}

fn decide(cx: &DecideCx<'_>, op: &PoolOp, change: &mut Change) -> Outcome {
    let id = PoolId(op.pool.into());
    if op.op == PoolOpKind::Create {
        return create(cx.state, cx.running, op, change);
    }
    let Some(pool) = cx.state.osdmap.pool(id).cloned() else {
        return if op.op == PoolOpKind::Delete { Ok(None) } else { Err(Errno::NOENT) };
    };
    let state = cx.state;
    match op.op {
        PoolOpKind::Create => Ok(None),
        PoolOpKind::Delete => {
            pools::remove(state, cx.running, change, id).map_err(|refusal| refusal.errno)?;
            Ok(None)
        }
        PoolOpKind::AuidChange => Err(Errno::NOTSUPP),
        PoolOpKind::CreateSnap => {
            check_mode(&pool, PoolFlags::SELFMANAGED_SNAPS)?;
            if op.name.is_empty() {
                return Err(Errno::INVAL);
            }
            if pool.snaps.values().any(|snap| snap.name == op.name) {
                return Err(Errno::EXIST);
            }
            change.add_pool_snapshot(state, id, &op.name, cx.now);
            Ok(None)
        }
        PoolOpKind::DeleteSnap => {
            check_mode(&pool, PoolFlags::SELFMANAGED_SNAPS)?;
            let found = pool.snaps.values().find(|snap| snap.name == op.name);
            let snap = found.map(|snap| snap.id).ok_or(Errno::NOENT)?;
            change.remove_pool_snapshot(state, id, snap);
            Ok(None)
        }
        PoolOpKind::CreateUnmanagedSnap => {
            check_mode(&pool, PoolFlags::POOL_SNAPS)?;
            let pool = change.pool_snapshots(state, id).ok_or(Errno::NOENT)?;
            pool.flags.insert(PoolFlags::SELFMANAGED_SNAPS);
            // Id 1 is never assigned: old clients take it as the sign of this mode.
            pool.snap_seq = SnapId(pool.snap_seq.0.max(1) + 1);
            Ok(Some(pool.snap_seq))
        }
        PoolOpKind::DeleteUnmanagedSnap => {
            check_mode(&pool, PoolFlags::POOL_SNAPS)?;
            // Metadata servers number their snapshots themselves.
            let is_numbered_elsewhere = user_of(state, id).is_some();
            if op.snap > pool.snap_seq && !is_numbered_elsewhere {
                return Err(Errno::NOENT);
            }
            let queue = state.osdmap.removed_snaps_queue.get(&id);
            if queue.is_none_or(|queue| !queue.contains(op.snap)) {
                let pool = change.pool_snapshots(state, id).ok_or(Errno::NOENT)?;
                pool.flags.insert(PoolFlags::SELFMANAGED_SNAPS);
                pool.snap_seq = match is_numbered_elsewhere {
                    true => pool.snap_seq.max(op.snap),
                    false => SnapId(pool.snap_seq.0 + 1),
                };
                change.osdmap(state).new_removed_snaps.entry(id).or_default().insert(op.snap);
            }
            Ok(None)
        }
    }
}

fn create(state: &State, running: &Overrides, op: &PoolOp, change: &mut Change) -> Outcome {
    if state.osdmap.pool_id(&op.name).is_some() {
        return Ok(None);
    }
    let rule = u8::try_from(op.crush_rule).ok();
    let new = NewPool { name: &op.name, rule, ..NewPool::default() };
    new_pool::create(state, running, change, &new).map_err(|refusal| refusal.errno)?;
    Ok(None)
}

/// A pool has either pool snapshots or self-managed ones.
fn check_mode(pool: &Pool, other: PoolFlags) -> Result<(), Errno> {
    if pool.flags.contains(other) { Err(Errno::INVAL) } else { Ok(()) }
}
