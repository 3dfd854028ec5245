//! Object classes: methods that run beside the data, as pure functions.
//!
//! A client calls `class.method(input)` on an object (`CEPH_OSD_OP_CALL`); the method reads and
//! changes that object through [`ObjectContext`] and the caller makes everything it recorded one
//! atomic part of the operation. Methods know no clock, no store and no placement: what is not in
//! memory is answered by [`Failure::Missing`], the caller loads it and runs the method again, so a
//! method must not care how often it runs.
//!
//! As in Ceph, reads see the object as it was before the operation, not what the method recorded.

mod hello;
mod journal;
mod lock;
mod omap;
mod rbd;
mod refcount;
mod version;

use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use types::{EntityAddr, Errno, ParticipantName, RequestId, SnapId, UTime, Uuid};

/// Reason why a method stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Data that the method read is not in memory; the caller has recorded which.
    Missing,
    Errno(Errno),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Failure {
        Failure::Errno(errno)
    }
}

pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// The client that called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caller {
    pub request: RequestId,
    pub addr: EntityAddr,
    pub features: u64,
}

/// One page of an omap: pairs in key order, and whether more follow.
pub type OmapPage = (BTreeMap<Bytes, Bytes>, bool);

/// The object that a method works on (`cls_method_context_t`).
pub trait ObjectContext {
    fn caller(&self) -> &Caller;
    fn now(&self) -> UTime;

    /// ENOENT if the object does not exist.
    fn size(&mut self) -> Result<u64>;
    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes>;
    /// ENOENT if the object does not exist, ENODATA if the attribute does not.
    fn xattr(&mut self, name: &[u8]) -> Result<Bytes>;
    fn xattrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>>;
    fn omap_header(&mut self) -> Result<Bytes>;
    fn omap_value(&mut self, key: &Bytes) -> Result<Option<Bytes>>;
    fn omap_page(&mut self, after: &Bytes, prefix: &Bytes, entries_max: u64) -> Result<OmapPage>;
    /// Watchers of the object.
    fn watchers(&mut self) -> Result<Vec<(ParticipantName, EntityAddr)>>;
    /// The newest snapshot in the context of any write to the object; ENOENT if it does not exist.
    fn snapshot_sequence(&mut self) -> Result<SnapId>;

    /// EEXIST if `exclusive` and the object exists.
    fn create(&mut self, exclusive: bool) -> Result<()>;
    fn remove(&mut self) -> Result<()>;
    fn write(&mut self, offset: u64, data: Bytes) -> Result<()>;
    fn write_full(&mut self, data: Bytes) -> Result<()>;
    fn truncate(&mut self, size: u64) -> Result<()>;
    fn set_xattr(&mut self, name: &[u8], value: Bytes) -> Result<()>;
    fn omap_set_header(&mut self, header: Bytes) -> Result<()>;
    fn omap_set(&mut self, pairs: BTreeMap<Bytes, Bytes>) -> Result<()>;
    fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<()>;
}

/// Flags of a method, against which caps and operation ordering are checked (`CLS_METHOD_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    pub read: bool,
    pub write: bool,
}

impl Flags {
    pub const READ: Flags = Flags { read: true, write: false };
    pub const WRITE: Flags = Flags { read: false, write: true };
    pub const READ_WRITE: Flags = Flags { read: true, write: true };
}

/// Appends its reply to the output, which reaches the caller even with an error, and returns a
/// result of zero or more.
pub type Function = fn(&mut dyn ObjectContext, &Bytes, &mut Vec<u8>) -> Result<i32>;

#[derive(Debug, Clone, Copy)]
pub struct Method {
    pub name: &'static str,
    pub flags: Flags,
    pub function: Function,
}

/// A set of methods under one name.
#[derive(Debug, Clone, Copy)]
pub struct Class {
    pub name: &'static str,
    /// Whether caps that do not name the class allow it by default (`osd_class_default_list`).
    pub default_allowed: bool,
    /// One table for each family of methods.
    pub methods: &'static [&'static [Method]],
}

impl Class {
    pub fn method(&self, name: &[u8]) -> Option<&'static Method> {
        METHODS.get(&(self.name.as_bytes(), name)).copied()
    }
}

/// Methods by the names of class and method.
type Index = BTreeMap<(&'static [u8], &'static [u8]), &'static Method>;

static METHODS: LazyLock<Index> = LazyLock::new(|| {
    let of = |class: &'static Class| {
        let methods = class.methods.iter().copied().flatten();
        methods.map(|method| ((class.name.as_bytes(), method.name.as_bytes()), method))
    };
    CLASSES.iter().flat_map(of).collect()
});

/// A table of methods, each with its name, its flags, and a typed function.
macro_rules! methods {
    ($($name:literal: $flags:ident => $function:path,)*) => {
        &[$($crate::Method {
            name: $name,
            flags: $crate::Flags::$flags,
            function: |object, input, output| $crate::typed(object, input, output, $function),
        }),*]
    };
}
pub(crate) use methods;

static CLASSES: &[Class] =
    &[rbd::CLASS, lock::CLASS, journal::CLASS, hello::CLASS, refcount::CLASS, version::CLASS];

pub fn class(name: &[u8]) -> Option<&'static Class> {
    CLASSES.iter().find(|class| class.name.as_bytes() == name)
}

/// Calls a function with decoded input, and encodes its output.
fn typed<I: codec::Decode, O: codec::Encode>(
    object: &mut dyn ObjectContext,
    input: &[u8],
    output: &mut Vec<u8>,
    function: impl FnOnce(&mut dyn ObjectContext, I) -> Result<O>,
) -> Result<i32> {
    let value = function(object, decode_input(input)?)?;
    encode_output(&value, output);
    Ok(0)
}

/// Input that older clients do not send.
struct IfPresent<T>(Option<T>);

impl<T: codec::Decode> codec::Decode for IfPresent<T> {
    fn decode(r: &mut codec::Reader<'_>) -> codec::Result<Self> {
        if r.is_empty() {
            Ok(IfPresent(None))
        } else {
            r.value().map(|value| IfPresent(Some(value)))
        }
    }
}

/// The rest of the bytes, without a length.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Raw(Bytes);

impl codec::Decode for Raw {
    fn decode(r: &mut codec::Reader<'_>) -> codec::Result<Self> {
        Ok(Raw(Bytes::copy_from_slice(r.rest())))
    }
}

impl codec::Encode for Raw {
    fn encode(&self, w: &mut codec::Writer) {
        w.raw(&self.0);
    }
}

/// ENOENT if the object does not exist.
fn require_existing(object: &mut dyn ObjectContext) -> Result<()> {
    object.size().map(|_| ())
}

fn exists(object: &mut dyn ObjectContext) -> Result<bool> {
    match object.size() {
        Ok(_) => Ok(true),
        Err(Failure::Errno(Errno::NOENT)) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// A unique UUID, made of the request's id and time.
fn unique_id(object: &dyn ObjectContext) -> Uuid {
    let request = object.caller().request;
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&object.now().as_nanos().to_be_bytes());
    bytes[8..12].copy_from_slice(&(request.name.number as u32).to_be_bytes());
    bytes[12..].copy_from_slice(&(request.tid as u32).to_be_bytes());
    Uuid::from_entropy(bytes)
}

/// Decodes a method's input; fails with EINVAL, as every class does.
fn decode_input<T: codec::Decode>(input: &[u8]) -> Result<T> {
    T::decode(&mut codec::Reader::new(input)).map_err(|_| Failure::Errno(Errno::INVAL))
}

/// Decodes stored state; fails with EIO.
fn decode_stored<T: codec::Decode>(stored: &[u8]) -> Result<T> {
    T::decode(&mut codec::Reader::new(stored)).map_err(|_| Failure::Errno(Errno::IO))
}

fn encode_output<T: codec::Encode + ?Sized>(value: &T, output: &mut Vec<u8>) {
    let mut w = codec::Writer::append_to(std::mem::take(output));
    value.encode(&mut w);
    *output = w.into_vec();
}

#[cfg(test)]
mod noise;
#[cfg(test)]
mod test_object;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_a_name_of_its_own_and_is_found_by_it() {
        for class in CLASSES {
            for method in class.methods.iter().copied().flatten() {
                let found = class.method(method.name.as_bytes()).unwrap();
                assert!(std::ptr::eq(found, method), "{}.{}", class.name, method.name);
            }
            assert!(class.method(b"").is_none());
        }
    }
}
