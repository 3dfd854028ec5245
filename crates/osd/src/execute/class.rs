//! Calls of object classes, and the context through which methods access the object.

use super::context::{Context, Stop};
use super::read::clipped;
use super::{omap, read, write, xattr};
use bytes::Bytes;
use classes::{Caller, Failure, ObjectContext, OmapPage, Result as ClassResult};
use std::collections::BTreeMap;
use types::{EntityAddr, Errno, ParticipantName, SnapId, UTime};
use wire::OsdOp;

pub(super) fn call(context: &mut Context<'_>, op: &OsdOp) -> Result<i32, Stop> {
    let (class, method, input) = op.call_input()?;
    let method = classes::class(&class).and_then(|class| class.method(&method));
    let Some(method) = method else { return Err(Errno::NOTSUPP.into()) };
    context.user_modify |= method.flags.write;
    let mut object = ClassObject { context, reads: 0, writes: 0 };
    let mut output = Vec::new();
    let outcome = (method.function)(&mut object, &input, &mut output);
    let (reads, writes) = (object.reads, object.writes);
    if outcome == Err(Failure::Missing) {
        return Err(Stop::Missing);
    }
    // A method that does more than it is registered for is a defect, and its call fails.
    if reads > 0 && !method.flags.read || writes > 0 && !method.flags.write {
        return Err(Errno::IO.into());
    }
    context.count_built(output.len() as u64);
    context.output = output.into();
    outcome.map_err(|failure| match failure {
        Failure::Errno(errno) => errno.into(),
        Failure::Missing => Stop::Missing,
    })
}

struct ClassObject<'c, 'a> {
    context: &'c mut Context<'a>,
    reads: u32,
    writes: u32,
}

fn failure(stop: Stop) -> Failure {
    match stop {
        Stop::Missing => Failure::Missing,
        Stop::Code(code) => Failure::Errno(Errno(-code)),
    }
}

impl ClassObject<'_, '_> {
    fn wrote(&mut self, outcome: Result<i32, Stop>) -> ClassResult<()> {
        self.writes += 1;
        outcome.map(|_| ()).map_err(failure)
    }
}

impl ObjectContext for ClassObject<'_, '_> {
    fn caller(&self) -> &Caller {
        self.context.input.caller
    }

    fn now(&self) -> UTime {
        self.context.input.now
    }

    fn size(&mut self) -> ClassResult<u64> {
        match self.context.exists {
            true => Ok(self.context.info.size),
            false => Err(Errno::NOENT.into()),
        }
    }

    fn read(&mut self, offset: u64, length: u64) -> ClassResult<Bytes> {
        self.reads += 1;
        if !self.context.exists {
            return Err(Errno::NOENT.into());
        }
        match clipped(offset, length, self.context.info.size) {
            0 => Ok(Bytes::new()),
            length => {
                // Methods decode what they read.
                self.context.count(length);
                let read = read::load_data(self.context, offset, length).map_err(failure)?;
                self.context.check_allowance().map_err(failure)?;
                Ok(read.data.clone())
            }
        }
    }

    fn xattr(&mut self, name: &[u8]) -> ClassResult<Bytes> {
        self.reads += 1;
        xattr::stored_xattr(self.context, name).cloned().map_err(failure)
    }

    fn xattrs(&mut self) -> ClassResult<BTreeMap<Bytes, Bytes>> {
        self.reads += 1;
        xattr::stored_xattrs(self.context).cloned().map_err(failure)
    }

    fn omap_header(&mut self) -> ClassResult<Bytes> {
        self.reads += 1;
        omap::stored_omap_header(self.context).map_err(failure)
    }

    fn omap_value(&mut self, key: &Bytes) -> ClassResult<Option<Bytes>> {
        self.reads += 1;
        let pairs = omap::omap_pairs(self.context, vec![key.clone()]).map_err(failure)?;
        Ok(pairs.and_then(|mut pairs| pairs.remove(key)))
    }

    fn omap_page(&mut self, after: &Bytes, prefix: &Bytes, entries: u64) -> ClassResult<OmapPage> {
        self.reads += 1;
        let page = omap::omap_page(self.context, after.clone(), prefix.clone(), entries);
        let page = page.map_err(failure)?;
        Ok(page.map_or_else(OmapPage::default, |page| (page.pairs.clone(), page.more)))
    }

    fn watchers(&mut self) -> ClassResult<Vec<(ParticipantName, EntityAddr)>> {
        self.reads += 1;
        let watchers = self.context.info.watchers.iter();
        Ok(watchers.map(|(key, info)| (key.name, info.addr)).collect())
    }

    fn snapshot_sequence(&mut self) -> ClassResult<SnapId> {
        self.size()?;
        Ok(self.context.input.state.snaps.as_ref().map_or(SnapId(0), |set| set.seq))
    }

    fn create(&mut self, exclusive: bool) -> ClassResult<()> {
        if exclusive && self.context.exists {
            return Err(Errno::EXIST.into());
        }
        self.context.create();
        let outcome = self.context.touch();
        self.wrote(outcome)
    }

    fn remove(&mut self) -> ClassResult<()> {
        let outcome = write::delete(self.context);
        self.wrote(outcome)
    }

    fn write(&mut self, offset: u64, data: Bytes) -> ClassResult<()> {
        self.context.count(data.len() as u64);
        let outcome = write::write_at(self.context, offset, data);
        self.wrote(outcome)
    }

    fn write_full(&mut self, data: Bytes) -> ClassResult<()> {
        self.context.count(data.len() as u64);
        let outcome = write::write_full(self.context, data);
        self.wrote(outcome)
    }

    fn truncate(&mut self, size: u64) -> ClassResult<()> {
        let outcome = write::truncate(self.context, size);
        self.wrote(outcome)
    }

    fn set_xattr(&mut self, name: &[u8], value: Bytes) -> ClassResult<()> {
        let outcome = xattr::set_xattr(self.context, name, value);
        self.wrote(outcome)
    }

    fn omap_set_header(&mut self, header: Bytes) -> ClassResult<()> {
        self.context.input.pool.check_omap()?;
        let outcome = omap::omap_set_header(self.context, header);
        self.wrote(outcome)
    }

    fn omap_set(&mut self, pairs: BTreeMap<Bytes, Bytes>) -> ClassResult<()> {
        self.context.input.pool.check_omap()?;
        let outcome = omap::omap_set(self.context, pairs);
        self.wrote(outcome)
    }

    fn omap_remove(&mut self, keys: Vec<Bytes>) -> ClassResult<()> {
        self.context.input.pool.check_omap()?;
        let outcome = omap::omap_remove(self.context, keys);
        self.wrote(outcome)
    }
}
