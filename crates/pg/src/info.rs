//! `pg_info_t`: what one member knows of its copy of a placement group.
//!
//! Stored with the log in the omap of the group's meta object, in the same transaction as every
//! write, so that the info is never ahead of the data nor behind it.

use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::{EVersion, Epoch, HObject, OsdId};

const FORMAT: u8 = 1;

/// Keys in the meta object's omap.
pub(crate) const INFO_KEY: Bytes = Bytes::from_static(b"info");
const LOG_PREFIX: u8 = b'l';
const LOG_PREFIX_END: u8 = LOG_PREFIX + 1;
const MISSING_PREFIX: u8 = b'm';
const MISSING_PREFIX_END: u8 = MISSING_PREFIX + 1;
const LOG_KEY_LEN: usize = 13;

/// The key of a log entry; keys sort as versions do. All begin with a letter that no other key has.
pub(crate) fn log_key(version: EVersion) -> Bytes {
    let mut key = Vec::with_capacity(LOG_KEY_LEN);
    key.push(LOG_PREFIX);
    key.extend_from_slice(&version.epoch.0.to_be_bytes());
    key.extend_from_slice(&version.version.to_be_bytes());
    key.into()
}

/// Whether a pair of the meta object is a log entry.
pub fn is_log_key(key: &[u8]) -> bool {
    key.len() == LOG_KEY_LEN && key[0] == LOG_PREFIX
}

/// First and last (exclusive) of all log keys.
pub(crate) fn log_keys() -> (Bytes, Bytes) {
    // "info" sorts before and "m…" behind.
    (Bytes::from_static(&[LOG_PREFIX]), Bytes::from_static(&[LOG_PREFIX_END]))
}

/// The key of an object whose copy here may be out of date.
pub(crate) fn missing_key(object: &HObject) -> Bytes {
    let mut w = Writer::new();
    w.u8(MISSING_PREFIX);
    w.value(object);
    w.into_bytes()
}

pub(crate) fn decode_missing_key(key: &[u8]) -> Option<HObject> {
    let (prefix, object) = key.split_first()?;
    (*prefix == MISSING_PREFIX).then(|| codec::decode_all("missing object", object).ok())?
}

pub(crate) fn missing_keys() -> (Bytes, Bytes) {
    (Bytes::from_static(&[MISSING_PREFIX]), Bytes::from_static(&[MISSING_PREFIX_END]))
}

/// Whether a copy is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Completeness {
    /// It is what its log says.
    #[default]
    Complete,
    /// The objects that are listed as missing may be newer or older than the log says.
    Recovering,
    /// Any object may be.
    Backfilling,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PgInfo {
    /// The newest entry of the log.
    pub last_update: EVersion,
    /// The log has all entries above this.
    pub log_tail: EVersion,
    /// The last epoch in which the group became active with this copy taking part. A copy with a
    /// newer one knows of every write that was acknowledged before.
    pub last_epoch_started: Epoch,
    /// This copy was active, as the members then were, at least up to this epoch: whatever was
    /// written until then, it has.
    pub active_through: Epoch,
    pub last_user_version: u64,
    pub objects: u64,
    pub bytes: u64,
    pub completeness: Completeness,
    /// The members when it last became active.
    pub last_acting: Vec<OsdId>,
}

impl PgInfo {
    pub fn is_complete(&self) -> bool {
        self.completeness == Completeness::Complete
    }

    /// Whether nothing was ever written.
    pub fn is_empty(&self) -> bool {
        self.last_update == EVersion::ZERO
    }

    pub(crate) fn count(&mut self, objects: i64, bytes: i64) {
        self.objects = self.objects.saturating_add_signed(objects);
        self.bytes = self.bytes.saturating_add_signed(bytes);
    }
}

impl Encode for PgInfo {
    fn encode(&self, w: &mut Writer) {
        w.u8(FORMAT);
        w.value(&self.last_update);
        w.value(&self.log_tail);
        w.value(&self.last_epoch_started);
        w.value(&self.active_through);
        w.u64(self.last_user_version);
        w.u64(self.objects);
        w.u64(self.bytes);
        w.u8(self.completeness as u8);
        w.value(&self.last_acting);
    }
}

impl Decode for PgInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let format = r.u8("group info format")?;
        if format != FORMAT {
            return Err(at.invalid("group info format", format.into()));
        }
        Ok(PgInfo {
            last_update: r.value()?,
            log_tail: r.value()?,
            last_epoch_started: r.value()?,
            active_through: r.value()?,
            last_user_version: r.u64("user version")?,
            objects: r.u64("objects")?,
            bytes: r.u64("bytes")?,
            completeness: match r.u8("completeness")? {
                0 => Completeness::Complete,
                1 => Completeness::Recovering,
                2 => Completeness::Backfilling,
                other => return Err(r.invalid("completeness", other.into())),
            },
            last_acting: r.value()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::{decode_all, encode_to_bytes};

    #[test]
    fn log_keys_sort_as_versions_and_lie_between_their_bounds() {
        let (old, new) = (EVersion::new(1, 300), EVersion::new(2, 7));
        assert!(log_key(old) < log_key(new) && is_log_key(&log_key(new)));
        let (first, last) = log_keys();
        assert!(first < log_key(EVersion::ZERO) && log_key(new) < last && last <= missing_keys().0);
        assert!(INFO_KEY < first);
    }

    #[test]
    fn info_and_missing_keys_round_trip() {
        let info = PgInfo {
            last_update: EVersion::new(4, 5),
            completeness: Completeness::Backfilling,
            last_acting: vec![OsdId(2), OsdId(0)],
            ..PgInfo::default()
        };
        let bytes = encode_to_bytes(&info);
        assert_eq!(decode_all::<PgInfo>("info", &bytes).unwrap(), info);
        for end in 0..bytes.len() {
            assert!(decode_all::<PgInfo>("info", &bytes[..end]).is_err());
        }
        let object = HObject::hash_start(types::PoolId(3), 77);
        assert_eq!(decode_missing_key(&missing_key(&object)), Some(object));
        assert_eq!(decode_missing_key(&log_key(EVersion::ZERO)), None);
    }
}
