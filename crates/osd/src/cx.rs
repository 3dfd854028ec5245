//! The facts that all rooms may read, and the ways out that all of them use.

use crate::env::Env;
use crate::outbox::Outbox;
use crate::sessions::clients::Clients;
use maps::OsdMap;

/// The surroundings of a call: it has the state of no room but the sessions, which messages need.
pub(crate) struct Cx<'a> {
    pub env: &'a Env,
    pub map: &'a OsdMap,
    pub clients: &'a mut Clients,
    pub out: &'a mut Outbox,
}

/// The surroundings of a call into a room of an [`Osd`](crate::Osd), whose other fields stay free.
macro_rules! cx {
    ($osd:expr) => {
        &mut $crate::cx::Cx {
            env: &$osd.env,
            map: $osd.maps.map(),
            clients: &mut $osd.clients,
            out: &mut $osd.outbox,
        }
    };
}
pub(crate) use cx;
