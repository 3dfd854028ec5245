//! Transfers of objects between copies: reads for other members, and pieces that are stored here.
//!
//! They serve whatever the role of this copy wants with them. What a transfer came to is returned, and the
//! role goes on with it.

mod receive;
mod source;

use crate::message::Push;
use receive::Receiving;
use source::Sources;
use types::{EVersion, HObject, OsdId};

/// Objects on their way to this copy, and from it to other members.
#[derive(Debug, Default)]
pub(crate) struct Transfers {
    receiving: Receiving,
    sources: Sources,
}

/// The role in which this copy receives an object: a primary pulls it, a replica is given it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    Primary,
    Replica,
}

/// The end of a transfer, or of a step of it.
#[derive(Debug)]
pub(crate) enum Ended {
    /// An object that was pulled is stored.
    Fetched { object: HObject, was_missing: bool },
    /// The disk has no room for an object that was pulled.
    NotFetched { object: HObject, from: OsdId },
    /// A piece is read, and goes to this OSD.
    Read { to: OsdId, push: Box<Push> },
    /// An object cannot be read for this OSD. The version is known if its info could be read.
    Unreadable { object: HObject, to: OsdId, version: Option<EVersion> },
    /// A page of our own objects is listed, for a comparison. It ends before `next`.
    Listed { objects: Vec<(HObject, EVersion)>, next: Option<HObject> },
    /// Our objects cannot be listed for this primary, or for our own comparison.
    NotListed { to: Option<OsdId> },
}

impl Transfers {
    /// Ends all of them with the interval. Completions are ignored, so the numbers of jobs go on.
    pub fn clear(&mut self) {
        self.receiving.clear();
        self.sources.clear();
    }

    /// Drops what was received of an object. Completions of its pieces are ignored from now on: a later
    /// transfer may have replaced them by the whole object.
    pub fn stop_receiving(&mut self, object: &HObject) {
        self.receiving.forget(object);
    }

    /// Drops reads of an object that has changed.
    pub fn stop_sending(&mut self, object: &HObject) {
        self.sources.forget(object);
    }

    /// Drops the listing of our own objects.
    pub fn stop_own_listing(&mut self) {
        self.sources.forget_own_scan();
    }
}
