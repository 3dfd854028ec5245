//! `pg_info_t`: the state of one copy of a placement group.
//!
//! Stored with the log in the omap of the group's meta object, in the same transaction as every
//! write, so that the info is never ahead of the data nor behind it.

use crate::ShardState;
use crate::shards::unknown_flags;
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::{EVersion, Epoch, HObject, ShardId};

const FORMAT: u8 = 2;
/// Format of the info of a shard, with its [`ShardState`]. Replicated groups never write it.
const FORMAT_SHARDS: u8 = 3;

/// Keys in the meta object's omap.
pub(crate) const INFO_KEY: Bytes = Bytes::from_static(b"info");
/// Present and past intervals; sorts before the log.
pub(crate) const INTERVALS_KEY: Bytes = Bytes::from_static(b"intervals");
const DUPS_PREFIX: u8 = b'k';
const DUPS_PREFIX_END: u8 = DUPS_PREFIX + 1;
const LOG_PREFIX: u8 = b'l';
const LOG_PREFIX_END: u8 = LOG_PREFIX + 1;
const MISSING_PREFIX: u8 = b'm';
const MISSING_PREFIX_END: u8 = MISSING_PREFIX + 1;
const LOG_KEY_LEN: usize = 13;

/// Keys sort as versions do. Each kind of key begins with a letter of its own.
fn version_key(prefix: u8, version: EVersion) -> Bytes {
    let mut key = Vec::with_capacity(LOG_KEY_LEN);
    key.push(prefix);
    key.extend_from_slice(&version.epoch.0.to_be_bytes());
    key.extend_from_slice(&version.version.to_be_bytes());
    key.into()
}

/// The key of a log entry.
pub(crate) fn log_key(version: EVersion) -> Bytes {
    version_key(LOG_PREFIX, version)
}

/// The key of the batch of dups that were trimmed from the log up to this version. Sorts before the log.
pub(crate) fn dups_key(through: EVersion) -> Bytes {
    version_key(DUPS_PREFIX, through)
}

/// The version up to which the dups under this key were trimmed; `None` for other keys.
pub fn decode_dups_key(key: &[u8]) -> Option<EVersion> {
    let (prefix, rest) = key.split_first()?;
    let (epoch, version) = rest.split_at_checked(4)?;
    let version = u64::from_be_bytes(version.try_into().ok()?);
    let epoch = u32::from_be_bytes(epoch.try_into().ok()?);
    (*prefix == DUPS_PREFIX).then(|| EVersion::new(epoch, version))
}

/// The first key after the batches up to this version.
pub(crate) fn dups_key_behind(through: EVersion) -> Bytes {
    dups_key(EVersion { version: through.version + 1, ..through })
}

/// First and last (exclusive) of all keys of dups.
pub(crate) fn dups_keys() -> (Bytes, Bytes) {
    (Bytes::from_static(&[DUPS_PREFIX]), Bytes::from_static(&[DUPS_PREFIX_END]))
}

/// Whether a pair of the meta object is a log entry.
pub fn is_log_key(key: &[u8]) -> bool {
    key.len() == LOG_KEY_LEN && key[0] == LOG_PREFIX
}

/// First and last (exclusive) of all log keys.
pub(crate) fn log_keys() -> (Bytes, Bytes) {
    // "info" sorts before, and "m…" after.
    (Bytes::from_static(&[LOG_PREFIX]), Bytes::from_static(&[LOG_PREFIX_END]))
}

/// The key of an object of the missing set.
pub(crate) fn missing_key(object: &HObject) -> Bytes {
    let mut w = Writer::new();
    w.u8(MISSING_PREFIX);
    w.value(object);
    w.into_bytes()
}

/// The object of a missing-set key; `None` for other keys.
pub(crate) fn decode_missing_key(key: &[u8]) -> codec::Result<Option<HObject>> {
    match key.split_first() {
        Some((&MISSING_PREFIX, object)) => codec::decode_all("missing object", object).map(Some),
        _ => Ok(None),
    }
}

/// First and last (exclusive) of all keys of the missing set.
pub(crate) fn missing_keys() -> (Bytes, Bytes) {
    (Bytes::from_static(&[MISSING_PREFIX]), Bytes::from_static(&[MISSING_PREFIX_END]))
}

/// `pg_history_t`: the history of the group as far as this copy has heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PgHistory {
    /// The map that created the group.
    pub epoch_created: Epoch,
    /// Start of the last interval in which the group is known to have become active.
    pub last_epoch_started: Epoch,
    /// The last epoch in which the group is known to have been clean.
    pub last_epoch_clean: Epoch,
    /// Start of the present interval.
    pub same_interval_since: Epoch,
}

impl PgHistory {
    /// Takes over newer values from another copy's history.
    pub fn merge(&mut self, other: &PgHistory) {
        if self.epoch_created == Epoch(0) {
            self.epoch_created = other.epoch_created;
        }
        self.last_epoch_started = self.last_epoch_started.max(other.last_epoch_started);
        self.last_epoch_clean = self.last_epoch_clean.max(other.last_epoch_clean);
    }
}

/// `pg_info_t`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgInfo {
    /// The newest entry of the log.
    pub last_update: EVersion,
    /// The newest log entry up to which no object is missing.
    pub last_complete: EVersion,
    /// The log has all entries above this.
    pub log_tail: EVersion,
    /// Objects before this one are stored, or in the missing set; content from here on is not valid.
    /// `HObject::max()` if the copy is complete.
    pub last_backfill: HObject,
    /// Start of the last interval in which this copy took part in an activation. The copy knows every
    /// write that was acknowledged before that interval.
    pub last_epoch_started: Epoch,
    /// The highest version that a client was told.
    pub last_user_version: u64,
    /// Objects, including clones.
    pub objects: u64,
    /// Clones among the objects.
    pub clones: u64,
    /// Bytes of data.
    pub bytes: u64,
    /// As far as this copy has heard.
    pub history: PgHistory,
    /// `None` in replicated groups.
    pub shard: Option<ShardState>,
}

impl Default for PgInfo {
    fn default() -> Self {
        PgInfo {
            last_update: EVersion::ZERO,
            last_complete: EVersion::ZERO,
            log_tail: EVersion::ZERO,
            last_backfill: HObject::max(),
            last_epoch_started: Epoch(0),
            last_user_version: 0,
            objects: 0,
            clones: 0,
            bytes: 0,
            history: PgHistory::default(),
            shard: None,
        }
    }
}

impl PgInfo {
    /// The info of a copy that has nothing, of this shard.
    pub(crate) fn of_new_copy(shard: ShardId) -> Self {
        let state = ShardState::of_new_copy(shard);
        PgInfo { shard: shard.position().map(|_| state), ..PgInfo::default() }
    }

    /// The version up to which changes are in the objects. In a replicated group, all are.
    pub(crate) fn settled(&self) -> EVersion {
        self.shard.map_or(self.last_update, |shard| shard.settled)
    }

    /// Whether the copy needs no backfill. Objects may still be in its missing set.
    pub fn is_complete(&self) -> bool {
        self.last_backfill.max
    }

    /// Whether the copy's list of past intervals can be believed to be whole. One that was never activated,
    /// or was stopped while it was reset, may have an empty one.
    pub fn was_there(&self) -> bool {
        self.last_epoch_started > Epoch(0) && self.is_complete()
    }

    /// Whether the group was never written to.
    pub fn is_empty(&self) -> bool {
        self.last_update == EVersion::ZERO
    }

    /// Adds to the totals.
    pub(crate) fn count(&mut self, objects: i64, clones: i64, bytes: i64) {
        self.objects = self.objects.saturating_add_signed(objects);
        self.clones = self.clones.saturating_add_signed(clones);
        self.bytes = self.bytes.saturating_add_signed(bytes);
    }
}

impl Encode for PgHistory {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.epoch_created);
        w.value(&self.last_epoch_started);
        w.value(&self.last_epoch_clean);
        w.value(&self.same_interval_since);
    }
}

impl Decode for PgHistory {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(PgHistory {
            epoch_created: r.value()?,
            last_epoch_started: r.value()?,
            last_epoch_clean: r.value()?,
            same_interval_since: r.value()?,
        })
    }
}

/// Flags of an encoded info: fields with their usual value are left out.
const IS_COMPLETE: u8 = 1;
const IS_WHOLE: u8 = 2;
const HAS_CLONES: u8 = 4;
const HAS_SHARDS: u8 = 8;
const FLAGS: u8 = IS_COMPLETE | IS_WHOLE | HAS_CLONES;

impl Encode for PgInfo {
    fn encode(&self, w: &mut Writer) {
        let is_whole = self.last_complete == self.last_update;
        w.u8(if self.shard.is_some() { FORMAT_SHARDS } else { FORMAT });
        w.u8(u8::from(self.is_complete()) * IS_COMPLETE
            + u8::from(is_whole) * IS_WHOLE
            + u8::from(self.clones > 0) * HAS_CLONES
            + u8::from(self.shard.is_some()) * HAS_SHARDS);
        w.value(&self.last_update);
        w.value(&self.log_tail);
        w.value(&self.last_epoch_started);
        w.u64(self.last_user_version);
        w.u64(self.objects);
        w.u64(self.bytes);
        w.value(&self.history);
        if !is_whole {
            w.value(&self.last_complete);
        }
        if !self.is_complete() {
            w.value(&self.last_backfill);
        }
        if self.clones > 0 {
            w.u64(self.clones);
        }
        if let Some(shard) = &self.shard {
            w.value(shard);
        }
    }
}

impl Decode for PgInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let format = r.u8("group info format")?;
        let known = match format {
            FORMAT => FLAGS,
            FORMAT_SHARDS => FLAGS | HAS_SHARDS,
            _ => return Err(at.invalid("group info format", format.into())),
        };
        let at = *r;
        let flags = r.u8("group info flags")?;
        if let Some(error) = unknown_flags(&at, "group info flags", flags, known) {
            return Err(error);
        }
        let mut info = PgInfo {
            last_update: r.value()?,
            log_tail: r.value()?,
            last_epoch_started: r.value()?,
            last_user_version: r.u64("user version")?,
            objects: r.u64("objects")?,
            bytes: r.u64("bytes")?,
            history: r.value()?,
            ..PgInfo::default()
        };
        info.last_complete = match flags & IS_WHOLE {
            0 => r.value()?,
            _ => info.last_update,
        };
        if flags & IS_COMPLETE == 0 {
            info.last_backfill = r.value()?;
        }
        if flags & HAS_CLONES != 0 {
            info.clones = r.u64("clones")?;
        }
        if flags & HAS_SHARDS != 0 {
            info.shard = Some(r.value()?);
        }
        Ok(info)
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
        let (first, last) = (dups_keys().0, first);
        assert!(INFO_KEY < first && INTERVALS_KEY < first, "they are loaded before");
        assert!(first < dups_key(old) && dups_key(new) < dups_key_behind(new));
        assert!(dups_key_behind(new) < dups_keys().1 && dups_keys().1 <= last);
        assert_eq!(decode_dups_key(&dups_key(new)), Some(new));
        assert_eq!(decode_dups_key(&log_key(new)), None);
    }

    #[test]
    fn info_and_missing_keys_round_trip() {
        let info = PgInfo {
            last_update: EVersion::new(4, 5),
            last_complete: EVersion::new(4, 3),
            last_backfill: HObject::hash_start(types::PoolId(3), 5),
            clones: 2,
            ..PgInfo::default()
        };
        let shard = types::ShardId::at(2).unwrap();
        let shard =
            Some(ShardState { shard, settled: EVersion::new(4, 4), absent_since: Epoch(7) });
        for (info, format) in [(&info, FORMAT), (&PgInfo { shard, ..info.clone() }, FORMAT_SHARDS)]
        {
            let mut bytes = encode_to_bytes(info).to_vec();
            assert_eq!(bytes[0], format, "the oldest format that can say it");
            assert_eq!(decode_all::<PgInfo>("info", &bytes).unwrap(), *info);
            for end in 0..bytes.len() {
                assert!(decode_all::<PgInfo>("info", &bytes[..end]).is_err());
            }
            bytes[1] |= 1 << 7;
            let error = decode_all::<PgInfo>("info", &bytes).unwrap_err();
            assert_eq!(error.field, "group info flags", "a later build wrote it");
        }
        let object = HObject::hash_start(types::PoolId(3), 77);
        let key = missing_key(&object);
        assert_eq!(decode_missing_key(&key), Ok(Some(object)));
        assert_eq!(decode_missing_key(&log_key(EVersion::ZERO)), Ok(None));
        assert!(decode_missing_key(&key[..key.len() - 1]).is_err());
    }
}
