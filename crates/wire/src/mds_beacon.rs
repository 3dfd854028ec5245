//! Beacons of metadata servers.

use bytes::Bytes;
use codec::{Reader, Result, Writer};
use engine::Message;
use std::collections::BTreeMap;
use types::Uuid;

structure! {
    /// `MDSHealthMetric`: a complaint of a metadata server about itself or its clients.
    MdsHealthMetric, version 1, compat 1 {
        /// `MDS_HEALTH_*`
        kind: u16;
        /// Ceph's health state: 0 error, 1 warning, 2 fine.
        severity: u8;
        /// Sentence for the user.
        message: String;
        /// Facts by name, such as `client_count`.
        metadata: BTreeMap<String, String>;
    }
}

structure! {
    /// `MDSHealth`
    MdsHealth, version 1, compat 1 {
        /// Present complaints.
        metrics: Vec<MdsHealthMetric>;
    }
}

/// `MMDSBeacon`: a metadata server is alive and wants a state; with the same message, the monitor's answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MdsBeacon {
    /// Epoch of the map that the sender has.
    pub epoch: u64,
    /// Id of the cluster.
    pub fsid: Uuid,
    /// Global id of the server's run.
    pub gid: u64,
    /// The wanted state, or in an answer the state at that time: `CEPH_MDS_STATE_*`.
    pub state: i32,
    /// Number of the beacon.
    pub sequence: u64,
    /// The server's name without its type.
    pub name: String,
    /// The encoded on-disk features of the server (`CompatSet`), written by crate `maps`.
    pub compat: Bytes,
    /// Complaints.
    pub health: MdsHealth,
    /// Facts about the server and its host; only with the first beacon.
    pub metadata: BTreeMap<String, String>,
    /// Feature bits of the server.
    pub features: u64,
    /// The only file system that the server wants to serve; empty for any.
    pub file_system: String,
}

/// The state in which a beacon has metadata.
const BOOT: i32 = -4;

impl crate::MessageBody for MdsBeacon {
    const KIND: u16 = 100;

    fn encode(&self, _features: u64) -> Message {
        let mut w = Writer::new();
        crate::body::encode_paxos(&mut w, self.epoch);
        w.value(&self.fsid);
        w.u64(self.gid);
        w.i32(self.state);
        w.u64(self.sequence);
        w.value(&self.name);
        w.i32(-1); // once the rank that the server stood by for
        w.string("");
        match self.compat.is_empty() {
            // Answers of the monitor have no features.
            true => (0..3).for_each(|_| {
                w.u64(1);
                w.count(0);
            }),
            false => w.raw(&self.compat),
        }
        w.value(&self.health);
        if self.state == BOOT {
            w.value(&self.metadata);
        }
        w.u64(self.features);
        w.i32(-1); // once its file system
        w.bool(false); // once whether it follows a journal
        w.value(&self.file_system);
        Message::new(Self::KIND, 8, 6, w.into_bytes())
    }

    fn decode(message: &Message) -> Result<Self> {
        let mut r = Reader::new(&message.front);
        let mut beacon = MdsBeacon {
            epoch: crate::body::decode_paxos(&mut r)?,
            fsid: r.value()?,
            gid: r.u64("gid")?,
            state: r.i32("state")?,
            sequence: r.u64("sequence")?,
            name: r.value()?,
            ..MdsBeacon::default()
        };
        r.i32("rank to stand by for")?;
        r.string("name to stand by for")?;
        let begin = r.offset();
        for _ in 0..3 {
            r.u64("feature mask")?;
            r.value::<BTreeMap<u64, String>>()?;
        }
        beacon.compat = message.front.slice(begin..r.offset());
        beacon.health = r.value()?;
        if beacon.state == BOOT {
            beacon.metadata = r.value()?;
        }
        beacon.features = r.u64("features")?;
        r.i32("file system")?;
        if message.version >= 7 {
            r.bool("follows a journal")?;
        }
        if message.version >= 8 {
            beacon.file_system = r.value()?;
        }
        Ok(beacon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MessageBody;

    #[test]
    fn beacons_round_trip_with_and_without_metadata() {
        let health = MdsHealth {
            metrics: vec![MdsHealthMetric { kind: 1, severity: 1, ..MdsHealthMetric::default() }],
        };
        let mut w = Writer::new();
        for names in [&[][..], &[], &[(1, "base v0.20".to_owned())]] {
            w.u64(1);
            w.value(&BTreeMap::<u64, String>::from_iter(names.iter().cloned()));
        }
        let compat = w.into_bytes();
        for state in [BOOT, 13] {
            let metadata = [("arch".to_owned(), "x86_64".to_owned())].into();
            let beacon = MdsBeacon {
                epoch: 3,
                gid: 4409,
                state,
                sequence: 7,
                name: "a".to_owned(),
                health: health.clone(),
                metadata: if state == BOOT { metadata } else { BTreeMap::new() },
                compat: compat.clone(),
                file_system: "cephfs".to_owned(),
                ..MdsBeacon::default()
            };
            assert_eq!(MdsBeacon::decode(&beacon.encode(0)).unwrap(), beacon);
        }
    }
}
