//! Parts of a repair: changes of rows, and what leads to them.

use bytes::Bytes;
use codec::Result;
use namespace::{Row, RowKey, SnapNumbers};
use types::SnapId;

/// A change of one pair of an object; `None` removes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowChange {
    /// The object.
    pub object: String,
    /// Key of the pair.
    pub key: Bytes,
    /// Its new value.
    pub value: Option<Bytes>,
}

impl RowChange {
    /// The change of a row of the tree.
    pub(crate) fn of(key: &RowKey, rank: u32, row: Option<&Row>) -> Self {
        RowChange { object: key.object(rank), key: key.key(), value: row.map(Row::encode) }
    }
}

/// A part of a repair that is no settlement of an inode.
#[derive(Debug, Clone)]
pub(crate) enum Fix {
    RemoveObject(String),
    RemoveRow {
        object: String,
        key: Bytes,
    },
    PutAside {
        object: String,
        key: Bytes,
        value: Bytes,
    },
    Numbers(SnapNumbers),
    Remove(RowKey),
    /// Snapshots up to this one do not show the entry any more.
    After {
        key: RowKey,
        after: SnapId,
    },
    /// The same for an inode.
    InodeAfter {
        key: RowKey,
        after: SnapId,
    },
    UsedBelow(u64),
    TakeNumbers {
        client: u64,
        numbers: Vec<u64>,
    },
}

/// The row of a key from its value.
///
/// # Errors
///
/// It does not decode, or is the row of another inode.
pub fn decode_row(key: &RowKey, value: &[u8]) -> Result<Row> {
    match key {
        RowKey::Entry(..) => {
            Row::decode_entry(value).map(|(image, after)| Row::Entry(image, after))
        }
        RowKey::OldEntry(..) => Row::decode_old_entry(value).map(Row::OldEntry),
        RowKey::Snapshots => Row::decode_snapshots(value).map(Row::Snapshots),
        RowKey::Root(ino) | RowKey::Link(ino) | RowKey::Orphan(ino) | RowKey::OldInode(ino, _) => {
            let inode = Row::decode_inode(value)?;
            match inode.ino == *ino {
                true => Ok(Row::Inode(Box::new(inode))),
                false => Err(codec::Reader::new(value).invalid("inode of a row", inode.ino.0)),
            }
        }
        RowKey::Directory(ino) => Err(codec::Reader::new(value).invalid("row", ino.0)),
    }
}
