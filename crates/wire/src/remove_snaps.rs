//! Requests of metadata servers to remove snapshots from pools.

use codec::{Reader, Result, Writer};
use engine::Message;
use std::collections::BTreeMap;
use types::SnapId;

/// `MRemoveSnaps`: snapshots that a metadata server has removed, by pool. It sees in the OSD map that they
/// are queued for removal, and asks again until then.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemoveSnaps {
    /// Epoch of the map that the sender has; zero.
    pub version: u64,
    /// Snapshots by number of the pool.
    pub snaps: BTreeMap<i32, Vec<SnapId>>,
}

impl crate::MessageBody for RemoveSnaps {
    const KIND: u16 = 90;

    fn encode(&self, _features: u64) -> Message {
        let mut w = Writer::new();
        crate::body::encode_paxos(&mut w, self.version);
        w.value(&self.snaps);
        Message::new(Self::KIND, 1, 0, w.into_bytes())
    }

    fn decode(message: &Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        Ok(RemoveSnaps { version: crate::body::decode_paxos(&mut r)?, snaps: r.value()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MessageBody;

    #[test]
    fn requests_round_trip() {
        let snaps = [(2, vec![SnapId(2), SnapId(3)]), (7, Vec::new())].into();
        let request = RemoveSnaps { version: 0, snaps };
        assert_eq!(RemoveSnaps::decode(&request.encode(0)).unwrap(), request);
    }
}
