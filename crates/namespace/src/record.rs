//! Records of changes: after-images, which may be applied again.

use crate::{Ino, Inode};
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use types::UTime;

/// Version of each record, and the oldest reader that understands it.
const VERSION: u8 = 1;

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
}

mod kind {
    pub(super) const DENTRY: u8 = 1;
    pub(super) const TOUCH: u8 = 2;
    pub(super) const INODE: u8 = 3;
    pub(super) const ORPHAN: u8 = 4;
    pub(super) const GONE: u8 = 5;
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
        }
    }

    fn encode_body(&self, w: &mut Writer) {
        match self {
            Record::Dentry { directory, name, image } => {
                w.value(directory);
                w.value(name);
                w.value(image);
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
        r.versioned("record", VERSION, |r, _| {
            Ok(match kind {
                kind::DENTRY => {
                    Record::Dentry { directory: r.value()?, name: r.value()?, image: r.value()? }
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
        let dentry = |image| Record::Dentry { directory: Ino(1), name: "a".into(), image };
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
            Record::Orphan(inode),
            Record::Gone(Ino(9)),
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
