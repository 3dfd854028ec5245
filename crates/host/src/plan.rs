//! Which daemons a process runs, and on which core each lives.

use crate::contract::Hosted;
use crate::core::Core;
use crate::links::{Addressing, Directory, NodeAddress};
use anyhow::Result;
use types::ParticipantName;

/// A core that runs daemons of any kind.
pub type AnyCore = Core<Box<dyn Hosted>>;

/// Makes a daemon, once all sockets of the process are open.
pub type Prepared<'a> = Box<dyn FnOnce(&mut AnyCore) -> Result<Box<dyn Hosted>> + 'a>;

/// A daemon that a process is to run. A kind of daemon is added by another implementation.
pub trait Member: Send + Sync {
    /// Name towards its peers.
    fn participant(&self) -> ParticipantName;

    /// Whether it takes little of a core: it runs on the first, beside others. The rest is spread evenly.
    fn is_light(&self) -> bool {
        false
    }

    /// How other daemons of the process find it.
    fn addressing(&self) -> Addressing {
        Addressing::Name(self.participant())
    }

    /// Opens its sockets; it will be the node of this number on this core.
    ///
    /// # Errors
    ///
    /// If a socket cannot be opened. The function that it returns fails if the storage cannot.
    fn prepare<'a>(&'a self, core: &mut AnyCore, node: usize) -> Result<Prepared<'a>>;
}

/// The daemons of this process and their cores.
pub struct Plan {
    places: Vec<(Box<dyn Member>, NodeAddress)>,
    cores: usize,
    seed: u64,
}

impl Plan {
    /// Spreads daemons over cores: over half of the machine's unless told otherwise, the other half being
    /// for the clients that run on the same machine. `seed` comes from the system's entropy.
    pub fn new(members: Vec<Box<dyn Member>>, cores: Option<usize>, seed: u64) -> Self {
        let heavy = members.iter().filter(|member| !member.is_light()).count();
        let available = std::thread::available_parallelism().map_or(1, |n| n.get());
        let cores = cores.unwrap_or(available / 2).clamp(1, heavy.max(1));
        let (mut counts, mut next) = (vec![0; cores], 0);
        let places = members.into_iter().map(|member| {
            let core = if member.is_light() { 0 } else { next % cores };
            next += usize::from(!member.is_light());
            let place = NodeAddress { core, node: counts[core] };
            counts[core] += 1;
            (member, place)
        });
        let places: Vec<_> = places.collect();
        assert!(places.iter().all(|(_, place)| place.core < cores), "a daemon lives on no core");
        Plan { places, cores, seed }
    }

    /// Where each daemon is.
    pub(crate) fn directory(&self) -> Directory {
        let mut directory = Directory::default();
        for (member, place) in &self.places {
            directory.insert(member.addressing(), *place);
        }
        directory
    }

    pub(crate) fn cores(&self) -> usize {
        self.cores
    }

    pub(crate) fn seed_of_core(&self, core: usize) -> u64 {
        assert!(core < self.cores, "core {core} is not in the plan");
        self.seed.wrapping_add(core as u64)
    }

    /// The daemons of a core, in the order in which they are added.
    pub(crate) fn of_core(
        &self,
        core: usize,
    ) -> impl Iterator<Item = &(Box<dyn Member>, NodeAddress)> {
        self.places.iter().filter(move |(_, place)| place.core == core)
    }
}
