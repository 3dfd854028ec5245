//! An object in memory, for the classes' tests.

use crate::{Caller, ObjectContext, OmapPage, Result};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EntityType, Errno, ParticipantName, UTime};

#[derive(Debug, Default)]
pub(crate) struct TestObject {
    pub caller: Caller,
    pub now: UTime,
    pub exists: bool,
    pub data: Vec<u8>,
    pub xattrs: BTreeMap<Bytes, Bytes>,
}

impl TestObject {
    pub fn existing() -> Self {
        let mut object = TestObject { exists: true, ..TestObject::default() };
        object.now = UTime { seconds: 1000, nanoseconds: 0 };
        object.call_as(1);
        object
    }

    pub fn call_as(&mut self, client: i64) {
        self.caller.request.name = ParticipantName::new(EntityType::CLIENT, client);
        self.caller.features = u64::MAX;
    }

    /// Calls a method; the error as an errno.
    pub fn call(
        &mut self,
        class: &str,
        method: &str,
        input: &[u8],
    ) -> std::result::Result<Vec<u8>, Errno> {
        let method = crate::class(class.as_bytes()).unwrap().method(method.as_bytes()).unwrap();
        let mut output = Vec::new();
        match (method.function)(self, input, &mut output) {
            Ok(_) => Ok(output),
            Err(crate::Failure::Errno(errno)) => Err(errno),
            Err(crate::Failure::Missing) => panic!("everything is in memory"),
        }
    }

    fn require(&self) -> Result<()> {
        if self.exists { Ok(()) } else { Err(Errno::NOENT.into()) }
    }
}

impl ObjectContext for TestObject {
    fn caller(&self) -> &Caller {
        &self.caller
    }

    fn now(&self) -> UTime {
        self.now
    }

    fn size(&mut self) -> Result<u64> {
        self.require()?;
        Ok(self.data.len() as u64)
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        self.require()?;
        let start = self.data.len().min(offset as usize);
        let end = self.data.len().min((offset + length) as usize);
        Ok(Bytes::copy_from_slice(&self.data[start..end]))
    }

    fn xattr(&mut self, name: &[u8]) -> Result<Bytes> {
        self.require()?;
        self.xattrs.get(name).cloned().ok_or(Errno::NODATA.into())
    }

    fn xattrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>> {
        self.require()?;
        Ok(self.xattrs.clone())
    }

    fn omap_header(&mut self) -> Result<Bytes> {
        Ok(Bytes::new())
    }

    fn omap_value(&mut self, _: &Bytes) -> Result<Option<Bytes>> {
        Ok(None)
    }

    fn omap_page(&mut self, _: &Bytes, _: &Bytes, _: u64) -> Result<OmapPage> {
        Ok((BTreeMap::new(), false))
    }

    fn create(&mut self, exclusive: bool) -> Result<()> {
        if exclusive && self.exists {
            return Err(Errno::EXIST.into());
        }
        self.exists = true;
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        self.require()?;
        self.exists = false;
        self.data.clear();
        self.xattrs.clear();
        Ok(())
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<()> {
        let end = offset as usize + data.len();
        self.data.resize(self.data.len().max(end), 0);
        self.data[offset as usize..end].copy_from_slice(&data);
        self.create(false)
    }

    fn write_full(&mut self, data: Bytes) -> Result<()> {
        self.data = data.to_vec();
        self.create(false)
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.data.resize(size as usize, 0);
        Ok(())
    }

    fn set_xattr(&mut self, name: &[u8], value: Bytes) -> Result<()> {
        self.xattrs.insert(Bytes::copy_from_slice(name), value);
        self.create(false)
    }

    fn omap_set_header(&mut self, _: Bytes) -> Result<()> {
        Ok(())
    }

    fn omap_set(&mut self, _: BTreeMap<Bytes, Bytes>) -> Result<()> {
        Ok(())
    }

    fn omap_remove(&mut self, _: Vec<Bytes>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn hello_greets_records_and_amplifies() {
    let mut object = TestObject::existing();
    assert_eq!(object.call("hello", "say_hello", b"").unwrap(), b"Hello, world!");
    assert_eq!(object.call("hello", "say_hello", &[b'x'; 101]), Err(Errno::INVAL));
    assert_eq!(object.call("hello", "record_hello", b""), Err(Errno::EXIST));
    object.exists = false;
    object.call("hello", "record_hello", b"test").unwrap();
    object.call("hello", "turn_it_to_11", b"").unwrap();
    assert_eq!(object.data, b"HELLO, TEST!");
}

#[test]
fn references_keep_an_object_until_the_last_is_put() {
    let tag = |tag: &str, implicit| {
        let mut w = codec::Writer::new();
        w.versioned(1, 1, |w| {
            w.string(tag);
            w.bool(implicit);
        });
        w.into_vec()
    };
    let mut object = TestObject::existing();
    object.call("refcount", "get", &tag("a", true)).unwrap();
    object.call("refcount", "put", &tag("b", true)).unwrap();
    assert!(object.exists, "the wildcard reference went, a is left");
    object.call("refcount", "put", &tag("a", false)).unwrap();
    assert!(!object.exists);
}

#[test]
fn versions_count_and_conditions_are_enforced() {
    let op = |condition: Option<(u64, u32)>| {
        let mut w = codec::Writer::new();
        w.versioned(1, 1, |w| {
            w.versioned(1, 1, |w| (w.u64(0), w.string("")).1);
            w.count(condition.iter().len());
            if let Some((number, comparison)) = condition {
                w.versioned(1, 1, |w| {
                    w.versioned(1, 1, |w| (w.u64(number), w.string("")).1);
                    w.u32(comparison);
                });
            }
        });
        w.into_vec()
    };
    let mut object = TestObject::existing();
    object.call("version", "inc", &op(None)).unwrap();
    assert_eq!(object.call("version", "check_conds", &op(Some((3, 3)))), Err(Errno::CANCELED));
    object.call("version", "inc_conds", &op(Some((2, 3)))).unwrap();
    object.call("version", "check_conds", &op(Some((3, 3)))).unwrap();
}
