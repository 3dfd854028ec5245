//! Messages with file system maps.

use bytes::Bytes;
use codec::{Reader, Result, Writer};
use engine::Message;
use types::{Epoch, Uuid};

message! {
    /// `MMDSMap`: the map of one file system, encoded by crate `maps`. A server that is not in it any more is
    /// sent a map without servers.
    MdsMapMessage = 21, version 2, compat 1 {
        /// Id of the cluster.
        fsid: Uuid;
        /// Epoch of the map.
        epoch: Epoch;
        /// The encoded map.
        map: Bytes;
        /// Name of the file system.
        name: String, since 2;
    }
}

/// `MFSMap`: the map of all file systems, encoded by crate `maps`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FsMapMessage {
    /// Epoch of the map.
    pub epoch: Epoch,
    /// The encoded map.
    pub map: Bytes,
}

/// `MFSMapUser`: the names of file systems, encoded by crate `maps`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FsMapUserMessage {
    /// Epoch of the map.
    pub epoch: Epoch,
    /// The encoded names.
    pub map: Bytes,
}

fn encode(kind: u16, epoch: Epoch, map: &[u8]) -> Message {
    let mut w = Writer::new();
    w.value(&epoch);
    w.raw(map);
    Message::new(kind, 1, 0, w.into_bytes())
}

fn decode(message: &Message) -> Result<(Epoch, Bytes)> {
    let mut r = Reader::new(&message.front);
    let epoch = r.value()?;
    Ok((epoch, message.front.slice(r.offset()..)))
}

impl crate::MessageBody for FsMapMessage {
    const KIND: u16 = 45;

    fn encode(&self, _features: u64) -> Message {
        encode(Self::KIND, self.epoch, &self.map)
    }

    fn decode(message: &Message) -> Result<Self> {
        let (epoch, map) = decode(message)?;
        Ok(FsMapMessage { epoch, map })
    }
}

impl crate::MessageBody for FsMapUserMessage {
    const KIND: u16 = 103;

    fn encode(&self, _features: u64) -> Message {
        encode(Self::KIND, self.epoch, &self.map)
    }

    fn decode(message: &Message) -> Result<Self> {
        let (epoch, map) = decode(message)?;
        Ok(FsMapUserMessage { epoch, map })
    }
}
