//! The session with a monitor: beacons, reports, the renewal of the ticket; and the end of the run, which
//! the monitor is told of.

use super::*;

impl Mds {
    pub(super) fn connect(&mut self) {
        let Some(count) = Some(self.config.monitors.len()).filter(|count| *count > 0) else {
            self.monitor = Monitor::Waiting(Time::FAR_FUTURE);
            return;
        };
        let rank = self.attempts % count;
        self.attempts += 1;
        self.last_conn += 1;
        let conn = ConnId(self.last_conn);
        let target = ConnectTarget {
            participant: ParticipantName::new(EntityType::MON, rank as i64),
            addrs: self.config.monitors[rank].clone(),
            policy: Policy::Lossy,
        };
        self.monitor = Monitor::Opening(conn);
        self.outputs.push_back(Output::Connect { conn, target });
    }

    pub(super) fn is_monitor(&self, conn: ConnId) -> bool {
        matches!(self.monitor, Monitor::Opening(own) | Monitor::Open(own) if own == conn)
    }

    pub(super) fn monitor_opened(&mut self, now: Time, conn: ConnId) {
        self.monitor = Monitor::Open(conn);
        let start = match self.beacons.epoch() {
            0 => 0,
            epoch => u64::from(epoch) + 1,
        };
        let what = [("mdsmap".to_owned(), SubscribeItem { start, flags: 0 })].into();
        let subscribe = MonSubscribe { what, hostname: self.config.hostname.clone() };
        self.send(conn, subscribe.encode(SUPPORTED));
        let secrets = RotatingSecretsRequest { service: EntityType::MDS.0.into() };
        self.send(conn, secrets.encode(SUPPORTED));
        self.beacons.begin(now);
        self.send_beacon(now);
    }

    pub(super) fn send_beacon(&mut self, now: Time) {
        let Monitor::Open(conn) = self.monitor else { return };
        let gid = self.gid();
        if let Some(beacon) = self.beacons.beacon(now, gid, &self.config) {
            self.send(conn, beacon.encode(SUPPORTED));
        }
    }

    pub(super) fn send_report(&mut self, now: Time) {
        let (gid, active) = (self.gid(), self.beacons.state() == MdsState::ACTIVE);
        let Monitor::Open(conn) = self.monitor else { return };
        let Some(rank) = self.rank.as_ref().filter(|_| active) else { return };
        if let Some(report) = self.reports.report(now, gid, || shown::measured(rank)) {
            self.send(conn, report.encode(SUPPORTED));
        }
    }

    /// Asks for a new ticket if that is due, again after a while without an answer.
    pub(super) fn renew_ticket(&mut self, now: Time) {
        let Monitor::Open(conn) = self.monitor else { return };
        if self.next_renewal().is_none_or(|due| now < due) {
            return;
        }
        self.renewal_pause = now + RENEWAL_RETRY;
        if let Some((protocol, payload)) = self.authentication.renewal(now) {
            let request = Auth { version: 0, protocol, payload, monmap_epoch: 0 };
            self.send(conn, request.encode(SUPPORTED));
        }
    }

    pub(super) fn next_renewal(&self) -> Option<Time> {
        self.authentication.next_renewal().map(|due| due.max(self.renewal_pause))
    }

    /// Serves no longer.
    pub(super) fn stop(&mut self, end: End) {
        if self.end.is_none() {
            tracing::error!("{end}");
            self.end = Some(end);
        }
        self.rank = None;
        self.cluster = None;
        self.reports = Reports::default();
    }

    /// The process has nothing left to do: a successor may have the rank.
    pub(super) fn finish(&mut self) {
        self.is_over = true;
        self.beacons.pause();
    }

    /// The rank cannot be served. Where the next server would fail, too, the monitor is told so.
    pub(super) fn fail(&mut self, now: Time, failure: Failure) {
        match failure {
            Failure::ShutOut => {
                self.stop(End::Replaced);
                self.finish();
            }
            Failure::Passing(reason) => {
                self.stop(End::Failed(reason));
                self.finish();
            }
            Failure::Damage(reason) => {
                let role = format!("{}:{}", self.map.fs_name, self.own_rank());
                self.stop(End::Damaged { reason, role });
                self.beacons.set_damaged(now);
            }
        }
    }
}
