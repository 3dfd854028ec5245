//! Sessions of service daemons with the manager, which the leader stands in for.
//!
//! A session with a monitor that is not the active manager is closed: the client then looks up the active
//! manager, and registers there.

use crate::bootstrap::MANAGER_GLOBAL_ID;
use crate::change::Change;
use crate::commands::{console, crash, mgr, mgr_modules, services};
use crate::health::crashes;
use crate::keys;
use crate::service::{
    Catalog, Cx, DecideCx, Family, Intake, Pattern, Reader, Role, Service, Topic, Via,
};
use crate::service_map::{Refused, Registrant, ServiceMap};
use crate::sessions::{Caps, Session, Sessions, Subscription};
use crate::state::State;
use auth::MonCaps;
use engine::{ConnId, Message};
use maps::StandbyInfo;
use std::collections::BTreeMap;
use types::{EntityType, Epoch};
use wire::{
    MessageBody, MgrClose, MgrConfigure, MgrMapMessage, MgrOpen, MgrReport, PeerFault,
    decode_from_peer,
};

pub(super) const CATALOG: Catalog = Catalog {
    topics: &[Topic {
        pattern: Pattern::Exact("mgrmap"),
        needs: None,
        first: |_, item| item.start,
        version: Some(|state| (state.mgrmap.epoch.0.into(), 1)),
        lingers: None,
        excludes_others: false,
    }],
    messages: &[
        Intake { kind: MgrOpen::KIND, via: Via::Here },
        Intake { kind: MgrReport::KIND, via: Via::Here },
        Intake { kind: MgrClose::KIND, via: Via::Here },
    ],
    commands: &[
        Family(31, mgr::COMMANDS),
        Family(32, services::COMMANDS),
        Family(33, mgr_modules::COMMANDS),
        Family(34, crash::COMMANDS),
        Family(49, console::COMMANDS),
    ],
    checks: &[crashes::check],
};

/// Requested minimum priority of performance counters: above all that exist, as they are not used.
const COUNTERS_WANTED: u32 = 11;

/// The service of the mgr map, and of the daemons that register with the manager.
#[derive(Debug, Default)]
pub(crate) struct ManagersService {
    /// Known while this monitor leads.
    daemons: ServiceMap,
}

impl Service for ManagersService {
    /// Handles a message of a session with the manager; ignores it in any other session.
    fn handle_message(
        &mut self,
        cx: &mut Cx<'_>,
        conn: ConnId,
        message: &Message,
    ) -> Result<(), PeerFault> {
        let is_managers = |session: &Session| matches!(session.caps(), Caps::Mgr(_));
        if !cx.sessions.get(conn).is_some_and(is_managers) {
            cx.log_dropped(conn, &PeerFault::NotAllowed { kind: message.kind });
            return Ok(());
        }
        if message.kind == MgrClose::KIND {
            let close = decode_from_peer::<MgrClose>(message)?;
            self.daemons.unregister(cx.now, conn);
            cx.reply(conn, |features| close.encode(features));
            return Ok(());
        }
        if !cx.leads {
            cx.close(conn);
            return Ok(());
        }
        match message.kind {
            MgrOpen::KIND => self.register_service(cx, conn, decode_from_peer(message)?),
            MgrReport::KIND => self.handle_report(cx, conn, decode_from_peer(message)?),
            _ => {}
        }
        Ok(())
    }

    fn session_closed(&mut self, _cx: &mut Cx<'_>, conn: ConnId, _was: &Session) {
        self.daemons.end_session(conn);
    }

    fn publish(
        &mut self,
        state: &State,
        reader: Reader<'_>,
        _topic: &str,
        subscription: &mut Subscription,
        messages: &mut Vec<Message>,
    ) {
        if subscription.reaches(state.mgrmap.epoch.0.into()) {
            let map = codec::encode_to_bytes(&state.mgrmap);
            messages.push(MgrMapMessage { map }.encode(reader.features));
        }
    }

    /// Removes daemons that have been silent for too long.
    fn tick(&mut self, cx: &mut Cx<'_>, role: Role) {
        if role == Role::Owner {
            let grace = cx.state.mgr_options().duration("mgr_service_beacon_grace");
            self.daemons.expire(cx.now, grace);
        }
    }

    fn plan(&mut self, cx: &DecideCx<'_>, change: &mut Change) {
        plan_manager(cx, change);
    }

    fn check_invariants(&self, _state: &State, _sessions: &Sessions) {
        self.daemons.check_invariants();
    }

    fn leadership(&mut self, cx: &mut Cx<'_>, leads: bool) {
        self.daemons = if leads { ServiceMap::new(cx.now) } else { ServiceMap::default() };
    }
}

impl ManagersService {
    /// The registered daemons.
    pub fn daemons(&self) -> &ServiceMap {
        &self.daemons
    }

    fn register_service(&mut self, cx: &mut Cx<'_>, conn: ConnId, open: MgrOpen) {
        let Some(session) = cx.sessions.get(conn) else { return };
        let MgrOpen { service_name, daemon_name, service_daemon: Some(said), .. } = open else {
            // A client that is no daemon has nothing to report.
            return;
        };
        let peer = session.peer();
        if !may_register(cx.state, session) {
            tracing::warn!(
                client = %peer.name, service = service_name,
                "a service's daemon is not registered: its key has no capabilities for the manager"
            );
            return;
        }
        let registrant = Registrant {
            conn,
            entity: peer.name.clone(),
            global_id: peer.participant.number as u64,
            addr: crate::dump::addrs::legacy(&peer.addrs),
        };
        let client = peer.name.clone();
        let key = (service_name, daemon_name);
        match self.daemons.register(cx.now, registrant, key, said) {
            Ok(()) => {
                let period = cx.state.mgr_options().duration("mgr_stats_period");
                let stats_period_seconds = (period.as_secs() as u32).max(1);
                let configure =
                    MgrConfigure { stats_period_seconds, stats_threshold: COUNTERS_WANTED };
                cx.reply(conn, |features| configure.encode(features));
            }
            // The daemon does not try again until something changes.
            Err(error) => tracing::warn!(%client, %error, "a service's daemon is not registered"),
        }
    }

    fn handle_report(&mut self, cx: &mut Cx<'_>, conn: ConnId, report: MgrReport) {
        let MgrReport { daemon_status, task_status, .. } = report;
        match self.daemons.report(cx.now, conn, daemon_status, task_status) {
            Ok(()) => {}
            // The daemon then registers again. It is no fault of it: another monitor may have led before.
            Err(Refused::Unknown) => {
                cx.log_dropped(conn, &PeerFault::NotExpected { kind: MgrReport::KIND });
                cx.close(conn);
            }
            Err(error) => tracing::debug!(%error, "a service's status is not taken"),
        }
    }
}

/// Whether a session may register a daemon: any capability for the manager suffices, as for a gateway. An
/// rbd-mirror daemon is documented without one.
fn may_register(state: &State, session: &Session) -> bool {
    let Caps::Mgr(caps) = session.caps() else { return false };
    let mirrors = || {
        let entity = state.entities.get(&session.peer().name);
        let text = entity.map_or("", |entity| entity.caps_for(EntityType::MON));
        MonCaps::parse(text).is_ok_and(|caps| caps.has_profile("rbd-mirror"))
    };
    caps.grants_any(session.ip()) || mirrors()
}

/// The leader is the active manager; the other monitors stand by.
fn plan_manager(cx: &DecideCx<'_>, change: &mut Change) {
    let (settings, map) = (cx.settings, &cx.state.mgrmap);
    let gid_of = |rank: Option<usize>| MANAGER_GLOBAL_ID - rank.unwrap_or(0) as u64;
    let own_gid = gid_of(cx.state.monmap.rank(&settings.mon_name));
    let others = cx.state.quorum().into_iter().filter_map(|(rank, name)| {
        let presence = cx.state.members.present.get(name)?;
        let gid = gid_of(Some(rank));
        let mgr_features = types::features::SUPPORTED;
        let name = presence.manager.clone();
        let standby = StandbyInfo { gid, name, mgr_features, ..StandbyInfo::default() };
        (gid != own_gid).then_some((gid, standby))
    });
    let standbys: BTreeMap<u64, StandbyInfo> = others.collect();
    let is_active = map.active_addrs == settings.mgr_addrs
        && map.active_name == settings.mgr_name
        && map.active_gid == own_gid
        && map.services == settings.services
        && map.available;
    if is_active && map.standbys == standbys {
        return;
    }
    let mut map = map.clone();
    map.epoch = Epoch(map.epoch.0 + 1);
    map.standbys = standbys;
    if !is_active {
        map.active_gid = own_gid;
        map.active_addrs = settings.mgr_addrs.clone();
        map.active_name = settings.mgr_name.clone();
        map.active_change = change.now();
        map.services = settings.services.clone();
        map.available = true;
    }
    change.put(keys::MGRMAP, codec::encode_to_bytes(&map));
}
