//! Operations on the omap.

use super::context::{Context, Stop};
use super::view::{Answer, Need};
use super::view::{ENTRY_COST, pairs_cost};
use crate::limits;
use bytes::Bytes;
use codec::{Reader, Writer};
use std::collections::BTreeMap;
use store::{Change, OmapPage};
use types::Errno;
use wire::OsdOp;
use wire::op::compare;

/// A string of the input, without a copy.
fn piece(r: &mut Reader<'_>, input: &Bytes, field: &'static str) -> Result<Bytes, Stop> {
    Ok(input.slice_ref(r.blob(field)?))
}

impl<'a> Context<'a> {
    /// A page of pairs after a key and with a prefix; `None` if there is no omap.
    pub(super) fn omap_page(
        &mut self,
        after: Bytes,
        prefix: Bytes,
        entries_max: u64,
    ) -> Result<Option<&'a OmapPage>, Stop> {
        if !self.info.has_omap || !self.input.state.exists {
            return Ok(None);
        }
        let entries_max = entries_max.min(limits::OMAP_ENTRIES_PER_REQUEST_MAX) as usize;
        let bytes_max = limits::OMAP_BYTES_PER_REQUEST_MAX;
        match self.load(Need::OmapList { after, prefix, entries_max, bytes_max }) {
            Ok(Answer::OmapPage(page)) => {
                self.count_answer(&page.pairs)?;
                Ok(Some(page))
            }
            Err(stop) => {
                self.count_built(bytes_max as u64 + entries_max as u64 * ENTRY_COST);
                Err(stop)
            }
            Ok(other) => unreachable!("an omap page was answered by {other:?}"),
        }
    }

    /// The stored pairs of these keys; `None` if there is no omap.
    pub(super) fn omap_pairs(
        &mut self,
        keys: Vec<Bytes>,
    ) -> Result<Option<BTreeMap<Bytes, Bytes>>, Stop> {
        if !self.info.has_omap || !self.input.state.exists || keys.is_empty() {
            return Ok(None);
        }
        let mut found = BTreeMap::new();
        // In parts, because the length of values is not known in advance.
        for keys in keys.chunks(limits::OMAP_KEYS_AT_ONCE) {
            match self.load(Need::OmapGet { keys: keys.to_vec() }) {
                Ok(Answer::OmapPairs(pairs)) => {
                    self.count_answer(pairs)?;
                    found.extend(pairs.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
                Ok(other) => unreachable!("omap values were answered by {other:?}"),
                Err(stop) => {
                    self.count_built(keys.len() as u64 * limits::OMAP_VALUE_USUAL);
                    return Err(stop);
                }
            }
        }
        Ok(Some(found))
    }

    /// Counts loaded pairs that become part of an output.
    fn count_answer(&mut self, pairs: &BTreeMap<Bytes, Bytes>) -> Result<(), Stop> {
        self.count_built(pairs_cost(pairs));
        self.check_allowance()
    }

    /// The omap's header; empty if there is none.
    pub(super) fn stored_omap_header(&mut self) -> Result<Bytes, Stop> {
        if !self.info.has_omap || !self.input.state.exists {
            return Ok(Bytes::new());
        }
        match self.load(Need::OmapHeader)? {
            Answer::OmapHeader(header) => Ok(header.clone()),
            other => unreachable!("an omap header was answered by {other:?}"),
        }
    }

    pub(super) fn omap_keys(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        let mut r = Reader::new(&op.input);
        let after = piece(&mut r, &op.input, "start after")?;
        let entries_max = r.u64("entries")?;
        let page = self.omap_page(after, Bytes::new(), entries_max)?;
        let mut w = Writer::new();
        w.count(page.map_or(0, |page| page.pairs.len()));
        page.iter().flat_map(|page| page.pairs.keys()).for_each(|key| w.value(key));
        w.bool(page.is_some_and(|page| page.more));
        self.output = w.into_bytes();
        Ok(self.result)
    }

    pub(super) fn omap_values(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        let mut r = Reader::new(&op.input);
        let after = piece(&mut r, &op.input, "start after")?;
        let entries_max = r.u64("entries")?;
        let prefix = piece(&mut r, &op.input, "prefix")?;
        let page = self.omap_page(after, prefix, entries_max)?;
        let mut w = Writer::new();
        match page {
            Some(page) => w.value(&page.pairs),
            None => w.count(0),
        }
        w.bool(page.is_some_and(|page| page.more));
        self.output = w.into_bytes();
        Ok(self.result)
    }

    pub(super) fn omap_header(&mut self) -> Result<i32, Stop> {
        let header = self.stored_omap_header()?;
        self.count_shared(header.len() as u64);
        self.output = header;
        Ok(self.result)
    }

    pub(super) fn omap_values_by_keys(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        self.count_list(&op.input)?;
        let mut r = Reader::new(&op.input);
        let mut keys = r.list("keys", |r| Ok(op.input.slice_ref(r.blob("key")?)))?;
        keys.sort_unstable();
        keys.dedup();
        self.output = match self.omap_pairs(keys)? {
            Some(pairs) => codec::encode_to_bytes(&pairs),
            None => codec::encode_to_bytes(&0u32),
        };
        Ok(self.result)
    }

    /// Compares stored values, on the left, with given ones. An absent key has an empty value.
    pub(super) fn omap_compare(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        if !self.exists {
            return Err(Errno::NOENT.into());
        }
        self.count_list(&op.input)?;
        let mut r = Reader::new(&op.input);
        let assertions = r.list("assertions", |r| {
            let key = op.input.slice_ref(r.blob("key")?);
            let value = op.input.slice_ref(r.blob("value")?);
            Ok((key, (value, r.i32("comparison")?)))
        })?;
        let assertions: BTreeMap<_, _> = assertions.into_iter().collect();
        let stored = self.omap_pairs(assertions.keys().cloned().collect())?;
        let empty = Bytes::new();
        for (key, (value, operator)) in &assertions {
            let stored = stored.as_ref().and_then(|stored| stored.get(key)).unwrap_or(&empty);
            let holds = match u8::try_from(*operator) {
                Ok(compare::EQ) => stored == value,
                Ok(compare::LT) => stored < value,
                Ok(compare::GT) => stored > value,
                _ => return Err(Errno::INVAL.into()),
            };
            if !holds {
                return Err(Errno::CANCELED.into());
            }
        }
        Ok(self.result)
    }

    pub(super) fn omap_set_op(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        self.count_list(&op.input)?;
        let mut r = Reader::new(&op.input);
        let pairs = r.list("pairs", |r| {
            let key = op.input.slice_ref(r.blob("key")?);
            Ok((key, op.input.slice_ref(r.blob("value")?)))
        })?;
        self.omap_set(pairs.into_iter().collect())
    }

    pub(super) fn omap_set(&mut self, pairs: BTreeMap<Bytes, Bytes>) -> Result<i32, Stop> {
        self.create();
        self.touched = true;
        self.info.has_omap = true;
        let object = self.input.object.clone();
        self.changes.push(Change::OmapSet { object, pairs });
        Ok(0)
    }

    pub(super) fn omap_set_header(&mut self, header: Bytes) -> Result<i32, Stop> {
        self.create();
        self.info.has_omap = true;
        let object = self.input.object.clone();
        self.changes.push(Change::OmapSetHeader { object, header });
        Ok(0)
    }

    fn require_existing(&self) -> Result<(), Stop> {
        if self.exists { Ok(()) } else { Err(Errno::NOENT.into()) }
    }

    pub(super) fn omap_clear(&mut self) -> Result<i32, Stop> {
        self.require_existing()?;
        if self.info.has_omap {
            self.info.has_omap = false;
            self.changes.push(Change::OmapClear { object: self.input.object.clone() });
        }
        Ok(0)
    }

    pub(super) fn omap_remove_op(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        self.require_existing()?;
        self.count_list(&op.input)?;
        let mut r = Reader::new(&op.input);
        let keys = r.list("keys", |r| Ok(op.input.slice_ref(r.blob("key")?)))?;
        self.omap_remove(keys)
    }

    pub(super) fn omap_remove(&mut self, keys: Vec<Bytes>) -> Result<i32, Stop> {
        self.require_existing()?;
        let object = self.input.object.clone();
        self.changes.push(Change::OmapRemove { object, keys });
        Ok(0)
    }

    pub(super) fn omap_remove_range(&mut self, op: &OsdOp) -> Result<i32, Stop> {
        self.require_existing()?;
        let mut r = Reader::new(&op.input);
        let first = piece(&mut r, &op.input, "first key")?;
        let last = piece(&mut r, &op.input, "last key")?;
        if first < last {
            let object = self.input.object.clone();
            self.changes.push(Change::OmapRemoveRange { object, first, last });
        } else {
            self.touched = true;
        }
        Ok(0)
    }
}
