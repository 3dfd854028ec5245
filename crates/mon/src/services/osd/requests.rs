//! Requests of OSDs: boots, `up_thru`, failure reports, `pg_temp`.

use super::boot;
use super::mark_down::mark_down_on_request;
use super::membership::Membership;
use crate::change::Change;
use crate::commands::POOL_SIZE_MAX;
use crate::job::{Boot, Effects, Job, OsdJob, PgTempRequest, ServiceJob};
use crate::service::{Act, Cx, DecideCx};
use crate::state::State;
use auth::Rwx;
use engine::{ConnId, Message};
use maps::Pool;
use std::collections::{BTreeMap, BTreeSet};
use types::{Epoch, OsdId, PgId};
use wire::{
    MessageBody, OsdAlive, OsdBoot, OsdFailure, OsdMarkMeDown, OsdPgTemp, PeerFault,
    decode_from_peer,
};

/// Handles a message of an OSD; ignores it if the session has no execute permission on `osd`.
pub(super) fn take(
    membership: &mut Membership,
    cx: &mut Cx<'_>,
    conn: ConnId,
    message: &Message,
) -> Result<(), PeerFault> {
    let Some(session) = cx.sessions.get(conn) else { return Ok(()) };
    let not_allowed = PeerFault::NotAllowed { kind: message.kind };
    let Some(osd) = session.osd().filter(|_| session.may("osd", Rwx::EXECUTE)) else {
        tracing::warn!(peer = %session.peer().name, error = %not_allowed, "only OSDs may speak as OSDs");
        return Ok(());
    };
    let addrs = session.peer().addrs.clone();
    membership.heard(osd, cx.now);
    let job = match message.kind {
        OsdBoot::KIND => {
            let boot = decode_from_peer::<OsdBoot>(message)?;
            if boot.superblock.whoami != osd {
                let claimed = boot.superblock.whoami;
                tracing::warn!(%osd, %claimed, error = %not_allowed, "an OSD boots as another");
                return Ok(());
            }
            cx.out.push_back(Act::Claimed(osd, boot.superblock.newest_map));
            let boot = Boot { conn, addrs, message: Box::new(boot) };
            membership.gather_boot(cx.now, osd, boot);
            return Ok(());
        }
        OsdAlive::KIND => {
            let alive = decode_from_peer::<OsdAlive>(message)?;
            let newest = Epoch(u32::try_from(alive.version).unwrap_or(u32::MAX));
            cx.out.push_back(Act::Claimed(osd, newest));
            OsdJob::Alive([(osd, (alive.want, newest))].into())
        }
        OsdFailure::KIND => OsdJob::Failures(vec![(osd, decode_from_peer::<OsdFailure>(message)?)]),
        OsdMarkMeDown::KIND => {
            let message = decode_from_peer::<OsdMarkMeDown>(message)?;
            if message.target != osd {
                let target = message.target;
                tracing::warn!(%osd, %target, error = %not_allowed, "an OSD says goodbye as another");
                return Ok(());
            }
            OsdJob::MarkMeDown { conn, message }
        }
        OsdPgTemp::KIND => {
            let message = decode_from_peer::<OsdPgTemp>(message)?;
            cx.out.push_back(Act::Claimed(osd, message.map_epoch));
            let epoch = message.map_epoch;
            let requests = message.pg_temp.into_iter();
            OsdJob::PgTemp(
                requests.map(|(pg, osds)| (pg, PgTempRequest { osds, from: osd, epoch })).collect(),
            )
        }
        _ => return Ok(()),
    };
    cx.enqueue(Job::Of(ServiceJob::Osd(job)));
    Ok(())
}

/// Collects the changes of an operation of OSDs.
pub(super) fn run(
    membership: &mut Membership,
    cx: &DecideCx<'_>,
    job: &OsdJob,
    change: &mut Change,
) -> Effects {
    match job {
        OsdJob::Boots(boots) => {
            let mut effects = Effects::default();
            for boot in boots {
                // An OSD whose session has ended since may be dead; otherwise it repeats the request.
                if !cx.sessions.contains(boot.conn) {
                    continue;
                }
                let one = boot::run(membership, cx, boot, change);
                effects.informs.extend(one.informs);
                effects.again |= one.again;
            }
            return effects;
        }
        OsdJob::Alive(lives) => {
            for (osd, (want, current)) in lives {
                extend_life(cx.state, *osd, *want, *current, change);
            }
        }
        OsdJob::Failures(reports) => {
            for (from, failure) in reports {
                membership.handle_failure(cx, *from, failure, change);
            }
        }
        OsdJob::MarkMeDown { conn, message } => {
            return mark_down_on_request(cx, *conn, message, change);
        }
        OsdJob::PgTemp(requests) => set_pg_temp(cx.state, requests, change),
    }
    Effects::default()
}

fn extend_life(state: &State, osd: OsdId, want: Epoch, current: Epoch, change: &mut Change) {
    let map = &state.osdmap;
    let Some(known) = map.osd(osd).filter(|known| known.is_up()) else { return };
    if known.info.up_thru < want && want <= map.epoch {
        let thru = current.clamp(want, map.epoch);
        change.osdmap(state).new_up_thru.insert(osd, thru);
    }
}

fn set_pg_temp(state: &State, requests: &BTreeMap<PgId, PgTempRequest>, change: &mut Change) {
    let map = &state.osdmap;
    // An OSD that has gone down since may not be the primary any more, or know other members.
    let is_current = |request: &PgTempRequest| {
        let known = map.osd(request.from).filter(|known| known.is_up());
        known.is_some_and(|known| known.info.up_from <= request.epoch)
    };
    for (pg, request) in requests.iter().filter(|(_, request)| is_current(request)) {
        let osds = &request.osds;
        let Some(pool) = map.pool(pg.pool).filter(|pool| pg.seed < pool.pg_num) else { continue };
        let known = map.pg_temp.get(pg).map_or(&[][..], Vec::as_slice);
        let is_member = |osd: &OsdId| *osd == OsdId::NONE || map.exists(*osd);
        if osds.iter().all(is_member) && may_act(pool, osds) && known != osds {
            change.osdmap(state).new_pg_temp.insert(*pg, osds.clone());
        }
    }
}

/// Whether the members of a group may be these. Shards have positions: some may be absent, and one OSD may
/// keep several while they move.
fn may_act(pool: &Pool, osds: &[OsdId]) -> bool {
    match pool.is_erasure() {
        true => osds.is_empty() || osds.len() == usize::from(pool.size),
        false => {
            let are_distinct = osds.iter().collect::<BTreeSet<_>>().len() == osds.len();
            are_distinct && osds.len() as u64 <= POOL_SIZE_MAX
        }
    }
}
