//! The object that a method works on: what the caller gives to methods, and small rules that classes share.

use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EntityAddr, Errno, ParticipantName, RequestId, SnapId, UTime, Uuid};

/// Reason why a method stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Data that the method read is not in memory; the caller has recorded which.
    Missing,
    /// The error of the call, which the client gets.
    Errno(Errno),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Failure {
        Failure::Errno(errno)
    }
}

/// The result of a method and of each access to its object.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The client that called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caller {
    /// The request that the call is part of.
    pub request: RequestId,
    /// The address of the client, which the class `lock` records.
    pub addr: EntityAddr,
    /// Features of the client, which decide the encoding of some outputs (`CEPH_FEATURE_*`).
    pub features: u64,
}

/// One page of an omap: pairs in key order, and whether more follow.
pub type OmapPage = (BTreeMap<Bytes, Bytes>, bool);

/// The object that a method works on (`cls_method_context_t`).
pub trait ObjectContext {
    /// The client, and its request.
    fn caller(&self) -> &Caller;
    /// Time of the request, the same whenever the method runs again.
    fn now(&self) -> UTime;

    /// ENOENT if the object does not exist.
    fn size(&mut self) -> Result<u64>;
    /// At most `length` bytes from `offset` on, fewer at the end of the object. ENOENT if the object does
    /// not exist.
    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes>;
    /// ENOENT if the object does not exist, ENODATA if the attribute does not.
    fn xattr(&mut self, name: &[u8]) -> Result<Bytes>;
    /// All attributes that clients have set. ENOENT if the object does not exist.
    fn xattrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>>;
    /// The header of the omap; empty if there is none.
    fn omap_header(&mut self) -> Result<Bytes>;
    /// The value of one key; `None` if there is none.
    fn omap_value(&mut self, key: &Bytes) -> Result<Option<Bytes>>;
    /// Pairs behind `after` whose keys begin with `prefix`: at most `entries_max`, maybe fewer although
    /// more follow.
    fn omap_page(&mut self, after: &Bytes, prefix: &Bytes, entries_max: u64) -> Result<OmapPage>;
    /// Watchers of the object.
    fn watchers(&mut self) -> Result<Vec<(ParticipantName, EntityAddr)>>;
    /// The newest snapshot in the context of any write to the object; ENOENT if it does not exist.
    fn snapshot_sequence(&mut self) -> Result<SnapId>;

    /// EEXIST if `exclusive` and the object exists.
    fn create(&mut self, exclusive: bool) -> Result<()>;
    /// Removes the object; ENOENT if it does not exist.
    fn remove(&mut self) -> Result<()>;
    /// Overwrites and extends; a gap reads as zeros. Creates the object.
    fn write(&mut self, offset: u64, data: Bytes) -> Result<()>;
    /// Replaces all data. Creates the object.
    fn write_full(&mut self, data: Bytes) -> Result<()>;
    /// Cuts the data off, or extends it with zeros.
    fn truncate(&mut self, size: u64) -> Result<()>;
    /// Sets one attribute. Creates the object.
    fn set_xattr(&mut self, name: &[u8], value: Bytes) -> Result<()>;
    /// Replaces the header of the omap. Creates the object.
    fn omap_set_header(&mut self, header: Bytes) -> Result<()>;
    /// Sets pairs. Creates the object.
    fn omap_set(&mut self, pairs: BTreeMap<Bytes, Bytes>) -> Result<()>;
    /// Removes keys; those that are not there are ignored. ENOENT if the object does not exist.
    fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<()>;
}

/// ENOENT if the object does not exist.
pub(crate) fn require_existing(object: &mut dyn ObjectContext) -> Result<()> {
    object.size().map(|_| ())
}

pub(crate) fn exists(object: &mut dyn ObjectContext) -> Result<bool> {
    match object.size() {
        Ok(_) => Ok(true),
        Err(Failure::Errno(Errno::NOENT)) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// A unique UUID, made of the request's id and time.
pub(crate) fn unique_id(object: &dyn ObjectContext) -> Uuid {
    let request = object.caller().request;
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&object.now().as_nanos().to_be_bytes());
    bytes[8..12].copy_from_slice(&(request.name.number as u32).to_be_bytes());
    bytes[12..].copy_from_slice(&(request.tid as u32).to_be_bytes());
    Uuid::from_entropy(bytes)
}
