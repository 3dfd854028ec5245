//! One entry of the log of a placement group (`pg_log_entry_t`): what a write did, and its recorded reply.

use crate::ShardChange;
use crate::object_info::{decode_request_id, encode_request_id};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::{EVersion, HObject, RequestId, SnapId, UTime};

const FORMAT: u8 = 1;
/// Format of an empty entry, which has nothing but its version.
const FORMAT_EMPTY: u8 = 2;
/// Format of an entry with a [`ShardChange`] at its end. Replicated groups never write it.
const FORMAT_SHARDS: u8 = 3;

/// The effect of a write on its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EntryKind {
    /// Its content or attributes change.
    #[default]
    Modify,
    /// The object does not exist afterwards.
    Delete,
    /// The object stays as it was: the write failed or had nothing to do. It is logged so that a resent
    /// request gets the same answer whatever happened to the object since.
    Unchanged,
}

/// `pg_log_entry_t`: one write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogEntry {
    /// The version of the write. Versions grow from entry to entry.
    pub version: EVersion,
    /// The object's version before; zero if it did not exist.
    pub prior_version: EVersion,
    /// The version that the client was told.
    pub user_version: u64,
    /// Whether the object was written or removed, or is lost.
    pub kind: EntryKind,
    /// The object that is changed.
    pub object: HObject,
    /// Default (zero) for writes of the OSD's own.
    pub request: RequestId,
    /// The time of the write by the client's clock.
    pub mtime: UTime,
    /// The result in the client's reply.
    pub result: i32,
    /// Return code and output of each operation, if the client asked for them.
    pub returns: Vec<(i32, Bytes)>,
    /// Only in groups with shards.
    pub shards: Option<Box<ShardChange>>,
}

impl LogEntry {
    /// A placeholder, in the log of a part of a split group, for an entry of an object in another part.
    pub fn empty(version: EVersion) -> Self {
        LogEntry { version, kind: EntryKind::Unchanged, ..LogEntry::default() }
    }

    fn is_empty(&self) -> bool {
        !self.has_request() && *self == LogEntry::empty(self.version)
    }

    /// Whether the write changed or removed the object.
    pub fn changes_object(&self) -> bool {
        matches!(self.kind, EntryKind::Modify | EntryKind::Delete)
    }

    /// Whether the write may copy the shards of this object, a clone, to another one: a rollback.
    pub fn may_copy(&self, object: &HObject) -> bool {
        let replaces = self.shards.as_ref().is_some_and(|change| change.is_whole());
        replaces && object.snap != SnapId::HEAD && self.object.is_of_family(object)
    }

    /// Whether `next`, the entry behind it, is of the same write. The entries of the clones that a write
    /// makes or removes come before its own; they have its time and its user version, but no request.
    pub(crate) fn goes_on_in(&self, next: &LogEntry) -> bool {
        let is_of_clone = !self.has_request()
            && self.changes_object()
            && !matches!(self.object.snap, SnapId::HEAD | SnapId::DIR);
        is_of_clone
            && self.version.epoch == next.version.epoch
            && self.object.is_of_family(&next.object)
            && self.object != next.object
            && (self.mtime, self.user_version) == (next.mtime, next.user_version)
    }

    /// Whether it executed a client's request, which may be resent.
    pub fn has_request(&self) -> bool {
        self.request != RequestId::default()
    }
}

impl Encode for LogEntry {
    fn encode(&self, w: &mut Writer) {
        if self.is_empty() {
            w.u8(FORMAT_EMPTY);
            return w.value(&self.version);
        }
        w.u8(if self.shards.is_some() { FORMAT_SHARDS } else { FORMAT });
        w.u8(self.kind as u8);
        w.value(&self.version);
        w.value(&self.prior_version);
        w.u64(self.user_version);
        w.value(&self.object);
        encode_request_id(w, &self.request);
        w.value(&self.mtime);
        w.i32(self.result);
        w.value(&self.returns);
        if let Some(shards) = &self.shards {
            w.value(&**shards);
        }
    }
}

impl Decode for LogEntry {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let format = r.u8("log entry format")?;
        match format {
            FORMAT | FORMAT_SHARDS => {}
            FORMAT_EMPTY => return Ok(LogEntry::empty(r.value()?)),
            _ => return Err(at.invalid("log entry format", format.into())),
        }
        let kind = match r.u8("log entry kind")? {
            0 => EntryKind::Modify,
            1 => EntryKind::Delete,
            2 => EntryKind::Unchanged,
            other => return Err(at.invalid("log entry kind", other.into())),
        };
        Ok(LogEntry {
            kind,
            version: r.value()?,
            prior_version: r.value()?,
            user_version: r.u64("user version")?,
            object: r.value()?,
            request: decode_request_id(r)?,
            mtime: r.value()?,
            result: r.i32("result")?,
            returns: r.value()?,
            shards: match format {
                FORMAT_SHARDS => Some(Box::new(r.value()?)),
                _ => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{EntityType, ParticipantName};

    #[test]
    fn entries_round_trip_and_every_truncation_is_an_error() {
        let name = ParticipantName::new(EntityType::CLIENT, 1);
        let request = RequestId { name, tid: 4, incarnation: 0 };
        let returns = vec![(42, Bytes::from_static(b"out"))];
        let version = EVersion::new(3, 4);
        let entry = LogEntry { version, request, returns, ..LogEntry::default() };
        let with_shards = LogEntry { shards: Some(Box::default()), ..entry.clone() };
        for (entry, format) in [(&entry, FORMAT), (&with_shards, FORMAT_SHARDS)] {
            let bytes = codec::encode_to_bytes(entry);
            assert_eq!(bytes[0], format, "the oldest format that can say it");
            assert_eq!(codec::decode_all::<LogEntry>("entry", &bytes).unwrap(), *entry);
            for end in 0..bytes.len() {
                assert!(codec::decode_all::<LogEntry>("entry", &bytes[..end]).is_err());
            }
        }
        let empty = LogEntry::empty(entry.version);
        let bytes = codec::encode_to_bytes(&empty);
        assert_eq!(codec::decode_all::<LogEntry>("entry", &bytes).unwrap(), empty);
        assert!(bytes.len() < 16);
    }
}
