//! Inputs of class methods, on an object whose content is hostile too.

#![no_main]

use bytes::Bytes;
use classes::{Caller, ObjectContext, OmapPage, Result};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use types::{EntityAddr, Errno, ParticipantName, SnapId, UTime};

const CLASSES: [&[u8]; 6] = [b"lock", b"refcount", b"version", b"hello", b"rbd", b"journal"];
const OBJECT_SIZE_MAX: u64 = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let [class, method, split, bytes @ ..] = input else { return };
    let class = classes::class(CLASSES[usize::from(*class) % CLASSES.len()]);
    let Some(class) = class.filter(|class| !class.methods.is_empty()) else { return };
    let methods: Vec<_> = class.methods.concat();
    let method = &methods[usize::from(*method) % methods.len()];
    let (stored, input) = bytes.split_at(bytes.len() * usize::from(*split) / 255);
    let mut object = Object { stored: Bytes::copy_from_slice(stored), ..Object::default() };
    let input = Bytes::copy_from_slice(input);
    let _ = (method.function)(&mut object, &input, &mut Vec::new());
    let _ = (method.function)(&mut object, &input, &mut Vec::new());
});

/// Every attribute and value that was not set is `stored`.
#[derive(Default)]
struct Object {
    caller: Caller,
    stored: Bytes,
    size: u64,
    xattrs: BTreeMap<Bytes, Bytes>,
    omap: BTreeMap<Bytes, Bytes>,
}

impl ObjectContext for Object {
    fn caller(&self) -> &Caller {
        &self.caller
    }

    fn now(&self) -> UTime {
        UTime { seconds: 1000, nanoseconds: 0 }
    }

    fn size(&mut self) -> Result<u64> {
        Ok(self.size)
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Bytes> {
        let start = self.stored.len().min(offset as usize);
        let end = self.stored.len().min(offset.saturating_add(length) as usize);
        Ok(self.stored.slice(start..end))
    }

    fn xattr(&mut self, name: &[u8]) -> Result<Bytes> {
        Ok(self.xattrs.get(name).unwrap_or(&self.stored).clone())
    }

    fn xattrs(&mut self) -> Result<BTreeMap<Bytes, Bytes>> {
        Ok(self.xattrs.clone())
    }

    fn omap_header(&mut self) -> Result<Bytes> {
        Ok(self.stored.clone())
    }

    fn omap_value(&mut self, key: &Bytes) -> Result<Option<Bytes>> {
        Ok(Some(self.omap.get(key).unwrap_or(&self.stored).clone()))
    }

    fn omap_page(&mut self, after: &Bytes, prefix: &Bytes, entries_max: u64) -> Result<OmapPage> {
        let wanted = |key: &Bytes| key > after && key.starts_with(prefix);
        let pairs = self.omap.iter().filter(|(key, _)| wanted(key)).take(entries_max as usize);
        Ok((pairs.map(|(key, value)| (key.clone(), value.clone())).collect(), false))
    }

    fn watchers(&mut self) -> Result<Vec<(ParticipantName, EntityAddr)>> {
        Ok(vec![(self.caller.request.name, self.caller.addr)])
    }

    fn snapshot_sequence(&mut self) -> Result<SnapId> {
        Ok(SnapId(5))
    }

    fn create(&mut self, exclusive: bool) -> Result<()> {
        if exclusive { Err(Errno::EXIST.into()) } else { Ok(()) }
    }

    fn remove(&mut self) -> Result<()> {
        self.xattrs.clear();
        Ok(())
    }

    fn write(&mut self, offset: u64, data: Bytes) -> Result<()> {
        if offset.saturating_add(data.len() as u64) > OBJECT_SIZE_MAX {
            return Err(Errno::FBIG.into());
        }
        self.size = self.size.max(offset + data.len() as u64);
        Ok(())
    }

    fn write_full(&mut self, data: Bytes) -> Result<()> {
        self.size = data.len() as u64;
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> Result<()> {
        self.size = size;
        Ok(())
    }

    fn set_xattr(&mut self, name: &[u8], value: Bytes) -> Result<()> {
        self.xattrs.insert(Bytes::copy_from_slice(name), value);
        Ok(())
    }

    fn omap_set_header(&mut self, header: Bytes) -> Result<()> {
        self.stored = header;
        Ok(())
    }

    fn omap_set(&mut self, pairs: BTreeMap<Bytes, Bytes>) -> Result<()> {
        self.omap.extend(pairs);
        Ok(())
    }

    fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<()> {
        self.omap.retain(|key, _| !keys.contains(key));
        Ok(())
    }
}
