//! Long lists of omap pairs in transactions that are small enough for a full store.

use crate::info;
use crate::log_entry::LogEntry;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::iter::Peekable;
use store::BOOKKEEPING_BYTES_MAX;

/// Bytes of log entries and the like in one transaction. With one more entry the transaction still counts as
/// bookkeeping, for which a full store has room.
pub(crate) const STEP_BYTES_MAX: usize = BOOKKEEPING_BYTES_MAX as usize / 2;

/// The pairs of the next transaction; `None` if none are left.
pub(crate) fn next_step(
    pairs: &mut Peekable<impl Iterator<Item = (Bytes, Bytes)>>,
) -> Option<BTreeMap<Bytes, Bytes>> {
    pairs.peek()?;
    let (mut bytes, mut some) = (0, BTreeMap::new());
    while let Some((key, value)) = pairs.next_if(|_| bytes < STEP_BYTES_MAX) {
        bytes += key.len() + value.len();
        some.insert(key, value);
    }
    Some(some)
}

/// The stored key and value of a log entry.
pub(crate) fn log_pair(entry: &LogEntry) -> (Bytes, Bytes) {
    (info::log_key(entry.version), codec::encode_to_bytes(entry))
}
