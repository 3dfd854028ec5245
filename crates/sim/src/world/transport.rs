//! The network with its faults, and arrivals that were not handled yet.

use super::clocks::Clocks;
use crate::agenda::Agenda;
use crate::event::Event;
use crate::network::{Context, Delivery, Direct, Network, NetworkFaults, Presence, Wired};
use crate::node::NodeId;
use crate::scenario::NetworkShape;
use std::collections::VecDeque;
use stdx::Prng;

/// Everything between processes.
pub struct Transport {
    network: Network,
    faults: NetworkFaults,
    prng: Prng,
    deliveries: VecDeque<Delivery>,
}

impl Transport {
    /// A network without sessions.
    pub fn new(shape: &NetworkShape, prng: Prng) -> Self {
        let network = match shape.is_wired {
            true => Network::Wired(Wired::default()),
            false => Network::Direct(Direct::default()),
        };
        let (min, max) = shape.delay_us;
        let faults = NetworkFaults::none(min, max);
        Transport { network, faults, prng, deliveries: VecDeque::new() }
    }

    /// Lets the network act on what it needs of the world.
    pub fn act(
        &mut self,
        clocks: &Clocks,
        agenda: &mut Agenda<Event>,
        presences: &[Presence],
        act: impl FnOnce(&mut Network, &mut Context<'_>),
    ) {
        let mut context = Context {
            skews: clocks.skews(),
            agenda,
            prng: &mut self.prng,
            presences,
            network_faults: &self.faults,
            deliveries: &mut self.deliveries,
        };
        act(&mut self.network, &mut context);
    }

    /// The next arrival at a process.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// Drops arrivals at a process that died before it handled them.
    pub fn drop_deliveries(&mut self, node: NodeId) {
        self.deliveries.retain(|delivery| delivery.node != node);
    }

    /// True while the process is suspended.
    pub fn is_paused(&self, node: NodeId) -> bool {
        self.faults.is_paused(node)
    }

    /// Faults of links, and suspended processes.
    pub fn faults_mut(&mut self) -> &mut NetworkFaults {
        &mut self.faults
    }
}
