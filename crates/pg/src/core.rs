//! The parts of a copy that do not depend on its role in the group.

pub(crate) mod steps;

use crate::intervals::PastIntervals;
use crate::scrub::Order;
use crate::{Members, Missing, Osds, PgInfo, PgLog, Sizes};
use std::sync::Arc;
use store::Collection;
use types::{EVersion, Epoch, HObject, OsdId, PgId};

/// The state of a copy besides its role.
#[derive(Debug)]
pub(crate) struct Core {
    pub own: Own,
    pub copy: LocalCopy,
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

/// The stored state of the copy besides its objects, and how far all members have it.
#[derive(Debug, Default)]
pub(crate) struct LocalCopy {
    /// Set if the collection exists, or its creation was submitted.
    pub created: bool,
    pub info: PgInfo,
    pub log: PgLog,
    pub missing: Missing,
    /// Intervals since the group was last clean.
    pub past: PastIntervals,
    /// Set if `past` has all of them.
    pub knows_past: bool,
    /// An administrator's scrub order that is not carried out yet. Members tell it to a new primary.
    pub scrub_order: Option<Order>,
    /// All writes up to here are durable on all members. Not stored.
    pub committed: EVersion,
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
        let own = Own::new(id, whoami);
        Core { own, copy: LocalCopy::default(), placement: Placement::default() }
    }
}

impl Own {
    fn new(id: PgId, whoami: OsdId) -> Self {
        let (collection, meta) = (Collection(id), crate::meta_object(id));
        Own { id, whoami, collection, meta, sizes: Sizes::default() }
    }
}
