//! Typed values in an object's omap, for classes that keep their state there.

use crate::encoding::decode_stored;
use crate::object::{Failure, ObjectContext, Result};
use bytes::Bytes;
use codec::{Decode, Encode};
use std::collections::BTreeMap;
use types::Errno;

/// Pairs that are read at once.
const PAGE_ENTRIES: u64 = 1024;

pub(crate) fn get<T: Decode>(
    object: &mut dyn ObjectContext,
    key: impl Into<Bytes>,
) -> Result<Option<T>> {
    let stored = object.omap_value(&key.into())?;
    stored.map(|stored| decode_stored(&stored)).transpose()
}

/// ENOENT if there is no such key.
pub(crate) fn require<T: Decode>(
    object: &mut dyn ObjectContext,
    key: impl Into<Bytes>,
) -> Result<T> {
    get(object, key)?.ok_or(Errno::NOENT.into())
}

pub(crate) fn contains(object: &mut dyn ObjectContext, key: impl Into<Bytes>) -> Result<bool> {
    Ok(object.omap_value(&key.into())?.is_some())
}

pub(crate) fn set(
    object: &mut dyn ObjectContext,
    key: impl Into<Bytes>,
    value: &impl Encode,
) -> Result<()> {
    object.omap_set(BTreeMap::from([pair(key, value)]))
}

/// A pair for [`ObjectContext::omap_set`].
pub(crate) fn pair(key: impl Into<Bytes>, value: &impl Encode) -> (Bytes, Bytes) {
    (key.into(), codec::encode_to_bytes(value))
}

/// ENOENT if there is no object; a missing key is fine.
pub(crate) fn remove(object: &mut dyn ObjectContext, key: impl Into<Bytes>) -> Result<()> {
    object.omap_remove(vec![key.into()])
}

/// Removes a key if the object exists.
pub(crate) fn discard(object: &mut dyn ObjectContext, key: impl Into<Bytes>) -> Result<()> {
    match remove(object, key) {
        Err(Failure::Errno(Errno::NOENT)) => Ok(()),
        outcome => outcome,
    }
}

pub(crate) fn key(prefix: impl AsRef<[u8]>, name: &[u8]) -> Bytes {
    [prefix.as_ref(), name].concat().into()
}

/// Numbers in keys are formatted so that they sort.
pub(crate) fn number_key(prefix: &str, number: u64) -> Bytes {
    format!("{prefix}{number:016x}").into()
}

/// At most `entries_max` of the pairs whose keys begin with `prefix`, those behind
/// `prefix` + `after`, or all if that is empty. The prefix is taken off the keys.
pub(crate) fn list<T: Decode>(
    object: &mut dyn ObjectContext,
    prefix: impl AsRef<[u8]>,
    after: &[u8],
    entries_max: u64,
) -> Result<Vec<(Bytes, T)>> {
    let mut entries: Vec<(Bytes, T)> = Vec::new();
    let mut after = if after.is_empty() { Bytes::new() } else { key(&prefix, after) };
    let prefix = Bytes::copy_from_slice(prefix.as_ref());
    let mut more = true;
    while more && (entries.len() as u64) < entries_max {
        let wanted = PAGE_ENTRIES.min(entries_max - entries.len() as u64);
        let (pairs, rest) = object.omap_page(&after, &prefix, wanted)?;
        let Some((last, _)) = pairs.last_key_value() else { break };
        (after, more) = (last.clone(), rest);
        for (key, stored) in pairs {
            entries.push((key.slice(prefix.len()..), decode_stored(&stored)?));
        }
    }
    Ok(entries)
}

pub(crate) fn list_all<T: Decode>(
    object: &mut dyn ObjectContext,
    prefix: impl AsRef<[u8]>,
) -> Result<Vec<(Bytes, T)>> {
    list(object, prefix, b"", u64::MAX)
}
