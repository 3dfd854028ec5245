//! Claims of a client at the successor of a metadata server.

use crate::CapBits;
use bytes::Bytes;
use codec::{Decode, DecodeErrorKind, Encode, Reader, Result, Writer};
use engine::Message;

/// The oldest version that is decoded: the kernel's form without versions of capabilities, in which it speaks
/// to a server that has not told its features yet.
const OLDEST: u8 = 2;

/// `cap_reconnect_t`: a capability that a client claims.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimedCap {
    /// Path of the inode below `path_base`.
    pub path: Bytes,
    /// Id of the capability at the former server.
    pub cap_id: u64,
    /// Those that the client wants.
    pub wanted: CapBits,
    /// Those that it has.
    pub issued: CapBits,
    /// The inode of its snap realm.
    pub realm: u64,
    /// The inode at which the path begins.
    pub path_base: u64,
    /// Encoded file locks of the client.
    pub locks: Bytes,
    /// The snapshot after which the client's dirty state is.
    pub snap_follows: u64,
}

impl ClaimedCap {
    /// Fields of all versions but the first.
    fn decode_plain(r: &mut Reader<'_>) -> Result<Self> {
        Ok(ClaimedCap {
            path: r.value()?,
            cap_id: r.u64("cap id")?,
            wanted: r.value()?,
            issued: r.value()?,
            realm: r.u64("realm")?,
            path_base: r.u64("path base")?,
            locks: r.value()?,
            snap_follows: 0,
        })
    }

    fn decode_plain_pair(r: &mut Reader<'_>) -> Result<(u64, Self)> {
        Ok((r.u64("claimed inode")?, ClaimedCap::decode_plain(r)?))
    }
}

impl Encode for ClaimedCap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.value(&self.path);
            w.u64(self.cap_id);
            w.value(&self.wanted);
            w.value(&self.issued);
            w.u64(self.realm);
            w.u64(self.path_base);
            w.value(&self.locks);
            w.u64(self.snap_follows);
        });
    }
}

impl Decode for ClaimedCap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("claimed capability", 2, |r, version| {
            let plain = ClaimedCap::decode_plain(r)?;
            let snap_follows = if version >= 2 { r.u64("snap follows")? } else { 0 };
            Ok(ClaimedCap { snap_follows, ..plain })
        })
    }
}

/// `snaprealm_reconnect_t`: a snap realm that a client knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimedRealm {
    /// Its inode.
    pub ino: u64,
    /// The newest snapshot that the client knows of it.
    pub seq: u64,
    /// The realm above.
    pub parent: u64,
}

impl ClaimedRealm {
    fn decode_plain(r: &mut Reader<'_>) -> Result<Self> {
        let ino = r.u64("realm")?;
        Ok(ClaimedRealm { ino, seq: r.u64("seq")?, parent: r.u64("parent")? })
    }
}

impl Encode for ClaimedRealm {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            [self.ino, self.seq, self.parent].into_iter().for_each(|number| w.u64(number));
        });
    }
}

impl Decode for ClaimedRealm {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        r.versioned("claimed realm", 1, |r, _| ClaimedRealm::decode_plain(r))
    }
}

/// `MClientReconnect`. Its fields are in the data segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientReconnect {
    /// Capabilities, each with its inode number.
    pub caps: Vec<(u64, ClaimedCap)>,
    /// Snap realms.
    pub realms: Vec<ClaimedRealm>,
    /// Whether another message follows with more.
    pub more: bool,
}

impl crate::MessageBody for ClientReconnect {
    const KIND: u16 = 23;

    fn encode(&self, _features: u64) -> Message {
        let mut w = Writer::new();
        w.value(&self.caps);
        w.value(&self.realms);
        w.bool(self.more);
        Message::new(Self::KIND, 5, 4, Bytes::new()).with_data(w.into_bytes())
    }

    fn decode(message: &Message) -> Result<Self> {
        let mut r = Reader::new(&message.data);
        let version = u8::try_from(message.version).unwrap_or(u8::MAX);
        if version < OLDEST {
            return Err(r.error("reconnect", DecodeErrorKind::TooOld { version, oldest: OLDEST }));
        }
        let caps = match version {
            OLDEST => r.list("claims", ClaimedCap::decode_plain_pair)?,
            _ => r.value()?,
        };
        let mut body = ClientReconnect { caps, ..ClientReconnect::default() };
        if version >= 4 {
            body.realms = r.value()?;
        } else {
            while !r.is_empty() {
                body.realms.push(ClaimedRealm::decode_plain(&mut r)?);
            }
        }
        if version >= 5 {
            body.more = r.bool("more")?;
        }
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MessageBody;

    fn body() -> ClientReconnect {
        let cap = ClaimedCap { path: "a/b".into(), cap_id: 7, path_base: 1, ..Default::default() };
        let realm = ClaimedRealm { ino: 1, seq: 1, parent: 0 };
        ClientReconnect { caps: vec![(0x100_0000_0001, cap)], realms: vec![realm], more: true }
    }

    #[test]
    fn claims_round_trip_and_truncations_are_refused() {
        let message = body().encode(0);
        assert_eq!(ClientReconnect::decode(&message).unwrap(), body());
        for end in 0..message.data.len() {
            let cut = Message { data: message.data.slice(..end), ..message.clone() };
            assert!(ClientReconnect::decode(&cut).is_err(), "{end} bytes are enough");
        }
    }

    #[test]
    fn the_first_form_of_kernels_has_realms_up_to_the_end() {
        let mut w = Writer::new();
        w.value(&body().caps);
        (0..2).for_each(|_| [1u64, 1, 0].into_iter().for_each(|number| w.u64(number)));
        let message = Message::new(23, 3, 1, Bytes::new()).with_data(w.into_bytes());
        let decoded = ClientReconnect::decode(&message).unwrap();
        assert_eq!((decoded.caps, decoded.realms.len(), decoded.more), (body().caps, 2, false));
        assert!(ClientReconnect::decode(&Message { version: 1, ..message }).is_err());
    }

    #[test]
    fn linux_speaks_without_versions_to_a_server_whose_features_it_does_not_know() {
        let mut w = Writer::new();
        w.u32(1);
        w.u64(0x100_0000_0001);
        w.value(&Bytes::from("a/b"));
        w.u64(7);
        [0u32, 1].into_iter().for_each(|bits| w.u32(bits));
        [1u64, 1].into_iter().for_each(|ino| w.u64(ino));
        // Length of the locks.
        w.u32(0);
        [1u64, 1, 0].into_iter().for_each(|number| w.u64(number));
        let message = Message::new(23, 2, 0, Bytes::new()).with_data(w.into_bytes());
        let decoded = ClientReconnect::decode(&message).unwrap();
        let (ino, cap) = &decoded.caps[0];
        assert_eq!(
            (*ino, &cap.path[..], cap.cap_id, cap.issued),
            (0x100_0000_0001, &b"a/b"[..], 7, CapBits::PIN)
        );
        assert_eq!((cap.path_base, decoded.realms.len()), (1, 1));
        for end in 0..message.data.len() - 24 {
            let cut = Message { data: message.data.slice(..end), ..message.clone() };
            assert!(ClientReconnect::decode(&cut).is_err(), "{end} bytes are enough");
        }
    }
}
