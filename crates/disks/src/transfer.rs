//! Operations on a whole store: export, import, count.

use crate::offline::OfflineStore;
use crate::stream::{Frame, StreamReader, StreamWriter};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use store::{
    Change, Collection, ObjectMeta, OmapPage, Outcome, ReadData, RequestKind, StoreError,
    Transaction, Usage,
};
use types::{HObject, PoolId};

/// Bytes of data, and of omap pairs, that are read at once.
const PAGE_LEN: u64 = 1 << 20;
const OMAP_ENTRIES: usize = 4096;
const LIST_ENTRIES: usize = 1024;
/// Changes that are committed together when importing, in number and in bytes.
const COMMIT_CHANGES: usize = 1024;
const COMMIT_LEN: u64 = 4 << 20;
/// Bytes of a group's own object that are committed at once, when all else of it is: all that a group
/// loads has room there. Pairs behind these are committed before.
const GROUP_LEN_MAX: u64 = 8 << 20;

/// A store that is asked one thing at a time.
pub trait BlockingStore {
    /// Executes one request and returns its outcome.
    fn request(&mut self, kind: RequestKind) -> Result<Outcome, StoreError>;
}

impl BlockingStore for OfflineStore {
    fn request(&mut self, kind: RequestKind) -> Result<Outcome, StoreError> {
        self.request(kind)
    }
}

/// Content of one collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Content {
    /// Number of its objects.
    pub objects: u64,
    /// Their sizes, holes included.
    pub bytes: u64,
    /// Number of its objects that have omap pairs.
    pub with_omap: u64,
}

/// Writes all objects of `only`, or of all collections. Tells how many.
pub fn export<S: BlockingStore>(
    store: &mut S,
    only: Option<Collection>,
    output: impl Write,
) -> Result<u64> {
    let mut writer = StreamWriter::new(output)?;
    let mut objects = 0;
    for collection in chosen(store, only)? {
        writer.write(&Frame::Collection(collection))?;
        for_each_object(store, collection, |store, name, meta| {
            objects += 1;
            export_object(store, collection, name, meta, &mut writer)
                .with_context(|| format!("exporting {name} of {collection}"))
        })?;
        export_held(store, collection, &mut writer)
            .with_context(|| format!("exporting held changes of {collection}"))?;
    }
    writer.finish(objects)?;
    Ok(objects)
}

/// The treatment of a collection of the stream that the store has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// The import ends there.
    Refused,
    /// All that the collection holds is removed before.
    Replaced,
}

/// Takes over what a stream has. Tells how many objects.
///
/// The object without a name, in which a group keeps its log, comes last of its collection. So a group
/// whose import was interrupted claims nothing: its objects are compared with those of other OSDs.
///
/// # Errors
///
/// Fails at a collection that exists, unless those are replaced, and if the stream is damaged or cut off.
pub fn import<S: BlockingStore>(
    store: &mut S,
    input: impl Read,
    existing: Existing,
) -> Result<u64> {
    let mut reader = StreamReader::new(input)?;
    let known = chosen(store, None)?.into_iter().collect();
    let (pending, last) = (Transaction::new(), Transaction::new());
    let mut import = Import { store, existing, known, pending, last, at: None, objects: 0 };
    loop {
        match reader.read()? {
            Frame::End { objects } => {
                let found = import.objects;
                ensure!(found == objects, "the stream has {found} objects; its end says {objects}");
                import.end_collection()?;
                return Ok(objects);
            }
            frame => import.take(frame)?,
        }
    }
}

/// Counts what is in each collection.
pub fn contents<S: BlockingStore>(store: &mut S) -> Result<BTreeMap<Collection, Content>> {
    let mut contents = BTreeMap::new();
    for collection in chosen(store, None)? {
        let mut content = Content::default();
        for_each_object(store, collection, |_, _, meta| {
            content.objects += 1;
            content.bytes += meta.size;
            content.with_omap += u64::from(meta.has_omap);
            Ok(())
        })?;
        contents.insert(collection, content);
    }
    Ok(contents)
}

/// The store's space.
pub fn usage<S: BlockingStore>(store: &mut S) -> Result<Usage> {
    match store.request(RequestKind::Usage)? {
        Outcome::Usage(usage) => Ok(usage),
        other => unreachable!("{other:?}"),
    }
}

fn chosen<S: BlockingStore>(store: &mut S, only: Option<Collection>) -> Result<Vec<Collection>> {
    let Outcome::Collections(all) = store.request(RequestKind::Collections)? else {
        unreachable!()
    };
    match only {
        None => Ok(all),
        Some(one) if all.contains(&one) => Ok(vec![one]),
        Some(one) => Err(StoreError::NoCollection(one).into()),
    }
}

fn for_each_object<S: BlockingStore>(
    store: &mut S,
    collection: Collection,
    mut each: impl FnMut(&mut S, &HObject, ObjectMeta) -> Result<()>,
) -> Result<()> {
    let mut next = Some(HObject { pool: PoolId(i64::MIN), ..HObject::default() });
    while let Some(from) = next {
        let list = RequestKind::List { collection, from, entries_max: LIST_ENTRIES };
        let Outcome::List(page, after) = store.request(list)? else { unreachable!() };
        for name in page {
            let meta = RequestKind::Meta { collection, object: name.clone() };
            let Outcome::Meta(meta) = store.request(meta)? else { unreachable!() };
            let meta =
                meta.with_context(|| format!("{name} of {collection} is listed but absent"))?;
            each(store, &name, meta)?;
        }
        next = after;
    }
    Ok(())
}

fn export_object<S: BlockingStore>(
    store: &mut S,
    collection: Collection,
    name: &HObject,
    meta: ObjectMeta,
    writer: &mut StreamWriter<impl Write>,
) -> Result<()> {
    let ObjectMeta { size, attrs, has_omap } = meta;
    writer.write(&Frame::Object { name: name.clone(), size, attrs })?;
    for offset in (0..size).step_by(PAGE_LEN as usize) {
        let (object, length) = (name.clone(), PAGE_LEN.min(size - offset));
        let read = RequestKind::Read { collection, object, offset, length };
        let Outcome::Read(read) = store.request(read)? else { unreachable!() };
        for frame in data_frames(offset, &read) {
            writer.write(&frame)?;
        }
    }
    if has_omap { export_omap(store, collection, name, writer) } else { Ok(()) }
}

/// The allocated extents of a page that begins at `offset`.
fn data_frames(offset: u64, read: &ReadData) -> impl Iterator<Item = Frame> {
    let end = offset + read.data.len() as u64;
    read.extents.iter().filter_map(move |&(start, length)| {
        let (first, last) = (start.max(offset), (start + length).min(end));
        let range = first.checked_sub(offset)? as usize..last.checked_sub(offset)? as usize;
        let data = (!range.is_empty()).then(|| read.data.slice(range))?;
        Some(Frame::Data { offset: first, data })
    })
}

/// Held changes follow the objects of their collection, in order.
fn export_held<S: BlockingStore>(
    store: &mut S,
    collection: Collection,
    writer: &mut StreamWriter<impl Write>,
) -> Result<()> {
    let list = RequestKind::Held { collection, after: None, entries_max: usize::MAX };
    let Outcome::Held(all, _) = store.request(list)? else { unreachable!() };
    for held in all {
        let read = RequestKind::ReadHeld { collection, held };
        let Outcome::HeldRead(changes) = store.request(read)? else { unreachable!() };
        let changes = changes.with_context(|| format!("{} is listed but absent", held.version))?;
        writer.write(&Frame::Held { version: held.version, changes })?;
    }
    Ok(())
}

fn export_omap<S: BlockingStore>(
    store: &mut S,
    collection: Collection,
    name: &HObject,
    writer: &mut StreamWriter<impl Write>,
) -> Result<()> {
    let header = RequestKind::OmapHeader { collection, object: name.clone() };
    let Outcome::OmapHeader(header) = store.request(header)? else { unreachable!() };
    if !header.is_empty() {
        writer.write(&Frame::OmapHeader(header))?;
    }
    let mut after = None;
    loop {
        let list = RequestKind::OmapList {
            collection,
            object: name.clone(),
            after: after.take(),
            prefix: Bytes::new(),
            entries_max: OMAP_ENTRIES,
            bytes_max: PAGE_LEN as usize,
        };
        let Outcome::OmapPage(OmapPage { pairs, more }) = store.request(list)? else {
            unreachable!()
        };
        after = pairs.keys().next_back().cloned();
        if !pairs.is_empty() {
            writer.write(&Frame::OmapPairs(pairs))?;
        }
        if !more || after.is_none() {
            return Ok(());
        }
    }
}

struct Import<'a, S> {
    store: &'a mut S,
    existing: Existing,
    /// Collections that the store has.
    known: BTreeSet<Collection>,
    pending: Transaction,
    /// Changes of the object without a name, which end its collection.
    last: Transaction,
    at: Option<(Collection, Option<HObject>)>,
    objects: u64,
}

impl<S: BlockingStore> Import<'_, S> {
    fn take(&mut self, frame: Frame) -> Result<()> {
        match frame {
            Frame::Collection(collection) => self.begin_collection(collection)?,
            Frame::Object { name, size, attrs } => self.begin_object(name, size, attrs)?,
            Frame::Data { offset, data } => {
                self.change(|object| Change::Write { object, offset, data })?;
            }
            Frame::OmapHeader(header) => {
                self.change(|object| Change::OmapSetHeader { object, header })?;
            }
            Frame::OmapPairs(pairs) => self.change(|object| Change::OmapSet { object, pairs })?,
            Frame::Held { version, changes } => {
                let (collection, _) =
                    self.at.as_ref().context("a held change before its collection")?;
                self.pending.push(*collection, Change::Hold { version, changes });
            }
            Frame::End { .. } => unreachable!("handled by the caller"),
        }
        if self.pending.changes.len() >= COMMIT_CHANGES || self.pending.bytes_added() >= COMMIT_LEN
        {
            self.commit()?;
        }
        Ok(())
    }

    fn begin_collection(&mut self, collection: Collection) -> Result<()> {
        self.end_collection()?;
        if !self.known.insert(collection) {
            ensure!(
                self.existing == Existing::Replaced,
                "the store has {collection} already, complete or of an import that was interrupted; to replace it \
                 by that of the stream, say --replace"
            );
            self.pending.push(collection, Change::RemoveCollection);
            self.commit()?;
        }
        self.at = Some((collection, None));
        self.pending.push(collection, Change::CreateCollection);
        Ok(())
    }

    /// All but the object without a name is durable before that.
    fn end_collection(&mut self) -> Result<()> {
        self.commit()?;
        self.pending = std::mem::take(&mut self.last);
        self.commit()
    }

    fn begin_object(
        &mut self,
        name: HObject,
        size: u64,
        attrs: BTreeMap<Bytes, Bytes>,
    ) -> Result<()> {
        let (_, current) = self.at.as_mut().context("an object before its collection")?;
        *current = Some(name);
        self.objects += 1;
        self.change(|object| Change::Truncate { object, size })?;
        if attrs.is_empty() {
            return Ok(());
        }
        self.change(|object| Change::SetAttrs { object, attrs })
    }

    fn change(&mut self, change: impl FnOnce(HObject) -> Change) -> Result<()> {
        let Some((collection, Some(object))) = &self.at else {
            anyhow::bail!("data before its object");
        };
        let is_last = object.name.is_empty() && self.last.bytes_added() < GROUP_LEN_MAX;
        let transaction = if is_last { &mut self.last } else { &mut self.pending };
        transaction.push(*collection, change(object.clone()));
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let transaction = std::mem::take(&mut self.pending);
        if !transaction.is_empty() {
            self.store.request(RequestKind::Commit(transaction)).context("importing")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
