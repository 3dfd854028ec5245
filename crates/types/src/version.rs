//! Versions of objects and identities of requests.

use crate::{Epoch, ParticipantName};
use codec::{Decode, Encode, Reader, Result, Writer};
use std::fmt;

/// `eversion_t`: the epoch in which a write was ordered and its number within the placement group.
/// Ordered by epoch first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EVersion {
    /// The epoch of the OSD map in which the primary numbered the update.
    pub epoch: Epoch,
    /// A number that grows by one with each update of the group, over all epochs.
    pub version: u64,
}

impl EVersion {
    /// The version before all updates.
    pub const ZERO: EVersion = EVersion { epoch: Epoch(0), version: 0 };

    /// A version behind all updates.
    pub const MAX: EVersion = EVersion { epoch: Epoch(u32::MAX), version: u64::MAX };

    /// The version with these parts.
    pub fn new(epoch: u32, version: u64) -> Self {
        EVersion { epoch: Epoch(epoch), version }
    }

    /// True if no write lies in between. Numbers count up by one; epochs may be skipped.
    pub fn follows(self, before: EVersion) -> bool {
        before.version.checked_add(1) == Some(self.version) && self.epoch >= before.epoch
    }
}

impl Encode for EVersion {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.version);
        w.value(&self.epoch);
    }
}

impl Decode for EVersion {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let version = r.u64("version")?;
        Ok(EVersion { version, epoch: r.value()? })
    }
}

impl fmt::Display for EVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'{}", self.epoch, self.version)
    }
}

/// `osd_reqid_t`: permanent id of one request of one client, so that a resend is answered from the log
/// instead of being executed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RequestId {
    /// The client.
    pub name: ParticipantName,
    /// The number that the client gave to the request.
    pub tid: u64,
    /// Counts the lives of a client under one name (`inc`); zero for those with a global id.
    pub incarnation: i32,
}

impl Encode for RequestId {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.value(&self.name);
            w.u64(self.tid);
            w.i32(self.incarnation);
        });
    }
}

impl Decode for RequestId {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("request id", 2, |r, _| {
            let name = r.value()?;
            let tid = r.u64("tid")?;
            Ok(RequestId { name, tid, incarnation: r.i32("incarnation")? })
        })
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}:{}", self.name, self.incarnation, self.tid)
    }
}
