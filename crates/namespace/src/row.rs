//! Rows: where entries and inodes are stored in the metadata pool, and how.

use crate::directory::EntryKey;
use crate::{EntryImage, Ino, Inode, OldEntry, SnapNumbers, Tree};
use bytes::Bytes;
use codec::{DecodeErrorKind, Encode, Reader, Result, Writer};
use types::SnapId;

/// Version of a value, and the oldest reader that understands it.
const VERSION: u8 = 2;
/// Bytes of the hash in a key.
const HASH_BYTES: usize = 3;
/// Bytes behind the name in a key: a zero, and the last snapshot that shows the row.
const TAIL_BYTES: usize = 9;
/// Inodes whose rows share an object, as a power of two.
const INODES_SHIFT: u32 = 16;

/// Place of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowKey {
    /// An entry of a directory, with its inode if that has no other name.
    Entry(Ino, EntryKey),
    /// The inode of a directory that no directory of this rank contains.
    Root(Ino),
    /// An inode with several names.
    Link(Ino),
    /// An inode without a name that clients still use.
    Orphan(Ino),
    /// Not a row, but all rows of a removed directory.
    Directory(Ino),
    /// An entry of a directory as snapshots up to this one show it.
    OldEntry(Ino, EntryKey, SnapId),
    /// An inode as snapshots up to this one show it.
    OldInode(Ino, SnapId),
    /// The numbers of snapshots.
    Snapshots,
}

/// Content of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// The meaning of a name; never `Absent`. Snapshots up to this one show something else, or nothing.
    Entry(EntryImage, SnapId),
    /// An inode.
    Inode(Box<Inode>),
    /// The meaning that a name had.
    OldEntry(OldEntry),
    /// The numbers of snapshots.
    Snapshots(SnapNumbers),
}

impl RowKey {
    /// Name of the object that has the row, for a rank.
    pub fn object(&self, rank: u32) -> String {
        match self {
            RowKey::Entry(directory, _)
            | RowKey::Directory(directory)
            | RowKey::OldEntry(directory, ..) => directory_object(*directory),
            RowKey::OldInode(ino, _) => old_version_object(ino.0 >> INODES_SHIFT),
            RowKey::Snapshots => SNAPSHOTS_OBJECT.to_owned(),
            RowKey::Root(_) => format!("roots.{rank}"),
            RowKey::Link(ino) => links_object(*ino),
            RowKey::Orphan(_) => format!("orphans.{rank}"),
        }
    }

    /// Key in that object; empty of a whole directory.
    pub fn key(&self) -> Bytes {
        match self {
            RowKey::Entry(_, entry) => entry_key(entry, SnapId::HEAD),
            RowKey::OldEntry(_, entry, last) => entry_key(entry, *last),
            RowKey::OldInode(ino, last) => {
                [ino.0.to_be_bytes(), last.0.to_be_bytes()].concat().into()
            }
            RowKey::Snapshots => Bytes::from_static(b"numbers"),
            RowKey::Root(ino) | RowKey::Link(ino) | RowKey::Orphan(ino) => ino_key(*ino),
            RowKey::Directory(_) => Bytes::new(),
        }
    }
}

/// The object with the rows of a directory.
pub fn directory_object(directory: Ino) -> String {
    format!("dir.{:x}.0.0", directory.0)
}

/// The object with the row of an inode that has several names.
pub fn links_object(ino: Ino) -> String {
    format!("links.{:x}", ino.0 >> INODES_SHIFT)
}

/// The object with the numbers of snapshots.
pub const SNAPSHOTS_OBJECT: &str = "snaps";

fn old_version_object(part: u64) -> String {
    format!("past.{part:x}")
}

/// The objects with inodes as snapshots show them, if numbers below this one were used.
pub fn old_version_objects(numbers: Ino) -> impl Iterator<Item = String> {
    let files = Ino::FIRST.0 >> INODES_SHIFT..=numbers.0 >> INODES_SHIFT;
    std::iter::once(0).chain(files).map(old_version_object)
}

/// Key of an inode's row.
pub fn ino_key(ino: Ino) -> Bytes {
    Bytes::copy_from_slice(&ino.0.to_be_bytes())
}

/// The inode of a key.
///
/// # Errors
///
/// It is no such key.
pub fn decode_ino_key(key: &[u8]) -> Result<Ino> {
    let mut r = Reader::new(key);
    let ino = u64::from_be_bytes(r.array("key of an inode")?);
    r.finish("key of an inode")?;
    Ok(Ino(ino))
}

/// Hash, name, zero, last snapshot: rows are in the order in which clients read entries.
fn entry_key(entry: &EntryKey, last: SnapId) -> Bytes {
    let mut key = Vec::with_capacity(HASH_BYTES + entry.name.len() + TAIL_BYTES);
    key.extend(&entry.hash.to_be_bytes()[1..]);
    key.extend(&entry.name);
    key.push(0);
    key.extend(last.0.to_be_bytes());
    key.into()
}

/// The entry of a key, and the last snapshot that shows the row.
///
/// # Errors
///
/// It is no such key, or the hash is not that of the name.
pub fn decode_entry_key(key: &Bytes) -> Result<(EntryKey, SnapId)> {
    let r = Reader::new(key);
    let is_row = key.len() > HASH_BYTES + TAIL_BYTES;
    let tail = key.len().saturating_sub(TAIL_BYTES);
    if !is_row || key[tail] != 0 {
        return Err(r.invalid("key of an entry", key.len() as u64));
    }
    let last = Reader::new(&key[tail + 1..]).array("last snapshot")?;
    let last = SnapId(u64::from_be_bytes(last));
    if last > SnapId::HEAD {
        return Err(r.invalid("last snapshot", last.0));
    }
    let entry = EntryKey::of(&key.slice(HASH_BYTES..tail));
    if entry.hash.to_be_bytes()[1..] != key[..HASH_BYTES] {
        return Err(r.invalid("hash of an entry", entry.hash.into()));
    }
    Ok((entry, last))
}

/// The inode of a key of `past`, and the last snapshot that shows the row.
///
/// # Errors
///
/// It is no such key.
pub fn decode_old_key(key: &[u8]) -> Result<(Ino, SnapId)> {
    let mut r = Reader::new(key);
    let ino = u64::from_be_bytes(r.array("key of an inode")?);
    let last = u64::from_be_bytes(r.array("last snapshot")?);
    r.finish("key of an inode of a snapshot")?;
    Ok((Ino(ino), SnapId(last)))
}

impl Row {
    /// The value.
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new();
        w.versioned(VERSION, VERSION, |w| match self {
            Row::Entry(image, after) => {
                image.encode(w);
                w.value(after);
            }
            Row::Inode(inode) => inode.encode(w),
            Row::OldEntry(entry) => entry.encode(w),
            Row::Snapshots(numbers) => numbers.encode(w),
        });
        w.into_bytes()
    }

    /// The value of an entry's row.
    ///
    /// # Errors
    ///
    /// It does not decode, or a newer program wrote it.
    pub fn decode_entry(value: &[u8]) -> Result<(EntryImage, SnapId)> {
        let (image, after) = decode(value, |r, version| {
            let image: EntryImage = r.value()?;
            // Version 1 is from before there were snapshots.
            Ok((image, if version >= 2 { r.value()? } else { SnapId(0) }))
        })?;
        if image == EntryImage::Absent {
            let kind = DecodeErrorKind::InvalidValue { value: 0 };
            return Err(Reader::new(value).error("entry", kind));
        }
        Ok((image, after))
    }

    /// The value of an inode's row.
    ///
    /// # Errors
    ///
    /// See [`Row::decode_entry`].
    pub fn decode_inode(value: &[u8]) -> Result<Inode> {
        decode(value, |r, _| r.value())
    }

    /// The value of the row of an entry as snapshots show it.
    ///
    /// # Errors
    ///
    /// See [`Row::decode_entry`].
    pub fn decode_old_entry(value: &[u8]) -> Result<OldEntry> {
        decode(value, |r, _| r.value())
    }

    /// The value of the row with the numbers of snapshots.
    ///
    /// # Errors
    ///
    /// See [`Row::decode_entry`].
    pub fn decode_snapshots(value: &[u8]) -> Result<SnapNumbers> {
        decode(value, |r, _| r.value())
    }
}

fn decode<T>(value: &[u8], read: impl FnOnce(&mut Reader<'_>, u8) -> Result<T>) -> Result<T> {
    let mut r = Reader::new(value);
    let decoded = r.versioned("row", VERSION, read)?;
    r.finish("row")?;
    Ok(decoded)
}

impl Tree {
    /// The row that has an inode now.
    pub fn row_key(&self, ino: Ino) -> Option<RowKey> {
        self.get(ino)?;
        Some(match self.home(ino) {
            Some((directory, name)) => match self.entry(*directory, name) {
                Some(entry) if entry.is_primary => RowKey::Entry(*directory, EntryKey::of(name)),
                _ => RowKey::Link(ino),
            },
            None if ino == Ino::ROOT => RowKey::Root(ino),
            None => RowKey::Orphan(ino),
        })
    }

    /// Places of the rows of a directory, from one entry to another one, both included.
    pub fn row_keys_of(
        &self,
        directory: Ino,
        from: &EntryKey,
        to: Option<&EntryKey>,
    ) -> Vec<RowKey> {
        let is_within = |key: &EntryKey| to.is_none_or(|to| key <= to);
        let live = self.entries_from(directory, from).take_while(|key| is_within(key));
        let live = live.map(|key| RowKey::Entry(directory, key.clone()));
        let old = self.old_versions().keys_from(directory, from);
        let old = old.take_while(|(key, _)| is_within(key));
        let old = old.map(|(key, last)| RowKey::OldEntry(directory, key.clone(), last));
        live.chain(old).collect()
    }

    /// The row of a key, as the tree is now; `None` if there is none.
    pub fn row(&self, key: &RowKey) -> Option<Row> {
        match key {
            RowKey::Entry(directory, entry) => {
                let entry = self.entry(*directory, &entry.name)?;
                let image = match entry.is_primary {
                    true => EntryImage::Primary(Box::new(self.get(entry.ino)?.clone())),
                    false => EntryImage::Remote(entry.ino),
                };
                Some(Row::Entry(image, entry.after))
            }
            RowKey::OldEntry(directory, entry, last) => {
                self.old_versions().entry_row(*directory, entry, *last).map(Row::OldEntry)
            }
            RowKey::OldInode(ino, last) => self
                .old_versions()
                .inode_row(*ino, *last)
                .map(|inode| Row::Inode(Box::new(inode.clone()))),
            RowKey::Snapshots => {
                let numbers = self.snap_numbers();
                (*numbers != SnapNumbers::default()).then(|| Row::Snapshots(numbers.clone()))
            }
            RowKey::Root(ino) | RowKey::Link(ino) | RowKey::Orphan(ino) => {
                let is_there = self.row_key(*ino).as_ref() == Some(key);
                let inode = self.get(*ino).filter(|_| is_there)?;
                Some(Row::Inode(Box::new(inode.clone())))
            }
            RowKey::Directory(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn keys_have_their_bytes_and_decode() {
        let entry = EntryKey::of(&"foo".into());
        let key = RowKey::Entry(Ino(0x100_0000_0001), entry.clone());
        assert_eq!(key.object(0), "dir.10000000001.0.0");
        assert_eq!(hex(&key.key()), "c1f406666f6f00fffffffffffffffe");
        assert_eq!(decode_entry_key(&key.key()).unwrap(), (entry.clone(), SnapId::HEAD));
        let old = RowKey::OldEntry(Ino(0x100_0000_0001), entry.clone(), SnapId(5));
        assert_eq!(old.object(0), key.object(0));
        assert_eq!(decode_entry_key(&old.key()).unwrap(), (entry, SnapId(5)));
        let old = RowKey::OldInode(Ino(0x100_0001_0002), SnapId(5));
        assert_eq!(old.object(0), "past.1000001");
        assert_eq!(decode_old_key(&old.key()).unwrap(), (Ino(0x100_0001_0002), SnapId(5)));
        let link = RowKey::Link(Ino(0x100_0001_0002));
        assert_eq!(
            (link.object(3), hex(&link.key())),
            ("links.1000001".into(), "0000010000010002".into())
        );
        assert_eq!(decode_ino_key(&link.key()).unwrap(), Ino(0x100_0001_0002));
        assert_eq!(RowKey::Orphan(Ino(7)).object(3), "orphans.3");
    }

    #[test]
    fn keys_that_no_row_has_are_refused() {
        let key = RowKey::Entry(Ino(1), EntryKey::of(&"foo".into())).key();
        // The last eight bytes are a snapshot.
        for at in 0..key.len() - 8 {
            let mut changed = key.to_vec();
            changed[at] ^= 1;
            assert!(decode_entry_key(&changed.into()).is_err(), "byte {at}");
            assert!(decode_entry_key(&key.slice(..at)).is_err(), "{at} bytes");
        }
        assert!(decode_ino_key(&[0; 7]).is_err() && decode_ino_key(&[0; 9]).is_err());
    }

    #[test]
    fn values_round_trip_and_truncations_are_refused() {
        let inode = Inode { ino: Ino(9), mode: 0o100_644, ..Inode::default() };
        for image in [EntryImage::Remote(Ino(9)), EntryImage::Primary(Box::new(inode.clone()))] {
            let value = Row::Entry(image.clone(), SnapId(3)).encode();
            assert_eq!(Row::decode_entry(&value).unwrap(), (image, SnapId(3)));
            for end in 0..value.len() {
                assert!(Row::decode_entry(&value[..end]).is_err());
            }
        }
        let value = Row::Inode(Box::new(inode.clone())).encode();
        assert_eq!(Row::decode_inode(&value).unwrap(), inode);
        assert!(Row::decode_entry(&Row::Entry(EntryImage::Absent, SnapId(0)).encode()).is_err());
    }
}
