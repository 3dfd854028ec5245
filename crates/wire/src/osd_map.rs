//! Messages with OSD maps, full and incremental.

use bytes::Bytes;
use codec::{Reader, Result, Writer};
use engine::Message;
use types::{Epoch, Uuid};

use std::collections::BTreeMap;

/// `MOSDMap`: maps as encoded by crate `maps`, as slices of the message.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OsdMapMessage {
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Encoded incrementals.
    pub incrementals: BTreeMap<Epoch, Bytes>,
    /// Encoded full maps.
    pub full: BTreeMap<Epoch, Bytes>,
    /// The oldest and newest epoch that the sender has.
    pub oldest: Epoch,
    /// Newest epoch that the sender has.
    pub newest: Epoch,
}

impl OsdMapMessage {
    /// The first and the last epoch in the message.
    pub fn range(&self) -> Option<(Epoch, Epoch)> {
        let epochs = || self.incrementals.keys().chain(self.full.keys()).copied();
        Some((epochs().min()?, epochs().max()?))
    }
}

impl crate::MessageBody for OsdMapMessage {
    const KIND: u16 = 41;

    fn encode(&self, _features: u64) -> Message {
        let mut w = Writer::new();
        w.value(&self.fsid);
        w.value(&self.incrementals);
        w.value(&self.full);
        w.value(&self.oldest);
        w.value(&self.newest);
        w.count(0); // once removed snapshots
        Message::new(Self::KIND, 4, 3, w.into_bytes())
    }

    fn decode(message: &Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        let fsid = r.value()?;
        let incrementals = decode_maps(&mut r, &message.front)?;
        let full = decode_maps(&mut r, &message.front)?;
        let has_range = message.version >= 2;
        let oldest = if has_range { r.value()? } else { Epoch::default() };
        let newest = if has_range { r.value()? } else { Epoch::default() };
        Ok(OsdMapMessage { fsid, incrementals, full, oldest, newest })
    }
}

fn decode_maps(r: &mut Reader<'_>, front: &Bytes) -> Result<BTreeMap<Epoch, Bytes>> {
    let maps = r.list("maps", |r| {
        let epoch = r.value()?;
        let map = r.blob("map")?;
        Ok((epoch, front.slice_ref(map)))
    })?;
    Ok(maps.into_iter().collect())
}

message! {
    /// `MMonGetOSDMap`: requests ranges of full maps and of incrementals; 0 requests none.
    MonGetOsdMap = 6, version 1, compat 1, paxos(version) {
        /// First full map.
        full_first: Epoch;
        /// Last full map.
        full_last: Epoch;
        /// First incremental.
        incremental_first: Epoch;
        /// Last incremental.
        incremental_last: Epoch;
    }
}
