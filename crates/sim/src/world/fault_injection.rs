//! Fault injection: schedules faults, and applies them to the world.

use super::{Event, World, create_pool_command};
use crate::faults::{self, Fault};
use crate::network::NodeId;
use engine::Duration;

impl World {
    /// Starts or stops the load and the faults.
    pub fn set_busy(&mut self, busy: bool) {
        self.is_busy = busy;
        if !busy {
            return;
        }
        for node in
            self.cast.clients.iter().chain(&self.cast.image_users).copied().collect::<Vec<_>>()
        {
            let start = self.nodes[node].starts;
            self.agenda.after(Duration::ZERO, Event::Think { node, start });
        }
        self.plan_fault();
    }

    fn plan_fault(&mut self) {
        let interval = self.scenario.faults.interval_ms;
        if interval > 0 && !self.scenario.faults.weights.is_empty() {
            let wait = Duration::from_millis(self.fault_prng.below(2 * interval) + 1);
            self.agenda.after(wait, Event::InjectFault);
        }
    }

    pub(super) fn inject_fault(&mut self) {
        if !self.is_busy {
            return;
        }
        let mix = &self.scenario.faults;
        let Some(kind) = mix.draw_kind(&mut self.fault_prng) else { return };
        let (fault, follows) = faults::draw(&mut self.fault_prng, kind, mix, &self.cast);
        if self.takes_place(&fault) {
            *self.tally.entry(kind).or_default() += 1;
        }
        for (wait, next) in follows {
            self.agenda.after(wait, Event::Fault(next));
        }
        self.fault(fault);
        self.plan_fault();
    }

    /// True if the fault happens now: a process that runs cannot join, and some faults wait until they are
    /// safe.
    fn takes_place(&mut self, fault: &Fault) -> bool {
        match fault {
            Fault::Start(nodes) => nodes.iter().any(|node| !self.nodes[*node].process().is_up()),
            Fault::Remove(_) | Fault::RotSoon(_) => false,
            _ => true,
        }
    }

    pub fn fault(&mut self, fault: Fault) {
        self.line(format_args!("fault: {fault:?}"));
        match fault {
            Fault::Crash(nodes) => nodes.into_iter().for_each(|node| self.crash(node, false)),
            Fault::Vanish(nodes) => nodes.into_iter().for_each(|node| self.crash(node, true)),
            Fault::Start(nodes) => nodes.into_iter().for_each(|node| self.start(node)),
            Fault::Cut { node, share } => self.network(|network, cx| network.cut(cx, node, share)),
            Fault::Partition(apart) => self.part(&apart, true, true),
            Fault::Deafness(apart) => self.part(&apart, true, false),
            Fault::Muteness(apart) => self.part(&apart, false, true),
            Fault::Slow(ways, factor) => {
                ways.into_iter().for_each(|way| self.network_faults.slow_down(way, factor));
            }
            Fault::Lossy(ways, share) => {
                ways.into_iter().for_each(|way| self.network_faults.lose(way, share));
            }
            Fault::Storm { factor } => self.network_faults.storm_factor = factor,
            Fault::Mend => {
                self.control().borrow_mut().mend();
                self.network_faults.mend();
                self.network(|network, cx| network.resume(cx));
            }
            Fault::Pause(nodes) => {
                nodes.into_iter().for_each(|node| self.network_faults.set_paused(node, true));
            }
            Fault::Resume(nodes) => self.resume(&nodes),
            Fault::ClockJump(by) => {
                self.jumped += by;
                self.skews.iter_mut().for_each(|skew| *skew += by);
                (0..self.nodes.len()).for_each(|node| self.touch(node));
            }
            Fault::StoreDown(duration) => self.control().borrow_mut().fail(duration),
            Fault::ControlRefuses(duration) => self.control().borrow_mut().refuse(duration),
            Fault::BackUpControl => self.control().borrow_mut().back_up(),
            Fault::RestoreControl { with_marks } => self.restore_control(with_marks),
            Fault::StoreCut(node, duration) => self.cut_store(node, duration),
            Fault::CreatePool => self.create_another_pool(),
            Fault::Command(command) => {
                self.has_churned = true;
                self.command(self.cast.clients[0], &command);
            }
            Fault::Order(order) => self.command(self.cast.clients[0], &order),
            Fault::Remove(node) => self.remove(node),
            Fault::Rot(node) => self.rot(node),
            Fault::RotSoon(node) => self.rot_soon(node),
            Fault::Fill(node, percent) => self.fill(node, percent),
            Fault::Unfill(node) => self.unfill(node),
            Fault::DiskStops(node) => self.with_store(node, |store, _| store.stop()),
            Fault::DiskGoesOn(node) => {
                self.with_store(node, |store, _| store.go_on());
                self.touch(node);
            }
            Fault::DiskDies(node) => self.kill_disk(node),
            Fault::DiskMisreads(node, per_million) => self.misread(node, per_million),
            Fault::DiskHeals(node) => self.heal_disk(node),
            Fault::Replace(node) => self.replace(node),
            Fault::FailRead(node, after) => self.fail_read(node, after),
            Fault::ReadsHeal(node) => self.heal_reads(node),
            Fault::Resend(node) => self.resend(node),
            Fault::Unindex => self.unindex(),
        }
    }

    /// Blocks directions between some processes and the others.
    fn part(&mut self, apart: &[NodeId], inward: bool, outward: bool) {
        for inner in apart.iter().copied() {
            for other in (0..self.nodes.len()).filter(|other| !apart.contains(other)) {
                if inward {
                    self.network_faults.block((other, inner));
                }
                if outward {
                    self.network_faults.block((inner, other));
                }
            }
        }
        self.network(|network, cx| network.partitioned(cx));
    }

    fn resume(&mut self, nodes: &[NodeId]) {
        nodes.iter().for_each(|node| self.network_faults.set_paused(*node, false));
        self.network(|network, cx| network.resume(cx));
        nodes.iter().for_each(|node| self.touch(*node));
    }

    pub(super) fn crash(&mut self, node: NodeId, silently: bool) {
        if self.nodes[node].body.image_user().is_some_and(|user| !user.may_crash()) {
            return;
        }
        self.network_faults.set_paused(node, false);
        if self.nodes[node].process().is_up() {
            self.nodes[node].process().crash();
            self.presences[node].is_up = false;
            if let super::Body::Client(client) = &mut self.nodes[node].body {
                self.watching.died(self.agenda.now(), client.actor);
                client.image_user.iter_mut().for_each(|user| user.crash());
            }
            self.sent.retain(|(sender, _), _| *sender != node);
            self.network(|network, cx| network.node_died(cx, node, silently));
            // Messages delivered to it and not handled are lost with it.
            self.deliveries.retain(|delivery| delivery.node != node);
        }
    }

    fn restore_control(&mut self, with_marks: bool) {
        self.control().borrow_mut().restore();
        for node in self.cast.monitors.clone() {
            if let super::Body::Monitor(monitor) = &mut self.nodes[node].body
                && with_marks
            {
                monitor.hosted.disk.lose_mark();
            }
        }
    }

    fn create_another_pool(&mut self) {
        self.pools_made += 1;
        let size = self.scenario.size;
        let command = create_pool_command(&format!("more.{}", self.pools_made), 2, size);
        let client = self.cast.clients[0];
        self.command(client, &command);
    }

    /// Ends all faults: all processes run, and all messages are delivered.
    pub fn heal(&mut self) {
        self.set_busy(false);
        self.fault(Fault::Mend);
        for node in self.bad_disks.clone() {
            self.heal_disk(node);
        }
        for node in self.failing_reads.clone() {
            self.heal_reads(node);
        }
        self.cast.rotting.into_iter().for_each(|node| self.end_misread(node));
        let all: Vec<NodeId> = (0..self.nodes.len()).collect();
        self.resume(&all);
        self.fault(Fault::Start(all));
        self.unfill_all();
        self.settle();
    }
}
