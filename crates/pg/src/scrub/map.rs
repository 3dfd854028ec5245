//! What one copy says of its objects, so that copies can be compared without sending their content.

use crate::snaps::SnapSet;
use bytes::Bytes;
use codec::{Decode, Encode, Reader, Result, Writer};
use std::collections::BTreeMap;
use types::{EVersion, HObject};

/// How thoroughly copies are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Existence, sizes, attributes.
    #[default]
    Light,
    /// Also data and omaps, which are read for it.
    Deep,
}

/// What the attribute with the object's info says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownInfo {
    Missing,
    /// It does not decode.
    Corrupted,
    Known {
        version: EVersion,
        user_version: u64,
        size: u64,
    },
}

/// The size of an omap, as it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OmapSize {
    pub keys: u64,
    /// Of all values together.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubObject {
    pub size: u64,
    pub info: KnownInfo,
    /// CRC-32C of all attributes as they are encoded.
    pub attrs_digest: u32,
    pub has_omap: bool,
    /// CRC-32C of the data, if it was asked for and could be read.
    pub data_digest: Option<u32>,
    /// CRC-32C of the omap's header and pairs.
    pub omap_digest: Option<u32>,
    /// The store could not tell size and attributes.
    pub stat_error: bool,
    /// The store could not read data or omap, or they did not have their checksums.
    pub read_error: bool,
    /// It may be the beginning of an object, of which earlier builds took the rest for received: the last MiB of
    /// several reads as zeros, or an omap is not there or ends where a piece does. Members of such builds
    /// do not say so.
    pub may_be_cut: bool,
}

impl ScrubObject {
    /// An object of which no more is known than that it is there.
    pub fn unreadable() -> Self {
        ScrubObject {
            size: 0,
            info: KnownInfo::Missing,
            attrs_digest: 0,
            has_omap: false,
            data_digest: None,
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

    pub fn version(&self) -> Option<EVersion> {
        match self.info {
            KnownInfo::Known { version, .. } => Some(version),
            _ => None,
        }
    }
}

/// What the attribute with a head's clones says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownSet {
    /// It does not decode.
    Corrupted,
    Known(SnapSet),
}

/// The objects of a copy within a range.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubMap {
    pub objects: BTreeMap<HObject, ScrubObject>,
    /// Up to here (exclusive) it has all objects of the range; to the range's end, if nothing.
    pub until: Option<HObject>,
    /// The clones that heads name. Not told to others: whether copies have the same sets is to be
    /// seen from their digests.
    pub sets: BTreeMap<HObject, KnownSet>,
    /// Omaps that were read. Not told to others.
    pub omaps: BTreeMap<HObject, OmapSize>,
    /// Pairs that this copy's index of clones should have and has not. Not told to others.
    pub unindexed: BTreeMap<Bytes, Bytes>,
}

const FLAG_OMAP: u8 = 1;
const FLAG_STAT_ERROR: u8 = 2;
const FLAG_READ_ERROR: u8 = 4;
const FLAG_MAY_BE_CUT: u8 = 8;

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
            + u8::from(self.may_be_cut) * FLAG_MAY_BE_CUT);
        w.u64(self.size);
        w.value(&self.info);
        w.u32(self.attrs_digest);
        w.value(&self.data_digest);
        w.value(&self.omap_digest);
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
        })
    }
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
