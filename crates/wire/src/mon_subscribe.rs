//! Subscriptions to maps.

use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::Uuid;

message! {
    /// `MMonSubscribe`: `what` maps names (`monmap`, `osdmap`, `mgrmap`, `config`, …) to versions.
    MonSubscribe = 15, version 3, compat 1 {
        /// Subscriptions by name of the map.
        what: BTreeMap<String, SubscribeItem>;
        /// Host of the sender.
        hostname: String, since 3;
    }
}

message! {
    /// `MMonSubscribeAck`: only clients without [`types::features::MON_STATEFUL_SUB`] need it.
    MonSubscribeAck = 16, version 1, compat 1 {
        /// Seconds until the subscription must be renewed.
        interval_seconds: u32;
        /// Id of the cluster.
        fsid: Uuid;
    }
}

/// `ceph_mon_subscribe_item`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubscribeItem {
    /// First version to send; 0 means the current one as a full map.
    pub start: u64,
    /// [`SubscribeItem::ONETIME`] or 0.
    pub flags: u8,
}

impl SubscribeItem {
    /// `CEPH_SUBSCRIBE_ONETIME`
    pub const ONETIME: u8 = 1;

    /// True if the subscription ends with the first map.
    pub fn is_onetime(self) -> bool {
        self.flags & Self::ONETIME != 0
    }
}

impl Encode for SubscribeItem {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.start);
        w.u8(self.flags);
    }
}

impl Decode for SubscribeItem {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let start = r.u64("subscription start")?;
        Ok(SubscribeItem { start, flags: r.u8("subscription flags")? })
    }
}
