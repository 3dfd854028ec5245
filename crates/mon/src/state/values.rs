//! Decoding of the values of keys.

use bytes::Bytes;
use codec::{Decode, DecodeError, decode_all};
use std::collections::BTreeMap;
use types::Epoch;

/// Inserts a value, or removes the entry if there is none.
pub(super) fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => {
            map.insert(key, value);
        }
        None => {
            map.remove(&key);
        }
    }
}

pub(super) fn decoded<T: Decode>(
    what: &'static str,
    value: Option<&Bytes>,
) -> Result<Option<T>, Option<DecodeError>> {
    value.map(|bytes| decode_all(what, bytes)).transpose().map_err(Some)
}

pub(super) fn text(value: &Bytes) -> Result<String, Option<DecodeError>> {
    String::from_utf8(value.to_vec()).map_err(|_| None)
}

pub(super) fn number(value: &Bytes) -> Result<u64, Option<DecodeError>> {
    text(value)?.parse().map_err(|_| None)
}

pub(super) fn json<T: serde::de::DeserializeOwned>(
    value: &Bytes,
) -> Result<T, Option<DecodeError>> {
    serde_json::from_slice(value).map_err(|_| None)
}

pub(super) fn epoch_of(text: &str) -> Result<Epoch, Option<DecodeError>> {
    text.parse().map(Epoch).map_err(|_| None)
}
