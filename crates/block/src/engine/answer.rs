//! Answers from metadata and from memory, as far as the pages of the tree are there.

use super::contents::Contents;
use super::data::blocks_of;
use super::effects::Interrupt;
use super::failure::PairFault;
use super::meta::Meta;
use super::read::{Plan, ReadJob};
use crate::device::{BLOCK, Extent};
use crate::keys;
use crate::object::{ExtentSegment, HeldFields, Onode, SEGMENT_BLOCKS};
use crate::slices::Slices;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound;
use store::{
    Collection, HeldChange, ObjectMeta, OmapPage, Outcome, ReadData, RequestKind, StoreError,
};
use types::HObject;

/// A view of metadata and of data in memory. An interrupted call is repeated as a whole.
pub(crate) struct Reader<'a> {
    /// Metadata: tables in memory and the tree.
    pub meta: &'a mut Meta,
    /// Data in memory: deferred and large writes, and the block cache.
    pub contents: &'a mut Contents,
}

impl Reader<'_> {
    fn slices(&mut self, at: Collection) -> Result<Slices, Interrupt> {
        let slices = self.meta.collection(at)?;
        slices.ok_or(Interrupt::Refused(StoreError::NoCollection(at)))
    }

    fn find(&mut self, at: Collection, object: &HObject) -> Result<Option<Onode>, Interrupt> {
        let id = self.slices(at)?.id_of(object);
        let Some(value) = self.meta.get(&keys::object_point(id, object))? else { return Ok(None) };
        Onode::decode(&value).map(Some).map_err(Interrupt::decoding("onode"))
    }

    fn existing(&mut self, at: Collection, object: &HObject) -> Result<Onode, Interrupt> {
        let absent = || StoreError::NoObject { collection: at, object: object.clone() };
        self.find(at, object)?.ok_or_else(|| absent().into())
    }

    /// Answers a request other than commits, reads of data and usage.
    pub fn answer(&mut self, kind: &RequestKind) -> Result<Outcome, Interrupt> {
        match kind {
            RequestKind::Commit(_) | RequestKind::Append(_) | RequestKind::Resume(_) => {
                unreachable!("commits are queued")
            }
            RequestKind::Read { .. } | RequestKind::ReadHeld { .. } => {
                unreachable!("reads are planned")
            }
            RequestKind::Usage => unreachable!("the volume knows its usage"),
            RequestKind::Meta { collection, object } => {
                Ok(Outcome::Meta(self.object_meta(*collection, object)?))
            }
            RequestKind::OmapHeader { collection, object } => {
                let onode = self.existing(*collection, object)?;
                let header = match onode.has_omap {
                    true => self.meta.get(&keys::omap_header(onode.id).into())?,
                    false => None,
                };
                Ok(Outcome::OmapHeader(header.unwrap_or_default()))
            }
            RequestKind::OmapGet { collection, object, keys } => {
                self.omap_get(*collection, object, keys).map(Outcome::OmapPairs)
            }
            RequestKind::OmapList { collection, object, after, prefix, entries_max, bytes_max } => {
                let onode = self.existing(*collection, object)?;
                let page =
                    self.omap_page(onode.id, after.as_ref(), prefix, *entries_max, *bytes_max)?;
                Ok(Outcome::OmapPage(page))
            }
            RequestKind::List { collection, from, entries_max } => {
                self.list(*collection, from, *entries_max)
            }
            RequestKind::Held { collection, after, entries_max } => {
                self.held(*collection, *after, *entries_max)
            }
            RequestKind::Collections => self.collections().map(Outcome::Collections),
        }
    }

    fn object_meta(
        &mut self,
        at: Collection,
        object: &HObject,
    ) -> Result<Option<ObjectMeta>, Interrupt> {
        let Some(onode) = self.find(at, object)? else { return Ok(None) };
        let has_omap = onode.has_omap
            && (self.meta.get(&keys::omap_header(onode.id).into())?.is_some()
                || self.meta.has_any(&keys::omap_range(onode.id))?);
        Ok(Some(ObjectMeta { size: onode.size, attrs: onode.attrs, has_omap }))
    }

    fn omap_get(
        &mut self,
        at: Collection,
        object: &HObject,
        wanted: &[Bytes],
    ) -> Result<BTreeMap<Bytes, Bytes>, Interrupt> {
        let onode = self.existing(at, object)?;
        let mut pairs = BTreeMap::new();
        for key in wanted {
            if let Some(value) = self.meta.get(&keys::omap_point(onode.id, key))? {
                pairs.insert(key.clone(), value);
            }
        }
        Ok(pairs)
    }

    fn omap_page(
        &mut self,
        id: u64,
        after: Option<&Bytes>,
        prefix: &Bytes,
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<OmapPage, Interrupt> {
        let first = keys::omap(id, after.filter(|after| *after >= prefix).unwrap_or(prefix));
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(&first[..]),
            _ => Bound::Included(&first[..]),
        };
        let end = keys::omap_prefix_end(id, prefix);
        if entries_max == 0 {
            let more = !self.meta.search(from, &end, 1, usize::MAX)?.pairs.is_empty();
            return Ok(OmapPage { pairs: BTreeMap::new(), more });
        }
        // The caller's limit counts its own keys, without the prefix.
        let longer = keys::OMAP_PREFIX_LEN.saturating_mul(entries_max.min(bytes_max));
        let page = self.meta.search(from, &end, entries_max, bytes_max.saturating_add(longer))?;
        let within = |key: Bytes| key.slice(keys::OMAP_PREFIX_LEN..);
        let mut pairs = BTreeMap::new();
        let (mut bytes, mut more) = (0, page.more);
        for (key, value) in page.pairs {
            let key = within(key);
            bytes += key.len() + value.len();
            if bytes > bytes_max && !pairs.is_empty() {
                more = true;
                break;
            }
            pairs.insert(key, value);
        }
        Ok(OmapPage { pairs, more })
    }

    fn list(
        &mut self,
        at: Collection,
        from: &HObject,
        entries_max: usize,
    ) -> Result<Outcome, Interrupt> {
        let slices = self.slices(at)?;
        let mut names = self.meta.objects(&slices, from, entries_max.saturating_add(1))?;
        let next = (names.len() > entries_max).then(|| names.pop()).flatten();
        Ok(Outcome::List(names, next))
    }

    fn held(
        &mut self,
        at: Collection,
        after: Option<HeldChange>,
        entries_max: usize,
    ) -> Result<Outcome, Interrupt> {
        let slices = self.slices(at)?;
        let all = self.meta.held_of(&slices)?;
        let names = all.iter().map(|held| held.name);
        let mut names = names.filter(|name| after.is_none_or(|after| *name > after));
        let page = names.by_ref().take(entries_max).collect();
        Ok(Outcome::Held(page, names.next().is_some()))
    }

    /// The list of a held change, and from which places its data comes. `None` if there is no such one.
    pub fn plan_held(
        &mut self,
        at: Collection,
        name: HeldChange,
    ) -> Result<Option<(HeldFields, Plan)>, Interrupt> {
        let slices = self.slices(at)?;
        let slice = slices.slice_of(name.reversed_hash()).id;
        let Some(id) = self.meta.held(slice)?.get(&name).map(|held| held.id) else {
            return Ok(None);
        };
        let value = self.meta.get(&keys::held(slice, name, id))?;
        let damaged = || Interrupt::damaged(PairFault::Held { id });
        let value = value.ok_or_else(damaged)?;
        let onode = Onode::decode(&value).map_err(Interrupt::decoding("held change"))?;
        let fields = onode.attrs.get(&Bytes::new()).ok_or_else(damaged)?;
        let fields = HeldFields::decode(fields).map_err(Interrupt::decoding("held changes"))?;
        if fields.blocks() * BLOCK as u64 != onode.size {
            return Err(damaged());
        }
        let plan = self.plan_data(&onode, 0, onode.size)?;
        Ok(Some((fields, plan)))
    }

    fn collections(&mut self) -> Result<Vec<Collection>, Interrupt> {
        let range = keys::collections_range();
        let from = Bound::Included(&range.start[..]);
        let page = self.meta.search(from, &range.end, usize::MAX, usize::MAX)?;
        let read = |key: &[u8]| keys::read_collection(key);
        let found = page.pairs.iter().map(|(key, _)| read(key));
        found.collect::<Result<_, _>>().map_err(Interrupt::decoding("collection key"))
    }

    /// Plans from which places the data of a read comes.
    pub fn plan_read(
        &mut self,
        at: Collection,
        object: &HObject,
        offset: u64,
        length: u64,
    ) -> Result<Plan, Interrupt> {
        let onode = self.existing(at, object)?;
        self.plan_data(&onode, offset, length)
    }

    fn plan_data(&mut self, onode: &Onode, offset: u64, length: u64) -> Result<Plan, Interrupt> {
        let end = offset.saturating_add(length).min(onode.size);
        if offset >= end {
            return Ok(Plan::Done(ReadData::default()));
        }
        let blocks = blocks_of(offset, end - offset);
        let segments = self.segments_of(onode, blocks)?;
        Ok(ReadJob::plan(&segments, offset, end - offset, |mapped| {
            self.contents.get(mapped.physical, mapped.crc)
        }))
    }

    /// Extent segments that map these blocks of an object.
    fn segments_of(
        &mut self,
        onode: &Onode,
        blocks: Extent,
    ) -> Result<BTreeMap<u32, ExtentSegment>, Interrupt> {
        let mut segments = BTreeMap::new();
        if let Some(segment) = &onode.inline {
            segments.insert(0, ExtentSegment::clone(segment));
            return Ok(segments);
        }
        let numbers = blocks.start / SEGMENT_BLOCKS..=(blocks.end() - 1) / SEGMENT_BLOCKS;
        for number in numbers.map(|number| number as u32) {
            let Some(value) = self.meta.get(&keys::segment_point(onode.id, number))? else {
                continue;
            };
            let segment =
                ExtentSegment::decode(&value).map_err(Interrupt::decoding("extent segment"))?;
            segments.insert(number, segment);
        }
        Ok(segments)
    }
}
