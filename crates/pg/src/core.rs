//! The parts of a copy that do not depend on its role in the group.

pub(crate) mod steps;

use crate::{Members, Osds, Sizes};
use std::sync::Arc;
use store::Collection;
use types::{Epoch, HObject, OsdId, PgId};

/// The state of a copy besides its role.
#[derive(Debug)]
pub(crate) struct Core {
    pub own: Own,
    pub placement: Placement,
}

/// The identity of a copy, and its names in the store. Never changes.
#[derive(Debug)]
pub(crate) struct Own {
    pub id: PgId,
    pub whoami: OsdId,
    pub collection: Collection,
    pub meta: HObject,
    pub sizes: Sizes,
}

/// The group's place in the newest map.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    pub epoch: Epoch,
    /// The first epoch of the present interval; zero before the first map.
    pub interval: Epoch,
    pub members: Members,
    /// The OSDs of the newest map; `None` before the first map.
    pub osds: Option<Arc<Osds>>,
    /// Whether this OSD is up in its present incarnation.
    pub is_up: bool,
}

impl Core {
    /// A group of which this OSD has no copy.
    pub fn new(id: PgId, whoami: OsdId) -> Self {
        Core { own: Own::new(id, whoami), placement: Placement::default() }
    }
}

impl Own {
    fn new(id: PgId, whoami: OsdId) -> Self {
        let (collection, meta) = (Collection(id), crate::meta_object(id));
        Own { id, whoami, collection, meta, sizes: Sizes::default() }
    }
}
