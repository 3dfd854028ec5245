//! Images of the first format: the header is the object's data, `rbd_obj_header_ondisk`, with the
//! snapshots at its end, the newest first.

use super::stored;
use crate::method::{Method, methods};
use crate::object::{ObjectContext, Result};
use bytes::Bytes;
use codec::{Reader, Writer};
use types::{Errno, SnapId};

pub(super) const METHODS: &[Method] = methods! {
    "snap_list": READ => list,
    "snap_add": READ_WRITE => add,
    "snap_remove": READ_WRITE => remove,
    "snap_rename": READ_WRITE => rename,
};

/// Bytes before the size of the image: text, block name, signature, version, options.
const PREAMBLE_LEN: usize = 80;
const HEADER_LEN: usize = 112;

struct OldSnapshot {
    id: SnapId,
    image_size: u64,
    name: Bytes,
}

struct OldHeader {
    preamble: [u8; PREAMBLE_LEN],
    image_size: u64,
    sequence: SnapId,
    reserved: u32,
    snapshots: Vec<OldSnapshot>,
}

impl OldHeader {
    /// EINVAL if the object is too short to be a header.
    fn load(object: &mut dyn ObjectContext) -> Result<OldHeader> {
        let size = object.size()?;
        let data = object.read(0, size)?;
        if data.len() < HEADER_LEN {
            return Err(Errno::INVAL.into());
        }
        Self::decode(&data).map_err(|_| Errno::IO.into())
    }

    fn decode(data: &[u8]) -> codec::Result<OldHeader> {
        let mut r = Reader::new(data);
        let preamble = r.array("preamble")?;
        let image_size = r.u64("image size")?;
        let sequence = r.value()?;
        let count = r.u32("snapshots")?;
        let reserved = r.u32("reserved")?;
        let names_len = r.u64("length of names")?;
        let mut snapshots = Vec::new();
        for _ in 0..count {
            let (id, image_size) = r.value()?;
            snapshots.push(OldSnapshot { id, image_size, name: Bytes::new() });
        }
        let names = r.take("names", usize::try_from(names_len).unwrap_or(usize::MAX))?;
        let mut names = names.split_inclusive(|byte| *byte == 0);
        for snapshot in &mut snapshots {
            let name = names.next().and_then(|name| name.strip_suffix(b"\0"));
            snapshot.name = Bytes::copy_from_slice(name.ok_or(r.invalid("names", names_len))?);
        }
        Ok(OldHeader { preamble, image_size, sequence, reserved, snapshots })
    }

    fn save(&self, object: &mut dyn ObjectContext) -> Result<()> {
        let mut w = Writer::new();
        w.raw(&self.preamble);
        w.u64(self.image_size);
        w.value(&self.sequence);
        w.count(self.snapshots.len());
        w.u32(self.reserved);
        let names_len: usize = self.snapshots.iter().map(|snapshot| snapshot.name.len() + 1).sum();
        w.u64(names_len as u64);
        for snapshot in &self.snapshots {
            w.value(&snapshot.id);
            w.u64(snapshot.image_size);
        }
        for snapshot in &self.snapshots {
            w.raw(&snapshot.name);
            w.u8(0);
        }
        object.write_full(w.into_bytes())
    }

    fn position(&self, name: &[u8]) -> Option<usize> {
        self.snapshots.iter().position(|snapshot| snapshot.name == name)
    }
}

pub(super) fn snapshot_count(object: &mut dyn ObjectContext) -> Result<u64> {
    Ok(OldHeader::load(object)?.snapshots.len() as u64)
}

/// Sequence, number of snapshots, then each.
struct Listing(OldHeader);

impl codec::Encode for Listing {
    fn encode(&self, w: &mut Writer) {
        w.value(&self.0.sequence);
        w.list(&self.0.snapshots, |w, snapshot| {
            w.value(&snapshot.id);
            w.u64(snapshot.image_size);
            w.value(&snapshot.name);
        });
    }
}

fn list(object: &mut dyn ObjectContext, (): ()) -> Result<Listing> {
    OldHeader::load(object).map(Listing)
}

/// Names end with the first zero byte.
fn name_of(input: Bytes) -> Bytes {
    let end = input.iter().position(|byte| *byte == 0).unwrap_or(input.len());
    input.slice(..end)
}

fn add(object: &mut dyn ObjectContext, (name, id): (Bytes, SnapId)) -> Result<()> {
    let (mut header, name) = (OldHeader::load(object)?, name_of(name));
    if header.sequence > id {
        return Err(Errno::STALE.into());
    }
    if header.snapshots.len() as u64 >= stored::snapshot_limit(object, ())? {
        return Err(Errno::DQUOT.into());
    }
    if header.position(&name).is_some() {
        return Err(Errno::EXIST.into());
    }
    header.sequence = id;
    let image_size = header.image_size;
    header.snapshots.insert(0, OldSnapshot { id, image_size, name });
    header.save(object)
}

fn remove(object: &mut dyn ObjectContext, name: Bytes) -> Result<()> {
    let mut header = OldHeader::load(object)?;
    let position = header.position(&name_of(name)).ok_or(Errno::NOENT)?;
    header.snapshots.remove(position);
    header.save(object)
}

fn rename(object: &mut dyn ObjectContext, (id, name): (SnapId, Bytes)) -> Result<()> {
    let (mut header, name) = (OldHeader::load(object)?, name_of(name));
    if header.position(&name).is_some() {
        return Err(Errno::EXIST.into());
    }
    let renamed = header.snapshots.iter_mut().find(|snapshot| snapshot.id == id);
    renamed.ok_or(Errno::NOENT)?.name = name;
    header.save(object)
}
