//! Scrub maps: what one copy has, so that copies can be compared without sending their content.

use crate::snaps::SnapSet;
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::{EVersion, HObject};

/// The depth of a scrub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Existence, sizes, attributes.
    #[default]
    Light,
    /// Also data and omaps, which are read in full.
    Deep,
}

/// The content of the attribute with the object's info.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownInfo {
    /// The object does not have the attribute.
    Missing,
    /// It does not decode.
    Corrupted,
    /// The fields that scrub compares.
    Known {
        /// The version of the newest write.
        version: EVersion,
        /// The version that clients see.
        user_version: u64,
        /// Bytes of data.
        size: u64,
    },
}

/// The size of one or more omaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OmapSize {
    /// Number of keys.
    pub keys: u64,
    /// Bytes of all values together.
    pub bytes: u64,
}

/// One object of one copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubObject {
    /// Bytes of data that the store has.
    pub size: u64,
    /// The object's info.
    pub info: KnownInfo,
    /// CRC-32C of all attributes as they are encoded.
    pub attrs_digest: u32,
    /// Whether the store has omap keys or an omap header.
    pub has_omap: bool,
    /// CRC-32C of the data; `None` in a light scrub, or if it could not be read.
    pub data_digest: Option<u32>,
    /// Linear digest of the data of a shard; likewise. `None` in replicated groups.
    pub shard_digest: Option<erasure::Digest>,
    /// CRC-32C of the omap's header and pairs; likewise.
    pub omap_digest: Option<u32>,
    /// The store could not read size and attributes.
    pub stat_error: bool,
    /// The store could not read data or omap, or their checksums did not match.
    pub read_error: bool,
    /// It looks like an object that earlier builds truncated in a transfer: the last MiB of several is
    /// all zeros, or the omap is missing or ends where a piece does. Members of such builds do not
    /// report it.
    pub may_be_cut: bool,
}

impl ScrubObject {
    /// An object that exists, and whose metadata cannot be read.
    pub fn unreadable() -> Self {
        ScrubObject {
            size: 0,
            info: KnownInfo::Missing,
            attrs_digest: 0,
            has_omap: false,
            data_digest: None,
            shard_digest: None,
            omap_digest: None,
            stat_error: true,
            read_error: false,
            may_be_cut: false,
        }
    }

    /// Whether both have the same content.
    pub fn is_same(&self, other: &ScrubObject) -> bool {
        ScrubObject { may_be_cut: other.may_be_cut, ..*self } == *other
    }

    /// Makes the size of a shard that of its object, if its info tells it.
    pub(super) fn take_logical_size(&mut self) {
        if let KnownInfo::Known { size, .. } = self.info {
            self.size = size;
        }
    }

    /// The version by its info; `None` without a valid one.
    pub fn version(&self) -> Option<EVersion> {
        match self.info {
            KnownInfo::Known { version, .. } => Some(version),
            _ => None,
        }
    }
}

/// The content of a head's snapset attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownSet {
    /// It does not decode.
    Corrupted,
    /// The set of a head's clones.
    Known(SnapSet),
}

/// The objects of a copy within a range.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubMap {
    /// In order. Objects that do not exist are left out.
    pub objects: BTreeMap<HObject, ScrubObject>,
    /// The map is complete up to here (exclusive); `None` means the end of the range.
    pub until: Option<HObject>,
    /// The snapsets of heads. Not sent: whether copies have the same sets shows in their digests.
    pub sets: BTreeMap<HObject, KnownSet>,
    /// Sizes of the omaps that were read. Not sent.
    pub omaps: BTreeMap<HObject, OmapSize>,
    /// Pairs that this copy's clone index lacks. Not sent.
    pub unindexed: BTreeMap<Bytes, Bytes>,
}

const FLAG_OMAP: u8 = 1;
const FLAG_STAT_ERROR: u8 = 2;
const FLAG_READ_ERROR: u8 = 4;
const FLAG_MAY_BE_CUT: u8 = 8;
/// A shard's digest follows. Maps of replicated groups never have it.
const FLAG_SHARD_DIGEST: u8 = 16;

impl Encode for KnownInfo {
    fn encode(&self, w: &mut Writer) {
        match self {
            KnownInfo::Missing => w.u8(0),
            KnownInfo::Corrupted => w.u8(1),
            KnownInfo::Known { version, user_version, size } => {
                w.u8(2);
                w.value(version);
                w.u64(*user_version);
                w.u64(*size);
            }
        }
    }
}

impl Decode for KnownInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let at = *r;
        Ok(match r.u8("state of the object info")? {
            0 => KnownInfo::Missing,
            1 => KnownInfo::Corrupted,
            2 => KnownInfo::Known {
                version: r.value()?,
                user_version: r.u64("user version")?,
                size: r.u64("size")?,
            },
            other => return Err(at.invalid("state of the object info", other.into())),
        })
    }
}

impl Encode for ScrubObject {
    fn encode(&self, w: &mut Writer) {
        w.u8(u8::from(self.has_omap) * FLAG_OMAP
            + u8::from(self.stat_error) * FLAG_STAT_ERROR
            + u8::from(self.read_error) * FLAG_READ_ERROR
            + u8::from(self.may_be_cut) * FLAG_MAY_BE_CUT
            + u8::from(self.shard_digest.is_some()) * FLAG_SHARD_DIGEST);
        w.u64(self.size);
        w.value(&self.info);
        w.u32(self.attrs_digest);
        w.value(&self.data_digest);
        w.value(&self.omap_digest);
        if let Some(digest) = &self.shard_digest {
            w.raw(&digest.0);
        }
    }
}

impl Decode for ScrubObject {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let flags = r.u8("flags")?;
        Ok(ScrubObject {
            has_omap: flags & FLAG_OMAP != 0,
            stat_error: flags & FLAG_STAT_ERROR != 0,
            read_error: flags & FLAG_READ_ERROR != 0,
            may_be_cut: flags & FLAG_MAY_BE_CUT != 0,
            size: r.u64("size")?,
            info: r.value()?,
            attrs_digest: r.u32("digest of attributes")?,
            data_digest: r.value()?,
            omap_digest: r.value()?,
            shard_digest: decode_digest(r, flags)?,
        })
    }
}

fn decode_digest(r: &mut Reader<'_>, flags: u8) -> Result<Option<erasure::Digest>> {
    let has_digest = flags & FLAG_SHARD_DIGEST != 0;
    has_digest.then(|| r.array("digest of a shard").map(erasure::Digest)).transpose()
}

impl Encode for ScrubMap {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.objects);
        w.value(&self.until);
    }
}

impl Decode for ScrubMap {
    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        Ok(ScrubMap { objects: r.value()?, until: r.value()?, ..ScrubMap::default() })
    }
}
