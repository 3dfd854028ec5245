//! Records of changes: after-images, which may be applied again.

use crate::{Ino, Inode, OldEntry, SnapNumbers};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::{SnapId, UTime};

/// Version of each record, and the oldest reader that understands it.
const VERSION: u8 = 2;

/// The meaning of a name after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryImage {
    /// Nothing: it was removed.
    Absent,
    /// An inode that has no other name.
    Primary(Box<Inode>),
    /// One of several links of an inode, which has a record of its own.
    Remote(Ino),
}

/// The state of a part of the tree after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// An entry of a directory.
    Dentry {
        /// The directory.
        directory: Ino,
        /// The name.
        name: Bytes,
        /// Its meaning.
        image: EntryImage,
        /// Snapshots up to this one show something else, or nothing.
        after: SnapId,
    },
    /// A directory whose entries have changed.
    Touch {
        /// The directory.
        directory: Ino,
        /// Its version.
        version: u64,
        /// Its modification and change times.
        mtime: UTime,
        /// See `mtime`.
        ctime: UTime,
        /// Its count of changes.
        change_attr: u64,
    },
    /// An inode that is stored apart from its names: the root, or one with several links.
    Inode(Box<Inode>),
    /// An inode without a name that clients still use.
    Orphan(Box<Inode>),
    /// An inode without a name that is not used any more; its data may be purged.
    Gone(Ino),
    /// The numbers of snapshots.
    Snapshots(SnapNumbers),
    /// An entry as snapshots up to `last` show it, or that none does any more.
    OldEntry {
        /// The directory.
        directory: Ino,
        /// The name.
        name: Bytes,
        /// The last snapshot that shows it.
        last: SnapId,
        /// Its meaning.
        entry: Option<OldEntry>,
    },
    /// An inode as snapshots up to `last` show it, or that none does any more.
    OldInode {
        /// The inode.
        ino: Ino,
        /// The last snapshot that shows it.
        last: SnapId,
        /// Its state.
        inode: Option<Box<Inode>>,
    },
}

impl EntryImage {
    /// The inode.
    pub(crate) fn ino(&self) -> Option<Ino> {
        match self {
            EntryImage::Absent => None,
            EntryImage::Primary(inode) => Some(inode.ino),
            EntryImage::Remote(ino) => Some(*ino),
        }
    }
}

impl Record {
    /// An entry of a directory. What snapshots show of it is seen to when the operation is complete.
    pub(crate) fn dentry(directory: Ino, name: &Bytes, image: EntryImage) -> Record {
        Record::Dentry { directory, name: name.clone(), image, after: SnapId(0) }
    }
}

mod kind {
    pub(super) const DENTRY: u8 = 1;
    pub(super) const TOUCH: u8 = 2;
    pub(super) const INODE: u8 = 3;
    pub(super) const ORPHAN: u8 = 4;
    pub(super) const GONE: u8 = 5;
    pub(super) const SNAPSHOTS: u8 = 6;
    pub(super) const OLD_ENTRY: u8 = 7;
    pub(super) const OLD_INODE: u8 = 8;
}

mod image {
    pub(super) const ABSENT: u8 = 0;
    pub(super) const PRIMARY: u8 = 1;
    pub(super) const REMOTE: u8 = 2;
}

impl Encode for EntryImage {
    fn encode(&self, w: &mut Writer) {
        match self {
            EntryImage::Absent => w.u8(image::ABSENT),
            EntryImage::Primary(inode) => {
                w.u8(image::PRIMARY);
                w.value(&**inode);
            }
            EntryImage::Remote(ino) => {
                w.u8(image::REMOTE);
                w.value(ino);
            }
        }
    }
}

impl Decode for EntryImage {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        Ok(match r.u8("entry image")? {
            image::ABSENT => EntryImage::Absent,
            image::PRIMARY => EntryImage::Primary(Box::new(r.value()?)),
            image::REMOTE => EntryImage::Remote(r.value()?),
            other => return Err(at.unknown("entry image", other.into())),
        })
    }
}

impl Record {
    fn kind(&self) -> u8 {
        match self {
            Record::Dentry { .. } => kind::DENTRY,
            Record::Touch { .. } => kind::TOUCH,
            Record::Inode(_) => kind::INODE,
            Record::Orphan(_) => kind::ORPHAN,
            Record::Gone(_) => kind::GONE,
            Record::Snapshots(_) => kind::SNAPSHOTS,
            Record::OldEntry { .. } => kind::OLD_ENTRY,
            Record::OldInode { .. } => kind::OLD_INODE,
        }
    }

    fn encode_body(&self, w: &mut Writer) {
        match self {
            Record::Dentry { directory, name, image, after } => {
                w.value(directory);
                w.value(name);
                w.value(image);
                w.value(after);
            }
            Record::Touch { directory, version, mtime, ctime, change_attr } => {
                w.value(directory);
                w.u64(*version);
                w.value(mtime);
                w.value(ctime);
                w.u64(*change_attr);
            }
            Record::Inode(inode) | Record::Orphan(inode) => w.value(&**inode),
            Record::Gone(ino) => w.value(ino),
            Record::Snapshots(numbers) => w.value(numbers),
            Record::OldEntry { directory, name, last, entry } => {
                w.value(directory);
                w.value(name);
                w.value(last);
                w.value(entry);
            }
            Record::OldInode { ino, last, inode } => {
                w.value(ino);
                w.value(last);
                w.bool(inode.is_some());
                inode.iter().for_each(|inode| w.value(&**inode));
            }
        }
    }
}

/// Kind, version, length, body. A record of a newer version may be longer; an unknown kind is an error, since
/// it may change what this program would not change.
impl Encode for Record {
    fn encode(&self, w: &mut Writer) {
        w.u8(self.kind());
        w.versioned(VERSION, VERSION, |w| self.encode_body(w));
    }
}

impl Decode for Record {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        let kind = r.u8("record kind")?;
        r.versioned("record", VERSION, |r, version| {
            Ok(match kind {
                kind::DENTRY => {
                    let (directory, name, image) = (r.value()?, r.value()?, r.value()?);
                    // Version 1 is from before there were snapshots.
                    let after = if version >= 2 { r.value()? } else { SnapId(0) };
                    Record::Dentry { directory, name, image, after }
                }
                kind::SNAPSHOTS => Record::Snapshots(r.value()?),
                kind::OLD_ENTRY => Record::OldEntry {
                    directory: r.value()?,
                    name: r.value()?,
                    last: r.value()?,
                    entry: r.value()?,
                },
                kind::OLD_INODE => {
                    let (ino, last) = (r.value()?, r.value()?);
                    let inode = match r.bool("has an inode")? {
                        true => Some(Box::new(r.value()?)),
                        false => None,
                    };
                    Record::OldInode { ino, last, inode }
                }
                kind::TOUCH => Record::Touch {
                    directory: r.value()?,
                    version: r.u64("version")?,
                    mtime: r.value()?,
                    ctime: r.value()?,
                    change_attr: r.u64("change attribute")?,
                },
                kind::INODE => Record::Inode(Box::new(r.value()?)),
                kind::ORPHAN => Record::Orphan(Box::new(r.value()?)),
                kind::GONE => Record::Gone(r.value()?),
                other => return Err(at.unknown("record kind", other.into())),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_truncations_are_refused() {
        let inode = Box::new(Inode { ino: Ino(9), mode: 0o100644, ..Inode::default() });
        let after = SnapId(4);
        let dentry = |image| Record::Dentry { directory: Ino(1), name: "a".into(), image, after };
        let old = |entry| Record::OldEntry {
            directory: Ino(1),
            name: "a".into(),
            last: SnapId(3),
            entry,
        };
        let time = UTime { seconds: 5, nanoseconds: 6 };
        let records = [
            dentry(EntryImage::Absent),
            dentry(EntryImage::Primary(inode.clone())),
            dentry(EntryImage::Remote(Ino(9))),
            Record::Touch {
                directory: Ino(1),
                version: 2,
                mtime: time,
                ctime: time,
                change_attr: 3,
            },
            Record::Inode(inode.clone()),
            Record::Orphan(inode.clone()),
            Record::Gone(Ino(9)),
            Record::Snapshots(SnapNumbers { last: SnapId(5), removed: [SnapId(2)].into() }),
            old(None),
            old(Some(OldEntry { after: SnapId(1), ino: Ino(9) })),
            Record::OldInode { ino: Ino(9), last: SnapId(3), inode: None },
            Record::OldInode { ino: Ino(9), last: SnapId(3), inode: Some(inode) },
        ];
        for record in records {
            let bytes = codec::encode_to_bytes(&record);
            assert_eq!(codec::decode_all::<Record>("record", &bytes).unwrap(), record);
            for end in 0..bytes.len() {
                assert!(codec::decode_all::<Record>("record", &bytes[..end]).is_err());
            }
        }
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        let error = codec::decode_all::<Record>("record", &[99, 1, 1, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(error.field, "record kind");
    }
}
