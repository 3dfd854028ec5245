//! The facts that all components may read, and the ways out that all of them use.

use crate::env::Env;
use crate::outbox::Outbox;
use crate::sessions::clients::Clients;
use crate::work::WorkQueue;
use engine::ConnId;
use maps::OsdMap;

/// The surroundings of a call: it has the state of no component but the sessions, which messages need.
pub(crate) struct Cx<'a> {
    pub env: &'a Env,
    pub map: &'a OsdMap,
    pub clients: &'a mut Clients,
    pub out: &'a mut Outbox,
    pub work: &'a mut WorkQueue,
}

impl Cx<'_> {
    /// Charges a client's request to its session, and pauses sessions at their bounds.
    pub fn charge(&mut self, conn: ConnId, bytes: usize) {
        self.clients.charge(conn, bytes, &self.env.config.sizes.budgets, self.out);
    }

    /// Ends a charge and resumes sessions that may be read from again.
    pub fn discharge(&mut self, conn: ConnId, bytes: usize) {
        self.clients.discharge(conn, bytes, &self.env.config.sizes.budgets, self.out);
    }

    /// Pauses or resumes a session, if its load or that of all sessions demands it.
    pub fn throttle(&mut self, conn: ConnId) {
        self.clients.throttle(conn, &self.env.config.sizes.budgets, self.out);
    }
}

/// The surroundings of a call into a component, taken from a [`Shared`](crate::shared::Shared) whose other
/// fields stay free.
macro_rules! cx {
    ($shared:expr) => {
        &mut $crate::cx::Cx {
            env: &$shared.env,
            map: $shared.maps.map(),
            clients: &mut $shared.clients,
            out: &mut $shared.outbox,
            work: &mut $shared.work,
        }
    };
}
pub(crate) use cx;
