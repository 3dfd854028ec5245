//! Rows of purges that are not in memory.

use super::objects::read_pairs;
use super::setup::StoreError;
use crate::purges::Purge;
use bytes::Bytes;
use namespace::{Ino, decode_ino_key, ino_key};
use rados::{Place, Steps};

/// Some rows, and whether there are more behind them.
#[derive(Debug, Default)]
pub(super) struct PurgePage {
    /// Purges by inode.
    pub rows: Vec<(u64, Purge)>,
    /// Whether there are more.
    pub more: bool,
}

/// Reads the rows of the object `name` behind an inode's.
pub(super) async fn read(
    steps: Steps,
    place: Place,
    name: String,
    after: u64,
) -> Result<PurgePage, StoreError> {
    let page = read_pairs(&steps, &place, &ino_key(Ino(after))).await?;
    let row = |(key, value): &(Bytes, Bytes)| {
        Ok((decode_ino_key(key)?.0, codec::decode_all("row of a purge", value)?))
    };
    let rows: codec::Result<Vec<_>> = page.pairs.iter().map(row).collect();
    Ok(PurgePage { rows: rows.map_err(StoreError::undecodable(&name))?, more: page.more })
}
