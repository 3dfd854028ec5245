//! Cost of a rack failure for the monitor, with a session for every OSD.

use super::cluster::{Shape, addrs};
use super::report::{Report, bytes, resident, timed};
use ::maps::OsdMap;
use auth::{CephxPolicy, Entropy, KeyType};
use bytes::Bytes;
use engine::{ConnId, Daemon, Message, Output, Peer, Time};
use mon::control::MemControl;
use mon::{AuthMode, Monitor, Parameters, Settings};
use std::collections::BTreeMap;
use std::time::Duration;
use types::features::SUPPORTED;
use types::{EntityAddrVec, EntityName, EntityType, Epoch, OsdId, ParticipantName};
use wire::internal::{OsdUsage, PgStat, StatsReport, pg_state};
use wire::{MessageBody, MonSubscribe, OsdFailure, SubscribeItem};

const START: Time = Time(1_750_000_000_000_000_000);
/// Number of OSDs that report each failed OSD.
const REPORTERS: usize = 3;

struct Lone {
    monitor: Monitor,
    control: MemControl,
    now: Time,
    /// The control store delays its answers.
    is_slow: bool,
    waiting: Vec<mon::control::Request>,
    commits: usize,
    stored: usize,
    sent: usize,
    sent_bytes: usize,
}

/// Measures a monitor with this map.
pub fn measure(map: &OsdMap, shape: Shape, report: &mut Report) {
    report.section("The monitor");
    let (mut lone, took) = timed(|| Lone::new(map));
    report.time("loading its state", took);
    let before = resident();
    let (_, took) =
        timed(|| (0..shape.osds).for_each(|osd| lone.subscribe(OsdId(osd as i32), map)));
    report.time("a session with a subscription for every OSD", took);
    report.line("memory of these", bytes(resident().saturating_sub(before)));
    let (_, took) = timed(|| lone.report_all(map));
    report.time("a report of every OSD", took);
    let (text, took) = timed(|| lone.monitor.scrape(lone.now));
    report.time(format!("metrics for Prometheus, {}", bytes(text.len())), took);
    lone.forget_counts();
    let (_, took) = timed(|| lone.tick());
    report.time("a tick with nothing to do", took);
    fail_rack(&mut lone, shape, report);
}

fn fail_rack(lone: &mut Lone, shape: Shape, report: &mut Report) {
    let epoch = lone.epoch();
    let rack: Vec<OsdId> = shape.rack(0).collect();
    let survivors: Vec<usize> = (rack.len()..shape.osds).collect();
    let ((), took) = timed(|| {
        rack.iter().for_each(|osd| lone.close(*osd));
        // All of this arrives while the first change is being written.
        lone.is_slow = true;
        for (number, osd) in rack.iter().enumerate() {
            for nth in 0..REPORTERS {
                let reporter = survivors[(number * 7 + nth * 1_000) % survivors.len()];
                lone.report(OsdId(reporter as i32), *osd, epoch);
            }
        }
        lone.is_slow = false;
        lone.drain();
    });
    report.time(format!("{} reports of failures", rack.len() * REPORTERS), took);
    let ((), drained) = timed(|| {
        for _ in 0..60 {
            lone.tick();
        }
    });
    report.time("sixty ticks after that", drained);
    report.line("OSDs that are down then", shape.osds - lone.monitor.state().osdmap.up_count());
    report.line("epochs made", lone.epoch().0 - epoch.0);
    let commits = format!("{}, {}", lone.commits, bytes(lone.stored));
    report.line("transactions of the control store", commits);
    report.line("messages sent", format!("{}, {}", lone.sent, bytes(lone.sent_bytes)));
}

fn settings() -> Settings {
    let listening: EntityAddrVec = EntityAddrVec::one("v2:10.0.0.1:3300/0".parse().expect("valid"));
    Settings {
        mon_name: "a".to_owned(),
        mon_addrs: listening.clone(),
        mgr_name: "x".to_owned(),
        mgr_addrs: listening,
        auth: AuthMode::None,
        connection_modes: vec![1],
        cephx: CephxPolicy::default(),
        services: BTreeMap::new(),
        hostname: "virtual".to_owned(),
        served: types::ServedVersions::OWN,
    }
}

impl Lone {
    fn new(map: &OsdMap) -> Self {
        let settings = settings();
        let parameters = Parameters {
            mon_name: settings.mon_name.clone(),
            mon_addrs: settings.mon_addrs.clone(),
            mgr_name: settings.mgr_name.clone(),
            mgr_addrs: settings.mgr_addrs.clone(),
            osd_count: 0,
            host: "virtual".to_owned(),
            failure_domain: "osd".to_owned(),
            device_class: None,
            pool_size: 3,
            key_type: KeyType::Aes,
        };
        let mut entropy = Entropy::from_seed([1; 32]);
        let made = mon::bootstrap(&parameters, START.wall(), &mut entropy).expect("it is valid");
        let mut transaction = made.transaction;
        let full = transaction.writes.iter_mut().find(|(key, _)| key.starts_with("osdmap/full/"));
        *full.expect("there is a first map").1 = Some(codec::encode_to_bytes(map));
        let mut control = MemControl::new();
        control.commit(&transaction).expect("the store is empty");
        let monitor = Monitor::new(settings, [2; 32]);
        let (commits, stored, sent, sent_bytes) = (0, 0, 0, 0);
        let mut lone = Lone {
            monitor,
            control,
            now: START,
            is_slow: false,
            waiting: Vec::new(),
            commits,
            stored,
            sent,
            sent_bytes,
        };
        lone.drain();
        lone
    }

    fn epoch(&self) -> Epoch {
        self.monitor.state().osdmap.epoch
    }

    fn forget_counts(&mut self) {
        (self.commits, self.stored, self.sent, self.sent_bytes) = (0, 0, 0, 0);
    }

    fn conn(osd: OsdId) -> ConnId {
        ConnId(ConnId::ACCEPTED + osd.0 as u64)
    }

    fn subscribe(&mut self, osd: OsdId, map: &OsdMap) {
        let peer = Peer {
            participant: ParticipantName::new(EntityType::OSD, osd.0.into()),
            name: EntityName::osd(osd.0),
            addrs: addrs(osd),
            features: SUPPORTED,
            caps: Bytes::new(),
            seen_addr: addrs(osd).msgr2().unwrap_or_default(),
        };
        self.monitor.handle_opened(self.now, Self::conn(osd), peer);
        let start = u64::from(map.epoch.0) + 1;
        let what = BTreeMap::from([("osdmap".to_owned(), SubscribeItem { start, flags: 0 })]);
        let message = MonSubscribe { what, hostname: String::new() };
        self.tell(osd, message.encode(SUPPORTED));
    }

    /// Each OSD reports the groups whose primary it is.
    fn report_all(&mut self, map: &OsdMap) {
        let mut reports = BTreeMap::<OsdId, StatsReport>::new();
        let mut placement = map.placement();
        for pg in map.pools.keys().flat_map(|pool| map.pgs(*pool)) {
            let mapping = placement.pg_to_osds(pg);
            let Some(osd) = mapping.acting_primary else { continue };
            let state = pg_state::ACTIVE | pg_state::CLEAN;
            let (up, acting, reported_epoch) = (mapping.up, mapping.acting, map.epoch);
            let stat = PgStat { state, up, acting, reported_epoch, ..PgStat::default() };
            reports.entry(osd).or_default().pgs.insert(pg, stat);
        }
        for (osd, report) in reports {
            let usage =
                OsdUsage { bytes_total: 4 << 40, bytes_available: 3 << 40, ..OsdUsage::default() };
            self.tell(osd, StatsReport { osd, usage, ..report }.encode(SUPPORTED));
        }
    }

    fn report(&mut self, reporter: OsdId, target: OsdId, epoch: Epoch) {
        let failure = OsdFailure {
            version: epoch.0.into(),
            fsid: self.monitor.fsid(),
            target,
            target_addrs: addrs(target),
            epoch,
            flags: OsdFailure::FAILED | OsdFailure::IMMEDIATE,
            failed_for_seconds: 0,
        };
        self.tell(reporter, failure.encode(SUPPORTED));
    }

    fn tell(&mut self, osd: OsdId, message: Message) {
        self.monitor.handle_message(self.now, Self::conn(osd), message);
        self.drain();
    }

    fn close(&mut self, osd: OsdId) {
        self.monitor.handle_closed(self.now, Self::conn(osd));
        self.drain();
    }

    fn tick(&mut self) {
        self.now = self.now + Duration::from_secs(1);
        self.monitor.handle_timeout(self.now);
        self.drain();
    }

    /// Answers the requests to the control store at once.
    fn drain(&mut self) {
        loop {
            self.drain_outputs();
            if self.is_slow || self.waiting.is_empty() {
                return;
            }
            for request in std::mem::take(&mut self.waiting) {
                let completion = self.control.execute(self.now, &request);
                self.monitor.handle_completion(self.now, completion);
            }
        }
    }

    fn drain_outputs(&mut self) {
        while let Some(output) = self.monitor.poll_output() {
            match output {
                Output::Storage(request) => {
                    if let mon::control::Request::Commit { transaction, .. } = &request {
                        self.commits += 1;
                        let values = transaction.writes.values().flatten();
                        self.stored += values.map(Bytes::len).sum::<usize>();
                    }
                    self.waiting.push(request);
                }
                Output::Send { message, .. } => {
                    (self.sent, self.sent_bytes) = (self.sent + 1, self.sent_bytes + message.len());
                }
                _ => {}
            }
        }
    }
}
