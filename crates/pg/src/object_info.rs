//! `object_info_t`: the metadata of an object.
//!
//! Kept in one attribute of the object, so that it changes in the same transaction as the data. The format
//! is our own; attributes of users are stored with a prefix and cannot collide with it.

use crate::ShardVersions;
use crate::shards::{decode_versions, encode_versions, unknown_flags};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::{EVersion, EntityAddr, HObject, ParticipantName, PgId, RequestId, SnapId, UTime};

/// The attribute that holds the [`ObjectInfo`].
pub const INFO_ATTR: Bytes = Bytes::from_static(b"_");
const USER_ATTR_PREFIX: u8 = b'_';

const FORMAT: u8 = 1;
/// Format of the info of an object whose shards have different versions. Replicated groups never write it.
const FORMAT_SHARDS: u8 = 2;
const FLAG_OMAP: u8 = 1;
const FLAG_ALLOC_HINT: u8 = 2;
const FLAG_WHITEOUT: u8 = 4;
const FLAG_SHARDS: u8 = 8;
const FLAGS: u8 = FLAG_OMAP | FLAG_ALLOC_HINT | FLAG_WHITEOUT;

/// The name under which a user's attribute is stored.
pub fn user_attr(name: &[u8]) -> Bytes {
    let mut stored = Vec::with_capacity(name.len() + 1);
    stored.push(USER_ATTR_PREFIX);
    stored.extend_from_slice(name);
    stored.into()
}

/// The user's name of a stored attribute; `None` for our own attributes.
pub fn user_attr_name(stored: &Bytes) -> Option<Bytes> {
    (stored.len() > 1 && stored[0] == USER_ATTR_PREFIX).then(|| stored.slice(1..))
}

/// The object in whose omap a placement group keeps its log. Its name is empty, so clients cannot
/// address it.
pub fn meta_object(pg: PgId) -> HObject {
    HObject { pool: pg.pool, snap: SnapId::HEAD, hash: pg.seed, ..HObject::default() }
}

/// Whether the object is a group's meta object.
pub fn is_meta_object(object: &HObject) -> bool {
    object.name.is_empty()
}

/// Cookie and client of a watch; a client may watch an object several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WatcherKey {
    /// Chosen by the client.
    pub cookie: u64,
    /// The client.
    pub name: ParticipantName,
}

/// `watch_info_t`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WatcherInfo {
    /// Seconds without an answer of the client after which the watch ends.
    pub timeout_seconds: u32,
    /// The client's address.
    pub addr: EntityAddr,
}

/// The client's allocation hint; sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AllocHint {
    /// Bytes of the object in the end.
    pub expected_object_size: u64,
    /// Bytes of each write.
    pub expected_write_size: u64,
    /// Bits of `CEPH_OSD_ALLOC_HINT_FLAG_*`.
    pub flags: u32,
}

/// `object_info_t`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectInfo {
    /// The version of the newest write.
    pub version: EVersion,
    /// The version before the newest write; zero if the object did not exist.
    pub prior_version: EVersion,
    /// The version that clients see; watches do not advance it.
    pub user_version: u64,
    /// Bytes of data.
    pub size: u64,
    /// The time of the newest write by the client's clock.
    pub mtime: UTime,
    /// The request that wrote it last.
    pub last_request: RequestId,
    /// Number of the newest truncation of CephFS.
    pub truncate_seq: u32,
    /// Bytes to which the newest truncation of CephFS cut the object.
    pub truncate_size: u64,
    /// Set by writes of the omap, and reset when it is cleared.
    pub has_omap: bool,
    /// A placeholder for a removed object that still has clones; clients cannot see it.
    pub is_whiteout: bool,
    /// As the client last set it.
    pub alloc_hint: AllocHint,
    /// Stored, so that watches survive a restart of the OSD; a watch ends when its client does not
    /// reconnect in time.
    pub watchers: BTreeMap<WatcherKey, WatcherInfo>,
    /// Versions of the shards that the last writes left out.
    pub shard_versions: ShardVersions,
}

impl ObjectInfo {
    /// The version in the info among the attributes of an object; `None` if there is none that decodes.
    pub(crate) fn version_in(attrs: &BTreeMap<Bytes, Bytes>) -> Option<EVersion> {
        let info = codec::decode_all::<ObjectInfo>("info", attrs.get(&INFO_ATTR)?);
        info.ok().map(|info| info.version)
    }
}

impl Encode for ObjectInfo {
    fn encode(&self, w: &mut Writer) {
        let hinted = self.alloc_hint != AllocHint::default();
        let has_shards = !self.shard_versions.is_empty();
        w.u8(if has_shards { FORMAT_SHARDS } else { FORMAT });
        w.u8(u8::from(self.has_omap) * FLAG_OMAP
            + u8::from(hinted) * FLAG_ALLOC_HINT
            + u8::from(self.is_whiteout) * FLAG_WHITEOUT
            + u8::from(has_shards) * FLAG_SHARDS);
        w.value(&self.version);
        w.value(&self.prior_version);
        w.u64(self.user_version);
        w.u64(self.size);
        w.value(&self.mtime);
        encode_request_id(w, &self.last_request);
        w.u32(self.truncate_seq);
        w.u64(self.truncate_size);
        if hinted {
            w.u64(self.alloc_hint.expected_object_size);
            w.u64(self.alloc_hint.expected_write_size);
            w.u32(self.alloc_hint.flags);
        }
        w.count(self.watchers.len());
        for (key, info) in &self.watchers {
            w.u64(key.cookie);
            w.value(&key.name);
            w.u32(info.timeout_seconds);
            w.value(&info.addr);
        }
        if has_shards {
            encode_versions(w, &self.shard_versions);
        }
    }
}

impl Decode for ObjectInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let format = r.u8("object info format")?;
        let known = match format {
            FORMAT => FLAGS,
            FORMAT_SHARDS => FLAGS | FLAG_SHARDS,
            _ => return Err(at.invalid("object info format", format.into())),
        };
        let at = *r;
        let flags = r.u8("object info flags")?;
        if let Some(error) = unknown_flags(&at, "object info flags", flags, known) {
            return Err(error);
        }
        let mut info = ObjectInfo {
            has_omap: flags & FLAG_OMAP != 0,
            is_whiteout: flags & FLAG_WHITEOUT != 0,
            version: r.value()?,
            prior_version: r.value()?,
            user_version: r.u64("user version")?,
            size: r.u64("size")?,
            mtime: r.value()?,
            last_request: decode_request_id(r)?,
            truncate_seq: r.u32("truncate sequence")?,
            truncate_size: r.u64("truncate size")?,
            ..ObjectInfo::default()
        };
        if flags & FLAG_ALLOC_HINT != 0 {
            info.alloc_hint.expected_object_size = r.u64("expected object size")?;
            info.alloc_hint.expected_write_size = r.u64("expected write size")?;
            info.alloc_hint.flags = r.u32("allocation flags")?;
        }
        let watchers = r.list("watchers", |r| {
            let key = WatcherKey { cookie: r.u64("cookie")?, name: r.value()? };
            let timeout_seconds = r.u32("watch timeout")?;
            Ok((key, WatcherInfo { timeout_seconds, addr: r.value()? }))
        })?;
        info.watchers = watchers.into_iter().collect();
        if flags & FLAG_SHARDS != 0 {
            info.shard_versions = decode_versions(r)?;
        }
        Ok(info)
    }
}

/// Encodes a request id without Ceph's versioned header, because every log entry has one.
pub(crate) fn encode_request_id(w: &mut Writer, id: &RequestId) {
    w.value(&id.name);
    w.u64(id.tid);
    w.i32(id.incarnation);
}

pub(crate) fn decode_request_id(r: &mut Reader<'_>) -> Result<RequestId> {
    let name = r.value()?;
    Ok(RequestId { name, tid: r.u64("tid")?, incarnation: r.i32("incarnation")? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::{decode_all, encode_to_bytes};
    use types::EntityType;

    #[test]
    fn object_info_round_trips_and_every_truncation_is_an_error() {
        let name = ParticipantName::new(EntityType::CLIENT, 4123);
        let mut info = ObjectInfo {
            version: EVersion::new(3, 9),
            user_version: 8,
            size: 4096,
            has_omap: true,
            is_whiteout: true,
            ..ObjectInfo::default()
        };
        info.alloc_hint.flags = 1;
        info.watchers.insert(WatcherKey { cookie: 7, name }, WatcherInfo::default());
        let mut with_shards = info.clone();
        let left_out = types::ShardId::at(1).unwrap();
        with_shards.shard_versions.insert(left_out, EVersion::new(3, 7));
        for (info, format) in [(info, FORMAT), (with_shards, FORMAT_SHARDS)] {
            let mut bytes = encode_to_bytes(&info).to_vec();
            assert_eq!(bytes[0], format, "the oldest format that can say it");
            assert_eq!(decode_all::<ObjectInfo>("info", &bytes).unwrap(), info);
            for end in 0..bytes.len() {
                assert!(decode_all::<ObjectInfo>("info", &bytes[..end]).is_err());
            }
            bytes[1] |= 1 << 7;
            let error = decode_all::<ObjectInfo>("info", &bytes).unwrap_err();
            assert_eq!(error.field, "object info flags", "a later build wrote it");
        }
    }

    #[test]
    fn attributes_of_users_never_collide_with_ours() {
        assert_eq!(user_attr(b""), INFO_ATTR, "clients cannot use the empty name");
        assert_eq!(user_attr_name(&user_attr(b"x")), Some(Bytes::from_static(b"x")));
        assert_eq!(user_attr_name(&INFO_ATTR), None);
    }
}
