//! The place of the OSD in the cluster: its maps, its state in them, and what it tells monitors and peers.

use crate::cx::cx;
use crate::env::Stage;
use crate::hosted::{placement, sessions, timers};
use crate::maps::current::Applied;
use crate::maps::telling::Then;
use crate::osd::Osd;
use engine::{ConnId, Duration};
use types::PgShard;
use wire::{OsdFailure, OsdMapMessage};

impl Osd {
    /// Pings the partners of this OSD, if due.
    pub(super) fn heartbeat_if_due(&mut self) {
        let shared = &mut self.shared;
        // Groups know their members only when they have handled the map.
        let members = (!shared.maps.is_telling()).then(|| self.hosted.groups().members());
        self.heartbeats.tick(cx!(shared), &shared.monitor, members);
    }

    /// The connection to an OSD was refused: its process does not run, so it is reported
    /// immediately. A lossless session keeps trying, in case the monitor does not agree.
    pub(super) fn refused(&mut self, conn: ConnId) {
        let shared = &mut self.shared;
        // The address that was tried: the OSD may have another one by now.
        let tried = self.heartbeats.address_of(conn).or_else(|| shared.peers.address_of(conn));
        let Some((osd, addrs)) = tried else { return };
        let dead = OsdFailure::FAILED | OsdFailure::IMMEDIATE | OsdFailure::DEAD;
        shared.monitor.report_failure(cx!(shared), osd, addrs, dead, Duration::ZERO);
    }

    /// Repeats all reports to a monitor that may have none of them.
    pub(super) fn report_again(&mut self) {
        self.boot_if_booting();
        let shared = &mut self.shared;
        shared.peers.report_all_broken(cx!(shared), &shared.monitor);
        timers::ask_again(&mut self.hosted);
        self.heartbeats.repeat_reports(cx!(shared), &shared.monitor);
        shared.monitor.leave(cx!(shared));
        shared.request_report();
    }

    /// Asks the monitor to mark this OSD up, if it is not.
    pub(super) fn boot_if_booting(&mut self) {
        let shared = &mut self.shared;
        if shared.env.stage == Stage::Booting {
            shared.monitor.boot(cx!(shared), &self.authentication);
        }
    }

    /// Begins a report, if one is due.
    pub(super) fn report_if_due(&mut self) {
        let shared = &mut self.shared;
        shared.report.begin_if_due(&shared.env, &mut shared.usage, &mut shared.outbox);
    }

    /// Compares the state of this OSD in the map with its real one.
    fn check_own_state(&mut self) {
        let shared = &mut self.shared;
        let (osd, epoch) = (shared.env.whoami(), shared.epoch());
        let own = shared.maps.map().osd(osd).filter(|osd| osd.is_up());
        let is_up = own.is_some_and(|osd| osd.client_addrs == shared.env.config.addrs);
        match (shared.env.stage, is_up) {
            (Stage::Booting, true) => {
                shared.env.stage = Stage::Up;
                shared.peers.forget_broken();
                self.heartbeat_if_due();
                self.shared.monitor.booted();
                tracing::info!(%osd, %epoch, "up");
            }
            // With unchanged members, no other one begins an interval, and messages of theirs would be
            // ignored for ever. Marked down and up, it begins one with them.
            (Stage::Up, true) => {
                let has_groups = self.hosted.groups().iter().next().is_some();
                shared.env.has_skipped_maps |= has_groups && shared.maps.is_gap();
                shared.monitor.leave(cx!(shared));
            }
            (Stage::Up, false) => {
                shared.env.has_skipped_maps = false;
                tracing::warn!(%osd, "marked down although alive; booting again");
                sessions::leave_peers(&mut self.hosted, &mut self.shared);
                self.shared.env.stage = Stage::Booting;
                self.boot_if_booting();
            }
            _ => {}
        }
    }
}

/// The distribution of maps to the groups.
impl Osd {
    /// One turn's share of the remaining work; true if groups have still not handled the map.
    pub(super) fn place_turn(&mut self) -> bool {
        if self.shared.maps.is_telling() {
            self.go_on_placing();
            self.go_on_with_maps();
        } else if self.hosted.has_ready() {
            self.take_ready();
        } else if self.shared.maps.distribution.has_waiting() {
            self.go_on_with_maps();
        } else {
            self.take_held();
        }
        self.shared.maps.is_telling()
    }

    /// Applies the maps one by one, so that no change of members is missed.
    pub(super) fn handle_maps(&mut self, maps: OsdMapMessage) {
        self.shared.maps.distribution.push_maps(maps, 0);
        self.go_on_with_maps();
    }

    /// Begins to distribute the next map, or to store the intervals that earlier ones began, unless
    /// a job is running.
    pub(super) fn go_on_with_maps(&mut self) {
        while !self.shared.maps.distribution.has_job() && !self.hosted.has_ready() {
            if self.shared.maps.distribution.is_told() && !self.next_map_joins() {
                self.shared.maps.distribution.begin_storing();
                self.go_on_placing();
                continue;
            }
            let Some((maps, bytes)) = self.shared.maps.distribution.pop_maps() else { return };
            if self.apply_next(&maps) {
                self.shared.maps.distribution.put_back(maps, bytes);
                self.check_own_state();
                placement::remove_deleted(&mut self.hosted, &mut self.shared);
                self.begin_placing(Then::Map);
            }
        }
    }

    /// Whether groups handle the next map before they store the intervals of earlier ones. A group
    /// splits or merges only after it has stored all earlier intervals.
    fn next_map_joins(&self) -> bool {
        let next = self.shared.epoch().next();
        self.shared.maps.distribution.joins(next) && placement::is_split_merge_idle(&self.hosted)
    }

    /// Applies the next map of a message; false if there is none, or maps must be ignored.
    fn apply_next(&mut self, message: &OsdMapMessage) -> bool {
        let first = message.full.keys().chain(message.incrementals.keys()).min().copied();
        let Some(first) = first.filter(|_| !self.has_failed()) else { return false };
        if placement::hold_maps(&mut self.hosted) {
            return false;
        }
        let shared = &mut self.shared;
        let applied = shared.maps.apply_next(message, first);
        if applied == Applied::Failed {
            shared.monitor.ask_for_full_map(cx!(shared));
        }
        applied == Applied::Newer
    }

    /// Starts telling groups their members. This includes times in which this OSD is not up,
    /// because the groups must know these intervals later. With many groups, the rest follows in
    /// the next turns, and inputs are held meanwhile (`Osd::hold`).
    pub(super) fn begin_placing(&mut self, then: Then) {
        if self.shared.env.stage == Stage::Loading {
            return self.placed_all(then);
        }
        let job = placement::begin(&self.hosted, &mut self.shared, then);
        self.shared.maps.distribution.begin(job);
        self.go_on_placing();
    }

    /// Performs one turn's share of the job.
    fn go_on_placing(&mut self) {
        let (hosted, shared) = (&mut self.hosted, &mut self.shared);
        let Some(mut job) = shared.maps.distribution.take_job() else { return };
        let count = shared.env.config.sizes.groups_placed;
        let some: Vec<PgShard> = job.rest.by_ref().take(count).collect();
        placement::go_on(hosted, shared, &some, &job.task);
        match (job.rest.as_slice().is_empty(), job.task.is_telling()) {
            (false, _) => shared.maps.distribution.begin(job),
            (true, true) => placement::all_handled_map(hosted, shared, job.then),
            (true, false) => self.placed_all(job.then),
        }
    }

    /// Work that must wait until groups have stored the intervals that began with a map.
    fn placed_all(&mut self, then: Then) {
        match then {
            Then::Map => {
                self.heartbeats.choose_anew();
                placement::all_stored_intervals(&mut self.hosted, &mut self.shared);
                self.hosted.waiting_for_map().make_ready(self.shared.epoch());
                self.take_ready();
            }
            Then::Boot => self.go_to_monitor(),
        }
    }
}
