//! An object in memory, for the classes' tests. As in an OSD, reads see it as it was before the
//! call, and a call that fails changes nothing.

use crate::method::Function;
use crate::object::{Caller, ObjectContext, OmapPage, Result};
use bytes::Bytes;
use codec::{Decode, Encode};
use std::collections::BTreeMap;
use types::{EntityAddr, EntityType, Errno, ParticipantName, SnapId, UTime};

/// Bound for an object's data in bytes.
const SIZE_MAX: u64 = 1 << 20;

#[derive(Debug, Default, Clone)]
pub(crate) struct State {
    /// False if there is no object; the other fields are empty then.
    pub exists: bool,
    /// Data of the object.
    pub data: Vec<u8>,
    /// Attributes.
    pub xattrs: BTreeMap<Bytes, Bytes>,
    /// Pairs of the omap.
    pub omap: BTreeMap<Bytes, Bytes>,
}

#[derive(Debug, Default)]
pub(crate) struct TestObject {
    /// The client of the next call.
    pub caller: Caller,
    /// Time of the next call.
    pub now: UTime,
    /// Watchers of the object.
    pub watchers: Vec<(ParticipantName, EntityAddr)>,
    /// Newest snapshot of any write.
    pub snapshot_sequence: SnapId,
    /// State before the next call.
    pub state: State,
    /// The state after the running call.
    next: State,
}

impl TestObject {
    /// No object yet.
    pub fn absent() -> Self {
        let now = UTime { seconds: 1000, nanoseconds: 0 };
        let mut object = TestObject { now, ..TestObject::default() };
        object.call_as(1);
        object
    }

    /// An object without data.
    pub fn existing() -> Self {
        let mut object = TestObject::absent();
        object.state.exists = true;
        object
    }

    /// The next calls come from this client.
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
        self.run(method.function, input)
    }

    /// Calls a function; the error as an errno.
    pub fn run(&mut self, function: Function, input: &[u8]) -> std::result::Result<Vec<u8>, Errno> {
        let mut output = Vec::new();
        self.next = self.state.clone();
        match function(self, &Bytes::copy_from_slice(input), &mut output) {
            Ok(_) => {
                self.state = std::mem::take(&mut self.next);
                Ok(output)
            }
            Err(crate::object::Failure::Errno(errno)) => Err(errno),
            Err(crate::object::Failure::Missing) => panic!("everything is in memory"),
        }
    }

    /// Calls a method of class `rbd` with values; every byte of the output must be understood.
    pub fn rbd<O: Decode>(
        &mut self,
        method: &str,
        input: impl Encode,
    ) -> std::result::Result<O, Errno> {
        let output = self.call("rbd", method, &codec::encode_to_bytes(&input))?;
        Ok(codec::decode_all("output", &output).unwrap())
    }

    fn require(&self) -> Result<()> {
        if self.state.exists { Ok(()) } else { Err(Errno::NOENT.into()) }
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
        if self.next.exists { Ok(self.next.data.len() as u64) } else { Err(Errno::NOENT.into()) }
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        self.require()?;
        let data = &self.state.data;
        let start = data.len().min(offset as usize);
        let end = data.len().min(offset.saturating_add(length) as usize);
        Ok(Bytes::copy_from_slice(&data[start..end]))
    }

    fn xattr(&mut self, name: &[u8]) -> Result<Bytes> {
        self.require()?;
        self.state.xattrs.get(name).cloned().ok_or(Errno::NODATA.into())
    }

    fn xattrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>> {
        self.require()?;
        Ok(self.state.xattrs.clone())
    }

    fn omap_header(&mut self) -> Result<Bytes> {
        Ok(Bytes::new())
    }

    fn omap_value(&mut self, key: &Bytes) -> Result<Option<Bytes>> {
        Ok(self.state.omap.get(key).cloned())
    }

    /// Pages are small, so that tests see several.
    fn omap_page(&mut self, after: &Bytes, prefix: &Bytes, entries_max: u64) -> Result<OmapPage> {
        let pairs = self.state.omap.iter();
        let mut pairs = pairs.filter(|(key, _)| key.starts_with(prefix) && *key > after);
        let page = pairs.by_ref().take(entries_max.min(3) as usize);
        let page = page.map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok((page, pairs.next().is_some()))
    }

    fn watchers(&mut self) -> Result<Vec<(ParticipantName, EntityAddr)>> {
        Ok(self.watchers.clone())
    }

    fn snapshot_sequence(&mut self) -> Result<SnapId> {
        self.size().map(|_| self.snapshot_sequence)
    }

    fn create(&mut self, exclusive: bool) -> Result<()> {
        if exclusive && self.next.exists {
            return Err(Errno::EXIST.into());
        }
        self.next.exists = true;
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        self.require()?;
        self.next = State::default();
        Ok(())
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<()> {
        if offset > SIZE_MAX || data.len() as u64 > SIZE_MAX {
            return Err(Errno::FBIG.into());
        }
        let end = offset as usize + data.len();
        let stored = &mut self.next.data;
        stored.resize(stored.len().max(end), 0);
        stored[offset as usize..end].copy_from_slice(&data);
        self.create(false)
    }

    fn write_full(&mut self, data: Bytes) -> Result<()> {
        self.next.data = data.to_vec();
        self.create(false)
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.next.data.resize(size as usize, 0);
        Ok(())
    }

    fn set_xattr(&mut self, name: &[u8], value: Bytes) -> Result<()> {
        self.next.xattrs.insert(Bytes::copy_from_slice(name), value);
        self.create(false)
    }

    fn omap_set_header(&mut self, _: Bytes) -> Result<()> {
        Ok(())
    }

    fn omap_set(&mut self, pairs: BTreeMap<Bytes, Bytes>) -> Result<()> {
        self.next.omap.extend(pairs);
        self.create(false)
    }

    fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<()> {
        self.size()?;
        keys.iter().for_each(|key| drop(self.next.omap.remove(key)));
        Ok(())
    }
}
