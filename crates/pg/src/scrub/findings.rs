//! Inconsistencies of an object, in the terms of Ceph's clients.
//!
//! `rados list-inconsistent-obj` reads [`Finding::encode`] (`inconsistent_obj_t`). The bits are those of
//! `librados`, which also determines which of them are shallow.

use super::map::{KnownInfo, ScrubObject};
use crate::Member;
use codec::{Encode, Writer};
use std::collections::BTreeMap;
use types::HObject;

/// Errors of one copy of an object (`err_t`).
pub mod shard {
    /// The copy does not have the object (`SHARD_MISSING`).
    pub const MISSING: u64 = 1 << 1;
    /// The store cannot look the object up (`SHARD_STAT_ERR`).
    pub const STAT_ERROR: u64 = 1 << 2;
    /// The store cannot read the object (`SHARD_READ_ERR`).
    pub const READ_ERROR: u64 = 1 << 3;
    /// Its size differs from that in the authoritative object info.
    pub const SIZE_MISMATCH_INFO: u64 = 1 << 11;
    /// Its data contradicts that of the other shards (`SHARD_EC_HASH_MISMATCH`).
    pub const EC_HASH_MISMATCH: u64 = 1 << 12;
    /// Its size contradicts that of the object (`SHARD_EC_SIZE_MISMATCH`).
    pub const EC_SIZE_MISMATCH: u64 = 1 << 13;
    /// It has no object info (`INFO_MISSING`).
    pub const INFO_MISSING: u64 = 1 << 14;
    /// Its object info does not decode (`INFO_CORRUPTED`).
    pub const INFO_CORRUPTED: u64 = 1 << 15;
    /// Its size differs from that in its own object info.
    pub const OWN_SIZE_MISMATCH: u64 = 1 << 18;
    /// The bits that count as deep errors.
    pub const DEEP: u64 = READ_ERROR | 1 << 9 | 1 << 10 | EC_HASH_MISMATCH | EC_SIZE_MISMATCH;
}

/// Differences between copies (`obj_err_t`).
pub mod object {
    /// The object infos differ (`OBJECT_INFO_INCONSISTENCY`).
    pub const INFO_INCONSISTENCY: u64 = 1 << 1;
    /// The data differs (`DATA_DIGEST_MISMATCH`); found by deep scrubs.
    pub const DATA_DIGEST_MISMATCH: u64 = 1 << 4;
    /// The omaps differ (`OMAP_DIGEST_MISMATCH`); found by deep scrubs.
    pub const OMAP_DIGEST_MISMATCH: u64 = 1 << 5;
    /// The sizes differ (`SIZE_MISMATCH`).
    pub const SIZE_MISMATCH: u64 = 1 << 6;
    /// The attributes differ (`ATTR_VALUE_MISMATCH`).
    pub const ATTR_VALUE_MISMATCH: u64 = 1 << 7;
    /// The bits that count as deep errors.
    pub const DEEP: u64 = DATA_DIGEST_MISMATCH | OMAP_DIGEST_MISMATCH;
}

/// One copy of an inconsistent object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// `None` if it is missing.
    pub object: Option<ScrubObject>,
    /// Bits of [`shard`].
    pub errors: u64,
    /// Whether it is the primary's copy.
    pub is_primary: bool,
}

/// The authoritative copy of an inconsistent object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authority {
    /// This one: it is intact and has the version that the log or the other copies demand, and no other
    /// content of that version has as many copies.
    Copy(Member),
    /// This one, by its position only: repaired only on request.
    Presumed(Member),
    /// The object should not exist.
    Absence,
    /// No copy is intact.
    Unknown,
}

impl Authority {
    /// The same, but only presumed.
    pub(super) fn presumed(self) -> Authority {
        match self {
            Authority::Copy(osd) => Authority::Presumed(osd),
            other => other,
        }
    }
}

/// An inconsistent object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The object.
    pub name: HObject,
    /// Bits of [`object`].
    pub errors: u64,
    /// The version for clients, by the authoritative copy; zero without one.
    pub user_version: u64,
    /// All copies that were compared.
    pub shards: BTreeMap<Member, Shard>,
    /// The copy by which the others are repaired.
    pub authority: Authority,
    /// The copies to replace by the authoritative one.
    pub bad: Vec<Member>,
}

impl Finding {
    /// Number of errors: of copies that are wrong by themselves, or else one for the difference.
    pub fn count(&self) -> Count {
        let bits = self.shards.values().map(|shard| (shard.errors, shard.errors & shard::DEEP));
        let mut count = Count::default();
        for (errors, deep) in bits {
            count.deep += u64::from(deep != 0);
            count.shallow += u64::from(deep == 0 && errors != 0);
        }
        if count == Count::default() {
            let is_deep = self.errors & object::DEEP != 0;
            count = Count { deep: u64::from(is_deep), shallow: u64::from(!is_deep) };
        }
        count
    }

    /// Whether it may be repaired without a request.
    pub fn is_certain(&self) -> bool {
        matches!(self.authority, Authority::Copy(_) | Authority::Absence)
    }

    /// The errors of all copies.
    pub fn union(&self) -> u64 {
        self.shards.values().fold(0, |union, shard| union | shard.errors)
    }
}

/// Numbers of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Errors that light scrubs find.
    pub shallow: u64,
    /// Errors that only deep scrubs find.
    pub deep: u64,
}

impl Count {
    /// Errors of both kinds.
    pub fn total(&self) -> u64 {
        self.shallow + self.deep
    }
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, more: Count) {
        self.shallow += more.shallow;
        self.deep += more.deep;
    }
}

/// `inconsistent_obj_t`
impl Encode for Finding {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.u64(self.errors);
            encode_name(w, &self.name);
            w.u64(self.user_version);
            w.count(self.shards.len());
            for (member, shard) in &self.shards {
                w.versioned(1, 1, |w| {
                    w.value(&member.osd);
                    w.value(&member.shard);
                });
                w.value(shard);
            }
            w.u64(self.union());
        });
    }
}

/// `shard_info_t`. Attributes are left out: they are our own, and mean nothing to a client.
impl Encode for Shard {
    fn encode(&self, w: &mut Writer) {
        w.versioned(3, 3, |w| {
            w.u64(self.errors);
            w.bool(self.is_primary);
            let Some(object) = &self.object else { return };
            w.count(0);
            w.u64(object.size);
            w.bool(object.omap_digest.is_some());
            w.u32(object.omap_digest.unwrap_or_default());
            w.bool(object.data_digest.is_some());
            w.u32(object.data_digest.unwrap_or_default());
            w.bool(false);
        });
    }
}

/// `librados::object_id_t`
pub(super) fn encode_name(w: &mut Writer, name: &HObject) {
    w.versioned(1, 1, |w| {
        w.blob(&name.name);
        w.blob(&name.namespace);
        w.blob(&name.key);
        w.u64(name.snap.0);
    });
}

/// Errors of a copy that do not depend on other copies.
pub(crate) fn own_errors(object: Option<&ScrubObject>) -> u64 {
    let Some(object) = object else { return 0 };
    let mut errors = 0;
    if object.stat_error {
        return shard::STAT_ERROR;
    }
    if object.read_error {
        errors |= shard::READ_ERROR;
    }
    errors
        | match object.info {
            KnownInfo::Missing => shard::INFO_MISSING,
            KnownInfo::Corrupted => shard::INFO_CORRUPTED,
            KnownInfo::Known { size, .. } if size != object.size => shard::OWN_SIZE_MISMATCH,
            KnownInfo::Known { .. } => 0,
        }
}
