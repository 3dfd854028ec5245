//! One object in memory, and its record in the database (the *onode*).

use crate::data::{Data, SUMS_PER_CHUNK};
use crate::lock::lock;
use crate::media::Location;
use crate::omap::Overlay;
use crate::slots::Slot;
use bytes::Bytes;
use codec::{Reader, Result, Writer, encode_to_bytes};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard};
use store::Collection;
use types::HObject;

/// The version of the onode's encoding.
const ONODE_VERSION: u8 = 1;
/// Memory in bytes of an object's fixed parts: structure, name and cache entries.
const OBJECT_WEIGHT: usize = 900;

/// A name and the state of its object. There is at most one `Object` per name in memory; readers and writers
/// of its state or data hold the lock on its body.
#[derive(Debug)]
pub struct Object {
    /// The collection that the object belongs to.
    pub collection: Collection,
    /// The object's name.
    pub name: HObject,
    /// Its state.
    pub body: Mutex<Body>,
    /// Used since the last round of eviction.
    pub referenced: AtomicBool,
}

/// State of an object.
#[derive(Debug)]
pub struct Body {
    /// Absence is cached too.
    pub exists: bool,
    /// Id of this incarnation in the database and, if its data is in a file, of the file. Never reused.
    pub id: u64,
    /// Size, place and checksums of its data.
    pub data: Data,
    /// Its attributes.
    pub attrs: Attrs,
    /// Its omap, as far as the database does not have it.
    pub omap: Omap,
}

/// Attributes in their stored form, in memory of their own. (The maps in requests refer to the messages they
/// came in, and would keep those.)
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Attrs(Bytes);

/// The omap of an object: changes over its keys in the database.
#[derive(Debug, Default)]
pub struct Omap {
    /// The header, always in memory.
    pub header: Bytes,
    /// Whether the object ever had a key: if not, no lookup is necessary.
    pub used: bool,
    /// Changes since the last freeze.
    pub current: Overlay,
    /// Changes that the running checkpoint writes.
    pub frozen: Option<Arc<Overlay>>,
}

/// The stored part of an object, except omap and the checksums behind the first chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Onode {
    /// As in [`Body`].
    pub id: u64,
    /// Size in bytes.
    pub size: u64,
    /// Place of the data.
    pub location: Location,
    /// All attributes.
    pub attrs: Attrs,
    /// Header of the omap.
    pub omap_header: Bytes,
    /// As in [`Omap`].
    pub omap_used: bool,
    /// Number of all checksums; the first chunk of them follows.
    pub sums_len: u32,
    /// The first chunk of checksums.
    pub first_sums: Vec<u32>,
}

impl Object {
    /// An object that was not used yet.
    pub fn new(collection: Collection, name: &HObject, body: Body) -> Arc<Object> {
        // A copy, since the name in the request refers to a message that must not live as long.
        let own = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
        let (namespace, key, own_name) = (own(&name.namespace), own(&name.key), own(&name.name));
        let name = HObject { namespace, key, name: own_name, ..*name };
        let (body, referenced) = (Mutex::new(body), AtomicBool::new(false));
        Arc::new(Object { collection, name, body, referenced })
    }

    /// Locks the state. Locks are taken in the order body, cache, snapshot.
    pub fn lock(&self) -> MutexGuard<'_, Body> {
        lock(&self.body)
    }
}

impl Body {
    /// State of a name without an object.
    pub fn absent() -> Self {
        Body {
            exists: false,
            id: 0,
            data: Data::empty(),
            attrs: Attrs::default(),
            omap: Omap::default(),
        }
    }

    /// A new, empty object.
    pub fn new(id: u64) -> Self {
        let omap = Omap { current: Overlay::cleared(), ..Omap::default() };
        Body { exists: true, id, omap, ..Body::absent() }
    }

    /// State of an object of the database, with all its checksums.
    pub fn stored(onode: Onode, sums: Vec<u32>) -> Self {
        let omap = Omap { header: onode.omap_header, used: onode.omap_used, ..Omap::default() };
        let data = Data::new(onode.size, onode.location, sums);
        Body { exists: true, id: onode.id, data, attrs: onode.attrs, omap }
    }

    /// The record for the database.
    pub fn onode(&self) -> Onode {
        Onode {
            id: self.id,
            size: self.data.size,
            location: self.data.location,
            attrs: self.attrs.clone(),
            omap_header: self.omap.header.clone(),
            omap_used: self.omap.used,
            sums_len: self.data.sums().len() as u32,
            first_sums: self.data.chunk(0).to_vec(),
        }
    }

    /// Approximate memory in bytes.
    pub fn weight(&self) -> usize {
        let sums = size_of_val(self.data.sums());
        OBJECT_WEIGHT + self.attrs.0.len() + sums + self.omap.header.len()
    }
}

impl Attrs {
    /// Encodes attributes.
    pub fn from_map(map: &BTreeMap<Bytes, Bytes>) -> Attrs {
        if map.is_empty() { Attrs::default() } else { Attrs(encode_to_bytes(map)) }
    }

    /// Names and values refer to the memory of the attributes.
    pub fn to_map(&self) -> BTreeMap<Bytes, Bytes> {
        // They were validated when they were made.
        self.decode().unwrap_or_default()
    }

    fn decode(&self) -> Result<BTreeMap<Bytes, Bytes>> {
        if self.0.is_empty() {
            return Ok(BTreeMap::new());
        }
        let mut r = Reader::new(&self.0);
        let part = |r: &mut Reader<'_>| r.blob("attribute").map(|raw| self.0.slice_ref(raw));
        let pairs = r.list("attributes", |r| Ok((part(r)?, part(r)?)))?;
        r.finish("attributes")?;
        Ok(pairs.into_iter().collect())
    }
}

impl Omap {
    /// From top to bottom; the database is below them.
    pub fn layers(&self) -> Vec<&Overlay> {
        std::iter::once(&self.current).chain(self.frozen.as_deref()).collect()
    }
}

impl Onode {
    /// The encoding for the database.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = Writer::new();
        w.u8(ONODE_VERSION);
        w.u64(self.id);
        w.u64(self.size);
        match self.location {
            Location::Nowhere => w.u8(0),
            Location::Slot(slot) => {
                w.u8(1);
                w.u8(slot.class);
                w.u64(slot.index);
            }
            Location::File(_) => w.u8(2),
        }
        w.blob(&self.attrs.0);
        w.blob(&self.omap_header);
        w.bool(self.omap_used);
        w.u32(self.sums_len);
        write_sums(&mut w, &self.first_sums);
        w.into_vec()
    }

    /// Decodes a record of the database.
    pub fn from_bytes(bytes: &[u8]) -> Result<Onode> {
        let mut r = Reader::new(bytes);
        let at = r;
        match r.u8("onode version")? {
            ONODE_VERSION => {}
            other => return Err(at.invalid("onode version", other.into())),
        }
        let id = r.u64("id")?;
        let size = r.u64("size")?;
        let at = r;
        let location = match r.u8("location")? {
            0 => Location::Nowhere,
            1 => Location::Slot(Slot { class: r.u8("class")?, index: r.u64("slot")? }),
            2 => Location::File(id),
            other => return Err(at.invalid("location", other.into())),
        };
        let attrs = Attrs(r.value()?);
        attrs.decode()?;
        let omap_header = r.value()?;
        let omap_used = r.bool("omap used")?;
        let sums_len = r.u32("checksums")?;
        let first_sums = read_sums(&mut r, (sums_len as usize).min(SUMS_PER_CHUNK))?;
        r.finish("onode")?;
        Ok(Onode { id, size, location, attrs, omap_header, omap_used, sums_len, first_sums })
    }
}

/// Writes checksums without their count.
pub fn write_sums(w: &mut Writer, sums: &[u32]) {
    sums.iter().for_each(|sum| w.u32(*sum));
}

/// Reads `count` checksums.
pub fn read_sums(r: &mut Reader<'_>, count: usize) -> Result<Vec<u32>> {
    let raw = r.take("checksums", count.saturating_mul(4))?;
    Ok(raw.chunks_exact(4).map(|raw| u32::from_le_bytes(raw.try_into().expect("four"))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn onode() -> Onode {
        Onode {
            id: 7,
            size: 5000,
            location: Location::Slot(Slot { class: 1, index: 99 }),
            attrs: Attrs::from_map(&BTreeMap::from([("_".into(), "info".into())])),
            omap_header: Bytes::from("header"),
            omap_used: true,
            sums_len: 2,
            first_sums: vec![1, 2],
        }
    }

    #[test]
    fn onodes_round_trip_and_every_truncation_is_an_error() {
        for location in [Location::Nowhere, Location::File(7), onode().location] {
            let onode = Onode { location, ..onode() };
            let bytes = onode.to_bytes();
            assert_eq!(Onode::from_bytes(&bytes).unwrap(), onode);
            for end in 0..bytes.len() {
                assert!(Onode::from_bytes(&bytes[..end]).is_err());
            }
        }
    }
}
