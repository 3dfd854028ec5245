//! The table of services.
//!
//! A new service has a file below this one, a field, a [`ServiceId`], a line in [`CATALOGS`] and an arm in
//! [`Services::at`] and [`Services::all`]; its keys stand in `state`, its operations in `job`, with an arm in
//! [`Services::run`], and the state that commands read in `live`.

mod auth;
mod config;
mod fs;
mod health;
mod images;
mod log;
mod managers;
mod mons;
mod osd;
mod volumes;

pub(crate) use fs::assign_ranks;
pub(crate) use log::append_notes as log_notes;
pub(crate) use osd::pool_ops;

use crate::change::Change;
use crate::command::{Command, Registry};
use crate::commands::daemon;
use crate::health::{Checks, Health, View};
use crate::job::{Effects, ServiceJob};
use crate::live::{Identity, Live, Operations, PeerSummary, StoreTroubles};
use crate::service::{Catalog, Cx, DecideCx, Family, Intake, Role, Service, Topic, Via};
use crate::sessions::{Session, Sessions};
use crate::settings::Settings;
use crate::state::{Leader, Overrides, State};
use auth::AuthService;
use config::ConfigService;
use engine::ConnId;
use fs::FsService;
use health::HealthService;
use images::ImagesService;
use log::LogService;
use managers::ManagersService;
use mons::MonsService;
use osd::OsdService;
use std::collections::BTreeMap;
use volumes::VolumesService;
use wire::{MessageBody, MgrCommand, MonCommand, MonGetVersion, MonSubscribe, Ping, PoolOp};

/// All services. Those with methods of their own are known by name.
#[derive(Debug)]
pub(crate) struct Services {
    pub osd: OsdService,
    pub auth: AuthService,
    pub config: ConfigService,
    pub log: LogService,
    pub health: HealthService,
    pub mons: MonsService,
    pub managers: ManagersService,
    pub images: ImagesService,
    pub fs: FsService,
    pub volumes: VolumesService,
}

/// The names of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceId {
    Auth,
    Config,
    Log,
    Mons,
    Managers,
    Osd,
    Images,
    Fs,
    Volumes,
    Health,
}

const SERVICES: usize = 10;

/// All services, in the order of their ticks and plans.
const CATALOGS: [(ServiceId, &Catalog); SERVICES] = [
    (ServiceId::Auth, &auth::CATALOG),
    (ServiceId::Config, &config::CATALOG),
    (ServiceId::Log, &log::CATALOG),
    (ServiceId::Mons, &mons::CATALOG),
    (ServiceId::Managers, &managers::CATALOG),
    (ServiceId::Osd, &osd::CATALOG),
    (ServiceId::Images, &images::CATALOG),
    (ServiceId::Fs, &fs::CATALOG),
    (ServiceId::Volumes, &volumes::CATALOG),
    (ServiceId::Health, &health::CATALOG),
];

/// The health checks of all services.
pub(crate) const CHECKS: Checks = &{
    let mut checks: [&[fn(&mut Health, &View<'_>)]; SERVICES] = [&[]; SERVICES];
    let mut service = 0;
    while service < SERVICES {
        checks[service] = CATALOGS[service].1.checks;
        service += 1;
    }
    checks
};

/// Messages that belong to no service, or to the operations of all.
const COMMON: [Intake; 8] = [
    Intake { kind: MonSubscribe::KIND, via: Via::Here },
    Intake { kind: MonGetVersion::KIND, via: Via::LeaderAnswers },
    Intake { kind: MonCommand::KIND, via: Via::LeaderAnswers },
    Intake { kind: MgrCommand::KIND, via: Via::LeaderAnswers },
    Intake { kind: wire::Command::KIND, via: Via::Here },
    Intake { kind: PoolOp::KIND, via: Via::LeaderAnswers },
    Intake { kind: Ping::KIND, via: Via::Here },
    Intake { kind: wire::forward::ClockReply::KIND, via: Via::Here },
];

/// Facts that commands and health checks read besides the services' state.
#[derive(Clone, Copy)]
pub(crate) struct Core<'a> {
    pub identity: &'a Identity,
    pub running: &'a Overrides,
    pub peers: &'a BTreeMap<u64, PeerSummary>,
    pub store: &'a StoreTroubles,
    pub operations: &'a Operations,
}

impl Services {
    pub fn new(settings: &Settings) -> Self {
        Services {
            auth: AuthService::new(settings),
            config: ConfigService,
            log: LogService,
            mons: MonsService::default(),
            managers: ManagersService::default(),
            osd: OsdService::default(),
            images: ImagesService,
            fs: FsService::default(),
            volumes: VolumesService::default(),
            health: HealthService::default(),
        }
    }

    pub fn at(&mut self, id: ServiceId) -> &mut dyn Service {
        match id {
            ServiceId::Auth => &mut self.auth,
            ServiceId::Config => &mut self.config,
            ServiceId::Log => &mut self.log,
            ServiceId::Mons => &mut self.mons,
            ServiceId::Managers => &mut self.managers,
            ServiceId::Osd => &mut self.osd,
            ServiceId::Images => &mut self.images,
            ServiceId::Fs => &mut self.fs,
            ServiceId::Volumes => &mut self.volumes,
            ServiceId::Health => &mut self.health,
        }
    }

    fn all(&self) -> [&dyn Service; SERVICES] {
        let Services { auth, osd, config, log, health, mons, managers, images, fs, volumes } = self;
        [auth, osd, config, log, health, mons, managers, images, fs, volumes]
    }

    fn each(&mut self, mut call: impl FnMut(&mut dyn Service)) {
        CATALOGS.iter().for_each(|(id, _)| call(self.at(*id)));
    }

    /// Facts that commands and health checks read.
    pub fn live<'a>(&'a self, core: Core<'a>) -> Live<'a> {
        Live {
            identity: core.identity,
            running: core.running,
            stats: self.osd.statistics(),
            osds: self.osd.watch(),
            mds: self.fs.watch(),
            volumes: self.volumes.work(),
            daemons: self.managers.daemons(),
            clocks: self.mons.clocks(),
            peers: core.peers,
            store: core.store,
            operations: core.operations,
        }
    }

    /// Runs an operation of a service.
    pub fn run(&mut self, cx: &mut DecideCx<'_>, job: &ServiceJob, change: &mut Change) -> Effects {
        match job {
            ServiceJob::Auth(job) => auth::run(cx, job, change),
            ServiceJob::Log { conn, entries } => log::append_from(cx, *conn, entries, change),
            ServiceJob::Osd(job) => self.osd.run(cx, job, change),
            ServiceJob::Fs(job) => fs::run(cx, job, change),
            ServiceJob::Balance => {
                self.osd.balance(cx, change);
                Effects::default()
            }
        }
    }

    /// Adds the changes of all services that are due because of time and reports.
    pub fn plan(&mut self, cx: &DecideCx<'_>, change: &mut Change) {
        self.each(|service| service.plan(cx, change));
    }

    pub fn tick(&mut self, cx: &mut Cx<'_>, role: Role) {
        self.each(|service| service.tick(cx, role));
    }

    pub fn session_opened(&mut self, cx: &mut Cx<'_>, conn: ConnId) {
        self.each(|service| service.session_opened(cx, conn));
    }

    pub fn session_closed(&mut self, cx: &mut Cx<'_>, conn: ConnId, was: &Session) {
        self.each(|service| service.session_closed(cx, conn, was));
    }

    pub fn follow(&mut self, state: &State) {
        self.each(|service| service.follow(state));
    }

    pub fn state_changed(&mut self, cx: &mut Cx<'_>) {
        self.each(|service| service.state_changed(cx));
    }

    pub fn leadership(&mut self, cx: &mut Cx<'_>, leads: bool) {
        self.each(|service| service.leadership(cx, leads));
    }

    /// Panics if the state of a service contradicts itself.
    pub fn check_invariants(&self, state: &State, sessions: &Sessions) {
        self.all().into_iter().for_each(|service| service.check_invariants(state, sessions));
    }
}

/// Begins a run of this monitor: its addresses become known, and it gets global ids to assign.
pub(crate) fn start_run(cx: &mut DecideCx<'_>, change: &mut Change) -> Effects {
    mons::announce(cx.settings, cx.state, change);
    // Secrets are rotated by the leader; this monitor's clock may be ahead, and would expire all tickets.
    let leads_other = |leader: &Leader| leader.name != cx.settings.mon_name;
    let is_led = cx.state.members.leader.as_ref().is_some_and(leads_other);
    if !is_led {
        auth::rotate_secrets(cx, change);
    }
    auth::reserve_global_ids(cx, change)
}

/// The commands to the monitors.
pub fn registry() -> Registry {
    let families = CATALOGS.iter().flat_map(|(_, catalog)| catalog.commands);
    let families: BTreeMap<u8, &[Command]> =
        families.map(|Family(place, all)| (*place, *all)).collect();
    Registry::new(&families.into_values().collect::<Vec<_>>())
}

/// The commands to one running monitor (`ceph tell mon.X`, `ceph daemon`).
pub fn daemon_registry() -> Registry {
    Registry::new(&[&daemon::commands()])
}

/// The monitor that handles messages of a kind; `None` for kinds that are not for monitors.
pub(crate) fn via_of(kind: u16) -> Option<Via> {
    let all = CATALOGS.iter().flat_map(|(_, catalog)| catalog.messages).chain(&COMMON);
    all.into_iter().find(|intake| intake.kind == kind).map(|intake| intake.via)
}

/// The service that handles messages of a kind.
pub(crate) fn service_of(kind: u16) -> Option<ServiceId> {
    let takes = |catalog: &Catalog| catalog.messages.iter().any(|intake| intake.kind == kind);
    CATALOGS.iter().find(|(_, catalog)| takes(catalog)).map(|(id, _)| *id)
}

/// The topic of a name, and the service that publishes it.
pub(crate) fn topic_of(what: &str) -> Option<(ServiceId, &'static Topic)> {
    CATALOGS.iter().find_map(|(id, catalog)| {
        let topic = catalog.topics.iter().find(|topic| topic.pattern.matches(what))?;
        Some((*id, topic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_family_of_commands_has_a_place_of_its_own() {
        let families = || CATALOGS.iter().flat_map(|(_, catalog)| catalog.commands);
        let places: BTreeSet<u8> = families().map(|Family(place, _)| *place).collect();
        assert_eq!(places.len(), families().count());
        assert_eq!(places.last(), Some(&(places.len() as u8)));
    }

    #[test]
    fn each_kind_of_messages_has_one_owner() {
        let services = CATALOGS.iter().flat_map(|(_, catalog)| catalog.messages);
        let kinds: Vec<u16> = services.chain(&COMMON).map(|intake| intake.kind).collect();
        assert_eq!(kinds.iter().collect::<BTreeSet<_>>().len(), kinds.len());
    }

    #[test]
    fn each_service_stands_in_the_table_once() {
        let names: BTreeSet<String> = CATALOGS.iter().map(|(id, _)| format!("{id:?}")).collect();
        assert_eq!(names.len(), SERVICES);
    }
}
