//! How a rank is opened: a new one is created, another server's is read and taken over.

use super::objects::{PAGE_MAX, read_all, read_keys, read_pairs};
use super::replayed::Replayed;
use super::setup::{Setup, StoreError};
use crate::log::{Log, Opened};
use crate::purges::Purges;
use crate::rows::{RowQueue, sessions_object, write};
use crate::sessions::Sessions;
use bytes::Bytes;
use engine::{Duration, Time};
use fsjournal::{Head, Journal, RawRecord, Replay, SPANS_MAX, SUPER, Super, head_name};
use namespace::{
    Ino, Loader, Row, RowKey, SNAPSHOTS_OBJECT, Tree, directory_object, ino_key, links_object,
    old_version_objects,
};
use rados::{Place, Steps};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use types::Errno;
use wire::OsdOp;
use wire::op::OpCode;

/// Pause before a map is asked for again that shuts a predecessor out.
const MAP_RETRY: Duration = Duration::from_millis(100);
/// Objects of directories, or of old versions of inodes, that are read at once.
const OBJECTS_AT_ONCE: usize = 16;
/// Length in bytes of the number of the pool, with which the id of a file system begins.
const POOL_LEN: usize = 8;
/// Take-overs without a checkpoint, of which the head has as many parts. The next server writes rows first.
const SPANS_USUAL: usize = SPANS_MAX / 2;

/// Opens a rank. Its predecessor, if there was one, is shut out by the OSD map that is awaited first.
pub(super) async fn open(steps: Steps, setup: Setup) -> Result<Opened, StoreError> {
    let epoch = loop {
        match steps.newest_map().await? {
            epoch if epoch >= setup.osd_epoch => break epoch,
            _ => steps.wait(MAP_RETRY).await,
        }
    };
    let setup = Setup { osd_epoch: epoch, ..setup };
    check_super(&steps, &setup).await?;
    let place = setup.place(head_name(setup.rank));
    match read_all(&steps, &place).await? {
        Some(object) => take_over(&steps, &setup, &object).await,
        None if setup.is_new => create(&steps, &setup).await,
        None => Err(StoreError::NoHead { object: head_name(setup.rank) }),
    }
}

/// The pool has this file system, or becomes that of a new one.
async fn check_super(steps: &Steps, setup: &Setup) -> Result<(), StoreError> {
    let place = setup.place(SUPER);
    let own = Super { id: setup.id, data_pool: setup.data_pool.0, next_chunk: Super::FIRST_CHUNK };
    if setup.is_new {
        let ops = vec![OsdOp::create(true), OsdOp::write_full(own.encode())];
        match steps.operate(write(place.clone(), ops)).await {
            Err(Errno::EXIST) => {}
            written => return Ok(written.map(|_| ())?),
        }
    }
    let object = read_all(steps, &place).await?;
    let object = object.ok_or_else(|| StoreError::NoHead { object: SUPER.to_owned() })?;
    let found = Super::decode(&object).map_err(StoreError::undecodable(SUPER))?;
    // A new map has another time of creation: `fs new --recover` made it for the file system that is there.
    let is_recovered = !setup.is_new && found.id[..POOL_LEN] == setup.id[..POOL_LEN];
    if found.id == setup.id {
        return Ok(());
    }
    match is_recovered {
        true if found.data_pool == setup.data_pool.0 => Ok(()),
        true => {
            let (stored, given) = (found.data_pool, setup.data_pool.0);
            Err(StoreError::OtherDataPool { stored, given })
        }
        false => Err(StoreError::OtherFileSystem),
    }
}

async fn create(steps: &Steps, setup: &Setup) -> Result<Opened, StoreError> {
    let tree = Tree::new(setup.now);
    let root = RowKey::Root(Ino::ROOT);
    let row: Row = tree.row(&root).expect("a new tree has a root");
    let pairs = BTreeMap::from([(root.key(), row.encode())]);
    let pairs = codec::encode_to_bytes(&pairs);
    let set = OsdOp::new(OpCode::OMAPSETVALS).with_input(pairs);
    steps.operate(write(setup.place(root.object(setup.rank)), vec![set])).await?;
    let journal = Journal::create(setup.rank, setup.limits);
    let numbers = Ino::FIRST.0;
    let head = setup.head(0, numbers, &journal);
    let ops = vec![OsdOp::create(true), OsdOp::write_full(head.encode())];
    steps.operate(write(setup.place(head_name(setup.rank)), ops)).await?;
    let log = Log::new(journal, Default::default(), BTreeSet::new(), BTreeSet::new());
    let (sessions, purges) = Default::default();
    Ok(Opened { tree, sessions, purges, log, numbers, epoch: setup.osd_epoch })
}

/// Records and rows, as far as they are read.
struct Loaded {
    loader: Loader,
    /// Those that are not of the tree.
    others: Replayed,
}

impl Loaded {
    fn record(&mut self, record: &RawRecord) -> codec::Result<()> {
        let record = self.others.record(record)?;
        record.into_iter().for_each(|record| self.loader.record(record));
        Ok(())
    }
}

async fn take_over(steps: &Steps, setup: &Setup, object: &[u8]) -> Result<Opened, StoreError> {
    let name = head_name(setup.rank);
    let head = Head::decode(object).map_err(StoreError::undecodable(&name))?;
    if head.rank != setup.rank {
        return Err(StoreError::OtherFileSystem);
    }
    if head.is_in_repair {
        return Err(StoreError::InRepair);
    }
    let mut loaded = Loaded { loader: Loader::new(head.rank), others: Replayed::new(head.numbers) };
    let mut replay = Replay::new(&head);
    while let Some(segment) = replay.next_object() {
        let data = read_all(steps, &setup.place(segment.clone())).await?;
        for (_, record) in replay.feed(data.as_ref())? {
            loaded.record(&record).map_err(StoreError::undecodable(&segment))?;
        }
    }
    let loaded = read_rows(steps, setup, loaded).await?;
    let Loaded { loader, mut others } = loaded;
    others.complete();
    let Replayed { sessions, changed, purges, numbers, .. } = others;
    let changed_purges = purges.keys().copied().collect();
    let purges = purges.into_iter().filter_map(|(ino, purge)| Some((ino, purge?)));
    let purges = Purges::restored(purges.collect());
    let (tree, rows) = loader.finish()?;
    let journal = Journal::resume(setup.rank, setup.limits, replay.finish());
    let log = Log::new(journal, rows, changed, changed_purges);
    let mut opened = Opened { tree, sessions, purges, log, numbers, epoch: setup.osd_epoch };
    write_head(steps, setup, &mut opened).await?;
    Ok(opened)
}

/// From now on no other generation writes, and this one's frames are found.
async fn write_head(steps: &Steps, setup: &Setup, opened: &mut Opened) -> Result<(), StoreError> {
    let journal = opened.log.journal().expect("it was opened with a journal");
    let (mut checkpoint, last) = (journal.checkpoint(), journal.last());
    let mut removed = Vec::new();
    if journal.spans(checkpoint).len() > SPANS_USUAL {
        write_rows(steps, setup, opened).await?;
        checkpoint = last;
        let journal = opened.log.journal().expect("it was opened with a journal");
        removed = journal.trim(checkpoint);
    }
    let journal = opened.log.journal().expect("it was opened with a journal");
    let head = setup.head(checkpoint, opened.numbers, journal);
    let place = setup.place(head_name(setup.rank));
    steps.operate(write(place, vec![OsdOp::write_full(head.encode())])).await?;
    for name in removed {
        remove(steps, &setup.place(name)).await?;
    }
    Ok(())
}

async fn remove(steps: &Steps, place: &Place) -> Result<(), Errno> {
    match steps.operate(write(place.clone(), vec![OsdOp::remove()])).await {
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A checkpoint of all that was replayed.
async fn write_rows(steps: &Steps, setup: &Setup, opened: &mut Opened) -> Result<(), Errno> {
    let sessions = Sessions::restored(Time::ZERO, opened.sessions.clone());
    let mut queue = RowQueue::freeze(&mut opened.log);
    while let Some(write) =
        queue.next(setup.rank, &opened.tree, &opened.log, &sessions, &opened.purges)
    {
        match steps.operate(write.operation(setup.pool)).await {
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    opened.log.rows.thaw();
    Ok(())
}

async fn read_rows(steps: &Steps, setup: &Setup, loaded: Loaded) -> Result<Loaded, StoreError> {
    let loaded = RefCell::new(loaded);
    let rank = setup.rank;
    let (roots, orphans) = (RowKey::Root(Ino::ROOT), RowKey::Orphan(Ino::ROOT));
    for (object, key) in [
        (roots.object(rank), RowKey::Root as fn(Ino) -> RowKey),
        (orphans.object(rank), RowKey::Orphan),
    ] {
        each_pair(steps, setup, &object, |raw, value| {
            Ok(loaded.borrow_mut().loader.inode_row(key, raw, value)?)
        })
        .await?;
    }
    let sessions = sessions_object(rank);
    each_pair(steps, setup, &sessions, |raw, value| {
        let mut loaded = loaded.borrow_mut();
        loaded.others.session_row(raw, value).map_err(StoreError::undecodable(&sessions))
    })
    .await?;
    each_pair(steps, setup, SNAPSHOTS_OBJECT, |_, value| {
        Ok(loaded.borrow_mut().loader.snapshots_row(value)?)
    })
    .await?;
    if loaded.borrow().loader.has_snapshots() {
        let numbers = Ino(loaded.borrow().others.numbers);
        let read = async |object: String| {
            each_pair(steps, setup, &object, |raw, value| {
                Ok(loaded.borrow_mut().loader.old_row(&object, raw, value)?)
            })
            .await
        };
        let objects = old_version_objects(numbers);
        steps.each(OBJECTS_AT_ONCE, objects, read).await?;
    }
    read_directories(steps, setup, &loaded).await?;
    read_links(steps, setup, &loaded).await?;
    Ok(loaded.into_inner())
}

async fn read_directories(
    steps: &Steps,
    setup: &Setup,
    loaded: &RefCell<Loaded>,
) -> Result<(), StoreError> {
    loop {
        let next = |_| loaded.borrow_mut().loader.next_directory();
        let level: Vec<Ino> = (0..PAGE_MAX).map_while(next).collect();
        if level.is_empty() {
            return Ok(());
        }
        let read = async |directory: Ino| {
            each_pair(steps, setup, &directory_object(directory), |key, value| {
                Ok(loaded.borrow_mut().loader.directory_row(directory, key, value)?)
            })
            .await
        };
        steps.each(OBJECTS_AT_ONCE, level, read).await?;
    }
}

/// Inodes with several names, by their numbers.
async fn read_links(
    steps: &Steps,
    setup: &Setup,
    loaded: &RefCell<Loaded>,
) -> Result<(), StoreError> {
    let missing = loaded.borrow().loader.missing_links();
    let same_object = |one: &Ino, next: &Ino| links_object(*one) == links_object(*next);
    for inodes in missing.chunk_by(same_object) {
        for inodes in inodes.chunks(PAGE_MAX as usize) {
            let keys: Vec<Bytes> = inodes.iter().map(|ino| ino_key(*ino)).collect();
            let place = setup.place(links_object(inodes[0]));
            for (raw, value) in read_keys(steps, &place, &keys).await? {
                loaded.borrow_mut().loader.inode_row(RowKey::Link, &raw, &value)?;
            }
        }
    }
    Ok(())
}

async fn each_pair(
    steps: &Steps,
    setup: &Setup,
    object: &str,
    mut take: impl FnMut(&Bytes, &Bytes) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let place = setup.place(object.to_owned());
    let mut after = Bytes::new();
    loop {
        let page = read_pairs(steps, &place, &after).await?;
        for (key, value) in &page.pairs {
            take(key, value)?;
        }
        match page.pairs.last() {
            Some((last, _)) if page.more => after = last.clone(),
            _ => return Ok(()),
        }
    }
}
